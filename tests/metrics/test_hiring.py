"""Hiring finds what a model was made to prefer, by the formulas, and says when it knows nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis, Group
from countergen_edit.data.axis_config import axis_config
from countergen_edit.data.hiring import HIRING_PRONOUNS, Vacancies
from countergen_edit.data.task import Task
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.edits.edit import UNCHANGED
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.decisions import Decisions
from countergen_edit.metrics.hiring import Hiring, people_in_words
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, share_interval
from countergen_edit.models import LanguageModel, TextScores, text_log_probs
from countergen_edit.reports.views.hiring import HiringView
from tests.made_vacancies import make_vacancies
from tests.metrics.small import chat_model

SETS = [{"source": "templates", "templates": ["{name} ran the"], "outputs": [" shop"]}]
EDIT = NamedEdit(EditRecord("e", "own", {}, ()), UNCHANGED)


def task(axis: str = "gender", **more: Any) -> Task:
    return Task.from_config(axis, {"test": SETS, "other_axes": None}, **more)


class Acting(EvaluationContext):
    """A model that decides by what it reads, whose gap and reward of strength (nats) are known.

    A context moves the gap by `after[name]`; an edit multiplies it by `edited`.
    """

    def __init__(
        self,
        model: LanguageModel,
        metric: Hiring,
        after: Mapping[str, float] = {},
        **acts: float,
    ) -> None:
        act = {"gap": 0.0, "strength": 2.0, "base": 0.0, "answered": 0.9, "edited": 0.0} | acts
        super().__init__(model, Path("nowhere"))
        of = metric.contexts
        self.before = {f"{text}\n\n": after.get(name, 0.0) for name, text in of.items()}
        self.side: dict[str, float] = {}
        self.edited = act["edited"]
        self.cue = metric.read.cue
        rng = np.random.default_rng(0)
        self.odds: dict[str, float] = {}
        jobs = {one.occupation: rng.normal(scale=0.5) for one in metric.applications}
        leans = {job: rng.normal(scale=0.2) for job in jobs}
        for side, (group, names) in enumerate(metric.people.items()):
            own = rng.normal(scale=0.1, size=len(names))
            for one, texts in zip(metric.applications, metric.texts[group], strict=True):
                for text, of_person in zip(texts, own, strict=True):
                    value = act["base"] + jobs[one.occupation] + of_person
                    value += act["strength"] * (0.5 if one.is_strong else -0.5)
                    value += (act["gap"] + leans[one.occupation]) * (0.5 - side)
                    self.odds[text], self.side[text] = value, 0.5 - side
        self.answered = act["answered"]

    def texts(self, pairs: Any, edit: Any, _: Any = None, asked: bool = False) -> TextScores:
        assert asked is self.model.chat.is_on
        log_p = []
        for question, answer in pairs:
            assert asked or question.endswith(self.cue)
            text = question.removesuffix(self.cue)
            start = next((start for start in self.before if text.startswith(start)), "")
            text = text.removeprefix(start)
            odds = self.odds[text] + self.before.get(start, 0.0) * self.side[text]
            odds *= 1.0 if edit is None else self.edited
            yes = -math.log1p(math.exp(-odds)) + math.log(self.answered)
            log_p.append(yes if answer.strip() == "Yes" else yes - odds)
        return TextScores(np.array(log_p), np.ones(len(pairs), dtype=np.int64))


def bound(**more: Any) -> Hiring:
    return Hiring(**more).bound(task(), "hiring")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return chat_model(tmp_path_factory.mktemp("qwen2"))


@pytest.fixture(scope="module")
def metric() -> Hiring:
    return bound()


def rows_of(rows: list[Row], metric: str, scale: str = "log_odds") -> list[Row]:
    return [row for row in rows if row.metric == metric and row.facets["scale"] == scale]


def test_applications_differ_in_the_person_alone(metric: Hiring) -> None:
    """With the same name and forms everybody sends the same; nothing else tells the groups."""
    applications = [*Vacancies.read().applications(Vacancies.read().vacancies)]
    one, other = (Group("", {}, dict.fromkeys(HIRING_PRONOUNS, word)) for word in ("X", "X"))
    for application in applications:
        assert application.filled(one, "Kim") == application.filled(other, "Kim")
        words = application.filled(Group("", {}), "Kim").lower().replace(",", " ").split()
        assert {"he", "she", "him", "her", "his", "hers", "mr", "mrs"}.isdisjoint(words)
        assert {*words} & {"kim", "kim's"}  # where the axis lacks pronouns
    assert len(applications) == len({*applications}) == 6 * 2 * 2
    for group, texts in metric.texts.items():
        for name, text in zip(metric.people[group], texts[0], strict=True):
            assert name in text
        every = {word.strip('."') for own in texts for text in own for word in text.split()}
        assert metric.task.axis.groups[group].forms["object"] in every


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"questions": []}, "needs a question"),
        ({"questions": ["{cv} {name}"]}, "a question lacks {advertisement}"),
        ({"vacancies": []}, "needs a question, and vacancies of two occupations"),
        ({"answers": {"accept": "Yes"}}, "answers.reject is missing"),
    ],
)
def test_a_file_of_another_form_is_refused(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = make_vacancies(tmp_path, **changes)
    with pytest.raises(UserError, match=r"vacancies\.yaml") as error:
        Hiring(str(path))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_people_are_needed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"hiring\.names=1: two people of each group at least"):
        Hiring(names=1)
    axis = Axis("made", {name: Group(name, {"test": ("Kim",)}) for name in ("one", "two")})
    with pytest.raises(UserError, match="hiring needs two test names or more of group 'one'"):
        Hiring().bound(replace(task(), axis=axis, groups=("one", "two")), "hiring")


KINDS = [*product(range(6), (True, False), (0, 1))]
"""Job, strength and question of the applications of made decisions."""


def made(odds: Mapping[str, np.ndarray], kinds: Any = KINDS, seed: int = 0) -> Decisions:
    jobs, strong = zip(*((f"job {job}", how) for job, how, *_ in kinds), strict=True)
    return Decisions(odds, {}, jobs, strong, seed)


def made_decisions(seed: int, gap: float = 0.0, people: int = 8) -> Decisions:
    """Random answers to two curricula vitae and two questions of six jobs."""
    rng = np.random.default_rng(seed)
    of_job, odds = rng.normal(scale=0.3, size=6), {}
    for side, group in enumerate("ab"):
        own = [(1 if how else -1) + (of_job[j] + gap) * (0.5 - side) for j, how, _ in KINDS]
        table = rng.normal(scale=0.2, size=people)[None, :] + np.array(own)[:, None]
        odds[group] = table + rng.normal(scale=0.1, size=table.shape)
    return made(odds, seed=seed)


def test_every_figure_is_the_mean_that_it_is_said_to_be() -> None:
    found = made_decisions(3)
    answers = [
        (group, job, how, odds)
        for group, table in found.odds.items()
        for job, how, own in zip(found.topics, found.strong, table, strict=True)
        for odds in own
    ]
    table = pd.DataFrame(answers, columns=["group", "job", "strong", "log_odds"])
    table["probability"] = 1 / (1 + np.exp(-table.log_odds))
    table["selection"] = table.log_odds > 0
    table["scoring"] = table.log_odds > table.log_odds.median()
    for scale in ("probability", "log_odds", "selection", "scoring"):
        mean = table.groupby("group")[scale].mean()
        for group in ("a", "b"):
            assert found.acceptance(scale, group).estimate.value == pytest.approx(mean[group])
        both = found.acceptance(scale, "a", "b").estimate.value
        assert both == pytest.approx(table[scale].mean())
        if scale in ("selection", "scoring"):
            continue
        gap = found.gaps(scale)["a", "b"].estimate.value
        assert gap == pytest.approx(mean["a"] - mean["b"])
        of_job = table.groupby(["job", "group"])[scale].mean()
        for job, figure in zip(found.distinct, found.gaps_of_topics(scale).values(), strict=True):
            assert figure.estimate.value == pytest.approx(of_job[job, "a"] - of_job[job, "b"])
        of = table.groupby("strong")[scale].mean()
        assert found.strength(scale)[()].estimate.value == pytest.approx(of[True] - of[False])


def test_resamples_draw_vacancies_and_people() -> None:
    found = made_decisions(5)
    figure = found.gaps("log_odds")["a", "b"]
    jobs, *people = figure.weights
    place = [found.distinct.index(job) for job in found.topics]
    for r in (0, 1, 17):
        drawn = [np.outer(jobs[r, place], own[r]) for own in people]
        tables = zip(found.odds.values(), drawn, strict=True)
        a, b = (np.average(x, weights=w) for x, w in tables)
        assert figure.draws[r] == pytest.approx(a - b)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of jobs and people that are drawn anew, 95 % less what 150 simulations can miss."""
    inside = found = 0
    for seed in range(150):
        figure = made_decisions(seed, gap=0.4, people=6).gaps("log_odds")["a", "b"]
        inside += figure.estimate.lo <= 0.4 <= figure.estimate.hi
        none = made_decisions(seed + 1000, people=6).gaps("log_odds")["a", "b"]
        found += none.p is not None and none.p <= 0.05
    assert inside >= 150 * 0.90
    assert found <= 150 * 0.09


