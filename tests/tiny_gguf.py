"""Tiny models as GGUF files, in the order that llama.cpp's converter uses, by the package gguf.

`write_gguf(path, model, tokenizer, "Q4_1")` writes one and gives back its weights as they stand in
the file: rounded, but named and ordered as transformers has them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

ARCHITECTURES = {"llama": "LLAMA", "qwen2": "QWEN2", "gemma3_text": "GEMMA3"}
ADDED = {"gemma3_text": 1}
"""What a file adds to the weights of norms."""
CONTROL, NORMAL = 3, 1


def _in_the_files_order(family: str, name: str, weight: np.ndarray, config: Any) -> np.ndarray:
    """A weight as llama.cpp's converter writes it.

    Of a llama, rows of queries and keys go from halves to neighbouring pairs.
    """
    if family == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
        queries = name.endswith("q_proj.weight")
        heads = config.num_attention_heads if queries else config.num_key_value_heads
        split = weight.reshape(heads, 2, -1, weight.shape[-1])
        return split.swapaxes(1, 2).reshape(weight.shape)
    return weight


def write_gguf(
    path: Path, model: Any, tokenizer: Any, kind: str = "F32", **fields: Any
) -> dict[str, np.ndarray]:
    """Write a model of one of `ARCHITECTURES` and its byte-level tokenizer.

    Args:
        path: the file.
        model: a `transformers` model.
        tokenizer: its tokenizer.
        kind: the type of its matrices; vectors are F32, as in llama.cpp's files.
        fields: further fields by their method of GGUFWriter, as `add_add_bos_token=True`;
            `tensors` are further tensors by their names; `with_tokenizer=False` leaves the
            tokenizer out.
    """
    import gguf

    config, family = model.config, model.config.model_type
    layers = config.num_hidden_layers
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[ARCHITECTURES[family]], layers)
    writer = gguf.GGUFWriter(path, fields.pop("architecture", ARCHITECTURES[family].lower()))
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    width = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    writer.add_rope_dimension_count(width)
    writer.add_key_length(width)
    if window := getattr(config, "sliding_window", None):
        writer.add_sliding_window(window)
    extra = fields.pop("tensors", {})
    if fields.pop("with_tokenizer", True):
        _add_tokenizer(writer, tokenizer)
    for field, value in fields.items():
        getattr(writer, field)(*value if isinstance(value, tuple) else (value,))

    written, tied = {}, config.tie_word_embeddings
    quantised = gguf.GGMLQuantizationType[kind]
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        added = ADDED.get(family, 0) if name.endswith("norm.weight") else 0
        weight = _in_the_files_order(family, name, tensor.float().numpy(), config) + added
        stem, _, suffix = name.rpartition(".")
        type_ = quantised if weight.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(np.ascontiguousarray(weight), type_)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", data, raw_dtype=type_)
        rounded = gguf.quants.dequantize(data, type_).reshape(weight.shape)
        places = np.arange(tensor.numel()).reshape(tensor.shape)
        back = np.empty(tensor.numel(), dtype=np.float32)
        back[_in_the_files_order(family, name, places, config).ravel()] = rounded.ravel() - added
        written[name] = back.reshape(tensor.shape)
    for name, values in extra.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written


def _add_tokenizer(writer: Any, tokenizer: Any) -> None:
    vocabulary = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    special = set(tokenizer.all_special_tokens)
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    special |= {token["content"] for token in content["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([CONTROL if token in special else NORMAL for token in vocabulary])
    writer.add_token_merges([" ".join(pair) for pair in content["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_unk_token_id(tokenizer.eos_token_id)
