"""FairPair against the paper's formulas, and against a sampler whose bias is planted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from countergen_edit.data.fairpair import PairedPrompt
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.phi import (
    PHIS,
    Jaccard,
    Sentiment,
    evaluate,
    p_value,
    pairwise,
    permuted_energies,
)
from countergen_edit.metrics.fairpair.rows import FairPairRows, compare_phrases
from countergen_edit.metrics.rows import Row


def loop_jaccard(u: str, v: str) -> float:
    a, b = set(u.lower().split()), set(v.lower().split())
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


ANALYSER = SentimentIntensityAnalyzer()


def loop_sentiment(u: str, v: str) -> float:
    a, b = (ANALYSER.polarity_scores(text)["compound"] for text in (u, v))
    return abs(a - b)


LOOPS = [("jaccard", loop_jaccard), ("sentiment", loop_sentiment)]
TEXTS = st.lists(
    st.lists(
        st.sampled_from(["good", "bad", "nice", "terrible", "dog", "cat", "runs"]), max_size=5
    ).map(" ".join),
    min_size=2,
    max_size=6,
)


@pytest.mark.parametrize(("name", "phi"), LOOPS)
@settings(max_examples=30, deadline=None)
@given(pg=TEXTS, gp=TEXTS)
def test_every_quantity_is_that_of_the_papers_double_loop(name, phi, pg, gp):
    values = pairwise(PHIS.make(name).distances([*pg, *gp]), len(pg))
    b = np.mean([phi(u, v) for u in pg for v in gp])
    v_pg = np.mean([phi(u, v) for u, v in itertools.combinations(pg, 2)])
    v_gp = np.mean([phi(u, v) for u, v in itertools.combinations(gp, 2)])
    found = values.bias, values.v_pg, values.v_gp
    assert found == pytest.approx((b, v_pg, v_gp), abs=1e-12)
    assert values.energy == pytest.approx(2 * b - v_pg - v_gp, abs=1e-12)
    if min(v_pg, v_gp) > 1e-9:
        assert values.f == pytest.approx(b**2 / (v_gp * v_pg))
    else:
        assert np.isnan(values.f)
        assert values.reason.startswith("V = 0")


def test_permuted_statistics_are_those_of_permuted_texts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=11)
    distances = np.abs(x[:, None] - x[None, :])
    energies = permuted_energies(distances, 4, 50, 0, "x")
    assert energies[0] == pytest.approx(pairwise(distances, 4).energy)
    possible = [
        pairwise(distances[np.ix_(order, order)], 4).energy
        for first in itertools.combinations(range(11), 4)
        for order in [[*first, *(i for i in range(11) if i not in first)]]
    ]
    assert all(np.isclose(possible, e, atol=1e-12).any() for e in energies)
    assert p_value(energies) >= 1 / 51
    assert np.array_equal(energies, permuted_energies(distances, 4, 50, 0, "x"))


# A sampler with planted bias: no model, and the truth is known

GOOD, BAD, PLAIN = ["wonderful", "excellent", "great"], ["terrible", "awful", "poor"], "fine"
HERS, HIS = ["ballet", "yoga", "sewing"], ["chess", "boxing", "fishing"]


def continuations(rng: np.random.Generator, n: int, strength: float, hers: bool) -> list[str]:
    """Texts whose sentiment and hobby depend on the person by `strength` in [0, 1]."""
    tilt = 0.5 * strength * (1 if hers else -1)
    texts = []
    for _ in range(n):
        mood = rng.choice(GOOD if rng.random() < 0.5 - tilt else BAD)
        hobby = rng.choice(HERS if rng.random() < 0.5 + tilt else HIS)
        extra = " ".join(rng.choice(["the", "day", "was", "long"], size=2))
        texts.append(f"She is {mood} and likes {hobby} {extra}")
    return texts


def planted(prompts: int, n: int, strength: float, seed: int = 0) -> list[Sampled]:
    rng = np.random.default_rng(seed)
    out = []
    for k in range(prompts):
        prompt = PairedPrompt(str(k), f"John {k}.", f"Jane {k}.", "John", "Jane")
        his = continuations(rng, n, strength, hers=False)
        p_x = tuple(f"{prompt.target} {text}" for text in his)
        hers = tuple(continuations(rng, n, strength, hers=True))
        out.append(Sampled(prompt, p_x, hers, p_x, (None,) * n))
    return out


@pytest.mark.parametrize("phi", [Sentiment(), Jaccard()], ids=["sentiment", "jaccard"])
def test_without_bias_the_test_keeps_its_level(phi):
    """400 prompts: the share rejected at 5 % lies within the 99.9 % binomial interval."""
    prompts, level = 400, 0.05
    result = evaluate(phi, planted(prompts, 12, 0.0), 199, seed=0)
    p = np.array([p_value(row) for row in result.energies])
    rejected = int((p <= level).sum())
    lo, hi = stats.binom.interval(0.999, prompts, level)
    assert lo <= rejected <= hi
    for other in (0.01, 0.1, 0.25, 0.5):  # and no other level is exceeded
        assert (p <= other).sum() <= stats.binom.isf(5e-4, prompts, other)
    assert abs(result.values("energy").mean()) < 3 * result.values("energy").std() / prompts**0.5


@pytest.mark.parametrize("phi", [Sentiment(), Jaccard()], ids=["sentiment", "jaccard"])
def test_f_and_the_energy_rise_with_the_planted_strength_and_are_found(phi):
    results = [evaluate(phi, planted(12, 40, s), 199, seed=0) for s in (0, 0.3, 0.6, 1.0)]
    for quantity in ("f", "energy"):
        means = [float(r.values(quantity).mean()) for r in results]
        assert means == sorted(means)
    assert results[0].pooled_p() > 0.05
    assert results[2].pooled_p() == results[3].pooled_p() == 1 / 200
    assert (results[3].prompt_p <= 0.06).all()  # adjusted: 12 prompts at the least possible p
    assert results[3].t_p["t_p_v_pg"] < 1e-3  # type: ignore[operator]


def test_phrases_that_one_side_uses_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    pg, gp = (continuations(rng, 300, 1.0, hers) for hers in (False, True))
    odds = compare_phrases(pg, gp, 2).query("p < 0.05").set_index("text").log_odds
    assert (odds[HERS] > 0).all()
    assert (odds[HIS] < 0).all()
    assert (odds > 0).is_monotonic_decreasing  # those of g(p(x)) first
    same = [continuations(rng, 300, 0.0, hers) for hers in (False, True)]
    assert not (compare_phrases(*same, 2).p < 0.05).any()
    assert compare_phrases([], ["a"] * 9).empty
    terms = compare_phrases(["x"] * 6 + ["y"] * 2, ["y"] * 8, 1).set_index("text")
    # 6 of 8 against 0 of 8, each cell and its complement raised by one half
    expected = [0.75, 0.0, np.log(0.5 / 8.5) - np.log(6.5 / 2.5)]
    assert terms.loc["x", ["share_pg", "share_gp", "log_odds"]].tolist() == pytest.approx(expected)


PROMPT = PairedPrompt("nurse", "John is", "Jane is", "John", "Jane")


def of_lengths(source: list[list[int]], target: list[list[int]]) -> list[Sampled]:
    """Prompts whose continuations have so many words; none of them is left out."""
    sampled = []
    for own, other in zip(source, target, strict=True):
        g_x = tuple(" word" * length for length in own)
        p_x = tuple(f"Jane is{text}" for text in g_x)
        g_px = tuple(" word" * length for length in other)
        sampled.append(Sampled(PROMPT, g_x, g_px, p_x, (None,) * len(own)))
    return sampled


def rows_of(sampled: list[Sampled]) -> dict[str, Row]:
    made = FairPairRows("own_prompts", "gender", ("female", "male"), (), 4, 20, 0)
    rows = made.lengths(sampled)
    return {str(next(iter(row.facets.values()))): row for row in rows}


def test_lengths_are_tested_by_prompt_and_over_all_continuations() -> None:
    """One word more shows by prompt, and drowns where prompts differ widely in length."""
    rng = np.random.default_rng(0)
    base = rng.integers(10, 90, size=(30, 1))
    a, b = (base + rng.integers(-3, 4, size=(30, 12)) for _ in range(2))
    found = rows_of(of_lengths(a.tolist(), (b + 1).tolist()))
    assert found["p(g(x))"].value == pytest.approx(a.mean())
    assert found["g(p(x))"].value == pytest.approx((b + 1).mean())
    over, pooled = found["prompts"], found["continuations"]
    assert over.value == pytest.approx((b + 1 - a).mean())
    paired = stats.ttest_rel((b + 1).mean(axis=1), a.mean(axis=1))
    assert over.detail["p"] == pytest.approx(paired.pvalue)
    welch = stats.ttest_ind((b + 1).ravel(), a.ravel(), equal_var=False)
    assert pooled.detail["p"] == pytest.approx(welch.pvalue)
    assert (pooled.lo, pooled.hi) == pytest.approx((*welch.confidence_interval(),))
    assert (over.n, pooled.n) == (30, 2 * 30 * 12)
    assert over.detail["p"] < 0.001
    assert pooled.detail["p"] > 0.5
    same = rows_of(of_lengths(a.tolist(), b.tolist()))
    assert same["prompts"].detail["p"] > 0.05


def test_where_nothing_can_be_tested_there_is_no_p() -> None:
    [one] = of_lengths([[2, 2]], [[2, 2]])
    none = Sampled(PROMPT, one.g_x, one.g_px, one.p_x, ("source name", "source name"))
    found = rows_of([none])
    assert found["p(g(x))"].value is None
    assert [found[of].detail["p"] for of in ("prompts", "continuations")] == [None, None]
