"""An eraser that finds nothing to erase, or refuses a place, costs an audit its own edits alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float, Int

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import BaseEraser, MeanDifference, make_eraser
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.reports.run import open_run
from countergen_edit.runs.folder import RunFolder
from tests.runs.runs import IDENTITY
from tests.runs.test_audit import make_plan, make_task, run, thin, value

pytestmark = pytest.mark.slow

WHY = "nothing is left to tell the groups apart by"


class Refuses(MeanDifference):
    """Refuses activations that are shorter than so much; one of less than 0 has a defect."""

    def __init__(self, least: float = float("inf")) -> None:
        self.least = least

    def fit(self, X: Float[np.ndarray, "row d"], y: Int[np.ndarray, " row"]) -> BaseEraser:
        if self.least < 0:
            raise ZeroDivisionError
        if np.linalg.norm(X, axis=1).mean() < self.least:
            raise UserError(WHY)
        return super().fit(X, y)


def audited(model: LanguageModel, path: Path, **plan: object) -> list[Row]:
    return run(model, make_plan(task=thin(make_task(), 4), **plan), path)


RLACE = make_eraser("rlace", rank=1)


@pytest.mark.parametrize("layers", [None, (2, 4)])
def test_the_others_go_on_and_the_verdict_says_which_did_not(
    layers: tuple[int, ...] | None, testbed: LanguageModel, tmp_path: Path
) -> None:
    rows = audited(
        testbed, tmp_path / "both", layers=layers, erasers={"own": Refuses(), "rlace": RLACE}
    )
    alone = audited(testbed, tmp_path / "alone", layers=layers, erasers={"rlace": RLACE})
    tested = {row.eraser for row in rows if row.split == "test" and not row.baseline}
    assert tested == {"", "rlace"}
    for metric in ("mean_abs_r", "perplexity"):
        assert value(rows, metric, "rlace") == value(alone, metric, "rlace")
    found = open_run(tmp_path / "both")
    assert f"Not fitted: own: {WHY}." in found.findings
    assert [row.eraser for row in found.results.of("judgement")] == ["rlace"]
    # What is written is read again, and nothing is tried twice.
    again = audited(
        testbed, tmp_path / "both", layers=layers, erasers={"own": Refuses(), "rlace": RLACE}
    )
    assert again == rows


def test_an_audit_in_which_every_eraser_refuses_ends_with_the_reason(
    testbed: LanguageModel, tmp_path: Path
) -> None:
    erasers = {"own": Refuses(), "other": Refuses(1e9)}
    for _ in range(2):  # once it has ended, it says the same again
        with pytest.raises(UserError, match=f"^own, other: {WHY}$"):
            audited(testbed, tmp_path / "run", layers=(3,), erasers=erasers)
    with pytest.raises(ZeroDivisionError):  # a defect of an eraser is raised
        audited(testbed, tmp_path / "defect", layers=(3,), erasers={"own": Refuses(-1.0)})
    rows = RunFolder(tmp_path / "run", {}, IDENTITY).rows()
    assert {row.metric for row in rows if row.edit != "none"} == {"error"}
