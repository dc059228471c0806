"""The sampler draws from the nucleus, exactly, and each row from its own numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from countergen_edit.models.sampling import RowSampler, gumbel


def nucleus(logits: np.ndarray, top_p: float) -> np.ndarray:
    """Probabilities of the smallest set of likeliest tokens that holds `top_p`."""
    p = np.exp(logits - logits.max())
    p /= p.sum()
    tokens, mass = [], 0.0
    for token in np.argsort(-p):
        if mass >= top_p:
            break
        tokens.append(token)
        mass += p[token]
    out = np.zeros_like(p)
    out[tokens] = p[tokens] / p[tokens].sum()
    return out


def draw(logits: torch.Tensor, seeds: list[int], **options: float) -> np.ndarray:
    sampler = RowSampler(seeds, **({"top_p": 1.0, "temperature": 1.0} | options))
    scores = sampler(torch.zeros(len(seeds), 1, dtype=torch.long), logits)
    assert (torch.isfinite(scores).sum(-1) == 1).all()
    return scores.argmax(-1).numpy()


@pytest.mark.parametrize("top_p", [0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_frequencies_are_those_of_the_nucleus(top_p, temperature):
    logits = np.random.default_rng(3).normal(size=12) * 2
    expected = nucleus(logits / temperature, top_p)
    n = 20_000
    drawn = draw(
        torch.tensor(logits).expand(n, -1), list(range(n)), top_p=top_p, temperature=temperature
    )
    counts = np.bincount(drawn, minlength=12)
    assert not counts[expected == 0].any()
    inside = expected > 0
    if inside.sum() > 1:
        assert stats.chisquare(counts[inside], n * expected[inside]).pvalue > 1e-3


def test_noise_is_gumbel_and_independent_across_rows_steps_and_tokens():
    seeds = torch.tensor([1, 2, 2**62 - 1])
    noise = np.stack([gumbel(seeds, step, 20_000).numpy() for step in range(3)])
    assert stats.kstest(noise.ravel(), "gumbel_r").pvalue > 1e-3
    correlations = np.corrcoef(noise.reshape(9, -1))
    assert np.abs(correlations - np.eye(9)).max() < 5 / np.sqrt(20_000)
    assert np.abs(np.corrcoef(noise[0, 0, :-1], noise[0, 0, 1:])[0, 1]) < 5 / np.sqrt(20_000)


def test_a_row_is_drawn_alike_whatever_stands_beside_it():
    logits = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    together = draw(logits, list(range(40)), top_p=0.7)
    alone = [draw(logits[k : k + 1], [k], top_p=0.7)[0] for k in range(40)]
    assert together.tolist() == alone


def test_a_sure_token_is_always_drawn():
    logits = torch.full((100, 9), -1e4)
    logits[:, 4] = 0.0
    assert set(draw(logits, list(range(100)), top_p=0.9)) == {4}
