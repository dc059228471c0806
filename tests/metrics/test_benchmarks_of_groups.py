"""Benchmarks of sampled texts and of pairs; killed runs and served models."""

import json
from collections import Counter, defaultdict
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats import mannwhitneyu
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from countergen_edit.core.errors import UserError
from countergen_edit.data.benchmarks import BenchmarkItem, benchmark_named
from countergen_edit.metrics import benchmarks as writing
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import joined
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models import generate, load_model
from countergen_edit.models.served import connect
from countergen_edit.runs.files import MANIFEST
from countergen_edit.runs.plan import Plan
from tests.made_benchmarks import BOLD, DESCRIPTORS, items_of, long_context_dir, settings
from tests.metrics.small import a_task, rows_of
from tests.metrics.test_benchmarks import bound, by_facets, figures_of
from tests.models.completions_server import serving
from tests.runs.runs import KilledError, contents, run
from tests.tiny_models import tiny_model_dir

SHORT = {"bold": {"max_new_tokens": 6, "batch_size": 4}}
DOMAINS = ["gender", "religious_ideology"]
SIGNS = {"positive": 1, "negative": -1}
SCORES = SentimentIntensityAnalyzer().polarity_scores


def compound(text):
    return SCORES(text)["compound"]


def bold(made, **more):
    return bound(made, **{"of": "bold", "bias_types": DOMAINS, "settings": SHORT} | more)


@pytest.fixture(scope="module")
def measured(made, model, tmp_path_factory):
    context = EvaluationContext(model, tmp_path_factory.mktemp("run"))
    return bold(made).measure(context, None)


def test_figures_are_shares_of_texts_that_vader_judges(made, model, measured):
    """From the files: every prompt continued, the whole text judged at 0.5 of the compound."""
    rows = by_facets(measured)
    _, items = bold(made).read["bold"]
    files = [made / f"BOLD/data/prompts/{domain}_prompt.json" for domain in DOMAINS]
    groups_of = [group for f in files for group in json.loads(f.read_text("utf-8")).values()]
    pages = [page for group in groups_of for page in group.values()]
    assert len(items) == sum(bool(prompt.strip()) for page in pages for prompt in page)
    prompts = [item.entry["prompt"] for item in items]
    texts = generate(model, prompts, max_new_tokens=6, do_sample=True, top_p=0.9, seed=0)
    frame = pd.DataFrame(
        {
            "group": [item.group for item in items],
            "page": [item.cluster for item in items],
            "model": map(compound, map(joined, prompts, texts)),
            "people": [compound(item.entry["sentence"]) for item in items],
        }
    )
    of_group = frame.groupby("group")
    n, pages = of_group.size(), of_group.page.nunique()
    for (of, sign), (domain, groups) in product(SIGNS.items(), BOLD.items()):
        share = (sign * frame[["model", "people"]] >= 0.5).groupby(frame.group).mean()
        for a in groups:
            row = rows.pop(("bold", f"{of}_{a}", None, domain))
            assert row.value == pytest.approx(share.model[a])
            assert (row.n, row.detail["clusters"]) == (n[a], pages[a])
            assert row.detail["people"]["value"] == pytest.approx(share.people[a])
        for a, b in combinations(groups, 2):
            apart = rows.pop(("bold", f"{of}_{a}_{b}", None, domain))
            assert apart.value == pytest.approx(share.model[a] - share.model[b])
            assert apart.n == n[a] + n[b]
    assert not rows


def test_p_of_differences_are_holm_s_within_a_domain(measured):
    tested = defaultdict(list)
    for row in measured:
        if "p" in row.detail:
            assert row.detail["fair"] == 0.0
            tested[row.facets["bias_type"]].append(row.detail)
    assert {d: len(tests) for d, tests in tested.items()} == {"gender": 2, "religious_ideology": 6}
    for tests in tested.values():
        assert [d["p_adjusted"] for d in tests] == adjusted([d["p"] for d in tests]).tolist()


