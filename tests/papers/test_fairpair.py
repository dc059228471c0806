"""FairPair's folds, sample sizes, t-test and filters, written from the paper alone."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.weightstats import DescrStatsW
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from countergen_edit.data.fairpair import (
    FILTER_UNITS,
    Filter,
    PairedPrompt,
    characters_of,
    dissimilarity,
    word_set,
)
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.phi import PHIS, in_folds
from tests.data.test_perturbation import paper_prompt, to_jane
from tests.gender import SWAP
from tests.metrics.fairpair_settings import fairpair, row_of
from tests.papers.source import paper

WORDS = ["good", "bad", "nice", "terrible", "dog", "cat", "runs", "sings", "well", "home", "late"]
PROMPT = PairedPrompt("nurse", "John works.", "Jane works.", "John", "Jane")
SCORE = SentimentIntensityAnalyzer().polarity_scores


class Fold:
    """a_1 of the paper's Figure 2: the union of all tokens, and the mean of the sentiment."""

    def __init__(self, texts):
        self.tokens = {token for text in texts for token in text.lower().split()}
        self.score = sum(SCORE(text)["compound"] for text in texts) / len(texts)


def phi(name, u, v):
    if name == "sentiment":
        return abs(u.score - v.score)
    union = u.tokens | v.tokens
    return 1 - len(u.tokens & v.tokens) / len(union) if union else 0.0


def quantities(name, pg, gp):
    """B, V_gp and V_pg as the paper writes them, as double sums over folds."""

    def variability(side):
        pairs = [phi(name, u, v) for u, v in combinations(side, 2)]
        return sum(pairs) / len(pairs)

    bias = sum(phi(name, u, v) for u, v in product(pg, gp)) / (len(pg) * len(gp))
    return {"bias": bias, "v_gp": variability(gp), "v_pg": variability(pg)}


def dealt(texts, k):
    """k folds; which text is in which the paper leaves open: here card by card."""
    return [Fold(texts[i::k]) for i in range(k)]


def drawn(rng, n):
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 6))) for _ in range(n)]


def sampled(pg, gp):
    p_x = tuple(f"{PROMPT.target} {text}" for text in pg)
    return Sampled(PROMPT, tuple(pg), tuple(gp), p_x, (None,) * len(pg))


@pytest.mark.parametrize("name", ["jaccard", "sentiment"])
@pytest.mark.parametrize("k", [2, 3, 7, 20])
def test_b_and_v_between_folds_are_the_papers_sums(name, k):
    rng = np.random.default_rng(k)
    pg, gp = drawn(rng, 20), drawn(rng, 20)
    folds = in_folds(PHIS.make(name), sampled(pg, gp), k)
    for key, value in quantities(name, dealt(pg, k), dealt(gp, k)).items():
        assert getattr(folds, key) == pytest.approx(value, abs=1e-12)


def test_texts_are_unlike_and_folds_grow_alike():
    """Figure 4's shape: with few folds, each has most words of its side, so that B is small."""
    rng = np.random.default_rng(0)
    one = sampled(drawn(rng, 60), drawn(rng, 60))
    b = [in_folds(PHIS.make("jaccard"), one, k).bias for k in (2, 5, 20, 60)]
    assert b == sorted(b)
    assert b[0] < 0.05
    assert b[-1] > 0.6


def test_a_side_of_fewer_texts_than_folds_has_one_in_each():
    rng = np.random.default_rng(1)
    pg, gp = drawn(rng, 3), drawn(rng, 8)
    folds = in_folds(PHIS.make("jaccard"), sampled(pg, gp), 5)
    assert folds.bias == pytest.approx(quantities("jaccard", dealt(pg, 3), dealt(gp, 5))["bias"])
    assert math.isnan(in_folds(PHIS.make("jaccard"), sampled([], gp), 5).bias)


def plain_words(text):
    """The testbed's words without their marks."""
    return " ".join("".join(c if c.isalnum() or c in "'’" else " " for c in text).split())


def folded(texts, k, most=None):
    """Quantities of each prompt's first `most` texts of both sides in k folds."""
    folds = [[dealt(side[:most], k) for side in sides] for sides in texts]
    return pd.DataFrame([quantities("jaccard", *sides) for sides in folds])


