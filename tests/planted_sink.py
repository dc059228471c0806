"""Random-weight models with an attention sink planted: what is left alone is known.

`planted_sink("llama", size=100, along=u)` gives a tiny model in which the beginning-of-text token
leaves block 0 with `size` times a multiple of `u` in its residual stream, and nothing else does.
Coordinates 0 to 3 of the stream are written by the embedding alone, so that they mean the same in
every block: 0 and 1 hold (+1, -1) for that token and 0 for others, 2 and 3 hold (+1, -1) for all.
One neuron of block 0 reads the first pair and writes `u`. In each later block and head, one query
row reads the second pair and one key row reads `u`, so that every token attends to the sink. Pairs
of opposite sign pass LayerNorm and RMSNorm alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from countergen_edit.models import LanguageModel, from_pretrained_objects
from tests.tiny_models import tiny_hf_model, tiny_tokenizer

SUNK = ("gpt2", "llama", "gpt_neox", "qwen2")
"""Families that a sink can be planted in: learned positions, grouped queries, parallel blocks."""
OWN = 4
"""Coordinates that only embeddings write."""
GAIN = 1.4
"""Of queries and keys: the sink then takes most of the attention."""
_WRITERS = ("c_proj", "o_proj", "down_proj", "attention.dense", "dense_4h_to_h")


def planted_sink(family: str, size: float = 0.0, along: np.ndarray | None = None) -> LanguageModel:
    """A tiny model whose beginning-of-text token is a sink from block 0 on.

    Args:
        family: of `SUNK`.
        size: how much of `along` block 0 writes; the norm is a few times that.
        along: `[d]`, the sink's direction; `sink_direction` makes one.
    """
    tokenizer = tiny_tokenizer(bos=True)
    model = tiny_hf_model(family, tokenizer)
    d = model.config.hidden_size
    u = torch.zeros(d) if along is None else torch.tensor(along, dtype=torch.float32)
    with torch.no_grad():
        rows = model.get_input_embeddings().weight
        rows[:, :OWN] = torch.tensor([0.0, 0.0, 1.0, -1.0])
        rows[tokenizer.bos_token_id, :OWN] = torch.tensor([1.0, -1.0, 1.0, -1.0])
        for name, weight in model.named_parameters():
            if name.endswith("wpe.weight"):
                weight[:, :OWN] = 0
            elif name.endswith("weight") and any(writer in name for writer in _WRITERS):
                _transposed(family, weight)[:OWN] = 0
        _plant(model, family, u, size)
    return from_pretrained_objects(f"sunk {family}", model, tokenizer)


def sink_direction(group: np.ndarray, seed: int = 0) -> np.ndarray:
    """A unit vector with nine tenths along a direction, as far as a norm passes it."""
    part, other = (_free(v) for v in (group, np.random.default_rng(seed).normal(size=len(group))))
    other = _free(other - (other @ part) * part)
    u: np.ndarray = 0.9 * part + np.sqrt(1 - 0.9**2) * other
    return u


def _free(v: np.ndarray) -> np.ndarray:
    """Without the coordinates of embeddings, centred, of unit length."""
    free = np.where(np.arange(len(v)) < OWN, 0, v)
    free[OWN:] -= free[OWN:].mean()
    unit: np.ndarray = free / np.linalg.norm(free)
    return unit


def _transposed(family: str, weight: Tensor) -> Tensor:
    """A matrix with its outputs first; GPT-2 keeps them last."""
    return weight.T if family == "gpt2" else weight


def _plant(model: Any, family: str, u: Tensor, size: float) -> None:
    is_first, is_token = (torch.zeros_like(u) for _ in range(2))
    is_first[:2] = is_token[2:OWN] = torch.tensor([1.0, -1.0])
    blocks = {"gpt2": "transformer.h", "gpt_neox": "gpt_neox.layers"}.get(family, "model.layers")
    for i, block in enumerate(model.get_submodule(blocks)):
        if i == 0:
            *readers, writer = (_transposed(family, w) for w in _mlp(block.mlp))
            for reader in readers:
                reader[0] = is_first
            writer[:, 0] = size * u
        else:
            for query, key in _query_and_key_rows(model.config, block, family):
                query[:] = GAIN * is_token
                key[:] = GAIN * u


def _mlp(mlp: Any) -> list[Tensor]:
    names = ("c_fc", "dense_h_to_4h", "gate_proj", "up_proj", "c_proj", "dense_4h_to_h")
    return [getattr(mlp, n).weight for n in (*names, "down_proj") if hasattr(mlp, n)]


def _query_and_key_rows(config: Any, block: Any, family: str) -> list[tuple[Tensor, Tensor]]:
    """A row of each head's query and key matrix that rotary positions turn little or not at all."""
    heads, d = config.num_attention_heads, config.hidden_size
    row = d // heads // 2 - 1
    if family == "gpt2":
        q, k, _ = block.attn.c_attn.weight.T.split(d)
        return [(q[h * d // heads + row], k[h * d // heads + row]) for h in range(heads)]
    if family == "gpt_neox":
        joint = block.attention.query_key_value.weight.view(heads, 3, d // heads, d)
        return [(joint[h, 0, row], joint[h, 1, row]) for h in range(heads)]
    q, k = block.self_attn.q_proj.weight, block.self_attn.k_proj.weight
    shared = heads // config.num_key_value_heads
    size = d // heads
    return [(q[h * size + row], k[h // shared * size + row]) for h in range(heads)]
