"""Two runs are paired on the prompts that they share, and only on those."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

from countergen_edit import api
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.benchmarks import BENCHMARK_STORE as KEPT
from countergen_edit.metrics.r.formula import mean_r, r_values
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scored_texts import read, scores_of, write_scored_texts
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import DETECTABLE, adjusted
from countergen_edit.runs.compare import paired, paired_figures
from countergen_edit.runs.folder import RunFolder
from tests.reports.runs import LABELS, LEACE, columns, make_run
from tests.runs.runs import IDENTITY

NAMES = {"female": ("Jane", "Anna", "Laura"), "male": ("John", "Paul", "Peter")}
OUTPUTS = (" kind", " brave")
TEMPLATES = ("{name} is", "At work {name} is", "They say {name} is", "{name} was")


def make_scores(seed=0, templates=TEMPLATES):
    people = [(group, name) for group, names in NAMES.items() for name in names]
    samples = tuple(
        Sample(t, OUTPUTS, tuple(Variation(g, t.format(name=n), n) for g, n in people))
        for t in templates
    )
    data = CounterfactualSet("jobs_test", "gender", ("female", "male"), samples)
    log_p = generator(seed, "compare").normal(-5, 1, size=(2 * len(templates), 2, 3))
    present = np.ones(log_p.shape, dtype=bool)
    template = np.repeat(np.arange(len(templates)), 2)
    return SetScores(data, log_p, present, template, OUTPUTS * len(templates))


def run_of(folder, **edits):
    """A run that scored sets under edits, called `eraser_layer`, and kept both."""
    run = RunFolder(folder, {}, IDENTITY)
    for name, scores in edits.items():
        edit = "none"
        if name != "none":
            eraser, _, layer = name.partition("_")
            erasure = AffineErasure(np.eye(4)[:, :1], np.eye(4)[:1], np.zeros(4))
            made = Edit.at("resid_post", {int(layer): erasure})
            named = NamedEdit.of(made, eraser, basis=[name], baseline=eraser == "random")
            run.keep(named)
            edit = named.id
        path = folder / STORE / "gender" / "r" / f"{edit}.jsonl"
        write_scored_texts(path, edit, [GroupEffect(scores)])
    run.record("unit", [])
    return folder


def test_scores_come_back_from_their_texts_digit_for_digit(tmp_path):
    scores = make_scores()
    write_scored_texts(tmp_path / "none.jsonl", "none", [GroupEffect(scores)])
    back = scores_of(read(tmp_path / "none.jsonl"))
    assert np.array_equal(back.log_p, scores.log_p)
    assert back.output == scores.output
    assert mean_r(back, seed=0) == mean_r(scores, seed=0)


def test_a_run_differs_from_itself_by_nothing(tmp_path):
    run = run_of(tmp_path / "one", none=make_scores())
    for row in paired({"a": run, "b": run}, seed=0):
        assert (row.value, row.lo, row.hi) == (0.0, 0.0, 0.0)


def test_a_difference_is_that_of_the_two_means_over_shared_prompts(tmp_path):
    """By hand: mean |R| over the two templates that both runs have."""
    one, two = make_scores(1, TEMPLATES[:3]), make_scores(2, TEMPLATES[1:])
    runs = {"a": run_of(tmp_path / "a", none=one), "b": run_of(tmp_path / "b", none=two)}
    effect, row = paired(runs, seed=0)
    assert [effect.metric, row.metric] == ["group_effect_difference", "mean_abs_r_difference"]
    expected = np.abs(r_values(two)[:4]).mean() - np.abs(r_values(one)[2:]).mean()
    assert row.value == pytest.approx(expected)
    assert row.detail["samples"] == 2
    assert row.detail["samples_of_either"] == 4


def test_pairing_narrows_the_interval_of_what_moves_together(tmp_path):
    """Scores that differ little differ surely, however widely both are spread."""
    one = make_scores()
    shift = np.zeros_like(one.log_p)
    shift[:, 0] = 0.05
    two = replace(one, log_p=one.log_p + shift)
    runs = {"a": run_of(tmp_path / "a", none=one), "b": run_of(tmp_path / "b", none=two)}
    _, row = paired(runs, seed=0)
    _, absolute = mean_r(one, seed=0)
    assert row.hi - row.lo < (absolute.hi - absolute.lo) / 3


def test_edits_are_paired_by_recipe_then_by_eraser_then_alone(tmp_path):
    def edits(*pairs):
        runs = {}
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        for run, names in zip("ab", zip(*pairs, strict=True), strict=True):
            runs[run] = run_of(place / run, **{name: make_scores() for name in names if name})
        return {(row.detail["against_edit"], row.detail["edit"]) for row in paired(runs, seed=0)}

    two, three = (f"leace-1@resid_post.{layer}" for layer in (2, 3))
    unlike = edits(("none", "none"), ("leace_2", "leace_2"), ("rlace_2", ""))
    assert unlike == {("none", "none"), (two, two)}
    assert edits(("leace_2", "leace_3")) == {(two, three)}
    assert edits(("leace_2", "rlace_3")) == {(two, "rlace-1@resid_post.3")}
    assert edits(("random_2", "random_2")) == set()


N = 60
RNG = np.random.default_rng(0)
PRO = {name: (RNG.random(N) < share).astype(float) for name, share in (("a", 0.7), ("b", 0.5))}
RELATED = {name: RNG.integers(0, 3, N) / 2 for name in "ab"}
PAIRS, SENTENCES = "crows_pairs", "stereoset"


def kept(
    run,
    pro,
    edit="none",
    places=range(N),
    name=PAIRS,
    size=1,
    **more,
):
    """The run with items of which so many were preferred, as many in a cluster."""
    about = {"part": "", "bias_type": "gender", "group": "", "benchmark": name, "items": 1.0}
    columns = {"pro": pro, **more}
    lines = [
        {"id": str(i), "digest": f"t{i}", "cluster": f"c{i // size}", **about}
        | {key: float(values[k]) for key, values in columns.items()}
        for k, i in enumerate(places)
    ]
    write_json_lines(run / "store" / "gender" / KEPT / edit / f"{name}.counted.jsonl", lines)
    return run


def a_run(tmp_path, name, edit=""):
    about = columns(edit, 2) if edit else {}
    rows = [Row("perplexity", 9.0, dataset="neutral", split="test", **about)]
    return make_run(tmp_path / name, rows, outputs=1)


def differences(*runs):
    return paired_figures({run.name: run for run in runs}, seed=0)


def test_single_items_give_what_a_paired_t_test_does(tmp_path):
    """Clusters of one item each: 1,000 draws know a standard error to about 2 %."""
    one, two = (kept(a_run(tmp_path, name), PRO[name]) for name in "ab")
    [row] = differences(one, two)
    before, after = PRO["a"], PRO["b"]
    d = after - before
    assert row.value == pytest.approx(d.mean())
    assert (row.detail["before"], row.detail["after"]) == (before.mean(), after.mean())
    assert row.n == row.detail["samples"] == row.detail["samples_of_either"] == N
    error = d.std(ddof=1) / np.sqrt(N)
    assert row.detail["smallest"] == pytest.approx(DETECTABLE * error, rel=0.08)
    test = ttest_rel(after, before)
    ends = test.confidence_interval()
    assert [row.lo, row.hi] == pytest.approx([ends.low, ends.high], abs=0.02)
    assert np.log(row.detail["p"]) == pytest.approx(np.log(test.pvalue), rel=0.2)
    assert row.detail["p_adjusted"] == row.detail["p"]


def test_figures_that_are_no_means_are_drawn_as_within_a_run(tmp_path):
    """ICAT by hand: of targets' means, lms · min(ss, 1 - ss) / 0.5, on the targets of both."""
    none = dict.fromkeys(("swapped", "pro_averaged"), np.zeros(N))
    runs = [
        kept(a_run(tmp_path, n), PRO[n], name=SENTENCES, size=5, related=RELATED[n], **none)
        for n in "ab"
    ]
    rows = {row.facets["figure"]: row for row in differences(*runs)}
    assert rows.keys() == {"ss", "lms", "icat"}

    def icat(name):
        ss, lms = (np.mean(v.reshape(-1, 5).mean(axis=1)) for v in (PRO[name], RELATED[name]))
        return float(lms * min(ss, 1 - ss) / 0.5)

    assert rows["icat"].value == pytest.approx(icat("b") - icat("a"))
    assert rows["icat"].detail["clusters"] == N // 5
    p, p_adjusted = ([r.detail[key] for r in rows.values()] for key in ("p", "p_adjusted"))
    assert p_adjusted == pytest.approx(adjusted(p).tolist())


