"""Names that lean, and groups that do not differ: nothing is called bias, and nothing is saved."""

import pytest

import countergen_edit as ce
from countergen_edit.reports.findings import why_nothing


@pytest.fixture(scope="module")
def drinks():
    """What people drink: on the testbed every name leans, and women and men do not differ."""
    return ce.task("gender", "drinks")


@pytest.mark.slow
def test_an_audit_says_that_names_are_all_there_is(testbed, drinks, tmp_path):
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


def test_a_search_ends_before_it_fits_anything(testbed, drinks, tmp_path):
    searched = ce.search(testbed, drinks, [ce.LEACE()], folder=tmp_path / "search")
    assert searched.best is None
    assert not searched.edits
    assert why_nothing(searched) == "no significant bias on validation data; nothing was saved"
