"""Decisions: what was planted is found, and what says nothing is called so."""

import json
import math
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.api import OLS, add_constant
from statsmodels.stats.sandwich_covariance import cov_cluster

from countergen_edit import load_run
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis, Group, axis_config
from countergen_edit.data.cases import CASE_FILES, CASE_PRONOUNS, read_cases
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.edits.edit import UNCHANGED
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.decisions import Decisions, DecisionTable, taken_rows
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.statistics import share_interval
from countergen_edit.models import TextScores, in_template, text_log_probs
from countergen_edit.reports.gate import gate_run
from countergen_edit.reports.views.decisions import DecisionsView
from tests.made_cases import make_cases
from tests.metrics.small import a_task, chat_model, one_line, rows_of

AXIS = Axis("made", {name: Group(name, {"test": ("Kim",)}) for name in ("a", "b")})
EDIT = NamedEdit(EditRecord("e", "own", {}, ()), UNCHANGED)


class Acting(EvaluationContext):
    """A model that decides by what it reads, whose gap and reward of merit (nats) are known.

    The order of the answers moves everybody by `order`, an edit multiplies log-odds by `edited`.
    """

    def __init__(self, model, metric, **acts):
        act = {"gap": 0.0, "merit": 2.0, "base": 0.0, "answered": 0.9, "order": 0.0} | acts
        super().__init__(model, Path("nowhere"))
        self.edited, self.answered = act.get("edited", 0.0), act["answered"]
        rng, self.odds = np.random.default_rng(0), {}
        [questions] = metric.asked
        topics = {case.topic: rng.normal(scale=0.5) for case in questions.cases}
        leans = {topic: rng.normal(scale=0.2) for topic in topics}
        people = {name: rng.normal(scale=0.1) for _, name in questions.people}
        first = questions.people[0][0]
        prompts = questions.pairs(model.chat.is_on)[::2]
        for (prompt, _), (group, name, case, order) in zip(prompts, questions.units, strict=True):
            value = act["base"] + topics[case.topic] + people[name] + act["order"] * order
            value += act["merit"] * (0.5 if case.label == 1 else -0.5)
            gap = act["gap"] + leans[case.topic]
            self.odds[prompt] = value + gap * (0.5 if group is first else -0.5)

    def texts(self, pairs, edit, _=None, asked=False):
        log_p = []
        for prompt, answer in pairs:
            odds = self.odds[prompt] * (1.0 if edit is None else self.edited)
            yes = -math.log1p(math.exp(-odds)) + math.log(self.answered)
            log_p.append(yes if answer.strip() == "Yes" else yes - odds)
        return TextScores(np.array(log_p), np.ones(len(pairs), dtype=np.int64))


def bound(task=None, **more):
    return Decisions(**more).bound(task or a_task(), "decisions")


def table_of(metric, context):
    return metric.table(metric.asked[0], context, None)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return chat_model(tmp_path_factory.mktemp("qwen2"))


@pytest.fixture(scope="module")
def metric():
    return bound()


@pytest.mark.parametrize("name", CASE_FILES)
def test_cases_differ_in_the_person_alone(name):
    """With the same name and forms everybody is asked the same."""
    cases = read_cases(name)
    one, other = (Group(name, {}, dict.fromkeys(CASE_PRONOUNS, "X")) for name in "ab")
    for case in cases:
        assert case.asked(one, "Kim") == case.asked(other, "Kim")
        assert {*case.orders} == {0, 1}
        words = case.asked(Group("", {}), "Kim").lower().replace(",", " ").split()
        assert {"he", "she", "him", "her", "his", "hers", "mr", "mrs"}.isdisjoint(words)
        first, second = (case.asked(one, "Kim", order) for order in case.orders)
        assert first != second
        assert sorted(first) == sorted(second)
    assert len(cases) == len({case.text for case in cases})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"topic": "one"}, "needs cases of two topics or more"),
        ({"favorable": "nurse"}, "'favorable': did you mean 'favourable'?"),
        ({"answers": "nurse"}, "answers 'nurse': write two or more, such as Yes|No"),
        ({"answers": "nurse|nurses|plumber"}, "answer 'nurse' begins 'nurses'"),
        ({"favourable": "chef"}, "favourable answer 'chef'"),
        ({"favourable": "nurse|plumber"}, "every answer is favourable"),
        ({"label": "chef"}, "label 'chef'"),
        ({"case": "All is well.", "question": "Is it?"}, "the case lacks {name}"),
        ({"case": "{name} is }"}, "a slot is written {name}"),
    ],
)
def test_a_file_of_another_form_is_refused(changes, says, tmp_path):
    with pytest.raises(UserError, match=one_line(says)):
        Decisions(str(make_cases(tmp_path, **changes)))


