"""A Llama from a GGUF file in NumPy: the reference for the real model.

It reads weights in F32, F16, Q8_0 or Q4_1 and computes the logits of a text in float64. The package
gguf reads the table of contents only; blocks are decoded here as ggml's block_q4_1 and block_q8_0
define them. The logits use the file's order of rows, in which a rotation pairs neighbours, so that
a wrong reordering for transformers, which pairs halves, is detected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader

NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


class NumpyLlama:
    """A file's weights and sizes.

    Args:
        path: a GGUF file of the architecture llama.
    """

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}

        def field(key: str) -> Any:
            return reader.fields[f"llama.{key}"].contents()

        self.layers = field("block_count")
        self.heads = field("attention.head_count")
        self.key_heads = field("attention.head_count_kv")
        self.epsilon = field("attention.layer_norm_rms_epsilon")
        self.base = field("rope.freq_base")

    def weight(self, name: str) -> np.ndarray:
        """A tensor in the file's order, float32 ``[output, input]`` or ``[width]``."""
        tensor = self.tensors[name]
        raw = np.ascontiguousarray(tensor.data).view(np.uint8).ravel()
        values = _UNPACK[tensor.tensor_type.name](raw)
        return values.reshape(tuple(int(n) for n in reversed(tensor.shape)))

    def as_transformers(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every weight under the name and in the order of transformers."""
        for name in self.tensors:
            values = self.weight(name)
            if name in OUTSIDE:
                yield OUTSIDE[name], values
                continue
            _, layer, part, _ = name.split(".")
            heads = {"attn_q": self.heads, "attn_k": self.key_heads}.get(part)
            if heads:  # neighbouring pairs become halves
                split = values.reshape(heads, -1, 2, values.shape[-1])
                values = split.swapaxes(1, 2).reshape(values.shape)
            yield f"model.layers.{layer}.{NAMES[part]}.weight", values

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Next-token logits ``[time, vocabulary]``, float64."""
        embedding = self.weight("token_embd.weight")
        x = embedding[list(ids)].astype(np.float64)
        for layer in range(self.layers):
            x = x + self._attention(x, f"blk.{layer}")
            x = x + self._feed_forward(x, f"blk.{layer}")
        output = self.weight("output.weight") if "output.weight" in self.tensors else embedding
        return self._norm(x, "output_norm.weight") @ output.T.astype(np.float64)

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scale = np.sqrt((x**2).mean(-1, keepdims=True) + self.epsilon)
        return x / scale * self.weight(name)

    def _attention(self, x: np.ndarray, block: str) -> np.ndarray:
        normal, time = self._norm(x, f"{block}.attn_norm.weight"), len(x)
        q, k, v = (
            (normal @ self.weight(f"{block}.attn_{part}.weight").T).reshape(time, heads, -1)
            for part, heads in (("q", self.heads), ("k", self.key_heads), ("v", self.key_heads))
        )
        q, k = self._turned(q), self._turned(k)
        k, v = (np.repeat(part, self.heads // self.key_heads, axis=1) for part in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(q.shape[-1])
        scores[:, np.triu(np.ones((time, time), dtype=bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hts,shd->thd", weights, v).reshape(time, -1)
        return mixed @ self.weight(f"{block}.attn_output.weight").T

    def _turned(self, x: np.ndarray) -> np.ndarray:
        """Rotary embedding (Su et al. 2021, equation 34): neighbouring pairs, one angle each."""
        time, _, width = x.shape
        speeds = self.base ** (-np.arange(0, width, 2) / width)
        angles = np.arange(time)[:, None, None] * speeds
        even, odd = x[..., ::2], x[..., 1::2]
        turned = np.empty_like(x)
        turned[..., ::2] = even * np.cos(angles) - odd * np.sin(angles)
        turned[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
        return turned

    def _feed_forward(self, x: np.ndarray, block: str) -> np.ndarray:
        normal = self._norm(x, f"{block}.ffn_norm.weight")
        gate, up = (normal @ self.weight(f"{block}.ffn_{part}.weight").T for part in ("gate", "up"))
        return (gate / (1 + np.exp(-gate)) * up) @ self.weight(f"{block}.ffn_down.weight").T


def _q4_1(raw: np.ndarray) -> np.ndarray:
    """Blocks of 32: scale and minimum in half precision, then 16 bytes of two numbers each."""
    blocks = raw.reshape(-1, 20)
    scale, least = blocks[:, :4].copy().view(np.float16).astype(np.float32).T[..., None]
    both = blocks[:, 4:]
    return scale * np.concatenate([both & 15, both >> 4], axis=1) + least


def _q8_0(raw: np.ndarray) -> np.ndarray:
    """Blocks of 32: a scale in half precision, then signed bytes."""
    blocks = raw.reshape(-1, 34)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return scale * blocks[:, 2:].view(np.int8)


_UNPACK = {
    "F32": lambda raw: raw.view(np.float32),
    "F16": lambda raw: raw.view(np.float16).astype(np.float32),
    "Q8_0": _q8_0,
    "Q4_1": _q4_1,
}