def test_the_rows_of_a_run_are_the_papers_sums_over_its_texts(testbed, tmp_path):
    metric = fairpair(n=12, sample_sizes=[2, 5, 12], folds=[2, 4, 12, 13])
    rows = metric.measure(EvaluationContext(testbed, tmp_path), None)
    folder = tmp_path / "fairpair/none"
    texts = []
    for file in sorted({*folder.glob("*.jsonl")} - {*folder.glob("*.perturbed.jsonl")}):
        about, *pairs = map(json.loads, file.read_text("utf-8").splitlines())
        lines = file.with_suffix(".perturbed.jsonl").read_text("utf-8").splitlines()
        perturbed = [json.loads(line) for line in lines]
        assert not any(line["left_out"] for line in perturbed)
        pg = [line["p_x"][len(about["target"]) :] for line in perturbed]
        texts.append([[*map(plain_words, side)] for side in (pg, [p["g_px"] for p in pairs])])
    assert len(texts) == 3
    by_size = {}
    for row in rows:
        facet = row.metric.removeprefix("fairpair_by_")
        if facet in ("samples", "folds") and row.facets["phi"] == "jaccard":
            by_size[facet, row.facets[facet], row.facets["quantity"]] = row
    sizes = {("samples", m) for m in (2, 5, 12)} | {("folds", k) for k in (2, 4, 12)}
    assert {key[:2] for key in by_size} == sizes  # what exceeds n is left out
    for facet, size in sizes:
        values = folded(texts, size, most=size if facet == "samples" else None)
        for letter, quantity in (("B", "bias"), ("V_gp", "v_gp"), ("V_pg", "v_pg")):
            row = by_size[facet, size, letter]
            assert row.value == pytest.approx(values[quantity].mean(), abs=1e-12)
            assert row.n == len(texts)
            assert row.lo is not None
    f = row_of(rows, "fairpair_f", "jaccard")
    values = folded(texts, 12)
    for side in ("v_pg", "v_gp"):
        _, p, _ = DescrStatsW(values.bias - values[side]).ttest_mean()
        assert f.detail[f"t_p_{side}"] == pytest.approx(p)


@dataclass(frozen=True)
class Example:
    original: str
    perturbed: str
    percent: float
    correct: bool

    @property
    def prompt(self):
        return paper_prompt(self.original.split(".")[0].rpartition(" ")[2])

    def reason(self, compared):
        return Filter(SWAP, compared=compared).reason(self.original, self.perturbed, self.prompt)


@pytest.fixture(scope="module")
def table():
    lines = [line.split("\t") for line in paper("fairpair").splitlines()]
    marked = [line for line in lines if len(line) == 4 and line[3] in "✓✗"]
    return [Example(a, b, float(c), d == "✓") for a, b, c, d in marked]


def test_similarity_by_each_unit_is_as_documented(table):
    alike = {
        unit: [round(100 * (1 - dissimilarity(of(e.original), of(e.perturbed))), 1) for e in table]
        for unit, of in (("characters", characters_of), ("words", word_set))
    }
    assert alike["characters"] == [100.0, 96.9, 89.5, 64.0, 58.3]
    assert alike["words"] == [89.9, 88.7, 75.4, 26.3, 9.9]


@pytest.mark.parametrize("compared", FILTER_UNITS)
def test_each_filter_judges_as_the_table_does(table, compared):
    """But characters, which take the third text for the same: what was added has few new ones."""
    judged = [e.reason(compared) for e in table]
    wrong = [r is None for r in judged] != [e.correct for e in table]
    assert wrong == (compared == "characters")
    assert judged[3:] == ["dissimilarity"] * 2
    assert judged[2] == (None if compared == "characters" else "dissimilarity")


def test_the_rules_pass_every_filter_where_texts_are_long(table):
    for e in table:
        right = to_jane(e.original)
        neutral, characters = (
            Filter(SWAP, compared=unit).reason(e.original, right, e.prompt)
            for unit in ("neutral", "characters")
        )
        assert neutral is None
        assert characters is None or len(e.original) < 100


def test_other_people_keep_their_gender(table):
    """The paper's GPT-3.5 changed that of two half way through."""
    for e in table[1:3]:
        prompt, continuation = e.original.split(".", 1)
        assert to_jane(e.original) == to_jane(prompt) + "." + continuation
