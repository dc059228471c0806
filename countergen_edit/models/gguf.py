"""GGUF files, as llama.cpp writes them, dequantised by transformers."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.locating import Location
from countergen_edit.models.language_model import ORIGIN

BOS_UNLESS_TOLD = (
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    "jina-v5-nano",
)
"""Pre-tokenizers (`tokenizer.ggml.pre`) of files that mean a beginning-of-text token where they do
not say so: llama.cpp, src/llama-vocab.cpp. transformers adds none."""
_WHOLE = re.compile(r"B?F\d+")
"""Types that hold numbers one by one; all others hold blocks of small integers with their scale."""


@dataclass(frozen=True)
class Header:
    """What a GGUF file says of itself.

    Attributes
    ----------
    adds_bos
        Whether a text begins with BOS; None where neither the file nor llama.cpp's rule says.
    weights
        The type of most of its numbers, such as Q4_1.
    count
        How many numbers its tensors hold.
    """

    path: Path
    sha256: str
    adds_bos: bool | None
    weights: str
    count: int

    @property
    def origin(self) -> dict[str, str]:
        """File, hash and kind of weights, for models made of it."""
        bits = re.search(r"\d+", self.weights)
        size = f"{bits[0]}-bit " if bits else ""
        words = f"a {size}rounding ({self.weights}), dequantised"
        if _WHOLE.fullmatch(self.weights):
            words = f"weights as stored ({self.weights})"
        return {"file": self.path.name, "sha256": self.sha256, "weights": words}

    def settle(self, hf_model: Any, tokenizer: Any) -> None:
        """Write into a model and its tokenizer what transformers loses of the file."""
        setattr(hf_model.config, ORIGIN, self.origin)
        hf_model.config.name_or_path = str(self.path)  # was the folder of `alone`
        if self.adds_bos is not None and tokenizer.add_bos_token != self.adds_bos:
            tokenizer.add_bos_token = self.adds_bos
        tensors = {tensor.data_ptr(): tensor for tensor in hf_model.state_dict().values()}
        lost = self.count - sum(tensor.numel() for tensor in tensors.values())
        if lost > 0:
            warnings.warn(
                f"transformers leaves out {lost:,} of the {self.count:,} numbers in {self.path} (a "
                "scaling of positions, for instance): the model may not be quite what llama.cpp "
                "runs",
                stacklevel=2,
            )


def read_header(path: Path) -> Header:
    """Read a file's header; `UserError` if transformers cannot make a model of it."""
    if find_spec("gguf") is None:
        raise UserError(
            f"{path} takes the package gguf, which is not installed: "
            "pip install 'countergen-edit[gguf]'"
        )
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        fields = {key: field.contents() for key, field in reader.fields.items() if _is_small(field)}
    except (ValueError, LookupError, OSError, OverflowError) as error:
        raise UserError(f"{path} is no whole GGUF file: {error or type(error).__name__}") from error
    parts = fields.get("split.count", 0)
    if parts > 1:
        raise UserError(
            f"{path} is one of {parts} parts: join them with llama.cpp's gguf-split --merge"
        )
    _check_architecture(path, str(fields.get("general.architecture")))
    kind = fields.get("tokenizer.ggml.model")
    if kind is None or "tokenizer.ggml.tokens" not in reader.fields:
        raise UserError(
            f"no tokenizer in {path}: convert the model again with its tokenizer's files beside it"
        )
    _check_tokenizer(path, str(kind))
    numbers: Counter[str] = Counter()
    for tensor in reader.tensors:
        numbers[tensor.tensor_type.name] += int(tensor.n_elements)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    unless_told = True if fields.get("tokenizer.ggml.pre") in BOS_UNLESS_TOLD else None
    return Header(
        path,
        sha256,
        fields.get("tokenizer.ggml.add_bos_token", unless_told),
        max(numbers, key=numbers.__getitem__, default="F32"),
        numbers.total(),
    )


@contextmanager
def alone(location: Location) -> Iterator[Location]:
    """The location with nothing beside the GGUF file, such as the config of another model."""
    if location.gguf is None:
        yield location
        return
    with TemporaryDirectory() as place:
        (Path(place) / location.gguf.name).symlink_to(location.gguf.resolve())
        yield replace(location, name=place)


@contextmanager
def dequantising(location: Location) -> Iterator[dict[str, Any]]:
    """Further keywords of `from_pretrained` for a GGUF file; else none."""
    if location.gguf is None:
        yield {}
        return
    from transformers import GgufConfig

    # The bar of its GGUF reader has no switch.
    with redirect_stderr(io.StringIO()):
        yield {"quantization_config": GgufConfig(dequantize=True)}


def _is_small(field: Any) -> bool:
    return len(field.data) == 1


def _check_architecture(path: Path, name: str) -> None:
    from transformers.integrations.gguf.gguf_config_mapping import GGUF_CONFIG_ARCHS
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    valid = {*GGUF_CONFIG_ARCHS, *GGUF_SUPPORTED_ARCHITECTURES} - {"general", "tokenizer"}
    # The file's qwen2moe and gpt-oss are qwen2_moe and gpt_oss there.
    if _letters(name) not in map(_letters, valid):
        raise _not_read("GGUF architecture", name, path, sorted(valid))


def _check_tokenizer(path: Path, kind: str) -> None:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_TOKENIZER_TYPES

    if kind not in GGUF_TOKENIZER_TYPES:
        raise _not_read("GGUF tokenizer", kind, path, sorted(GGUF_TOKENIZER_TYPES))


def _not_read(what: str, name: str, path: Path, valid: list[str]) -> UserError:
    return UserError(f"transformers cannot make a model of {path}: {unknown(what, name, valid)}")


def _letters(name: str) -> str:
    return re.sub(r"[-_]", "", name)
