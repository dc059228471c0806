"""GGUF files, as llama.cpp writes them, dequantised by transformers."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import Location
from countergen_edit.models.language_model import ORIGIN

BOS_PRE_TOKENIZERS = (
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    "jina-v5-nano",
)
"""Pre-tokenizers (`tokenizer.ggml.pre`) of files whose texts begin with BOS unless the file says
otherwise: llama.cpp, src/llama-vocab.cpp. transformers adds none."""
_WHOLE = re.compile(r"B?F\d+")
"""Types that hold numbers one by one; all others hold blocks of small integers with their scale."""


@dataclass(frozen=True)
class Header:
    """What transformers loses of a GGUF file's metadata.

    `bos` is "auto" where neither the file nor llama.cpp's rule says whether texts begin with BOS;
    `origin` names the file and its rounding, and `count` is how many numbers it holds.
    """

    path: Path
    bos: bool | str
    origin: dict[str, str]
    count: int

    def settle(self, hf_model: Any) -> None:
        """Write the file's name and rounding into a model's config, and warn of lost numbers."""
        setattr(hf_model.config, ORIGIN, self.origin)
        hf_model.config.name_or_path = str(self.path)  # was the folder of `alone`
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
    """Read a file's header; `UserError` if it is not whole."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UserError(
            f"{path} takes the package gguf, which is not installed: "
            "pip install 'countergen-edit[gguf]'"
        ) from error
    try:
        reader = GGUFReader(path)
        fields = {k: f.contents() for k, f in reader.fields.items() if len(f.data) == 1}
    except (ValueError, LookupError, OSError, OverflowError) as error:
        raise UserError(
            f"{path} is not a whole GGUF file: {error or type(error).__name__}"
        ) from error
    numbers: Counter[str] = Counter()
    for tensor in reader.tensors:
        numbers[tensor.tensor_type.name] += int(tensor.n_elements)
    kind = max(numbers, key=numbers.__getitem__, default="F32")
    bits = re.search(r"\d+", kind)
    words = f"a {f'{bits[0]}-bit ' if bits else ''}rounding ({kind}), dequantised"
    if _WHOLE.fullmatch(kind):
        words = f"weights as stored ({kind})"
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    default = True if fields.get("tokenizer.ggml.pre") in BOS_PRE_TOKENIZERS else "auto"
    bos = fields.get("tokenizer.ggml.add_bos_token", default)
    origin = {"file": path.name, "sha256": sha256, "weights": words}
    return Header(path, bos, origin, numbers.total())


@contextmanager
def alone(location: Location) -> Iterator[Location]:
    """The location with nothing beside the GGUF file, such as the config of another model."""
    if location.gguf is None:
        yield location
        return
    with TemporaryDirectory() as place:
        (Path(place) / location.gguf.name).symlink_to(location.gguf.resolve())
        yield replace(location, name=place)
