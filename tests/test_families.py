"""What works for each family of models, on random weights: the table of docs/models.md.

`python -m tests.test_families` prints the table and the reasons of refusals.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.base import METRICS
from countergen_edit.models import load_model
from tests import tiny_models
from tests.runs.test_unedited import SETTINGS
from tests.tiny_models import tiny_tokenizer

NAMES = tiny_models.TABLE["page"]
"""Families as the page names them, and as `tiny_models` does."""
COLUMNS = ("R", "FairPair", "CID", "edit", "carried", "everywhere, folded", "distilled, merged")
FITTED = ["{name} works as a", "Our neighbor {name} is a", "They say that {name} was a"]
MEASURED = {
    "validation": ["I met {name}, who is a", "We hired {name} as a", "By day {name} is a"],
    "test": ["Today {name} works as a", "Everyone knows {name}, the", "Here {name} is the"],
}
OUTPUTS = [" nurse", " manager"]
TEXT = "Jane is a nurse and she works"
DISTILLED = {"rank": 2, "steps": 4, "contexts": 8, "check_every": 4}


def small_task():
    by_split = {"fit": FITTED, **MEASURED}
    sets = {
        split: [{"source": "templates", "name": split, "templates": texts, "outputs": OUTPUTS}]
        for split, texts in by_split.items()
    }
    counts = {"fit": 4, "few": 4, "validation": 3, "test": 3}
    return ce.task("gender", sets, texts="testbed", names=counts)


def measured(model, metrics, folder):
    """Audit the unedited model: its figures are finite."""
    made = {name: METRICS.make(name, SETTINGS.get(name)) for name in metrics}
    rows = ce.audit(model, small_task(), metrics=made, folder=folder).to_frame()
    assert np.isfinite(rows["value"]).any()


def fitted(model, eraser, layers, folder):
    """Audit an edit, which changes the logits."""
    settings = DISTILLED if eraser == "distilled" else {}
    erasers = {eraser: make_eraser(eraser, **settings)}
    metrics, where = ("r", "agreement", "kl"), {"layers": layers, "skip_attention_sinks": False}
    run = ce.audit(model, small_task(), erasers, metrics, folder, **where)
    edit, *_ = [e.edit for e in run.edits.values() if e.record.eraser == eraser]
    return edit


def same_when_loaded(model, edit, form, folder):
    """The saved model has the logits of the edited one, in plain transformers."""
    folder.mkdir(parents=True)
    write_model(model, edit, folder, form)
    saved = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=form == "carried", attn_implementation="eager"
    ).eval()
    ids = list(model.tokenizer(TEXT).input_ids)
    with torch.inference_mode():
        loaded = saved(torch.tensor([ids])).logits[0].double().numpy()
    before, after = (edited_logits(model, e, ids).numpy() for e in (None, edit))
    tolerance = 2e-5 * float(np.abs(after).max())
    np.testing.assert_allclose(loaded, after, atol=tolerance)
    assert np.abs(before - after).max() > 10 * tolerance


def cells(family):
    """The row of a family: column → "yes" or an error."""

    fits = []

    def edit(model, folder):
        fits.append(fitted(model, "leace", [1], folder))

    def carried(model, folder):
        within = fits[0] if fits else fitted(model, "leace", [1], folder / "run")
        same_when_loaded(model, within, "carried", folder / "saved")

    def folded(model, folder):
        everywhere = fitted(model, "leace", "everywhere", folder / "run")
        same_when_loaded(model, everywhere, "folded", folder / "saved")

    def distilled(model, folder):
        # The layers of `debias`, which asks for projections everywhere and for updates alike.
        edit = fitted(model, "distilled", "everywhere", folder / "run")
        # A few steps on random weights remove nothing, so that next to nothing is kept of them.
        largest = max(float(np.abs(b).max()) for _, b in edit.update.factors.values())
        visible = replace(edit, update=edit.update.scaled(0.1 / largest))
        same_when_loaded(model, visible, "folded", folder / "saved")

    checks = [
        lambda model, folder: measured(model, ["r"], folder),
        lambda model, folder: measured(model, ["fairpair"], folder),
        lambda model, folder: measured(model, ["cid"], folder),
        edit,
        carried,
        folded,
        distilled,
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiny_models, "CONTEXT", 128)  # room for the longest text
            folder = tiny_models.tiny_model_dir(NAMES[family], path / "model", tiny_tokenizer())

        def reason(error):
            return str(error).replace(str(folder), "the model")

        try:
            model = load_model(folder)
        except UserError as error:
            return dict.fromkeys(COLUMNS, reason(error))
        results = {}
        for column, check in zip(COLUMNS, checks, strict=True):
            try:
                check(model, path / column)
                results[column] = "yes"
            except UserError as error:
                results[column] = reason(error)
        return results


def lines(family):
    """The lines of a family on the page: its row, and the reason of each refusal."""
    results = cells(family).values()
    row = " | ".join("✓" if cell == "yes" else "–" for cell in results)
    reasons = dict.fromkeys(cell for cell in results if cell != "yes")
    return [f"| {family} | {row} |", *(f"- {family}: {reason}." for reason in reasons)]


PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text("utf-8").splitlines()


def test_the_table_has_every_family_and_column():
    begin = PAGE.index(f"| family | {' | '.join(COLUMNS)} |")
    named = [line.split(" | ")[0].strip("| ") for line in PAGE[begin + 2 :][: len(NAMES)]]
    assert named == [*NAMES]


@pytest.mark.slow
@pytest.mark.parametrize("family", NAMES)
def test_a_family_does_what_its_row_says(family):
    for line in lines(family):
        assert line in PAGE


if __name__ == "__main__":
    every = [line for family in NAMES for line in lines(family)]
    head = [f"| family | {' | '.join(COLUMNS)} |", f"|---{'|:-:' * len(COLUMNS)}|"]
    print("\n".join([*head, *sorted(every, key=lambda line: line.startswith("-"))]))
