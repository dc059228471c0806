"""Names that lean, and groups that do not differ: nothing is called bias, and nothing is saved."""

from __future__ import annotations

from pathlib import Path

import pytest

import countergen_edit as ce
from countergen_edit.data.task import Task
from countergen_edit.models import LanguageModel
from countergen_edit.reports.findings import why_nothing
from countergen_edit.reports.run import Run


@pytest.fixture(scope="module")
def drinks() -> Task:
    """What people drink: on the testbed every name leans, and women and men do not differ."""
    return ce.task("gender", "drinks")


@pytest.fixture(scope="module")
def searched(testbed: LanguageModel, drinks: Task, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return ce.search(
        testbed, drinks, [ce.LEACE()], folder=tmp_path_factory.mktemp("run") / "search"
    )


@pytest.mark.slow
def test_an_audit_says_that_names_are_all_there_is(
    testbed: LanguageModel, drinks: Task, tmp_path: Path
) -> None:
    run = ce.audit(testbed, drinks, [ce.LEACE()], folder=tmp_path / "audit")
    sentences = run.findings
    assert sentences[0].startswith("No significant bias")
    assert not any(s.startswith(("Biased", "Removed", "Partly")) for s in sentences)
    rows = {r.metric: r for r in run.results.rows if (r.edit, r.split) == ("none", "test")}
    # Mean |R| is there all the same, and the within-group null shows that names explain much of it.
    assert (rows["mean_abs_r"].value or 0) > 0.02
    assert (rows["null_abs_r"].value or 0) > (rows["mean_abs_r"].value or 0) / 3
    assert rows["group_effect"].detail["p_adjusted"] > 0.05
    assert rows["planted_group_effect"].value == pytest.approx(0.0, abs=1e-9)


def test_a_search_ends_before_it_fits_anything(searched: Run) -> None:
    assert searched.best is None
    assert not searched.edits
    assert why_nothing(searched) == "no significant bias on validation data; nothing was saved"
