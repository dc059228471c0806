"""What a fold would do to the tokens that an edit leaves alone.

In: an edit and some text. Refused: an edit with a limit, since a weight treats every token alike
and the folded model would be another than the one whose figures were taken; the message says how
many tokens it would edit that the edit does not, and what that costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from countergen_edit.checkpoints.folding import folds
from countergen_edit.checkpoints.parity import compared, in_memory
from countergen_edit.edits import Edit, Placement
from countergen_edit.errors import UserError
from countergen_edit.models import LanguageModel, hook_name


def require_every_position(model: LanguageModel, edit: Edit, texts: Sequence[str]) -> None:
    """Refuse to fold an edit that leaves attention sinks alone, with what the fold would cost.

    Args:
        model: the unedited model.
        edit: what is to be folded.
        texts: what the cost is measured on; the first few.

    Raises:
        UserError: the edit has a limit, and would fold without it.
    """
    if not edit.leaves_sinks or not folds(model, edit.everywhere()):
        return  # what does not fold anyway is refused with that reason
    ids = compared(model, texts)
    tokens = sum(map(len, ids))
    raise UserError(
        "a fold cannot leave attention sinks alone: of "
        f"{tokens} tokens it would edit {sinks(model, edit, ids)} that this edit leaves as they "
        f"are, at a KL of {kl_of_fold(model, edit, ids):.3g} nats a token from the edit that was "
        "measured; save it with form=carried, or fit and measure one with edit.sinks=edit"
    )


def sinks(model: LanguageModel, edit: Edit, ids: Sequence[Sequence[int]]) -> int:
    """How many tokens the edit leaves as they are, at one of its places or more."""
    count = 0
    for row in ids:
        alone = torch.zeros(len(row), dtype=torch.bool)
        hooks = [
            (hook_name(model, place.site, place.layer), _marking(alone, place))
            for place in edit.placements
        ]
        with model.bridge.hooks(fwd_hooks=hooks):
            in_memory(model, None, row)
        count += int(alone.sum())
    return count


def kl_of_fold(model: LanguageModel, edit: Edit, ids: Sequence[Sequence[int]]) -> float:
    """Mean KL(edit ‖ its erasures at every position) of next tokens, in nats a token."""
    divergences = []
    for row in ids:
        own, folded = (in_memory(model, e, row).log_softmax(-1) for e in (edit, edit.everywhere()))
        divergences.append((own.exp() * (own - folded)).sum(-1))
    return float(torch.cat(divergences).mean())


def _marking(alone: Tensor, place: Placement) -> Callable[..., None]:
    def hook_fn(x: Tensor, hook: Any) -> None:
        if place.limit is not None:
            size = torch.linalg.vector_norm(x[0].float(), dim=-1)
            alone.logical_or_((size > place.limit).cpu())

    return hook_fn
