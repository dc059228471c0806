"""What an edit costs: agreement that is lost, and harm to text about nobody.

Agreement is grammar, not stereotype: after a prompt about Jane, "her" is right and "his" is wrong.
It is the share P(right) / (P(right) + P(wrong)) of the form that agrees with the person. Perplexity
and KL divergence, in nats per token, are measured on neutral text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from scipy.special import expit

from countergen_edit.edits import Edit, applied
from countergen_edit.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Estimate, estimate, resample, weighted_mean
from countergen_edit.models import LanguageModel, batches, encode, log_probs


def agreement_values(
    scores: SetScores,
) -> tuple[
    Float64[np.ndarray, "sample side variation"], Float64[np.ndarray, "sample side variation"]
]:
    """Share of the right form, and its plain probability, for every prompt.

    Raises:
        UserError: a sample does not have exactly one output for each group, in their order.
    """
    for sample in scores.data.samples:
        if len(sample.outputs) != 2:
            raise UserError(
                f"agreement set {scores.data.name!r}: {sample.template!r} has "
                f"{len(sample.outputs)} output(s); it takes the form of each group, in their order"
            )
    log_p = scores.log_p.reshape(-1, 2, *scores.log_p.shape[1:])  # sample, form, side, variation
    right = np.stack([log_p[:, 0, 0], log_p[:, 1, 1]], axis=1)
    wrong = np.stack([log_p[:, 1, 0], log_p[:, 0, 1]], axis=1)
    with np.errstate(invalid="ignore"):  # absent variations: -inf minus -inf
        share = expit(right - wrong)
    return share, np.exp(right)


def agreement_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `agreement` for both groups together and for each."""
    share, probability = agreement_values(scores)
    present = scores.present[::2]
    template = scores.template[::2]
    weights, *drawn = scores.weights(seed)
    by_side = []
    for side, names in enumerate(drawn):
        filled = np.where(present[:, side], share[:, side], 0.0)
        by_prompt = names @ filled.T / (names @ present[:, side].T)
        by_side.append(weighted_mean(by_prompt, template, weights))
    groups = scores.data.groups
    sides: list[tuple[str, str, Sequence[int]]] = [
        (groups[0], groups[1], (0, 1)),
        (groups[0], "", (0,)),
        (groups[1], "", (1,)),
    ]
    rows = []
    for group_a, group_b, which in sides:
        mean = np.mean([by_side[side] for side in which], axis=0)
        e = estimate(mean, weights, *(drawn[side] for side in which), within=(0, 1))
        chosen = present[:, which]
        rows.append(
            Row.of_set(
                scores.data,
                "agreement",
                e,
                group_a=group_a,
                group_b=group_b,
                n=int(chosen.sum()),
                seed=seed,
                detail={"p_right": float(probability[:, which][chosen].mean())},
            )
        )
    return rows


@dataclass(frozen=True)
class NeutralCost:
    """Per text: summed negative log-likelihoods, summed KL, and predicted tokens."""

    nll_unedited: Float64[np.ndarray, " text"]
    nll_edited: Float64[np.ndarray, " text"]
    kl: Float64[np.ndarray, " text"]
    """KL(unedited ‖ edited), in nats, summed over the text's predicted tokens."""
    tokens: Float64[np.ndarray, " text"]


def neutral_cost(model: LanguageModel, edit: Edit | None, texts: Sequence[str]) -> NeutralCost:
    """Run every text without and with the edit, batch by batch.

    Raises:
        UserError: there are no texts, or none is long enough to predict a token.
    """
    ids = [encoding.ids for encoding in encode(model, texts)]
    # Slot by slot over all texts, as the batches count: which text, and which token comes next.
    text = np.repeat(np.arange(len(ids)), [len(row) for row in ids])
    following = np.array([token for row in ids for token in [*row[1:], -1]])
    sums = np.zeros((4, len(texts)))
    for batch in batches(model, texts):
        unedited = log_probs(model, batch)
        with applied(model, edit) if edit is not None else nullcontext():
            edited = log_probs(model, batch) if edit is not None else unedited
        predicts = following[batch.slot] >= 0
        slot = batch.slot[predicts]
        token = torch.as_tensor(following[slot], device=unedited.device)[:, None]
        before, after = (p[torch.as_tensor(predicts, device=p.device)] for p in (unedited, edited))
        values = [
            -before.gather(1, token)[:, 0],
            -after.gather(1, token)[:, 0],
            (before.exp() * (before - after)).sum(-1),
            torch.ones(len(slot)),
        ]
        for total, value in zip(sums, values, strict=True):
            np.add.at(total, text[slot], value.cpu().numpy())
    if sums[3].sum() == 0:
        raise UserError("perplexity needs neutral text of at least two tokens; none was given")
    return NeutralCost(*sums)


def neutral_rows(cost: NeutralCost, dataset: str, seed: int) -> list[Row]:
    """Rows `perplexity`, `perplexity_ratio` (edited/unedited) and `kl`, on the same resamples."""
    weights = resample(len(cost.tokens), seed, dataset, "texts")
    index = np.arange(len(cost.tokens))

    def per_token(sums: Float64[np.ndarray, " text"]) -> Float64[np.ndarray, " resample"]:
        total, tokens = (weighted_mean(v, index, weights) for v in (sums, cost.tokens))
        ratio: Float64[np.ndarray, " resample"] = total / tokens
        return ratio

    change = per_token(cost.nll_edited - cost.nll_unedited)
    metrics: dict[str, Estimate] = {
        "perplexity": estimate(np.exp(per_token(cost.nll_edited)), weights),
        "perplexity_ratio": estimate(np.exp(change), weights),
        "kl": estimate(per_token(cost.kl), weights, within=(0, math.inf)),
    }
    return [
        Row(
            metric=metric,
            **e.columns,
            dataset=dataset,
            n=len(cost.tokens),
            seed=seed,
            detail={"tokens": int(cost.tokens.sum())},
        )
        for metric, e in metrics.items()
    ]