def test_items_that_one_run_lacks_are_left_out_and_said(tmp_path):
    one = kept(a_run(tmp_path, "a"), PRO["a"])
    two = kept(a_run(tmp_path, "b"), PRO["b"][10:], places=range(10, N))
    [row] = differences(one, two)
    assert row.value == pytest.approx((PRO["b"] - PRO["a"])[10:].mean())
    table = api.compare(one, two).tables["paired_figures"]
    [line] = table.rows
    assert line[:3] == ("b − a", "CrowS-Pairs (gender)", "score")
    assert line[3].text == f"{100 * PRO['a'][10:].mean():.1f} %"
    assert line[-1] == "50 of 60"
    assert "Items of one side only: CrowS-Pairs (gender) 10." in table.note


def test_edits_of_one_eraser_are_paired_and_a_checkpoint_with_its_model(tmp_path):
    one = kept(kept(a_run(tmp_path, "a", "leace"), PRO["a"]), PRO["b"], LEACE["edit"])
    same = kept(kept(a_run(tmp_path, "b", "leace"), PRO["b"]), PRO["b"], LEACE["edit"])
    rows = differences(one, same)
    assert [row.edit for row in rows] == [LEACE["edit"], "none"]
    assert rows[0].value == 0.0
    assert rows[0].detail["p"] == 1.0
    alone = kept(a_run(tmp_path, "c"), PRO["b"])
    pairs = [(row.detail["against_edit"], row.detail["edit"]) for row in differences(one, alone)]
    assert pairs == [(LABELS["leace"], "none"), ("none", "none")]  # the selected edit comes first