def test_people_are_needed():
    with pytest.raises(UserError, match="decisions need two test names or more of group 'a'"):
        bound(replace(a_task(), axis=AXIS, groups=("a", "b")))


KINDS = [*product(range(6), (True, False), (0, 1))]
"""Topic, merit and order of the prompts of made decisions."""


def made(worth, kinds=KINDS, seed=0):
    """A table of decisions by group, (prompt, person)."""
    rows = [
        (group, f"topic {topic}", person, label, order, float(value))
        for group, table in worth.items()
        for (topic, label, order), of_people in zip(kinds, table, strict=True)
        for person, value in enumerate(of_people)
    ]
    columns = ["group", "topic", "person", "label", "order", "worth"]
    return DecisionTable(pd.DataFrame(rows, columns=columns).assign(weight=1.0), AXIS, seed)


def made_decisions(seed):
    """Random scores of two cases of six topics, in either order."""
    rng = np.random.default_rng(seed)
    of_topic, worth = rng.normal(scale=0.05, size=6), {}
    topic, merit, _ = np.transpose(KINDS)
    for side, group in enumerate("ab"):
        means = 0.3 + 0.4 * merit + of_topic[topic] * (0.5 - side)
        table = rng.normal(scale=0.03, size=8) + means[:, None]
        worth[group] = np.clip(table + rng.normal(scale=0.02, size=table.shape), 0, 1)
    return made(worth, seed=seed)


def test_every_figure_is_the_mean_that_it_is_said_to_be():
    decisions = made_decisions(3)
    table = decisions.decisions.astype({"label": float})
    table["selection"], table["scoring"] = table.worth > 0.5, table.worth > table.worth.median()
    for scale in ("worth", "selection", "scoring"):
        mean = table.groupby("group")[scale].mean()
        for group in "ab":
            assert decisions.rate(scale, group).value == pytest.approx(mean[group])
        assert decisions.rate(scale, "a", "b").value == pytest.approx(table[scale].mean())
    mean = table.groupby("group").worth.mean()
    assert decisions.differences()["a", "b"].value == pytest.approx(mean["a"] - mean["b"])
    mean = table.groupby(["topic", "group"]).worth.mean()
    for (a, b, topic), figure in decisions.differences_of_topics().items():
        assert figure.value == pytest.approx(mean[topic, a] - mean[topic, b])
    for column in ("label", "order"):
        mean = table.groupby(column).worth.mean()
        assert decisions.contrast(column)[()].value == pytest.approx(mean[1] - mean[0])


def test_topics_have_equal_weight_whatever_their_number_of_cases(context, tmp_path):
    path = make_cases(tmp_path)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for i, line in enumerate(lines) if i not in (2, 3, 4)), "utf-8")
    table = table_of(bound(cases=str(path), names=2), context)
    means = table.decisions.groupby(["group", "topic"]).worth.mean()
    for group in table.groups:
        assert table.rate("worth", group).value == pytest.approx(means[group].mean())


def test_variances_are_those_of_statsmodels_and_of_people_in_several_topics():
    """Clustered by topic or person alone statsmodels has them, but for small-sample factors."""
    table = made_decisions(5).decisions
    person = table.group + table.person.astype(str)
    fitted = OLS(table.worth, add_constant(table.group == "a").astype(float)).fit()
    topics, people = (
        cov_cluster(fitted, pd.factorize(ids)[0], use_correction=False)[1, 1] * n / (n - 1)
        for ids, n in ((table.topic, 6), (person, 8))
    )
    # A person's mean, less what the mean of single topics varies: (sum r)^2 - sum r_t^2.
    r = table.worth - table.groupby(["group", "topic"]).worth.transform("mean")
    r /= 24 * 8
    of_people, of_topics = r.groupby(person).sum(), r.groupby([person, table.topic]).sum()
    several = 8 / 7 * ((of_people**2).sum() - (of_topics**2).sum())
    figure = DecisionTable(table, AXIS).differences()["a", "b"]
    assert several > 0
    assert figure.spread[0] ** 2 == pytest.approx(topics + several)
    alone = DecisionTable(table.assign(topic=""), AXIS).differences()["a", "b"]
    assert alone.spread[0] ** 2 == pytest.approx(people)
    assert alone.spread[1] == pytest.approx(14)


