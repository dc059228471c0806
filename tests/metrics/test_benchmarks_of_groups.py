"""Benchmarks of sampled texts and of pairs; killed runs and served models have the same figures.

BOLD counts what its authors count, of texts that are written once, beside those of people.
HolisticBias: random pairs of descriptors, and the share whose perplexities differ.
"""

import json
from collections import defaultdict
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats
from scipy.stats import mannwhitneyu
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from countergen_edit.core.errors import UserError
from countergen_edit.data.benchmarks import BenchmarkItem, benchmark_named
from countergen_edit.metrics import benchmarks as writing
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.benchmarks import counts_of, figures_of_counts
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import joined
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models import generate, load_model
from countergen_edit.models.served import connect
from countergen_edit.runs.files import MANIFEST
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.plan import Plan
from countergen_edit.runs.runner import run as run_plan
from tests.made_benchmarks import BOLD, DESCRIPTORS, items_of, long_context_dir, settings
from tests.metrics.test_benchmarks import bound, by_facets, task
from tests.models.completions_server import serving
from tests.runs.runs import IDENTITY, KilledError
from tests.tiny_models import tiny_model_dir

SHORT = {"bold": {"max_new_tokens": 6, "batch_size": 4}}
DOMAINS = ["gender", "religious_ideology"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(tiny_model_dir("llama", tmp_path_factory.mktemp("llama")), device="cpu")


def asked(made, **more):
    return bound(made, **{"of": "bold", "bias_types": DOMAINS, "settings": SHORT} | more)


@pytest.fixture(scope="module")
def measured(made, model, tmp_path_factory):
    context = EvaluationContext(model, tmp_path_factory.mktemp("run"))
    return asked(made).measure(context, None)


def test_figures_are_shares_of_texts_that_vader_judges_beside_those_of_people(
    made, model, measured
):
    """From the files: every prompt continued, the whole text judged at 0.5 of the compound."""
    compound = SentimentIntensityAnalyzer().polarity_scores
    rows = by_facets(measured)
    _, read = asked(made).read["bold"]
    files = [made / f"BOLD/data/prompts/{domain}_prompt.json" for domain in DOMAINS]
    groups_of = [group for f in files for group in json.loads(f.read_text("utf-8")).values()]
    every = [prompt for group in groups_of for page in group.values() for prompt in page]
    assert len(read) == sum(bool(prompt.strip()) for prompt in every)
    prompts = [item.entry["prompt"] for item in read]
    texts = generate(model, prompts, max_new_tokens=6, do_sample=True, top_p=0.9, seed=0)
    scores = defaultdict(list)
    human = defaultdict(list)
    pages = defaultdict(set)
    for item, text in zip(read, texts, strict=True):
        scores[item.group].append(compound(joined(item.entry["prompt"], text))["compound"])
        human[item.group].append(compound(item.entry["sentence"])["compound"])
        pages[item.group].add(item.cluster)
    signs = {"positive": 1, "negative": -1}
    found = 0
    for (of, sign), (domain, groups) in product(signs.items(), BOLD.items()):
        share = {g: np.mean([sign * s >= 0.5 for s in scores[g]]) for g in groups}
        for a in groups:
            row = rows["bold", f"{of}_{a}", None, domain]
            assert row.value == pytest.approx(share[a])
            assert (row.n, row.detail["clusters"]) == (len(scores[a]), len(pages[a]))
            people = row.detail["people"]
            assert people["value"] == pytest.approx(np.mean([sign * s >= 0.5 for s in human[a]]))
        for a, b in combinations(groups, 2):
            apart = rows["bold", f"{of}_{a}_{b}", None, domain]
            assert apart.value == pytest.approx(share[a] - share[b])
            assert apart.n == len(scores[a]) + len(scores[b])
        found += len(groups) + len([*combinations(groups, 2)])
    assert found == len(rows)


def test_p_of_differences_are_holm_s_within_a_domain(measured):
    tested = defaultdict(list)
    for row in measured:
        if "p" in row.detail:
            assert row.detail["fair"] == 0.0
            tested[row.facets["bias_type"]].append(row.detail)
    assert {d: len(own) for d, own in tested.items()} == {"gender": 2, "religious_ideology": 6}
    for own in tested.values():
        assert [d["p_adjusted"] for d in own] == adjusted([d["p"] for d in own]).tolist()


def judged(a, b):
    """The difference of two groups of which so many texts, a page each, are positive or not."""
    bold = benchmark_named("bold")
    groups = bold.groups["gender"]
    items = [
        BenchmarkItem(f"{group}{page}", "", "gender", f"{group}{page}", (), group=group)
        for group, of_group in zip(groups, (a, b), strict=True)
        for page in range(len(of_group))
    ]
    found = figures_of_counts(bold, counts_of(bold, items, [[float(x)] for x in (*a, *b)]), 0)
    return next(one for one in found if one.kind.name == "positive_" + "_".join(groups))


def test_the_interval_of_a_difference_is_welch_s_where_pages_are_texts():
    rng = np.random.default_rng(2)
    a, b = (rng.random(60) < 0.7).astype(int), (rng.random(25) < 0.3).astype(int)
    own = judged(a.tolist(), b.tolist())
    welch = stats.ttest_ind(a, b, equal_var=False)
    interval = welch.confidence_interval()
    assert own.estimate.value == pytest.approx(a.mean() - b.mean())
    assert (own.estimate.lo, own.estimate.hi) == pytest.approx(tuple(interval), abs=0.03)
    assert own.clusters == 85
    _, p = own.less(0.0)
    assert p is not None
    assert 0.5 * welch.pvalue < p < 3 * welch.pvalue  # by fewer degrees of freedom


def test_a_model_that_only_writes_is_asked_too(made, tmp_path):
    model = load_model(tiny_model_dir("t5", tmp_path / "t5"), device="cpu")
    metric = asked(made, bias_types=["gender"])
    assert metric.is_generating
    metric.check(model)
    rows = by_facets(metric.measure(EvaluationContext(model, tmp_path), None))
    assert all(row.value is not None for row in rows.values())
    assert not asked(made, of=["bold", "crows_pairs"]).is_generating


def test_texts_are_written_once(made, model, tmp_path, monkeypatch):
    metric = asked(made, settings={"bold": {"n": 2, "max_new_tokens": 5, "batch_size": 3}})
    rows = metric.measure(EvaluationContext(model, tmp_path), None)
    assert {row.n for row in rows if row.metric == "benchmark"} != {0}
    monkeypatch.setattr(writing, "generate", None)
    assert metric.measure(EvaluationContext(model, tmp_path), None) == rows
    with pytest.raises(TypeError):  # other texts
        metric.measure(EvaluationContext(model, tmp_path, seed=1), None)


def test_a_limit_is_of_each_group(made):
    kept = asked(made, limit=3).items("bold", 0)
    groups = [item.group for item in kept]
    assert {g: groups.count(g) for g in groups} == dict.fromkeys(
        [g for d in DOMAINS for g in BOLD[d]], 3
    )


def test_settings_that_are_none_are_refused(made):
    with pytest.raises(UserError, match=r"bold.n=0: Input should be greater than 0"):
        asked(made, settings={"bold": {"n": 0}})
    with pytest.raises(UserError, match="unknown setting of benchmark bold 'max_tokens'"):
        asked(made, settings={"bold": {"max_tokens": 3}})


def test_a_prompt_without_room_after_it_is_refused(made, model):
    asked(made).check(model)
    with pytest.raises(UserError, match=r"bold.max_new_tokens=60: .* has room for \d+ after"):
        asked(made, settings={"bold": {"max_new_tokens": 60}}).check(model)


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
    benchmark = benchmark_named("holistic_bias")
    rng = np.random.default_rng(0)
    items = [benchmark.items.of({"axis": "age", "a": f"a{i}", "b": f"b{i}"}) for i in range(40)]
    scores = rng.normal(size=(40, 24)) + np.repeat([1.5, 0, 0, 0], 6)
    [figure] = figures_of_counts(benchmark, counts_of(benchmark, items, scores.tolist()), 0)
    p = [mannwhitneyu(s[i : i + 6], s[i + 6 : i + 12]).pvalue for s in scores for i in (0, 12)]
    expected = np.mean(np.array(p) < 0.05)
    assert 0.2 < expected < 0.6
    assert figure.estimate.value == pytest.approx(expected)
    assert figure.estimate.lo < expected < figure.estimate.hi


def test_it_is_measured_on_a_local_file_with_a_row_for_each_axis(descriptors, tmp_path):
    model = load_model(tiny_model_dir("llama", tmp_path / "model"), device="cpu")
    metric = bound(descriptors, of="holistic_bias", bias_types="all")
    rows = by_facets(metric.measure(EvaluationContext(model, tmp_path / "run"), None))
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


def files_of(path):
    """Every file but the manifest, which has the duration."""
    files = [f for f in path.rglob("*") if f.is_file() and f.name != MANIFEST]
    return {str(f.relative_to(path)): f.read_bytes() for f in files}


def test_a_killed_run_goes_on_to_the_bytes_of_one_that_was_not(made, long, tmp_path, monkeypatch):
    """Killed after two benchmarks; those are not scored a second time."""
    metrics = [METRICS.make("benchmarks", settings(made) | {"limit": 6})]
    plan = Plan(tasks=[task()], metrics=metrics)
    texts, asked, most = EvaluationContext.texts, list[str](), 2

    def dying(context, pairs, edit, progress, *more):
        if len(asked) == most:
            raise KilledError
        asked.append(progress)
        return texts(context, pairs, edit, progress, *more)

    def run(path):
        with RunFolder(path, {}, IDENTITY) as folder:
            run_plan(plan, long, folder)
        return files_of(path)

    whole = run(tmp_path / "whole")
    monkeypatch.setattr(EvaluationContext, "texts", dying)
    with pytest.raises(KilledError):
        run(tmp_path / "killed")
    most = 99
    assert run(tmp_path / "killed") == whole
    assert len(asked) == len({*asked}) == len(ALL_FIVE)


def test_a_served_model_has_the_figures_of_the_same_model_here(made, long, server, tmp_path):
    metric = bound(made, limit=4, of=ALL_FIVE[:3])
    there = connect(server.url, cache=tmp_path / "answers")
    rows = {}
    for name, one in (("here", long), ("there", there)):
        rows[name] = metric.measure(EvaluationContext(one, tmp_path / name), None)
    told = [[(row.key, row.value, row.lo, row.hi) for row in own] for own in rows.values()]
    assert told[0] == told[1]
    assert {row.facets["benchmark"] for row in rows["there"]} == {*ALL_FIVE[:3]}


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
        Plan(tasks=[task()], metrics=[both]).check(model)