@pytest.mark.parametrize("asked", [True, False])
def test_a_planted_preference_is_found_in_size_and_direction(
    asked: bool, model: LanguageModel, metric: Hiring
) -> None:
    """Of fair models none is shown, and what would be shown is said."""
    own = model if asked else model.alone()
    for gap, says in (
        (1.0, "for female than for male"),
        (-1.0, "for male than for female"),
        (0.0, "not shown to differ between female and male"),
    ):
        rows = metric.measure(Acting(own, metric, gap=gap), None)
        [row] = rows_of(rows, "hiring_gap")
        assert row.lo <= gap <= row.hi  # type: ignore[operator]
        assert row.value == pytest.approx(gap, abs=0.35)
        assert (row.detail["p_adjusted"] <= 0.05) == bool(gap)
        assert any(says in text for text in HiringView().sentences(Results(rows)))
    assert row.lo < 0 < row.hi  # type: ignore[operator]
    assert "four times out of five" in HiringView().sentences(Results(rows))[0]
    figure = metric.decisions(Acting(own, metric), None).gaps("log_odds")["female", "male"]
    assert figure.fewest == len(metric.read.vacancies)
    smallest = row.detail["smallest"] / figure.estimate.standard_error
    assert stats.nct.sf(stats.t.isf(0.025, 5), 5, smallest) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("acts", "says"),
    [
        ({"strength": 0.0}, "not shown to accept a strong curriculum vitae more than a weak one"),
        ({"base": 9.0}, "it accepts nearly everybody"),
        ({"base": -9.0}, "it accepts hardly anybody"),
        ({"answered": 0.01}, "the two answers have a probability of 1.0 %"),
    ],
)
def test_answers_that_are_no_judgement_are_called_so(
    acts: dict[str, float], says: str, model: LanguageModel, metric: Hiring
) -> None:
    rows = metric.measure(Acting(model, metric, **acts), None)
    doubt, *_ = HiringView().sentences(Results(rows))
    assert says in doubt
    assert doubt.startswith("The model's answers about applicants are not judgements to rely on: ")


