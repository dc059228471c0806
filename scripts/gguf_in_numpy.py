"""A model from a GGUF file in NumPy: the reference for the real models.

It reads a Llama or Gemma 3 and computes the logits of a text in float64. The package gguf reads the
table of contents only; weights are decoded here as ggml's block_q4_1, block_q4_K and so on define
them. The logits use the file's order of rows, in which a Llama's rotation pairs neighbours, so that
a wrong reordering for transformers, which pairs halves, is detected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gguf import GGUFReader


class Architecture(NamedTuple):
    """What a file's metadata does not say.

    A head's rows have the shape `pairs`; a rotation turns along the axis of length 2. Weights of
    norms are stored with `added`. Every `period`-th block attends to all earlier tokens; the others
    to a window, with rotations of `local_base`.
    """

    ffn_norm: str
    pairs: tuple[int, int]
    activation: Callable[[np.ndarray], np.ndarray]
    scaled_embedding: bool = False
    added: int = 0
    period: int = 1
    local_base: float = 10_000


ARCHITECTURES = {
    "llama": Architecture("post_attention_layernorm", (-1, 2), lambda x: x / (1 + np.exp(-x))),
    "gemma3": Architecture(
        "pre_feedforward_layernorm",
        (2, -1),
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        scaled_embedding=True,
        added=1,
        period=6,
    ),
}
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}
OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


class NumpyModel:
    """A file's weights and sizes.

    Args:
        path: a GGUF file of one of `ARCHITECTURES`.
    """

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        name = reader.fields["general.architecture"].contents()
        self.kind = ARCHITECTURES[name]

        def field(key: str) -> Any:
            key = f"{name}.{key}"
            return reader.fields[key].contents() if key in reader.fields else None

        self.layers = field("block_count")
        self.heads = field("attention.head_count")
        self.key_heads = field("attention.head_count_kv")
        self.epsilon = field("attention.layer_norm_rms_epsilon")
        self.base = field("rope.freq_base")
        self.window = field("attention.sliding_window")

    def weight(self, name: str) -> np.ndarray:
        """A tensor in the file's order, float32 ``[output, input]`` or ``[width]``."""
        tensor = self.tensors[name]
        raw = np.ascontiguousarray(tensor.data).view(np.uint8).ravel()
        values = UNPACK[tensor.tensor_type.name](raw)
        return values.reshape(tuple(int(n) for n in reversed(tensor.shape)))

    def as_transformers(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every weight under the name and in the order of transformers."""
        names = NAMES | {"ffn_norm": self.kind.ffn_norm}
        axis = 1 + self.kind.pairs.index(2)
        for name in self.tensors:
            values = self.weight(name)
            if name.endswith("norm.weight"):
                values = values - np.float32(self.kind.added)
            if name in OUTSIDE:
                yield OUTSIDE[name], values
                continue
            _, layer, part, _ = name.split(".")
            heads = {"attn_q": self.heads, "attn_k": self.key_heads}.get(part)
            if heads:  # pairs become halves
                split = values.reshape(heads, *self.kind.pairs, values.shape[-1])
                values = np.moveaxis(split, axis, 1).reshape(values.shape)
            yield f"model.layers.{layer}.{names[part]}.weight", values

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Next-token logits ``[time, vocabulary]``, float64."""
        embedding = self.weight("token_embd.weight")
        x = embedding[list(ids)].astype(np.float64)
        x *= np.sqrt(x.shape[-1]) if self.kind.scaled_embedding else 1
        for layer in range(self.layers):
            block = f"blk.{layer}"
            x = x + self._norm(self._attention(x, layer), f"{block}.post_attention_norm.weight")
            x = x + self._norm(self._feed_forward(x, block), f"{block}.post_ffw_norm.weight")
        output = self.weight("output.weight") if "output.weight" in self.tensors else embedding
        return self._norm(x, "output_norm.weight") @ output.T.astype(np.float64)

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """RMSNorm; the input itself where the file has no such norm."""
        if name not in self.tensors:
            return x
        scale = np.sqrt((x**2).mean(-1, keepdims=True) + self.epsilon)
        return x / scale * self.weight(name)

    def _attention(self, x: np.ndarray, layer: int) -> np.ndarray:
        block, time = f"blk.{layer}", len(x)
        everywhere = (layer + 1) % self.kind.period == 0
        base, window = (self.base, time) if everywhere else (self.kind.local_base, self.window)
        normal = self._norm(x, f"{block}.attn_norm.weight")
        q, k, v = (
            (normal @ self.weight(f"{block}.attn_{part}.weight").T).reshape(time, heads, -1)
            for part, heads in (("q", self.heads), ("k", self.key_heads), ("v", self.key_heads))
        )
        q = self._turned(self._norm(q, f"{block}.attn_q_norm.weight"), base)
        k = self._turned(self._norm(k, f"{block}.attn_k_norm.weight"), base)
        k, v = (np.repeat(part, self.heads // self.key_heads, axis=1) for part in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(q.shape[-1])
        distance = np.subtract.outer(np.arange(time), np.arange(time))
        scores[:, (distance < 0) | (distance >= window)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hts,shd->thd", weights, v).reshape(time, -1)
        return mixed @ self.weight(f"{block}.attn_output.weight").T

    def _turned(self, x: np.ndarray, base: float) -> np.ndarray:
        """Rotary embedding (Su et al. 2021, equation 34): one angle for each pair."""
        time, heads, width = x.shape
        speeds = base ** (-np.arange(0, width, 2) / width)
        axis = 2 + self.kind.pairs.index(2)
        a, b = np.moveaxis(x.reshape(time, heads, *self.kind.pairs), axis, 0)
        turned = (a + 1j * b) * np.exp(1j * np.arange(time)[:, None, None] * speeds)
        return np.stack([turned.real, turned.imag], axis).reshape(x.shape)

    def _feed_forward(self, x: np.ndarray, block: str) -> np.ndarray:
        normal = self._norm(x, f"{block}.ffn_norm.weight")
        gate, up = (normal @ self.weight(f"{block}.ffn_{part}.weight").T for part in ("gate", "up"))
        return (self.kind.activation(gate) * up) @ self.weight(f"{block}.ffn_down.weight").T


def _halves(raw: np.ndarray) -> np.ndarray:
    """Numbers in half precision."""
    return raw.copy().view(np.float16).astype(np.float32)


def _parts(raw: np.ndarray, bits: int) -> np.ndarray:
    """Bytes ``[..., n]`` cut into numbers ``[..., 8 / bits, n]``, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return raw[..., None, :] >> shifts & np.uint8(2**bits - 1)


def _q4_1(raw: np.ndarray) -> np.ndarray:
    """Blocks of 32: scale and minimum in half precision, then 16 bytes of two numbers each."""
    blocks = raw.reshape(-1, 20)
    scale, least = _halves(blocks[:, :4]).T[..., None]
    return scale * _parts(blocks[:, 4:], 4).reshape(-1, 32) + least


def _q5_0(raw: np.ndarray) -> np.ndarray:
    """Blocks of 32: a scale in half precision, 32 fifth bits, then bytes of two numbers each."""
    blocks = raw.reshape(-1, 22)
    fifth = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    low = _parts(blocks[:, 6:], 4).reshape(-1, 32)
    return _halves(blocks[:, :2]) * ((low | fifth << 4).astype(np.int8) - 16)


def _q8_0(raw: np.ndarray) -> np.ndarray:
    """Blocks of 32: a scale in half precision, then signed bytes."""
    blocks = raw.reshape(-1, 34)
    return _halves(blocks[:, :2]) * blocks[:, 2:].view(np.int8)


def _q4_k(raw: np.ndarray) -> np.ndarray:
    """Blocks of 256: factors of scales and minima in half precision, 8 of each, then the numbers.

    Of their 12 bytes, 8 hold four of each in 6 bits, with the upper 2 bits of the other four.
    """
    blocks = raw.reshape(-1, 144)
    packed = blocks[:, 4:16].reshape(-1, 3, 4)
    first, upper = packed[:, :2] & 63, packed[:, :2] >> 6
    both = np.concatenate([first, _parts(packed[:, 2], 4) | upper << 4], axis=-1)
    scale, least = (_halves(blocks[:, :4])[..., None] * both).swapaxes(0, 1)[..., None]
    numbers = _parts(blocks[:, 16:].reshape(-1, 4, 32), 4).reshape(-1, 8, 32)
    return scale * numbers - least


def _q6_k(raw: np.ndarray) -> np.ndarray:
    """Blocks of 256: 128 bytes of lower 4 bits, 64 of upper 2, 16 scales, and their factor."""
    blocks = raw.reshape(-1, 210)
    lower = _parts(blocks[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 256)
    upper = _parts(blocks[:, 128:192].reshape(-1, 2, 32), 2).reshape(-1, 256)
    scales = _halves(blocks[:, 208:]) * blocks[:, 192:208].view(np.int8)
    numbers = (lower | upper << 4).astype(np.int8) - 32
    return scales[..., None] * numbers.reshape(-1, 16, 16)


UNPACK = {
    "F32": lambda raw: raw.view(np.float32),
    "F16": _halves,
    "Q8_0": _q8_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q4_K": _q4_k,
    "Q6_K": _q6_k,
}
