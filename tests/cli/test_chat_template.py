"""Runs in a chat template say so everywhere, and never share what was measured outside of it."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from countergen_edit.models import load_model
from countergen_edit.testbed import directory
from tests.cli.support import fails, names, rows_of, said, sets

pytestmark = pytest.mark.slow  # whole runs

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}{{ eos_token }}"
TOLD = "The report was late."
RUN = ["data=testbed", "texts=testbed", *sets("occupations", ["test"]), names(8, 4, 4, 2)]
RUN += ["edit=attn_out", "edit.layers=[3]", "metric=r"]


@pytest.fixture(scope="module")
def templated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The testbed with a chat template, of words that it knows."""
    folder = tmp_path_factory.mktemp("template") / "templated"
    shutil.copytree(directory(), folder)
    tokenizer = load_model(folder).tokenizer
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(templated: Path) -> Path:
    """A checkpoint that was made in the template; its run lies beside it."""
    own = [f"model={templated}", "model.template=chat", f"model.instruction={TOLD}"]
    place = templated.parent
    own += ["eraser=mean_difference", "cost=[perplexity]", f"run_dir={place / 'run'}"]
    said("edit", *RUN, *own, f"save={place / 'saved'}")
    return place / "saved"


def test_the_run_and_what_is_saved_of_it_say_in_which_template(saved: Path) -> None:
    run = saved.parent / "run"
    told = json.loads((run / "manifest.json").read_text())["template"]
    assert told["instruction"] == TOLD
    assert json.loads((saved / "recipe.json").read_text())["template"] == told
    card, page = ((saved / "README.md").read_text(), (run / "report.html").read_text())
    assert all(f"as the beginning of its reply to “{TOLD}”" in text for text in (card, page))
    assert told["sha256"] in card
    # What was saved of a run is saved again as it was measured.
    said("edit", f"run={run}", "save=again")
    assert json.loads(Path("again/recipe.json").read_text())["template"] == told


def test_no_figure_is_that_of_texts_as_they_stand(saved: Path, templated: Path) -> None:
    audit = ["audit", *RUN, "cost=null", "eraser=none", f"model={templated}", "run_dir=plain"]
    said(*audit)
    inside, plain = (
        {row.key: row.value for row in rows_of(run, "mean_abs_r")}
        for run in (saved.parent / "run", "plain")
    )
    assert {inside[key] == plain[key] for key in plain} == {False}
    # The folder of one is not continued by the other.
    assert "belongs to another run" in fails(*audit, "model.template=auto")


def test_chat_replies_to_a_message_in_the_template_of_the_checkpoint(
    saved: Path, templated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = []
    for template in ([], ["model.template=none"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("Jane works as a\n"))
        words = [f"original={templated}", "max_new_tokens=6", *template]
        replies.append(said("chat", saved, *words))
    assert replies[0] != replies[1]