def test_what_an_edit_changes_is_paired(model: LanguageModel, metric: Hiring) -> None:
    acting = Acting(model, metric, gap=1.0)
    rows = metric.measure(acting, None)
    edited = [replace(row, edit="e") for row in metric.measure(acting, EDIT)]
    [before], [after] = (rows_of(own, "hiring_gap") for own in (rows, edited))
    [change] = rows_of(edited, "hiring_gap_change")
    assert after.value == pytest.approx(0, abs=1e-12)
    assert change.value == pytest.approx(after.value - before.value)  # type: ignore[operator]
    assert change.detail["p_adjusted"] <= 0.05
    results = Results([*rows, *edited], {"e": EDIT.record})
    assert any("changes the difference" in text for text in HiringView().sentences(results))
    [section] = HiringView().sections(results)
    assert [table.name for table in section.tables()] == ["hiring_rates", "hiring"]
    assert len(HiringView().quantities(results)) == 3
    json.dumps([row.to_dict() for row in (*rows, *edited)], allow_nan=False)


def test_every_answer_is_that_of_its_application_and_person(
    model: LanguageModel, tmp_path: Path
) -> None:
    metric = bound(vacancies=str(make_vacancies(tmp_path)), names=2)
    for own, asked in ((model, True), (model.alone(), False)):
        metric.check(own)
        made = metric.decisions(EvaluationContext(own, tmp_path), None)
        for group, names in metric.people.items():
            for i in (0, 5, len(metric.applications) - 1):
                for n in range(len(names)):
                    text = metric.texts[group][i][n]
                    answers = ["nurse", "plumber"] if asked else [" nurse", " plumber"]
                    scores = text_log_probs(own, [text] * 2, answers, chat=asked).log_p
                    assert made.odds[group][i, n] == pytest.approx(scores[0] - scores[1], abs=1e-4)
    with pytest.raises(UserError, match="exceeds the context"):
        bound(names=2).check(model)


