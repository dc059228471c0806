"""Terms of the loss and the constraints of a distillation on a portion of texts."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from countergen_edit.runs.portions import Portion, mean_divergence
from countergen_edit.runs.student import Unedited

PLAUSIBLE = 512
"""The likeliest next tokens of a context, whose differences between groups count."""
LEAST_DIFFERENCE = 0.05
"""Added to the unedited squared difference, nats²: the noise of few people."""
_LEAST = 1e-6
"""Smallest probability of all other tokens."""


def coarse(
    log_probs: Float[Tensor, "read vocab"], tokens: Int[Tensor, " token"]
) -> Float[Tensor, "read outcome"]:
    """Log-probabilities of each of the tokens, and of all others together."""
    single = log_probs[:, tokens.to(log_probs.device)]
    others = (1 - single.exp().sum(1, keepdim=True)).clamp(min=_LEAST).log()
    return torch.cat([single, others], dim=1)


def with_difference(given: Unedited, kept: Int[Tensor, " token"]) -> Unedited:
    """A context to erase with its group difference, 0 for tokens to keep.

    In a person's target each token's difference d is multiplied by max(0, 1 - v/d²), where v is its
    sampling variance over people (James and Stein 1961).
    """
    a, b = _by_group(given.portion, given.log_probs)
    difference = a.mean(0) - b.mean(0)
    difference[:, kept.to(difference.device)] = 0.0
    shrinkage = 1 - sum(_squared_errors(a, b)) / difference**2
    half = difference * shrinkage.clamp(min=0.0).nan_to_num() / 2
    return replace(given, difference=difference, half=half)


def erasing_terms(given: Unedited, after: Float[Tensor, "read vocab"]) -> dict[str, Tensor]:
    """Share of the squared group difference that is left; divergence from each person's target.

    The first is of the likeliest tokens and, with equal weight, of known outputs: the unedited
    difference plus mean changes, which vary less over people than log-probabilities. Its noise has
    mean 0 and keeps the expected gradient. As shares, small differences count like large ones.
    """
    portion, difference, half = given.portion, given.difference, given.half
    assert portion.is_first is not None
    assert difference is not None
    assert half is not None
    rows = len(portion.ids)
    before, after = (x.view(rows, portion.reads, -1) for x in (given.log_probs, after))
    sign = torch.where(portion.is_first.to(half.device), 1.0, -1.0)[:, None, None]
    target = (before - sign * half).log_softmax(-1)
    p = before.exp().mean(0) * (difference != 0)
    plausible = p.topk(min(PLAUSIBLE, p.shape[-1])).indices
    a, b = _by_group(portion, (after - before).flatten(0, 1))
    squared = torch.stack([(difference + a.mean(0) - b.mean(0)) ** 2, difference**2])
    left = squared.gather(2, plausible.expand(2, -1, -1)).mean((1, 2))
    if portion.outputs is not None:
        left = (left + squared[:, :, portion.outputs.to(half.device)].mean((1, 2))) / 2
    return {
        "bias": left[0] / (left[1] + LEAST_DIFFERENCE),
        "people": mean_divergence(target, after),
    }


def squared_difference(portion: Portion, log_probs: Float[Tensor, "read vocab"]) -> Tensor:
    """Unbiased squared difference of groups' mean log-probabilities of outputs, nats²."""
    a, b = (rows[:, :, portion.outputs] for rows in _by_group(portion, log_probs))
    first, second = _squared_errors(a, b)
    return ((a.mean(0) - b.mean(0)) ** 2 - first - second).mean()


def _squared_errors(*groups: Float[Tensor, "_ read token"]) -> list[Float[Tensor, "read token"]]:
    """Squared standard errors of means over people, 0 where a group has one person."""
    if min(map(len, groups)) < 2:
        return [torch.zeros_like(values[0]) for values in groups]
    # `Tensor.var` is slow along the first axis.
    sums = [(values - values.mean(0)).square_().sum(0) for values in groups]
    return [total / (len(x) * (len(x) - 1)) for total, x in zip(sums, groups, strict=True)]


def _by_group(
    portion: Portion, values: Float[Tensor, "read vocab"]
) -> tuple[Float[Tensor, "first column vocab"], Float[Tensor, "second column vocab"]]:
    """Values by row of either group."""
    assert portion.is_first is not None
    rows = values.view(len(portion.ids), portion.reads, -1)
    first = portion.is_first.to(values.device)
    return rows[first], rows[~first]


def share_changes(
    portion: Portion, before: Float[Tensor, "read vocab"], after: Float[Tensor, "read vocab"]
) -> Float[Tensor, "read output"]:
    """Changes of the shares of the outputs of a context to keep."""
    assert portion.choices is not None
    tokens = portion.choices.to(before.device)
    return after.gather(1, tokens).softmax(1) - before.gather(1, tokens).softmax(1)
