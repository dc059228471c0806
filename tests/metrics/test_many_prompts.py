"""Figures of many prompts: the same in portions, and in memory that grows with their number."""

import tracemalloc
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.metrics import statistics
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import effect_rows, r_rows
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import SetScores

PEOPLE = {
    "the same": lambda group, place, prompt: f"{group}{place}",
    "twins": lambda group, place, prompt: f"{place}",
    "drawn anew": lambda group, place, prompt: f"{group}{(7 * place + prompt) % 9}",
    "twins drawn anew": lambda group, place, prompt: f"{(7 * place + prompt) % 9}",
    "nameless": lambda group, place, prompt: None,
    "one each": lambda group, place, prompt: f"{group}{prompt % 9}",
}


def scores_of(kind, prompts, ragged=False):
    """Scores of random size with a group effect; of ragged sets prompts have 2 or 3 people."""
    rng, samples = np.random.default_rng(0), []
    for i in range(prompts):
        count = 1 if kind == "one each" else 2 + (ragged and i % 2)
        variations = tuple(
            Variation(group, f"{i} {group} {k}", PEOPLE[kind](group, k, i))
            for group, k in product("ab", range(count))
        )
        samples.append(Sample(f"t{i}", (" x", " y")[: 1 + i % 2], variations))
    data = CounterfactualSet("many", "axis", ("a", "b"), tuple(samples))
    people = [len(s.variations) // 2 for s in samples for _ in s.outputs]
    sizes = rng.normal(0.6, 0.5, len(people))
    effects = np.concatenate([np.repeat([k, -k], n) for k, n in zip(sizes, people, strict=True)])
    return SetScores.of(data, effects + rng.normal(-5, 0.5, len(effects)))


def rows_of(scores, together=False):
    return [*r_rows(scores, 3), *effect_rows([GroupEffect(scores, 3, together)])]


@pytest.mark.parametrize("kind", PEOPLE)
def test_the_size_of_portions_changes_no_figure(kind, monkeypatch):
    for scores, together in (
        (scores_of(kind, 20), False),
        (scores_of(kind, 21, ragged=True), False),
        (scores_of(kind, 12), True),
    ):
        whole = rows_of(scores, together)
        with monkeypatch.context() as patch:
            patch.setattr(statistics, "BLOCK_CELLS", 300)
            for row, again in zip(whole, rows_of(scores, together), strict=True):
                figures, expected = (
                    np.array([r.value, r.lo, r.hi, r.detail.get("p")], float) for r in (again, row)
                )
                assert_allclose(figures, expected, rtol=1e-9, err_msg=row.metric)


@pytest.mark.parametrize("kind", ["one each", "drawn anew", "nameless"])
def test_memory_grows_with_the_prompts_and_not_with_their_square(kind):
    peaks = []
    for prompts in (80, 320):
        scores = scores_of(kind, prompts)
        tracemalloc.start()
        rows_of(scores)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]  # a square would be 16


def test_what_people_of_a_prompt_add_is_theirs_alone():
    """Against one table of all people and items, with NaN where a person is not asked."""
    scores = scores_of("drawn anew", 9, ragged=True)
    people = GroupEffect(scores).people
    wide = []
    for block, row in zip(*people.places, strict=True):
        items = people.blocks[block][1]
        wide.append(np.full(people.log_p.shape[1], np.nan))
        wide[-1][items] = people.log_p[row, items]
    table, side = np.array(wide), people.side[people.places[1]]
    means = [np.nanmean(table[side == s], axis=0) for s in (0, 1)]
    assert_allclose(people.difference, means[0] - means[1])
    noise = sum(
        np.nanvar(table[side == s], axis=0, ddof=1) / (~np.isnan(table[side == s])).sum(0)
        for s in (0, 1)
    )
    assert_allclose((people.residuals**2).sum(axis=0), noise)
    shares = np.nan_to_num(np.where(side[:, None] == 0, 1, -1) * table / people.counts[side])
    pairs = np.array([shares[people.pair == p].sum(axis=0) for p in range(people.pair.max() + 1)])
    assert_allclose(people.differences_of_pairs().toarray(), pairs)


def test_a_set_that_takes_more_than_half_of_the_memory_is_announced(
    model, tmp_path, monkeypatch, capsys
):
    data = scores_of("one each", 3).data
    warning = "Scoring many takes 4.5e-05 of 9.5e-07 GiB of memory"
    for free, message in ((2**40, ""), (2**10, warning)):
        memory = SimpleNamespace(available=free)
        monkeypatch.setattr("psutil.virtual_memory", lambda memory=memory: memory)
        EvaluationContext(model, tmp_path).scores(data, None)
        captured = capsys.readouterr()
        assert captured.err.startswith(message)
        assert captured.err.count("\n") == bool(message)
        assert captured.out == ""
