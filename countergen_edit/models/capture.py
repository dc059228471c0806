"""Activations at chosen sites, layers and tokens, in one batched pass.

In: texts. Out: `Activations`, one row for each wanted token, float32 whatever the model's type,
and the norm of every token, wanted or not, by which attention sinks are found.
Refused: an unknown site or layer, and a text without the wanted tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from countergen_edit.errors import UserError, unknown
from countergen_edit.models.batching import Batch, batch_tokens, plan, within_memory
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.scratch import Scratch
from countergen_edit.models.sites import has_layers, hook_name
from countergen_edit.models.tokens import encode, excerpt
from countergen_edit.models.trees import runs_trees


@dataclass(frozen=True)
class Activations:
    """What the model held at the wanted tokens.

    Attributes:
        values: For each site ``[layer, row, d_model]``, layers in the order of the call; "embed"
            has one layer.
        row_text: The text that each row comes from, by its index; rows follow the texts.
        norms: For each site the Euclidean norms ``[layer, token]`` of every token of every text, up
            to the last one that is wanted of it.
    """

    values: dict[str, Float32[np.ndarray, "_layer row d_model"]]
    row_text: Int[np.ndarray, " row"]
    norms: dict[str, Float32[np.ndarray, "_layer token"]]


def capture(
    lm: LanguageModel,
    texts: Sequence[str],
    *,
    sites: Sequence[str] = ("resid_post",),
    layers: Sequence[int] | None = None,
    starts: Sequence[int] | None = None,
    positions: Literal["last", "onward"] = "last",
    max_batch_tokens: int | None = None,
    scratch: Scratch | None = None,
    progress: str | None = None,
) -> Activations:
    """Read activations off one pass, which stops short of the output matrix.

    Of tokens that are not wanted only the norms leave the model: the hooks gather. An edit that was
    attached before is seen, at its own site too.

    Args:
        lm: The model.
        texts: One row or more comes from each.
        sites: Keys of `SITES`.
        layers: From 0; all of them if not given.
        starts: For "onward", the character of each text where its group first shows (the name).
        positions: "last", the last token of each text; "onward", every token that shows text
            beyond `starts`, a straddling one included. The tokens before are the same for all
            groups, and would teach a classifier that nothing differs.
        max_batch_tokens: Changes speed and memory, not the result; None takes `batch_tokens`.
        scratch: Where the values go that memory is too small for; all stay in memory if None.
        progress: Description of a progress bar.
    """
    layers = list(range(lm.n_layers)) if layers is None else list(layers)
    names_at = {
        site: [hook_name(lm, site, layer) for layer in layers]
        if has_layers(site)
        else [hook_name(lm, site)]
        for site in sites
    }
    encodings = encode(lm, texts)
    spans = []
    for text, encoding, start in zip(
        texts, encodings, _starts(texts, starts, positions), strict=True
    ):
        span = encoding.after(start)
        if not span:
            raise UserError(f"no token beyond character {start} in the text {excerpt(text)}")
        spans.append(span if positions == "onward" else span[-1:])

    counts = [len(span) for span in spans]
    empty = np.empty if scratch is None else scratch.empty
    values = {
        site: empty((len(names), sum(counts), lm.d_model), np.float32)
        for site, names in names_at.items()
    }
    sequences = [tuple(e.ids[: span[-1] + 1]) for e, span in zip(encodings, spans, strict=True)]
    wanted = [
        k in span for s, span in zip(sequences, map(set, spans), strict=True) for k in range(len(s))
    ]
    row_of = np.where(np.array(wanted, bool), np.cumsum(wanted, dtype=np.int64) - 1, -1)
    norms = {s: np.empty((len(names), len(row_of)), np.float32) for s, names in names_at.items()}
    batches = plan(
        sequences,
        [range(len(sequence)) for sequence in sequences],
        max_batch_tokens=batch_tokens(lm, max_batch_tokens),
        branch=runs_trees(lm, max(map(len, sequences), default=0)),
    )

    def run(batch: Batch) -> None:
        hooks = [
            (name, _gather(batch, row_of[batch.slot], values[site][k], norms[site][k]))
            for site, names in names_at.items()
            for k, name in enumerate(names)
        ]
        with lm.bridge.hooks(fwd_hooks=hooks):
            lm.run_blocks(batch.ids, batch.mask)

    for batch in track(batches, progress):
        within_memory(batch, run)
    return Activations(values, np.repeat(np.arange(len(texts)), counts), norms)


def _starts(texts: Sequence[str], starts: Sequence[int] | None, positions: str) -> Sequence[int]:
    if positions not in ("last", "onward"):
        raise unknown("positions", positions, ("last", "onward"))
    if positions == "last":
        return [0] * len(texts)
    if starts is None or len(starts) != len(texts):
        raise UserError(
            f"positions=onward needs one start for each of {len(texts)} texts, "
            f"not {'none' if starts is None else len(starts)}"
        )
    for text, start in zip(texts, starts, strict=True):
        if start < 0:  # what str.find says of a group that is not there
            raise UserError(f"negative start {start} for the text {excerpt(text)}")
    return starts


def _gather(
    batch: Batch,
    row_of: Int[np.ndarray, " read"],
    into: Float32[np.ndarray, "row d_model"],
    norms: Float32[np.ndarray, " token"],
) -> Callable[[Float[Tensor, "batch time d_model"], Any], None]:
    """Read the norms of a batch's tokens, and those that have a row (not -1) as a whole."""
    wanted = row_of >= 0
    rows, positions = (t[torch.from_numpy(wanted)] for t in (batch.row, batch.position))

    def hook_fn(x: Float[Tensor, "batch time d_model"], hook: Any) -> None:
        # A model spread over devices shows each layer on its own.
        size = torch.linalg.vector_norm(x.float(), dim=-1)
        norms[batch.slot] = size[batch.row.to(x.device), batch.position.to(x.device)].cpu().numpy()
        read = x[rows.to(x.device), positions.to(x.device)]
        into[row_of[wanted]] = read.float().cpu().numpy()

    return hook_fn
