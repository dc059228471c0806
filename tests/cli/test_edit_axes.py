"""`edit model=CHECKPOINT` adds an edit over another axis, and all are measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

from countergen_edit.edits.checkpoints import load_base, open_checkpoint
from countergen_edit.edits.checkpoints.parity import compared_ids, edited_logits, reload
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.runs.run import open_run
from tests.cli.support import names, rows_of, said, sets

pytestmark = pytest.mark.slow  # every test needs what the fixture makes

AXES = ("gender", "nationality")
COUNTS = {"fit": 12, "validation": 6, "test": 8, "agreement": 4, "few": 6}
SMALL = ["eraser=leace", "form=carried", "metric=r", "cost=kl", names(**COUNTS)]
AT_4 = [*SMALL, "edit.layers=[4]"]


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
    said("edit", *SMALL, *own, f"run_dir={place}/run_3", f"save={place}/second")
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
