"""Where in a model an activation is read or edited.

In: a site and a layer. Out: the name of a hook of the bridge, the same for every model family.
Refused: a site or layer that the model does not have.
"""

from __future__ import annotations

from countergen_edit.errors import UserError, unknown
from countergen_edit.models.language_model import LanguageModel

SITES: dict[str, str] = {
    "embed": "embed.hook_out",
    "attn_out": "blocks.{layer}.hook_attn_out",
    "mlp_out": "blocks.{layer}.hook_mlp_out",
    "resid_post": "blocks.{layer}.hook_out",
}
"""In the order in which a forward pass meets them, within a block."""
DECODER_SITES: dict[str, str] = {
    "resid_post": "decoder_blocks.{layer}.hook_out",
    "attn_out": "decoder_blocks.{layer}.hook_attn_out",
    "mlp_out": "decoder_blocks.{layer}.hook_mlp_out",
}
"""The same in an encoder-decoder model, whose text comes from the decoder. There is no `embed`:
encoder and decoder share it in some families, and its hook is then silent."""


def has_layers(site: str) -> bool:
    """Whether the site exists once a layer; the embedding exists once."""
    if site not in SITES:
        raise unknown("site", site, SITES)
    return "{layer}" in SITES[site]


def depth(site: str, layer: int | None) -> tuple[int, int]:
    """What places are sorted by, to stand as the forward pass meets them.

    >>> places = [("resid_post", 2), ("mlp_out", 3), ("attn_out", 3), ("embed", None)]
    >>> sorted(places, key=lambda place: depth(*place))
    [('embed', None), ('resid_post', 2), ('attn_out', 3), ('mlp_out', 3)]
    """
    return -1 if layer is None else layer, list(SITES).index(site)


def hook_name(lm: LanguageModel, site: str, layer: int | None = None) -> str:
    """The hook of `site` after block `layer`, counted from 0 (ignored for "embed")."""
    if has_layers(site) and (layer is None or not 0 <= layer < lm.n_layers):
        raise UserError(
            f"unknown layer {layer} of {lm.name} for site {site}: valid are 0..{lm.n_layers - 1}"
        )
    table = DECODER_SITES if lm.is_encoder_decoder else SITES
    name = table.get(site, site).format(layer=layer)
    if name not in lm.bridge.hook_dict:
        raise UserError(f"{lm.name} has no site {site} (no hook {name}): use resid_post")
    return name
