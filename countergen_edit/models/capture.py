"""Activations at chosen sites, layers and tokens, in one batched pass.

In: texts. Out: `Activations`, one row for each wanted token, float32 whatever the model's type.
Refused: an unknown site or layer, and a text without the wanted tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Float32, Int
from torch import Tensor

from countergen_edit.errors import UserError, unknown
from countergen_edit.models.batching import Batch, batch_tokens, plan, within_memory
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.scratch import Scratch
from countergen_edit.models.sites import has_layers, hook_name
from countergen_edit.models.tokens import encode, excerpt


@dataclass(frozen=True)
class Activations:
    """What the model held at the wanted tokens.

    Attributes:
        values: For each site ``[layer, row, d_model]``, layers in the order of the call; "embed"
            has one layer.
        row_text: The text that each row comes from, by its index; rows follow the texts.
    """

    values: dict[str, Float32[np.ndarray, "_layer row d_model"]]
    row_text: Int[np.ndarray, " row"]


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

    Only the wanted tokens leave the model: the hooks gather them. An edit that was attached before
    is seen, at its own site too.

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
    batches = plan(
        [tuple(e.ids[: span[-1] + 1]) for e, span in zip(encodings, spans, strict=True)],
        spans,
        max_batch_tokens=batch_tokens(lm, max_batch_tokens),
    )

    def run(batch: Batch) -> None:
        hooks = [
            (name, _gather(batch, values[site][k]))
            for site, names in names_at.items()
            for k, name in enumerate(names)
        ]
        with lm.bridge.hooks(fwd_hooks=hooks):
            lm.run_blocks(batch.ids, batch.mask)

    for batch in track(batches, progress):
        within_memory(batch, run)
    return Activations(values, np.repeat(np.arange(len(texts)), counts))


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
    batch: Batch, into: Float32[np.ndarray, "row d_model"]
) -> Callable[[Float[Tensor, "batch time d_model"], Any], None]:
    def hook_fn(x: Float[Tensor, "batch time d_model"], hook: Any) -> None:
        # A model spread over devices shows each layer on its own.
        read = x[batch.row.to(x.device), batch.position.to(x.device)]
        into[batch.slot] = read.float().cpu().numpy()

    return hook_fn