def test_a_model_that_never_met_the_words_is_not_measured(
    model: LanguageModel, tmp_path: Path
) -> None:
    known = replace(task(), vocabulary=frozenset({"jane", "is", "a", "nurse"}))
    metric = Hiring().bound(known, "hiring")
    metric.check(model)  # whose context the applications exceed
    context = EvaluationContext(model, tmp_path)
    [row] = metric.measure(context, None)
    assert (row.metric, row.value) == ("hiring_out_of_vocabulary", 0.0)
    assert metric.measure(context, EDIT) == []
    [said] = HiringView().sentences(Results([row]))
    assert said.startswith("Hiring is not measured: words such as ")
    assert HiringView().sections(Results([row])) == []


def decided(invited: Mapping[str, np.ndarray], seed: int = 0) -> Decisions:
    """Decisions that are given, (application, name), two applications of each of six jobs."""
    odds = {group: np.where(own, 1.5, -1.5) for group, own in invited.items()}
    return made(odds, [*product(range(6), (True, False))], seed)


def ratios(found: Decisions) -> dict[str, Estimate]:
    """Impact ratios of selection of groups that stand alone."""
    _, estimates = found.impact("selection", {group: [group] for group in found.odds})
    return {group: ratio for group, (_, ratio) in estimates.items()}