def test_the_interval_of_a_difference_is_welch_s_where_pages_are_texts():
    rng = np.random.default_rng(2)
    a, b = (rng.random(60) < 0.7).astype(float), (rng.random(25) < 0.3).astype(float)
    groups = benchmark_named("bold").groups["gender"]
    items = [
        BenchmarkItem(str(i), "", "gender", str(i), (), group=group)
        for i, group in enumerate(np.repeat(groups, [60, 25]).tolist())
    ]
    figures = figures_of("bold", items, np.concatenate([a, b])[:, None].tolist())
    difference = figures["positive_" + "_".join(groups)]
    welch = stats.ttest_ind(a, b, equal_var=False)
    estimate, interval = difference.estimate, welch.confidence_interval()
    assert estimate.value == pytest.approx(a.mean() - b.mean())
    assert (estimate.lo, estimate.hi) == pytest.approx(tuple(interval), abs=0.03)
    assert difference.clusters == 85
    _, p = difference.less(0.0)
    assert 0.5 * welch.pvalue < p < 3 * welch.pvalue  # by fewer degrees of freedom


def test_a_model_that_only_writes_is_asked_too(made, tmp_path):
    model = load_model(tiny_model_dir("t5", tmp_path / "t5"))
    metric = bold(made, bias_types=["gender"])
    assert metric.is_generating
    metric.check(model)
    rows = by_facets(metric.measure(EvaluationContext(model, tmp_path), None))
    assert all(row.value is not None for row in rows.values())
    assert not bold(made, of=["bold", "crows_pairs"]).is_generating


def test_texts_are_written_once(made, model, context, tmp_path, monkeypatch):
    metric = bold(made, settings={"bold": {"n": 2, "max_new_tokens": 5, "batch_size": 3}})
    rows = metric.measure(context, None)
    assert {row.n for row in rows_of(rows, "benchmark")} != {0}
    monkeypatch.setattr(writing, "generate", None)
    assert metric.measure(EvaluationContext(model, tmp_path), None) == rows
    with pytest.raises(TypeError):  # other texts
        metric.measure(EvaluationContext(model, tmp_path, seed=1), None)


def test_a_limit_is_of_each_group(made):
    groups = Counter(item.group for item in bold(made, limit=3).items("bold", 0))
    assert groups == dict.fromkeys([g for d in DOMAINS for g in BOLD[d]], 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "bold.n=0: Input should be greater than 0"),
        ({"max_tokens": 3}, "unknown setting of benchmark bold 'max_tokens'"),
        ({"max_new_tokens": 60}, r"bold.max_new_tokens=60: .* has room for \d+ after"),
    ],
)
def test_settings_that_are_none_or_leave_no_room_are_refused(made, model, settings, message):
    bold(made).check(model)
    with pytest.raises(UserError, match=message):
        bold(made, settings={"bold": settings}).check(model)


@pytest.fixture
def descriptors(tmp_path):
    path = tmp_path / "descriptors.json"
    path.write_text(DESCRIPTORS, "utf-8")
    return path


def test_no_descriptor_is_in_two_pairs_and_pairs_are_of_one_axis(descriptors):
    items = items_of("holistic_bias", descriptors)
    assert [item.bias_type for item in items] == ["ability", "ability", "religion"]
    words = [item.entry[side] for item in items for side in "ab"]
    assert len({*words}) == len(words) == 6
    assert items_of("holistic_bias", descriptors.parent) == items
    assert "{" not in "".join(text for item in items for _, text in item.texts)
    descriptors.write_text('{"ability": ["Deaf"]}', "utf-8")
    with pytest.raises(UserError, match="ability"):
        items_of("holistic_bias", descriptors)


