"""What an edit does to other axes is found where it was planted, and is said as it was found."""

from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.metrics.r.effect_rows import change_rows, changed, effect_rows
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.metric import OffTarget
from countergen_edit.metrics.results import Results
from countergen_edit.reports.views.costs import OffTargetView
from countergen_edit.testbed import load_axis, load_truth
from tests.metrics.many_groups import two_groups
from tests.metrics.small import CONTROL, LEACE, TEST, rows_of

AXES = sorted(path.stem for path in (conf_dir() / "axis").glob("*.yaml"))
AGE = [TEST[0] | {"templates": ["The {person} ran the"]}]
FAITH = [TEST[0] | {"templates": ["The {people} ran the"]}]


def scores(axis, effect, *, people=8, paraphrases=6, noise=0.3):
    """Eight outputs a template, each likelier or less likely by `effect` after the first group."""
    items = 8 * paraphrases
    log_p = noise * np.random.default_rng(7).normal(size=(items, 2, people)) - 3.0
    log_p[:, 0] += effect * np.where(np.arange(items) % 2, 1.0, -1.0)[:, None]
    return two_groups(*log_p.transpose(1, 2, 0), paraphrases, named=people > 1, axis=axis)


def results_of(before, **after):
    """Of sets without an edit and after those of these names."""
    rows, old = [], [*map(GroupEffect, before)]
    for edit, scored in {"none": before, **after}.items():
        new = [*map(GroupEffect, scored)]
        effects = rows_of(effect_rows(new), "group_effect")
        changes = change_rows(old, new) if edit != "none" else []
        of_edit = [replace(r, metric="off_target") for r in effects] + changes
        rows += [replace(r, edit=edit, split="test") for r in of_edit]
    return Results(rows, {"e": LEACE, "c": CONTROL})


def test_a_planted_change_is_found_and_said():
    before = [scores("race", 0.3), scores("religion", 0.5)]
    after = [scores("race", 0.45), scores("religion", 0.5)]
    results = results_of(before, e=after, c=before)
    row, change = results.unedited("off_target")[0], results.of("off_target_change")[0]
    assert change.value == pytest.approx(0.15, abs=0.03)
    assert change.lo > 0
    race, religion = (row.detail for row in results.of("off_target_change", edit="e"))
    assert race["p_adjusted"] == pytest.approx(2 * race["p"])  # Holm's over axes
    assert religion["p_adjusted"] == 1
    [sentence] = OffTargetView().sentences(results)
    start = f"Another axis got worse under leace (rank 1): race {row.value:.2f} → "
    assert sentence.startswith(start)
    [table] = OffTargetView().sections(results)[0].tables()
    starred = [[cell.starred for cell in line[1:]] for line in table.rows]
    assert starred == [[False, True, False], [False, False, False]]


def test_without_people_paraphrases_are_drawn_and_one_is_not_judged():
    before, after = (scores("age", g, people=1, noise=0.1) for g in (0.3, 0.5))
    change, p = changed(GroupEffect(before), GroupEffect(after))
    assert change.lo > 0
    assert p < 0.05
    single = [scores("age", g, people=1, paraphrases=1) for g in (0.3, 0.9)]
    change, p = changed(*map(GroupEffect, single))
    assert change.value > 0
    assert np.isnan(change.lo)
    assert p is None
    results = results_of(single[:1], e=single[1:])
    assert OffTargetView().sentences(results) == []
    assert len(OffTargetView().sections(results)) == 1


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("texts", ["natural", "testbed"])
def test_the_audited_axis_is_never_among_the_others(axis, texts):
    has_names = axis in ("gender", "gender_es", "nationality", "pronouns", "race")
    sets = TEST if has_names else AGE if axis == "age" else FAITH
    task = Task.from_config(axis, {"test": sets}, texts=texts)
    axes = [data.axis for data in task.other_axes]
    listed = [entry["axis"] for entry in read_config("texts", texts)["other_axes"]]
    assert sorted(axes) == sorted({*listed} - {axis})


def test_an_axis_that_is_fitted_on_is_not_another():
    stereotypes = {"source": "natural", "family": "stereotypes", "templates": 2, "people": 2}
    fit = [{**stereotypes, "axis": "race"}]
    task = Task.from_config("gender", {"fit": fit, "test": TEST}, texts="natural")
    assert "race" not in [data.axis for data in task.other_axes]
    with pytest.raises(UserError, match="'gender', which is fitted on"):
        replace(task, other_axes=task.test)


def test_one_s_own_sets_and_none():
    config = read_config("texts", "natural")
    data = {"test": TEST}
    none = {"other_axes": None}
    assert Task.from_config("gender", data, texts=config | none).other_axes == ()
    assert Task.from_config("gender", data | none, texts=config).other_axes == ()
    entry = {**AGE[0], "axis": "age", "name": "mine"}
    task = Task.from_config("gender", {**data, "other_axes": [entry]}, texts=config)
    assert [data.name for data in task.other_axes] == ["mine"]
    with pytest.raises(
        UserError, match="axis of a set of other_axes=None: Input should be a valid string"
    ):
        Task.from_config("gender", {**data, "other_axes": AGE}, texts=config)


def test_the_group_effect_of_another_axis_is_the_planted_one(on_testbed):
    truth = load_truth()
    data = truth.counterfactual_set("reasons", "test", load_axis("nationality"))
    task = Task(load_axis("gender"), ("female", "male"), other_axes=(data,))
    [row] = OffTarget().bound(task).measure(on_testbed, None)
    _, planted = truth.planted(data.groups)
    values = [planted[s.template, output] for s in data.samples for output in s.outputs]
    assert (row.metric, row.axis, row.detail["people"]) == ("off_target", "nationality", 4)
    assert row.value == pytest.approx(np.sqrt(np.mean(np.square(values))), rel=0.1)
    assert OffTarget().bound(replace(task, other_axes=())).measure(on_testbed, None) == []
