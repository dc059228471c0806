"""`edit` leaves a checkpoint with a card that repeats its run, or adds an edit of another axis."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

from countergen_edit.edits.checkpoints import load_base, open_checkpoint
from countergen_edit.edits.checkpoints.parity import compared_ids, edited_logits, reload
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number
from countergen_edit.runs.run import open_run
from tests.cli.support import fails, names, rows_of, said, sets

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = ["data=testbed", "eraser=mean_difference", "edit=attn_out", "edit.layers=[3]"]
SMALL += [*sets("occupations", ["test"]), names(12, 6, 8, 4, few=6)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("edit")
    said("edit", *SMALL, f"run_dir={place / 'run'}", f"save={place / 'saved'}")
    return place / "saved"


def test_the_card_is_valid_and_its_figures_are_the_runs(finished: Path) -> None:
    card = ModelCard.load(finished / "README.md")  # refuses metadata that the hub would
    assert card.data.library_name == "transformers"
    name = open_checkpoint(finished).named.id
    for metric in ("mean_abs_r", "agreement", "perplexity_ratio"):
        rows = rows_of(finished.parent / "run", metric, split="test", edit=name)
        values = [Number(row.value).in_text for row in rows]
        assert values
        assert any(value.split(" ")[0] in card.text for value in values)
    record = open_checkpoint(finished).record
    for text in (*(record[f"{of}_hash"] for of in ("model", "data")), "eraser=mean_difference"):
        assert text in card.text
    assert "trust_remote_code" not in card.text  # folded


def test_the_edit_that_a_run_kept_is_saved_as_it_was(finished: Path) -> None:
    """Nothing is fitted or measured: the same weights, from the run's own folder."""
    run = finished.parent / "run"
    before = (run / "results.jsonl").read_bytes()
    assert "mean_difference-1@attn_out.3" in said("edit", f"run={run}", "save=again")
    weights = [(path / "model.safetensors").read_bytes() for path in (finished, Path("again"))]
    assert weights[0] == weights[1]
    assert (run / "results.jsonl").read_bytes() == before


def test_chat_continues_each_line_of_a_pipe_with_both_models(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Mary works as a\n\nJohn is\n"))
    out = said("chat", finished, "max_new_tokens=3")
    assert out.count("original") == out.count("edited") == 2
    assert "> Mary works as a" in out
    assert "> John is" in out


def test_chat_refuses_a_line_that_is_not_utf_8(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.TextIOWrapper(io.BytesIO("Mary is\nJosé is\n".encode("latin-1")), "utf-8")
    monkeypatch.setattr("sys.stdin", piped)
    error = fails("chat", finished, "max_new_tokens=1")
    assert "line 2: '\"Jos\\udce9 is\"': '\\udce9' is half of" in error


AXES = ("gender", "nationality")
COUNTS = {"fit": 12, "validation": 6, "test": 8, "agreement": 4, "few": 6}
OF_LEACE = ["eraser=leace", "form=carried", "metric=r", "cost=kl", names(**COUNTS)]
AT_4 = [*OF_LEACE, "edit.layers=[4]"]


def of_axis(axis: str) -> list[str]:
    # The testbed's own file says which texts it takes; a checkpoint's folder says nothing.
    if axis == "nationality":
        return ["axis=nationality", "data=nationality", "texts=testbed"]
    keep = "data.keep=[{source: testbed_agreement}]"
    return ["axis=gender", "data=testbed", *sets("questions"), keep, "texts=testbed"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An edit over gender, and one over nationality added to it."""
    place = tmp_path_factory.mktemp("axes")
    first = [*of_axis("gender"), f"run_dir={place}/run_1", f"save={place}/first"]
    said("edit", *AT_4, *first)
    added = [f"model={place}/first", *of_axis("nationality"), f"run_dir={place}/run_2"]
    said("edit", *AT_4, *added, f"save={place}/added")
    return place


def test_the_folder_tells_each_edit_with_its_axis(place: Path) -> None:
    record = open_checkpoint(place / "added").record
    assert record["model"] == "testbed"
    assert [edit["axis"] for edit in record["edits"]] == [*AXES]
    assert [edit["places"] for edit in record["edits"]] == [["resid_post.4"], ["resid_post.4"]]
    card = ModelCard.load(place / "added" / "README.md")
    assert {*AXES} <= {*card.data.tags}
    for axis in AXES:
        assert f"| Concept | {axis}: " in card.text
        assert f"## Bias, before and after: {axis}" in card.text


def test_a_second_edit_of_one_axis_stands_at_another_layer(place: Path) -> None:
    own = ["edit.layers=[2]", f"model={place}/first", *of_axis("gender")]
    said("edit", *OF_LEACE, *own, f"run_dir={place}/run_3", f"save={place}/second")
    checkpoint, places = open_checkpoint(place / "second"), ["resid_post.4", "resid_post.2"]
    assert [edit["places"] for edit in checkpoint.record["edits"]] == [[one] for one in places]
    [random] = [edit for edit in open_run(place / "run_3").results.edits if edit.baseline]
    assert [*map(str, random.places)] == places
    unedited = load_base(place / "first").model
    ids = compared_ids(unedited, ())
    logits, _ = reload({"both": (checkpoint.folder, ids, "float32", True)})
    for i, row in enumerate(ids):
        live = edited_logits(unedited, checkpoint.edit, row)
        torch.testing.assert_close(logits[f"both.{i}"].double(), live, atol=1e-4, rtol=0)


def rows_under(path: Path, edit: str) -> dict[tuple[object, ...], Row]:
    return {(*r.key[:-2],): r for r in rows_of(path, edit=edit, split="test")}


@pytest.mark.parametrize("axis", AXES)
def test_an_audit_of_the_checkpoint_measures_what_the_run_did(axis: str, place: Path) -> None:
    """From the saved folder, each axis by itself, nothing fitted: the figures of the card."""
    words = [f"model={place}/added", "eraser=none", "metric=r", *of_axis(axis), names(**COUNTS)]
    said("audit", *words, "run_dir=run")
    own = rows_under(Path("run"), UNEDITED)
    whole = rows_under(place / "run_2", open_checkpoint(place / "added").named.id)
    alike = [key for key in own if key in whole and key[0] in ("group_effect", "mean_abs_r")]
    assert len(alike) >= 2
    for key in alike:
        assert own[key].value == pytest.approx(whole[key].value, abs=1e-5)
    before = rows_under(place / "run_2", UNEDITED)
    effect = next(key for key in alike if key[0] == "group_effect")
    assert own[effect].value != pytest.approx(before[effect].value, abs=0.01)