def test_the_null_deals_residuals_of_people_to_groups():
    """All deals of six people, with residuals scaled by n/(n - 1)."""
    rng = np.random.default_rng(1)
    worth = {group: rng.uniform(size=(2, 3)) for group in "ab"}
    table = made(worth, [(0, True, 0), (1, False, 0)])
    means = [worth[group].mean(axis=0) for group in "ab"]
    residuals = np.concatenate([(mean - mean.mean()) * math.sqrt(3 / 2) for mean in means])
    deals = np.array([*permutations(residuals)])
    dealt = np.abs(deals[:, :3].mean(axis=1) - deals[:, 3:].mean(axis=1))
    quantile, p = table.null("a", "b")
    assert np.abs(quantile - dealt).min() < 1e-9
    observed = abs(means[0].mean() - means[1].mean())
    assert p == pytest.approx((dealt >= observed).mean(), abs=0.05)
    alone = {group: table[:, :1] for group, table in worth.items()}
    assert made(alone, [(0, 1, 0), (1, 0, 0)]).null("a", "b") is None


def simulated(seed, rates, topics, people, cases):
    """Decisions by a probit model with topics, leanings of topics to groups, and people."""
    job, lean, person = 0.5, 0.2, 0.3
    rng, worth = np.random.default_rng(seed), {}
    spread = math.sqrt(job**2 + lean**2 + person**2 + 1)
    of_topic = rng.normal(scale=job, size=topics)
    for group, rate in zip("abc", rates, strict=False):
        means = stats.norm.ppf(rate) * spread + of_topic + rng.normal(scale=lean, size=topics)
        mean = np.repeat(means, cases)[:, None] + rng.normal(scale=person, size=people)
        worth[group] = mean + rng.normal(size=mean.shape) > 0
    return made(worth, [(t, True, 0) for t in range(topics) for _ in range(cases)], seed)


@pytest.mark.slow
@pytest.mark.parametrize(("topics", "people", "cases"), [(8, 8, 2), (20, 20, 1)])
def test_planted_rates_are_covered_and_found_as_often_as_said(topics, people, cases):
    """Of 300 files with rates of 50 and 35 %: coverage, level and power."""
    inside = covered = false = shown = 0
    detectable = []
    for seed in range(300):
        table = simulated(seed, (0.5, 0.35), topics, people, cases)
        figure = table.differences()["a", "b"]
        inside += figure.estimate.lo <= 0.15 <= figure.estimate.hi
        shown += figure.p is not None and figure.p <= 0.05
        detectable.append(figure.detectable or math.nan)
        a, b = (table.rate("selection", group) for group in "ab")
        ratio = b.ratio(a)
        covered += ratio.lo <= 0.7 <= ratio.hi
        none = simulated(seed + 10_000, (0.4, 0.4), topics, people, cases).differences()["a", "b"]
        false += none.p is not None and none.p <= 0.05
    assert 0.92 <= inside / 300 <= 0.985
    assert 0.92 <= covered / 300 <= 0.985
    assert 0.015 <= false / 300 <= 0.08
    # Power is four in five at the detectable difference: of a normal estimate, 2.8 errors.
    error = np.nanmean(detectable) / 2.8
    assert shown / 300 == pytest.approx(stats.norm.cdf(0.15 / error - 1.96), abs=0.1)


@pytest.mark.parametrize("asked", [True, False])
def test_a_planted_preference_is_found_in_direction_and_size(asked, model, metric):
    """Of fair models none is shown, and what would be shown is said."""
    lm = model if asked else in_template(model, "none")
    for gap, says in (
        (1.2, "higher for female than for male"),
        (-1.2, "higher for male than for female"),
        (0.0, "not shown to differ between female and male"),
    ):
        acting = Acting(lm, metric, gap=gap)
        rows = metric.measure(acting, None)
        [row], [absolute] = rows_of(rows, "decision_difference"), rows_of(rows, "decision_gap")
        assert (row.detail["p_adjusted"] <= 0.05) == bool(gap)
        assert (row.lo > 0 or row.hi < 0) == bool(gap)
        assert np.sign(row.value or 0) == np.sign(gap) or not gap
        assert absolute.value == abs(row.value or 0)
        assert absolute.lo <= absolute.value <= absolute.hi
        assert row.detail["null"] < absolute.value or not gap  # cases lean by themselves
        assert any(says in text for text in DecisionsView().sentences(Results(rows)))
    assert "four times out of five" in DecisionsView().sentences(Results(rows))[0]
    error, df = table_of(metric, acting).differences()["female", "male"].spread
    smallest = row.detail["smallest"] / error
    assert stats.nct.sf(stats.t.isf(0.025, df), df, smallest) == pytest.approx(0.8, abs=0.05)
    assert 1 <= df <= 5 + 7 + 7