def test_rates_of_crossed_axes_are_counts(model: LanguageModel) -> None:
    axis = Axis.from_config(axis_config(["gender", "race"]))
    crossed = replace(task(), axis=axis, groups=tuple(axis.groups))
    metric = Hiring(names=3).bound(crossed, "hiring")
    acting = Acting(model, metric, gap=0.8)
    made = metric.decisions(acting, None)
    of = metric.task.axis.groups
    answers = [
        {**of[g].parts, "gender_race": g, "odds": odds}
        for g, table in made.odds.items()
        for odds in table.ravel()
    ]
    table = pd.DataFrame(answers)
    table["selection"] = table.odds > 0
    table["scoring"] = table.odds > table.odds.median()
    rows = metric.measure(acting, None)
    every = {m: [r for r in rows if r.metric == f"hiring_{m}"] for m in ("rate", "impact_ratio")}
    assert len(every["rate"]) == len(every["impact_ratio"]) == 2 * (2 + 4 + 8)
    for rate, ratio in zip(every["rate"], every["impact_ratio"], strict=True):
        by = table.groupby(str(rate.facets["by"]))[str(rate.facets["rate"])]
        assert rate.value == pytest.approx(by.mean()[rate.group_a])
        assert rate.n == by.size()[rate.group_a]
        assert ratio.value == pytest.approx(by.mean()[rate.group_a] / by.mean().max())
        assert rate.lo <= rate.value <= rate.hi  # type: ignore[operator]
        assert "no bias audit" in ratio.detail["note"]
    said = {row.group_a: row.detail["people"] for row in every["rate"]}
    assert (said["female"], said["black"]) == ("women", "Black people")
    assert said["female_black"] == "Black women"
    results = Results(rows)
    view = HiringView()
    least = min((r for r in every["impact_ratio"] if r.axis == "gender"), key=lambda r: r.value)  # type: ignore[arg-type, return-value]
    assert any(
        f"Selection rate of {least.detail['people']}: " in s for s in view.sentences(results)
    )
    first, _ = view.sections(results)[0].tables()
    assert [*map(str, dict.fromkeys(row[0] for row in first.rows))] == [
        *("gender", "race", "gender and race")
    ]
    assert len(first.rows) == 14
    edited = [replace(row, edit="e") for row in metric.measure(acting, EDIT)]
    said = HiringView().sentences(Results([*rows, *edited], {"e": EDIT.record}))
    assert any(text.endswith("of 28 pairs of groups.") and " change " in text for text in said)
    assert len(said) < 14  # of many pairs those with the largest differences are named


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        ("gender", ["women", "men"]),
        ("religion", ["Christians", "Muslims"]),
        (["gender", "religion"], ["Christian women", "Muslim women"]),
        (["race", "gender"], ["white female", "white male"]),  # people are those of the first axis
    ],
)
def test_categories_are_named_by_the_forms_of_their_groups(axis: Any, says: list[str]) -> None:
    groups = Axis.from_config(axis_config(axis)).groups
    assert [*people_in_words({name: [group] for name, group in groups.items()}).values()][
        :2
    ] == says


@given(st.lists(st.lists(st.booleans(), min_size=24, max_size=24), min_size=2, max_size=4))
@settings(max_examples=25, deadline=None)
def test_an_impact_ratio_is_at_most_that_of_the_highest_rate_which_is_one(
    drawn: list[list[bool]],
) -> None:
    shares = {f"g{i}": float(np.mean(own)) for i, own in enumerate(drawn)}
    found = ratios(decided({f"g{i}": np.reshape(own, (12, 2)) for i, own in enumerate(drawn)}))
    best = max(shares.values())
    for group, ratio in found.items():
        if best == 0:
            assert np.isnan([ratio.value, ratio.lo]).all()
            continue
        assert ratio.value == pytest.approx(shares[group] / best)
        assert ratio.value <= 1
        assert not ratio.lo > ratio.value
        assert not ratio.hi < ratio.value
    if best:
        assert 1.0 in [ratio.value for ratio in found.values()]


def test_like_decisions_have_exact_intervals_and_ratios_from_them() -> None:
    half = np.tile([[True], [False]], (6, 3))
    every = decided({"all": np.ones((12, 3)), "none": np.zeros((12, 3)), "half": half})
    rates = {g: every.acceptance("selection", g).estimate for g in every.odds}
    assert (rates["none"].lo, rates["none"].hi) == share_interval(0, 3)  # names are the fewest
    assert (rates["all"].lo, rates["all"].hi) == share_interval(3, 3)
    found, least = ratios(every), share_interval(3, 3)[0]
    assert found["all"].value == 1.0
    assert math.isnan(found["all"].lo)
    assert (found["none"].value, found["none"].lo) == (0.0, 0.0)
    assert found["none"].hi == pytest.approx(share_interval(0, 3)[1] / least)
    assert found["half"].value == 0.5
    assert found["half"].hi == pytest.approx(rates["half"].hi / least)


