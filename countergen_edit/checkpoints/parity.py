"""Does a saved model say what the edited one says? Asked in a fresh process without this package.

In: an edited model and a folder. Out: a `Parity`. Refused: a folder whose model differs, has
weights too few or too many, or does not load.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from countergen_edit.checkpoints import reload_script
from countergen_edit.edits import Edit, applied
from countergen_edit.errors import UserError
from countergen_edit.models import LanguageModel, encode
from countergen_edit.reading import json_mapping

TEXTS = ("Jane is a nurse and", "John works at the hospital, where", "The weather was")
"""What is compared where no texts are given."""
MOST_TEXTS, MOST_TOKENS = 8, 128
_TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
"""Relative to the largest logit, by the weights' type: a few of its last digits.

On one kind of device a carried edit usually costs none, as both sides run the same operations; what
is folded is rounded with the weights. On the testbed, whose residual stream reaches 800 and whose
logits reach 24, edited and folded logits in float32 each lie 2e-5 from their values in float64,
1.5e-5 from each other, and in float64 1e-7."""


@dataclass(frozen=True)
class Parity:
    """How far the reloaded model is from the edited one in memory."""

    max_difference: float
    """Of any logit."""
    tolerance: float
    effect: float
    """The largest change that the edit itself makes: what a lost edit would show."""
    max_logit: float
    texts: int
    tokens: int

    def to_dict(self) -> dict[str, Any]:
        """As `parity.json` has it."""
        return asdict(self)


def read_parity(path: Path) -> Parity:
    """What a `parity.json` of a checkpoint says, which is known to be as it was saved."""
    return Parity(**json_mapping(path))


def check_parity(
    model: LanguageModel, edit: Edit, folder: Path, texts: Sequence[str] = (), *, own_code: bool
) -> Parity:
    """Compare the logits of a saved model with those of the edited one in memory.

    Args:
        model: the unedited model, on which the edit is attached for a while.
        edit: what the folder should hold.
        folder: the checkpoint.
        texts: the first few are compared.
        own_code: the folder holds code that this package wrote, which is run. Without it none is,
            whatever the folder's config says.

    Raises:
        UserError: they differ, or keys are missing or unexpected; the message holds the figures.
    """
    ids = compared(model, texts)
    dtype = str(model.dtype).removeprefix("torch.")
    logits, keys = reload({"saved": (folder, ids, dtype, own_code)})
    if keys["saved"]:
        raise UserError(
            f"the checkpoint does not load whole: {', '.join(keys['saved'][:3])} missing or "
            "unexpected; nothing was saved"
        )
    return compare(model, edit, ids, [logits[f"saved.{i}"] for i in range(len(ids))])


def compared(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of the texts that are compared."""
    encodings = encode(model, [*(texts or TEXTS)][:MOST_TEXTS])
    most = len(model.preface) + MOST_TOKENS
    return [encoding.ids[:most] for encoding in encodings if encoding.ids]


def compare(
    model: LanguageModel, edit: Edit, ids: Sequence[Sequence[int]], saved: Sequence[Tensor]
) -> Parity:
    """Hold a saved model's logits of some texts against the edited one's.

    Raises:
        UserError: they differ; the message holds the figures.
    """
    differences, effects, sizes = [], [], []
    for row, logits in zip(ids, saved, strict=True):
        edited, unedited = in_memory(model, edit, row), in_memory(model, None, row)
        differences.append((edited - logits).abs().max())
        effects.append((edited - unedited).abs().max())
        sizes.append(edited.abs().max())
    # torch's maximum keeps NaN, which must not pass for agreement; Python's would lose it.
    difference, effect, largest = (
        float(torch.stack(values).max()) for values in (differences, effects, sizes)
    )
    tolerance = _TOLERANCE[model.dtype] * max(1.0, largest)
    parity = Parity(difference, tolerance, effect, largest, len(ids), sum(map(len, ids)))
    # An edit smaller than the rounding would be lost without being missed: half of it at most.
    if not difference <= tolerance or difference > effect / 2 > 0:
        raise UserError(
            f"the saved model is not the edited one: a logit differs by {difference:.2g} (at most "
            f"{tolerance:.2g}; the edit itself changes {effect:.2g}); nothing was saved; save it "
            "with form=carried, or load the model with model.dtype=float32"
        )
    return parity


def in_memory(
    model: LanguageModel, edit: Edit | None, ids: Sequence[int]
) -> Float64[Tensor, "time vocab"]:
    """Logits of one text under an edit."""
    row = torch.tensor([list(ids)])
    with applied(model, edit) if edit is not None else nullcontext():
        return model.logits(row, torch.ones_like(row))[0].double().cpu()


def reload(
    folders: Mapping[str, tuple[Path, Sequence[Sequence[int]], str, bool]],
) -> tuple[dict[str, Tensor], dict[str, list[str]]]:
    """Logits of checkpoints in a fresh process, and their missing or unexpected keys.

    Args:
        folders: by name, a checkpoint, token ids of its texts, the type of its weights, and whether
            it holds code that this package wrote, which is run; no other is.

    Raises:
        UserError: a checkpoint does not load; with the last line of what the process said.
    """
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as place:
        job, out = Path(place) / "job.json", Path(place) / "logits.safetensors"
        jobs = {
            name: [str(folder.resolve()), [list(row) for row in texts], dtype, own_code]
            for name, (folder, texts, dtype, own_code) in folders.items()
        }
        threads = torch.get_num_threads()
        job.write_text(json.dumps({"folders": jobs, "threads": threads, "out": str(out)}), "utf-8")
        script = Path(reload_script.__file__).read_text("utf-8")
        run = subprocess.run(
            [sys.executable, "-c", script, str(job)],
            cwd=place,
            env=os.environ
            | {"HF_MODULES_CACHE": place, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
        )
        if run.returncode:
            reason = (run.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UserError(f"the checkpoint does not load in a fresh process: {reason}")
        return load_file(out), json.loads(out.with_suffix(".json").read_text("utf-8"))