@pytest.mark.parametrize(
    ("acts", "says"),
    [
        ({"merit": 0.0}, "not shown to favour the cases that deserve it"),
        ({"base": 9.0}, "it favours nearly everybody"),
        ({"base": -9.0}, "it favours hardly anybody"),
        ({"answered": 0.01}, "the answers together have a probability of 1.0 %"),
    ],
)
def test_answers_that_are_no_judgement_are_called_so(acts, says, model, metric):
    rows = metric.measure(Acting(model, metric, **acts), None)
    doubt, *_ = DecisionsView().sentences(Results(rows))
    assert says in doubt
    assert doubt.startswith("The model's answers on hiring are not judgements to rely on: ")


def test_the_order_of_answers_is_exchanged(model, metric):
    rows = metric.measure(Acting(model, metric, order=-1.5), None)
    [row] = rows_of(rows, "decision_by_order")
    assert row.hi < -0.1
    [alike] = rows_of(metric.measure(Acting(model, metric), None), "decision_by_order")
    assert alike.value == pytest.approx(0, abs=1e-12)


def test_what_an_edit_changes_is_paired(model, metric):
    acting = Acting(model, metric, gap=1.2)
    rows = metric.measure(acting, None)
    edited = [replace(row, edit="e") for row in metric.measure(acting, EDIT)]
    [before], [after] = (rows_of(side, "decision_difference") for side in (rows, edited))
    [change] = rows_of(edited, "decision_change")
    assert after.value == pytest.approx(0, abs=1e-12)
    assert change.value == pytest.approx(after.value - before.value)
    assert change.detail["p_adjusted"] <= 0.05
    results = Results([*rows, *edited], {"e": EDIT.record})
    assert any("changes the difference" in text for text in DecisionsView().sentences(results))
    [section] = DecisionsView().sections(results)
    assert [table.name for table in section.tables()] == ["decision_rates", "decisions"]
    json.dumps([row.to_dict() for row in (*rows, *edited)], allow_nan=False)


def test_every_answer_is_that_of_its_case_and_person(model, tmp_path):
    metric = bound(cases=str(make_cases(tmp_path, answers="nurse|plumber|chef")), names=2)
    [questions] = metric.asked
    for lm, asked in ((model, True), (in_template(model, "none"), False)):
        metric.check(lm)
        table = table_of(metric, EvaluationContext(lm, tmp_path)).decisions
        for i, (group, name, case, order) in [*enumerate(questions.units)][::7]:
            prompt = case.asked(group, name, order)
            answers = [answer if asked else f" {answer}" for answer in case.answers]
            p = np.exp(text_log_probs(lm, [prompt] * 3, answers, chat=asked).log_p)
            assert table.worth[i] == pytest.approx(p[0] / p.sum(), rel=1e-4)
            assert table.answered[i] == pytest.approx(p.sum(), rel=1e-4)
    with pytest.raises(UserError, match="exceeds the context"):
        bound(names=2).check(model)


def test_scores_are_worth_their_place_in_the_range(model, context, tmp_path):
    metric = bound(cases=str(make_cases(tmp_path, answers="1|2|3", label="3")), names=2)
    [questions] = metric.asked
    table = table_of(metric, context).decisions
    prompt = questions.cases[0].asked(*questions.people[0])
    p = np.exp(text_log_probs(model, [prompt] * 3, ["1", "2", "3"], chat=True).log_p)
    assert table.worth[0] == pytest.approx((p[1] / 2 + p[2]) / p.sum(), rel=1e-4)


def test_a_model_that_never_met_the_words_is_not_measured(model, context):
    metric = bound(replace(a_task(), vocabulary=frozenset({"jane", "is", "a", "nurse"})))
    metric.check(model)  # whose context the cases exceed
    [row] = metric.measure(context, None)
    assert row.metric == "decision_out_of_vocabulary"
    assert metric.measure(context, EDIT) == []
    [sentence] = DecisionsView().sentences(Results([row]))
    assert sentence.startswith("Decisions on hiring are not measured: words such as ")
    assert DecisionsView().sections(Results([row])) == []