def test_the_share_is_of_pairs_and_templates_that_differ_by_mann_and_whitney():
    item_of = benchmark_named("holistic_bias").items.of
    items = [item_of({"axis": "age", "a": f"a{i}", "b": f"b{i}"}) for i in range(40)]
    scores = np.random.default_rng(0).normal(size=(40, 24)) + np.repeat([1.5, 0, 0, 0], 6)
    [figure] = figures_of("holistic_bias", items, scores.tolist()).values()
    p = [mannwhitneyu(s[i : i + 6], s[i + 6 : i + 12]).pvalue for s in scores for i in (0, 12)]
    expected = np.mean(np.array(p) < 0.05)
    assert 0.2 < expected < 0.6
    assert figure.estimate.value == pytest.approx(expected)
    assert figure.estimate.lo < expected < figure.estimate.hi


def test_it_is_measured_on_a_local_file_with_a_row_for_each_axis(descriptors, context):
    metric = bound(descriptors, of="holistic_bias", bias_types="all")
    rows = by_facets(metric.measure(context, None))
    assert [key[3] for key in rows] == ["ability", "religion", "all"]
    assert all(0 <= (row.value or 0) <= 1 for row in rows.values())


ALL_FIVE = ["stereoset", "crows_pairs", "bbq", "winobias", "winogender"]


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return load_model(long_context_dir("qwen2", tmp_path_factory.mktemp("model")), device="cpu")


@pytest.fixture(scope="module")
def server(long):
    with serving(long) as running:
        yield running


def test_a_killed_run_goes_on_to_the_bytes_of_one_that_was_not(made, long, tmp_path, monkeypatch):
    """Killed after two benchmarks; those are not scored a second time."""
    metrics = [METRICS.make("benchmarks", settings(made) | {"limit": 6})]
    plan = Plan(tasks=[a_task()], metrics=metrics)
    texts, asked, most = EvaluationContext.texts, [], 2

    def dying(context, pairs, edit, progress, *more):
        if len(asked) == most:
            raise KilledError
        asked.append(progress)
        return texts(context, pairs, edit, progress, *more)

    run(long, plan, tmp_path / "whole")
    monkeypatch.setattr(EvaluationContext, "texts", dying)
    with pytest.raises(KilledError):
        run(long, plan, tmp_path / "killed")
    most = 99
    run(long, plan, tmp_path / "killed")
    whole, killed = contents(tmp_path / "whole"), contents(tmp_path / "killed")
    whole[MANIFEST] = killed[MANIFEST]  # has the duration
    assert killed == whole
    assert len(asked) == len({*asked}) == len(ALL_FIVE)


def test_a_served_model_has_the_figures_of_the_same_model_here(made, long, server, tmp_path):
    metric = bound(made, limit=4, of=ALL_FIVE[:3])
    served = connect(server.url, cache=tmp_path / "answers")
    here, there = (
        metric.measure(EvaluationContext(model, tmp_path / name), None)
        for name, model in (("here", long), ("there", served))
    )
    for row, other in zip(here, there, strict=True):
        assert (row.key, row.value) == (other.key, other.value)
        assert (row.lo, row.hi) == (other.lo, other.hi)
    assert {row.facets["benchmark"] for row in there} == {*ALL_FIVE[:3]}


def test_a_server_that_tells_no_likelihoods_is_refused_in_one_line(
    made, server, tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "without", ("logprobs",))
    mute = connect(server.url, cache=tmp_path)
    with pytest.raises(UserError, match="served without log-probabilities of a prompt"):
        bound(made, of="crows_pairs").measure(EvaluationContext(mute, tmp_path), None)


def test_what_scores_whole_texts_is_refused_with_what_can_be_asked(made, tmp_path):
    model = load_model(tiny_model_dir("t5", tmp_path / "t5"))
    both = METRICS.make("benchmarks", settings(made) | {"of": ["bbq", "stereoset"]})
    with pytest.raises(
        UserError,
        match=r"metric=benchmarks needs likelihoods of texts.*"
        r"metric=\[fairpair,cid\] or metric\.benchmarks\.of=\[bold\]$",
    ):
        Plan(tasks=[a_task()], metrics=[both]).check(model)
