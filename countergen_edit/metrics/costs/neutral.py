"""Degradation of neutral text: one pass over it without and with an edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, applied
from countergen_edit.models import LanguageModel, encode, first_read
from countergen_edit.models.memory import within_memory
from countergen_edit.models.scoring import (
    SCORES,
    after_preface,
    batches,
    divergence,
    log_likelihood,
)

DATASETS: Mapping[str, str] = {"test": "neutral", "validation": "neutral_validation"}
"""The dataset names of splits; they seed the resamples."""


@dataclass(frozen=True)
class NeutralCost:
    """Per text: summed negative log-likelihoods, summed KL, and predicted tokens."""

    nll_unedited: Float64[np.ndarray, " text"]
    nll_edited: Float64[np.ndarray, " text"]
    kl: Float64[np.ndarray, " text"]
    """KL(unedited ‖ edited), in nats, summed over the text's predicted tokens."""
    tokens: Float64[np.ndarray, " text"]


def neutral_cost(model: LanguageModel, edit: Edit | None, texts: Sequence[str]) -> NeutralCost:
    """Run every text without and with the edit; `UserError` if no text has a token to predict."""
    cost = within_memory(model, SCORES, partial(_cost, model, edit, texts))
    if cost.tokens.sum() == 0:
        raise UserError("perplexity needs neutral text of at least two tokens; none was given")
    return cost


def _cost(model: LanguageModel, edit: Edit | None, texts: Sequence[str]) -> NeutralCost:
    first = first_read(model)
    ids = [encoding.ids[first:] for encoding in encode(model, texts)]
    # Slot by slot over all texts, as the batches count: which text, and which token comes next.
    text = np.repeat(np.arange(len(ids)), [len(row) for row in ids])
    following = np.array([token for row in ids for token in [*row[1:], -1]])
    sums = np.zeros((4, len(texts)))
    for batch in batches(model, texts):
        token = torch.as_tensor(following[batch.slot])
        predicts = token >= 0
        slot, token = batch.slot[predicts.numpy()], token[predicts]
        if not len(slot):
            continue
        at = (batch.row[predicts], batch.position[predicts])
        unedited = model.logits(batch.ids, batch.mask, at)
        values = [-log_likelihood(unedited, token)]
        if edit is None:
            values += [values[0], torch.zeros(len(slot))]
        else:
            with applied(model, edit) as under:
                prefaced = after_preface(under, batch, model)
                at = (prefaced.row[predicts], prefaced.position[predicts])
                edited = under.logits(prefaced.ids, prefaced.mask, at)
            values += [-log_likelihood(edited, token), divergence(unedited, edited)]
        values.append(torch.ones(len(slot)))
        for total, value in zip(sums, values, strict=True):
            np.add.at(total, text[slot], value.cpu().numpy())
    return NeutralCost(*sums)