def decided(accepted):
    """Decisions that are given, (case, person), two cases of each of six topics."""
    return made(accepted, [*product(range(6), (True, False), (0,))])


def ratios(table):
    _, estimates = table.impact("selection", {group: [group] for group in table.groups})
    return {group: ratio for group, (_, ratio) in estimates.items()}


def test_rates_of_crossed_axes_are_counts(model):
    axis = Axis.from_config(axis_config(["gender", "race"]))
    metric = bound(replace(a_task(), axis=axis, groups=tuple(axis.groups)), names=3)
    acting = Acting(model, metric, gap=0.8)
    decisions = table_of(metric, acting).decisions
    table = pd.DataFrame([{**axis.groups[g].parts, "gender_race": g} for g in decisions.group])
    worth = decisions.worth
    table["selection"], table["scoring"] = worth > 0.5, worth > worth.median()
    rows = metric.measure(acting, None)
    for kind, ratio in (("selection", "impact"), ("scoring", "scoring")):
        rates = rows_of(rows, f"decision_{kind}_rate")
        ratios = rows_of(rows, f"decision_{ratio}_ratio")
        assert len(rates) == len(ratios) == 2 + 4 + 8
        for rate, impact in zip(rates, ratios, strict=True):
            by = table.groupby(str(rate.facets["by"]))[kind]
            assert rate.value == pytest.approx(by.mean()[rate.group_a])
            assert rate.n == by.size()[rate.group_a]
            assert impact.value == pytest.approx(by.mean()[rate.group_a] / by.mean().max())
            assert rate.lo <= rate.value <= rate.hi
            assert "no bias audit" in impact.detail["note"]
    assert len(DecisionsView().sentences(Results(rows))) < 14  # of 28 pairs the largest


@given(st.lists(st.lists(st.booleans(), min_size=24, max_size=24), min_size=2, max_size=4))
@settings(max_examples=25, deadline=None)
def test_an_impact_ratio_is_at_most_that_of_the_highest_rate_which_is_one(drawn):
    accepted = {f"g{i}": np.reshape(group, (12, 2)) for i, group in enumerate(drawn)}
    estimates = ratios(decided(accepted))
    best = max(table.mean() for table in accepted.values())
    for group, ratio in estimates.items():
        if best == 0:
            assert np.isnan([ratio.value, ratio.lo]).all()
            continue
        assert ratio.value == pytest.approx(accepted[group].mean() / best)
        assert ratio.value <= 1
        assert not ratio.lo > ratio.value
        assert not ratio.hi < ratio.value
    if best:
        assert (1.0, 1.0, 1.0) in [(r.value, r.lo, r.hi) for r in estimates.values()]


def test_like_decisions_have_exact_intervals_and_ratios_from_them():
    half = np.tile([[True], [False]], (6, 3))
    table = decided({"all": np.ones((12, 3)), "none": np.zeros((12, 3)), "half": half})
    rates = {g: table.rate("selection", g).estimate for g in table.groups}
    assert (rates["none"].lo, rates["none"].hi) == share_interval(0, 3)  # people are the fewest
    assert (rates["all"].lo, rates["all"].hi) == share_interval(3, 3)
    impact, least = ratios(table), share_interval(3, 3)[0]
    assert (impact["none"].value, impact["none"].lo) == (0.0, 0.0)
    assert impact["none"].hi == pytest.approx(share_interval(0, 3)[1] / least)
    assert impact["half"].value == 0.5
    assert impact["half"].hi == pytest.approx(rates["half"].hi / least)
    assert table.differences()["all", "none"].p is None


def test_a_ratio_of_decisions_in_one_case_or_to_nothing_has_no_interval():
    once = np.zeros((12, 3), dtype=bool)
    once[0] = True
    ratio = ratios(decided({"a": once, "b": once & (np.arange(3) < 1)}))["b"]
    assert ratio.value == pytest.approx(1 / 3)
    assert math.isnan(ratio.lo)
    assert math.isnan(ratios(decided({"a": once & False, "b": once & False}))["a"].value)


