"""Activations at chosen sites, layers and tokens, in one batched pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.models.batching import Batch, batch_tokens, plan, runs_trees
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.memory import within_memory
from countergen_edit.models.progress import track
from countergen_edit.models.resumption import Scratch
from countergen_edit.models.tokens import encode, excerpt

SINK_RANGE = (3.0, 5.0)
"""Medians between which the norm limit of sinks lies. In SmolLM2 of 135 million parameters other
tokens reach 1.3 medians, sinks 4 to 170, in some blocks 4 to 10: a limit of 10 would split them."""


@dataclass(frozen=True)
class Activations:
    """Activations of a model at the wanted tokens, float32."""

    values: dict[str, Float32[np.ndarray, "_layer row d_model"]]
    """Site → activations; "embed" has one layer, and d is that of `width`."""
    row_text: Int[np.ndarray, " row"]
    """Index of the text of each row, ascending."""
    norms: dict[str, Float32[np.ndarray, "_layer token"]]
    """Site → Euclidean norms of all tokens of each text up to the last wanted one."""


def capture(
    lm: LanguageModel,
    texts: Sequence[str],
    *,
    sites: Sequence[str] = ("resid_post",),
    layers: Sequence[int] | None = None,
    starts: Sequence[int] | None = None,
    positions: Literal["last", "onward", "all"] = "last",
    scratch: Scratch | None = None,
    progress: str | None = None,
) -> Activations:
    """Read activations in one pass that stops short of the output matrix; attached edits act.

    `sites` are keys of `SITES`, or `head.N`; `layers` count from 0, None takes all. `positions` are
    the last token of each text; "onward", every token that shows text beyond the character in
    `starts` (0 by default) at which its group first shows; or all tokens, special ones included.
    `scratch` allocates arrays. `UserError` for an unknown site or layer, or a text without a token.
    """
    layers = list(range(lm.n_layers)) if layers is None else list(layers)
    names_at = {
        site: [hook_name(lm, site, k) for k in (layers if has_layers(site) else [None])]
        for site in sites
    }
    if starts is None or positions != "onward":
        starts = [0] * len(texts)
    encodings = encode(lm, texts)
    spans = []
    for text, encoding, start in zip(texts, encodings, starts, strict=True):
        span = encoding.after(start)
        if start < 0 or not span:  # -1 is str.find of an absent group
            raise UserError(f"no token beyond character {start} in the text {excerpt(text)}")
        tokens = range(len(encoding.ids))
        spans.append({"last": span[-1:], "onward": span, "all": tokens}[positions])

    counts = [*map(len, spans)]
    empty = np.empty if scratch is None else scratch.empty
    values = {
        site: empty((len(names), sum(counts), width(lm, site)), np.float32)
        for site, names in names_at.items()
    }
    sequences = [tuple(e.ids[: span[-1] + 1]) for e, span in zip(encodings, spans, strict=True)]
    ends = np.cumsum([0, *map(len, sequences)])
    row_of = np.full(ends[-1], -1)
    places = [start + k for start, span in zip(ends[:-1], spans, strict=True) for k in span]
    row_of[places] = np.arange(len(places))
    norms = {s: np.empty((len(names), len(row_of)), np.float32) for s, names in names_at.items()}

    def keep(batch: Batch, site: str, k: int, x: Float[Tensor, "batch time *d"], hook: Any) -> None:
        x = x.flatten(2)[..., features(lm, site)]
        row = row_of[batch.slot]
        chosen = np.flatnonzero(row >= 0)
        # A model spread over devices shows each layer on its own.
        cells = torch.stack([batch.row, batch.position]).to(x.device)
        norms[site][k, batch.slot] = torch.linalg.vector_norm(x.float(), dim=-1)[*cells].cpu()
        # Half precision moves half the bytes.
        values[site][k, row[chosen]] = x[*cells[:, chosen]].cpu().float()

    def run() -> None:
        batches = plan(
            sequences,
            [range(len(sequence)) for sequence in sequences],
            max_batch_tokens=batch_tokens(lm, "capture"),
            branch=runs_trees(lm, max(map(len, sequences), default=0)),
        )
        for batch in track(batches, progress):
            hooks = [
                (name, partial(keep, batch, site, k))
                for site, names in names_at.items()
                for k, name in enumerate(names)
            ]
            with lm.bridge.hooks(fwd_hooks=hooks):
                lm.run_blocks(batch.ids, batch.mask)

    within_memory(lm, "capture", run)
    return Activations(values, np.repeat(np.arange(len(texts)), counts), norms)


EVERYWHERE = "everywhere"
"""The site of edits that act at every point of the residual stream."""
STREAM = "blocks.0.hook_in"
"""Hook of the first point of the residual stream."""
SITES: dict[str, str] = {
    EVERYWHERE: "blocks.{layer}.hook_out",
    "embed": "embed.hook_out",
    "attn_out": "blocks.{layer}.hook_attn_out",
    "mlp_out": "blocks.{layer}.hook_mlp_out",
    "resid_post": "blocks.{layer}.hook_out",
}
"""In the order in which a forward pass meets them, within a block."""
HEAD = "head"
"""The site of heads by activation patching; `head.N` is one of each block."""
UNITS = {HEAD: "attn_out", "neuron": "mlp_out"}
"""Units of a block, with the site that each writes."""
_INPUTS = {"head": "blocks.{layer}.attn.o.hook_in", "neuron": "blocks.{layer}.mlp.out.hook_in"}
"""Hooks of the inputs of output matrices: all units of a block."""


def has_layers(site: str) -> bool:
    """Whether the site exists per layer."""
    if site not in SITES and site not in UNITS and head_of(site) is None:
        raise unknown("site", site, [*SITES, HEAD, "head.0"])
    return "{layer}" in SITES.get(site, _INPUTS["head"])


def head_of(site: str) -> int | None:
    """The attention head of a site `head.N`, from 0; None for other sites."""
    name, _, number = site.partition(".")
    return int(number) if name == "head" and number.isdecimal() else None


def features(lm: LanguageModel, site: str) -> slice:
    """The features of a site in its hook, whose heads lie side by side."""
    if (head := head_of(site)) is None:
        return slice(None)
    d = int(lm.bridge.cfg.d_head)
    return slice(head * d, (head + 1) * d)


def width(lm: LanguageModel, site: str) -> int:
    """The number of features of a site."""
    return lm.d_model if head_of(site) is None else int(lm.bridge.cfg.d_head)


def depth(site: str, layer: int | None) -> tuple[int, int]:
    """Sort key of places, in the order of the forward pass; everywhere begins before all others.

    >>> places = [("resid_post", 2), ("mlp_out", 3), ("head.1", 3), ("embed", None)]
    >>> sorted(places, key=lambda place: depth(*place))
    [('embed', None), ('resid_post', 2), ('head.1', 3), ('mlp_out', 3)]
    """
    order = ["embed", *(site for site in SITES if site != "embed")]
    within = 0 if head_of(site) is not None else 1 + order.index(site)
    return -1 if layer is None or site == EVERYWHERE else layer, within


def added_to_stream(lm: LanguageModel) -> list[tuple[str, int]]:
    """Site and layer of everything that blocks add to the residual stream."""
    return [(site, layer) for layer in range(lm.n_layers) for site in ("attn_out", "mlp_out")]


def hook_name(lm: LanguageModel, site: str, layer: int | None = None) -> str:
    """Name of the bridge's hook of a site and layer; `UserError` if unknown."""
    if (site in UNITS or has_layers(site)) and (layer is None or not 0 <= layer < lm.n_layers):
        raise UserError(
            f"unknown layer {layer} of {lm.name} for site {site}: valid are 0..{lm.n_layers - 1}"
        )
    head = head_of(site)
    heads = int(getattr(lm.bridge.cfg, "n_heads", 0))
    if head is not None and head >= heads:
        raise UserError(f"unknown {site} of {lm.name}: heads are 0..{heads - 1}")
    name = (_INPUTS | SITES).get(site.split(".")[0], site).format(layer=layer)
    if lm.is_encoder_decoder:
        # The text comes from the decoder; in some families the encoder shares its `embed`.
        name = f"decoder_{name}" if site in ("attn_out", "mlp_out", "resid_post") else site
    if name not in lm.bridge.hook_dict:
        raise UserError(f"{lm.name} has no site {site} (no hook {name}): use resid_post")
    return name


def sink_limit(norms: Float32[np.ndarray, " token"]) -> float | None:
    """The norm above which a token is an attention sink; None where none is.

    The middle, in ratio, of the widest gap of the norms within `SINK_RANGE` medians.
    """
    low, high = (medians * float(np.median(norms)) for medians in SINK_RANGE)
    if low == 0:
        return None
    edges = np.sort([low, *norms[(norms > low) & (norms < high)], high])
    widest = np.argmax(np.diff(np.log(edges)))
    limit = float(np.sqrt(edges[widest] * edges[widest + 1]))
    return limit if norms.max() > limit else None


def unit_width(lm: LanguageModel, site: str, width: int) -> int:
    """Features of one unit among the `width` of all."""
    return width // int(lm.bridge.cfg.n_heads) if site == "head" else 1
