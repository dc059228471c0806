"""`edit recipe=…` makes a checkpoint again, byte for byte, or says what differs."""

import io
import json
import shutil

import numpy as np
import pytest

from countergen_edit.edits import Edit, LowRankUpdate
from countergen_edit.edits.checkpoints import save_checkpoint
from countergen_edit.models import load_model
from tests.cli.support import fails, said
from tests.edits.checkpoints.conftest import edit_at
from tests.runs.runs import contents
from tests.tiny_models import tiny_model_dir

COMMAND = ["countergen-edit", "edit", "model={}", "run_dir={}/run one", "metric=[r,{}/m.py:M]"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("recipes")
    model = load_model(tiny_model_dir("gpt2", place / "model"))
    rng = np.random.default_rng(0)
    factors = {
        f"transformer.h.{i}.mlp.c_fc": (rng.normal(size=(2, 32)), rng.normal(size=(128, 2)))
        for i in (1, 0)
    }
    update = Edit((), update=LowRankUpdate(factors))
    record = {
        "seed": 3,
        "command": [word.format(place / "model") for word in COMMAND],
        "config": {"data": {"file": f"{place}/mine.jsonl"}, f"{place}/m.py:M": {"path": None}},
    }
    how = {"texts": ["Jane sang"], "record": record, "card": lambda *_: "# A card\n"}
    edits = {"folded": update, "adapter": update, "carried": edit_at(model, "resid_post")}
    for form, edit in edits.items():
        save_checkpoint(model, edit, place / form, form=form, **how)
    return place


@pytest.mark.parametrize("form", ["folded", "adapter", "carried"])
def test_every_file_is_the_same_each_time(form, place, tmp_path):
    """Also of the recipe and the edit alone, without the weights that they make."""
    model, wanted = f"model={place / 'model'}", contents(place / form)
    assert {"README.md", "parity.json", "recipe.json", "SHA256SUMS"} <= {*wanted}
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("recipe.json", "SHA256SUMS"):
        shutil.copy(place / form / name, alone)
    shutil.copytree(place / form / "edit", alone / "edit")
    for number, recipe in enumerate((place / form, alone / "recipe.json")):
        made = f"Made again, byte for byte, as {recipe.parent if number else recipe}"
        assert made in said("edit", f"recipe={recipe}", model, f"save={tmp_path / str(number)}")
    assert contents(tmp_path / "0") == wanted
    again = contents(tmp_path / "1")
    for name in {*wanted, *again} - {"README.md", "parity.json", "SHA256SUMS"}:
        assert again[name] == wanted[name]  # those others lay beside the weights


def test_no_file_has_a_path(place):
    for form in ("folded", "adapter", "carried"):
        for name, content in contents(place / form).items():
            assert str(place).encode() not in content, (form, name)
        recipe = json.loads((place / form / "recipe.json").read_text())
        assert recipe["command"][2:] == ["model=model", "run_dir=run one", "metric=[r,m.py:M]"]
        assert recipe["config"] == {"data": {"file": "mine.jsonl"}, "m.py:M": {"path": None}}
        assert recipe["model"] == "model"


def test_what_differs_is_said_with_the_reason(place, tmp_path, monkeypatch):
    for module in ("edits.checkpoints.saving", "cli.edit"):
        monkeypatch.setattr(f"countergen_edit.{module}.versions", lambda: {"torch": "9.9"})
    words = [f"recipe={place / 'folded'}", f"model={place / 'model'}", f"save={tmp_path / 'new'}"]
    printed = said("edit", *words)
    for part in ("Differ from", "recipe.json (torch", "→ 9.9)"):
        assert part in printed


@pytest.mark.parametrize("form", ["folded", "adapter"])
def test_chat_holds_an_edit_against_the_original_that_is_named(form, place, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Jane is\n"))
    printed = said("chat", place / form, f"original={place / 'model'}", "max_new_tokens=2")
    assert "original" in printed
    assert "say where" in fails("chat", place / form)  # where no model has the name on record


def test_another_source_is_refused_in_one_line(place, tmp_path):
    other, new = tiny_model_dir("llama", tmp_path / "other"), tmp_path / "new"
    for model, says in ((other, "is not the model of"), (place / "none", "no such model")):
        words = [f"recipe={place / 'folded'}", f"model={model}", f"save={new}"]
        assert says in fails("edit", *words)
    assert not new.exists()