@pytest.mark.parametrize(("edited", "shown"), [(-1.0, True), (0.2, False), (0.0, False)])
def test_overcorrection_is_a_difference_shown_on_the_other_side(edited, shown, model, metric):
    acting = Acting(model, metric, gap=1.2, edited=edited)
    after = [replace(row, edit="e") for row in metric.measure(acting, EDIT)]
    [row] = rows_of(after, "decision_change")
    assert row.detail["overcorrected"] is shown
    results = Results([*metric.measure(acting, None), *after], {"e": EDIT.record})
    sentences = " ".join(DecisionsView().sentences(results))
    assert ("overcorrects the difference between female and male" in sentences) is shown
    assert ("in hiring is not shown" in sentences) is not shown


def taken(path, seed=0, gap=0.2, n=150, **columns):
    """A file of decisions that were taken in twelve branches, each about another applicant."""
    rng = np.random.default_rng(seed)
    rows = [
        {"id": f"{sex}{i}", "group": sex, "topic": f"branch {i % 12}"}
        | {"decision": "hired" if rng.random() < 0.5 + gap * (sex == "men") else "refused"}
        for sex in ("men", "women")
        for i in range(n)
    ]
    pd.DataFrame(rows).assign(**columns).to_csv(path, index=False)
    return path


def test_decisions_that_were_taken_have_the_same_figures(tmp_path):
    path = taken(tmp_path / "branches.csv")
    table = pd.read_csv(path)
    rate = (table.decision == "hired").groupby(table.group).mean()
    rows = taken_rows(path)
    [difference] = rows_of(rows, "decision_difference")
    assert difference.value == pytest.approx(rate["men"] - rate["women"])
    assert (difference.group_a, difference.group_b, difference.n) == ("men", "women", 300)
    assert difference.detail["p_adjusted"] <= 0.05
    ratio = {row.group_a: row for row in rows_of(rows, "decision_impact_ratio")}
    assert ratio["women"].value == pytest.approx(rate["women"] / rate["men"])
    assert len(rows_of(rows, "decision_difference_of_topic")) == 12
    assert not {"decision_scoring_rate", "decision_by_order"} & {row.metric for row in rows}
    error = math.sqrt(sum(p * (1 - p) / 150 for p in rate))
    assert difference.hi - difference.lo == pytest.approx(3.92 * error, rel=0.4)


def test_a_file_of_decisions_is_a_run_that_gates_hold(tmp_path):
    run = load_run(taken(tmp_path / "branches.csv"))
    assert any("the rate is higher for men than for women" in text for text in run.findings)
    assert run.title == "branches.csv: group, men and women"
    assert run.report() == tmp_path / "branches" / "report.html"
    for limits, verdict in (
        ({"decision_gap": 0.5, "decision_impact_ratio": 0.3}, "holds"),
        ({"decision_gap": 0.02}, "fails"),
        ({"decision_impact_ratio": 0.7}, "cannot tell"),
    ):
        assert gate_run(run, limits, {}).verdict == verdict
    same = load_run(taken(tmp_path / "again.csv", gap=0.0, n=400))
    assert gate_run(same, {"decision_impact_ratio": 0.7}, {}).verdict == "holds"


def test_columns_of_several_axes_are_crossed(tmp_path):
    ages = np.tile(["old", "young"], 150)
    sexes = np.repeat(["f", "m"], 150)
    path = taken(tmp_path / "b.csv", group_age=ages, group_sex=sexes)
    frame = pd.read_csv(path).drop(columns="group")
    frame.to_csv(path, index=False)
    rows = rows_of(taken_rows(path), "decision_selection_rate")
    rates = {(row.facets["by"], row.group_a): row.value for row in rows}
    hired = frame.decision == "hired"
    assert rates["age", "old"] == pytest.approx(hired[ages == "old"].mean())
    assert rates["age_sex", "old_f"] == pytest.approx(
        hired[(ages == "old") & (sexes == "f")].mean()
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("id,decision\n1,yes\n", "has no column 'group': it has id, decision"),
        ("group,decision\na,yes\na,no\n", "a comparison takes 2"),
        ("group,decision\na,yes\nb,\n", "line 3: no 'decision'"),
        ("group,decision\na,1\nb,1\n", "decisions ['1'] do not differ"),
        ("group,decision,favourable\na,up,top\nb,down,top\n", "favourable answer 'top'"),
    ],
)
def test_a_file_of_other_decisions_is_refused(content, says, tmp_path):
    path = tmp_path / "decisions.csv"
    path.write_text(content, "utf-8")
    with pytest.raises(UserError, match=one_line(says)):
        load_run(path)