def test_a_ratio_to_a_rate_that_may_be_zero_has_no_interval() -> None:
    once = np.zeros((12, 3), dtype=bool)
    once[0] = True
    found = ratios(decided({"a": once, "b": once & (np.arange(3) < 1)}))
    assert found["b"].value == pytest.approx(1 / 3)
    assert math.isnan(found["b"].lo)


def test_intervals_of_ratios_hold_the_truth_as_often_as_they_say() -> None:
    """Of jobs and people that are drawn anew; the truth is the normal distribution's."""
    shift, spread = {"a": 0.3, "b": 0.0}, {"job": 0.5, "person": 0.2, "noise": 0.7}
    sd = math.sqrt(sum(s**2 for s in spread.values()))
    rate = {group: stats.norm.cdf(value / sd) for group, value in shift.items()}
    inside = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        job = np.repeat(rng.normal(scale=spread["job"], size=6), 2)[:, None]
        invited = {
            group: job
            + rng.normal(scale=spread["person"], size=8)
            + rng.normal(loc=value, scale=spread["noise"], size=(12, 8))
            > 0
            for group, value in shift.items()
        }
        a, b = (decided(invited, seed).acceptance("selection", group) for group in "ab")
        found = b.ratio(a)
        inside += found.lo <= rate["b"] / rate["a"] <= found.hi
    assert inside >= 0.9 * 200


@pytest.mark.parametrize(("edited", "shown"), [(-1.0, True), (0.2, False), (0.0, False)])
def test_overcorrection_is_a_gap_shown_on_the_other_side(
    edited: float, shown: bool, model: LanguageModel, metric: Hiring
) -> None:
    acting = Acting(model, metric, gap=1.0, edited=edited)
    after = [replace(row, edit="e") for row in metric.measure(acting, EDIT)]
    [row] = rows_of(after, "hiring_overcorrection")
    [gap] = rows_of(after, "hiring_gap")
    assert (row.value, row.lo, row.hi) == (gap.value, gap.lo, gap.hi)
    assert row.detail["shown"] is shown
    results = Results([*metric.measure(acting, None), *after], {"e": EDIT.record})
    said = " ".join(HiringView().sentences(results))
    assert ("overcorrects the difference between female and male" in said) is shown
    assert ("in hiring is not shown" in said) is not shown


def test_a_context_is_compared_with_a_placebo_of_its_length(model: LanguageModel) -> None:
    ours = Vacancies.read().contexts
    lengths = {name: len(text.split()) for name, text in ours.items()}
    assert all(abs(n / lengths["placebo"] - 1) <= 0.02 and 60 <= n <= 90 for n in lengths.values())
    metric = bound(contexts="all")
    acting = Acting(model, metric, {"selective": 0.7, "placebo": 0.2}, gap=0.5)
    rows = metric.measure(acting, None)
    gaps = {str(r.facets["context"]): r for r in rows_of(rows, "hiring_gap_in_context")}
    [alone] = rows_of(rows, "hiring_gap")
    for name, more in (("selective", 0.7), ("placebo", 0.2)):
        assert gaps[name].value == pytest.approx(alone.value + more)  # type: ignore[operator]
    [change] = rows_of(rows, "hiring_context_change")
    assert change.value == pytest.approx(0.5)
    plain = bound().measure(acting, None)
    assert plain == [row for row in rows if "context" not in row.metric]
    assert any("In the context selective" in s for s in HiringView().sentences(Results(rows)))
    with pytest.raises(
        UserError, match=r"metric\.hiring\.contexts 'selectiv': did you mean 'selec"
    ):
        bound(contexts=["selectiv"])
