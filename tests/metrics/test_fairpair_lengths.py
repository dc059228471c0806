"""Lengths of the two sides' continuations: against SciPy, and against a planted difference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from countergen_edit.data.fairpair import PairedPrompt
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.lengths import length_rows
from countergen_edit.metrics.fairpair.rows import FairPairRows
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from tests.metrics.fairpair_settings import TASK
from tests.metrics.test_fairpair_show import briefly, table, texts
from tests.metrics.test_fairpair_show import rows as fairpair_rows

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
    n = len(sampled[0].g_x)
    make = FairPairRows(TASK, 0, "common_sents", ("male", "female"), (), n, 10, (), ())
    return {
        next(iter(row.facets.values()), ""): row  # type: ignore[misc]
        for row in length_rows(make, sampled)
    }


def drawn(shift: float) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts that differ widely in length, twelve continuations of each side."""
    rng = np.random.default_rng(0)
    base = rng.integers(10, 90, size=(30, 1))
    sides = [base + rng.integers(-3, 4, size=(30, 12)) for _ in range(2)]
    return sides[0].tolist(), (sides[1] + int(shift)).tolist()


def test_means_differences_and_p_are_scipys() -> None:
    source, target = drawn(1)
    found = rows_of(of_lengths(source, target))
    a, b = np.array(source), np.array(target)
    assert found["p(g(x))"].value == pytest.approx(a.mean())
    assert found["g(p(x))"].value == pytest.approx(b.mean())
    over = found["prompts"]
    assert over.value == pytest.approx((b - a).mean())
    paired = ttest_rel(b.mean(axis=1), a.mean(axis=1))
    assert over.detail["p"] == pytest.approx(paired.pvalue)
    welch = ttest_ind(b.ravel(), a.ravel(), equal_var=False)
    pooled = found["continuations"]
    assert pooled.detail["p"] == pytest.approx(welch.pvalue)
    ends = welch.confidence_interval()
    assert (pooled.lo, pooled.hi) == pytest.approx((ends.low, ends.high))
    assert (over.n, pooled.n) == (30, 2 * 30 * 12)


def test_a_difference_of_one_word_shows_by_prompt_and_drowns_in_all_continuations() -> None:
    """Prompts differ by tens of words, which pairing takes away: why the paired test is advised."""
    found = rows_of(of_lengths(*drawn(1)))
    assert found["prompts"].detail["p"] < 0.001
    assert found["continuations"].detail["p"] > 0.5
    assert rows_of(of_lengths(*drawn(0)))["prompts"].detail["p"] > 0.05


def test_perturbations_that_were_left_out_do_not_count() -> None:
    [kept] = of_lengths([[3, 50]], [[3, 3]])
    some = Sampled(PROMPT, kept.g_x, kept.g_px, kept.p_x, (None, "source name"))
    found = rows_of([some, *of_lengths([[3, 3]], [[3, 3]])])
    assert found["p(g(x))"].value == 3
    assert found["prompts"].value == 0


def test_where_nothing_can_be_tested_there_is_no_p() -> None:
    [one] = of_lengths([[2, 2]], [[2, 2]])
    none = Sampled(PROMPT, one.g_x, one.g_px, one.p_x, ("source name", "source name"))
    found = rows_of([none])
    assert found["p(g(x))"].value is None
    assert found["prompts"].detail["p"] is None
    assert found["continuations"].detail["p"] is None


def test_the_report_shows_both_tests_and_says_what_the_better_one_finds() -> None:
    rows = [
        Row(**{**row.to_dict(), "split": "test", "layers": ()})
        for row in rows_of(of_lengths(*drawn(1))).values()
    ]
    of = Results([*fairpair_rows("none", 1.1), *rows])
    [line] = texts(table(of, "fairpair_lengths"))
    assert line[0] == "unedited"
    assert line[4] == "< 0.0001"
    assert float(line[6]) > 0.5
    assert any(s.startswith("The two sides' length differs by +0.9") for s in briefly(of))
    without = Results(fairpair_rows("none", 1.1))
    assert "fairpair_lengths" not in {
        t.name for s in FairPair.sections(without) for t in s.tables()
    }
