"""Parity of a saved model and the edited one, in a process without this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from safetensors.torch import load_file
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.edits import UNCHANGED, Edit, applied
from countergen_edit.edits.checkpoints import reload_script
from countergen_edit.edits.checkpoints.source import SourceFiles
from countergen_edit.edits.checkpoints.stock import stock_model
from countergen_edit.models import LanguageModel, encode

_TEXTS = ("Jane is a nurse and", "John works at the hospital, where", "The weather was")
"""Texts by default."""
_MOST_TEXTS, MOST_TOKENS = 8, 128
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Relative to the largest logit, by the type of the weights. Carried edits usually agree exactly;
folded ones are rounded with the weights (on the testbed in float32 2e-5 of logits up to 24)."""


@dataclass(frozen=True)
class Parity:
    """Agreement of the reloaded model with the edited one in memory.

    `max_difference` is the largest of any logit, `effect` the largest change by the edit. `stored`
    holds the type of the saved weights, if it is another, and the difference when computing in it.
    """

    max_difference: float
    tolerance: float
    effect: float
    max_logit: float
    texts: int
    tokens: int
    stored: Mapping[str, float] = field(default_factory=dict)


def check_parity(
    model: LanguageModel,
    edit: Edit,
    folder: Path,
    texts: Sequence[str] = (),
    *,
    form: str,
    source: SourceFiles | None = None,
) -> Parity:
    """Compare logits of a saved model with those of the edited one in memory, on a few texts.

    `model` is unedited; code is run of a carried checkpoint alone. Weights are saved in the type of
    their `source`, or else the model's. `UserError` if logits or keys, but foreign ones, differ.
    """
    ids = compared_ids(model, texts)
    types = dict.fromkeys([model.dtype, source.dtype if source else model.dtype])
    names = [str(dtype).removeprefix("torch.") for dtype in types]
    loaded = folder
    adapter: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        if form == "adapter":
            loaded = Path(place)
            adapter = [str(folder.resolve())]
            stock_model(model).save_pretrained(place)
        how = (form == "carried", *adapter)
        logits, keys = reload({name: (loaded, ids, name, *how) for name in names})
    foreign = source.foreign if source else set[str]()
    if lost := set[str]().union(*keys.values()) - foreign:
        raise UserError(
            f"the checkpoint does not load whole: {', '.join(sorted(lost)[:3])} missing or "
            "unexpected; nothing was saved"
        )
    saved = {name: [logits[f"{name}.{i}"] for i in range(len(ids))] for name in names}
    relative = max(_TOLERANCE[dtype] for dtype in types)
    parity = compare_logits(model, edit, ids, saved.pop(names[0]), relative)
    stored = {}
    for name, tensors in saved.items():
        pairs = zip(ids, tensors, strict=True)
        differences = [(edited_logits(model, edit, row) - x).abs().max() for row, x in pairs]
        stored[name] = float(max(differences))
    return replace(parity, stored=stored)


def compared_ids(model: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of the texts that are compared."""
    encodings = encode(model, [*(texts or _TEXTS)][:_MOST_TEXTS])
    most = len(model.preface) + MOST_TOKENS
    return [encoding.ids[:most] for encoding in encodings if encoding.ids]


def compare_logits(
    model: LanguageModel,
    edit: Edit,
    ids: Sequence[Sequence[int]],
    saved: Sequence[Tensor],
    relative: float | None = None,
) -> Parity:
    """Compare a saved model's logits with the edited one's; `UserError` if they differ.

    The tolerance is `relative` to the largest logit, by default that of the model's type.
    """
    sizes = []
    for row, logits in zip(ids, saved, strict=True):
        edited = edited_logits(model, edit, row)
        unedited = edited_logits(model, None, row)
        sizes.append([x.abs().max() for x in (edited - logits, edited - unedited, edited)])
    # torch's maximum keeps NaN, which must not pass for agreement.
    difference, effect, largest = torch.tensor(sizes, dtype=torch.float64).amax(0).tolist()
    tolerance = (relative or _TOLERANCE[model.dtype]) * max(1.0, largest)
    # The loss of an edit smaller than the rounding would go unnoticed: allow half of it.
    if not difference <= tolerance or difference > effect / 2 > 0:
        raise UserError(
            f"the saved model is not the edited one: a logit differs by {difference:.2g} (at most "
            f"{tolerance:.2g}; the edit itself changes {effect:.2g}); nothing was saved; save it "
            "with form=carried, or load weights of float32 with model.dtype=float32"
        )
    return Parity(difference, tolerance, effect, largest, len(ids), sum(map(len, ids)))


def edited_logits(
    model: LanguageModel, edit: Edit | None, ids: Sequence[int]
) -> Float64[Tensor, "time vocab"]:
    """Logits of one text under an edit."""
    row = torch.tensor([list(ids)])
    with applied(model, edit or UNCHANGED):
        return model.logits(row, torch.ones_like(row))[0].double().cpu()


def reload(
    folders: Mapping[str, tuple[Any, ...]],
) -> tuple[dict[str, Tensor], dict[str, list[str]]]:
    """Logits `name.i` of checkpoints in a new process, and their missing or unexpected keys.

    `folders` are those of `reload_script` by name. `UserError` if a checkpoint does not load.
    """
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "logits.safetensors"
        jobs = {name: [str(folder.resolve()), *how] for name, (folder, *how) in folders.items()}
        job = {"folders": jobs, "threads": torch.get_num_threads(), "out": str(out)}
        script = Path(reload_script.__file__).read_text("utf-8")
        run = subprocess.run(
            [sys.executable, "-c", script, json.dumps(job)],
            cwd=place,
            env=os.environ | _ENVIRONMENT | {"HF_MODULES_CACHE": place},
            capture_output=True,
            text=True,
        )
        if run.returncode:
            reason = (run.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UserError(f"the checkpoint does not load in a fresh process: {reason}")
        return load_file(out), json.loads(out.with_suffix(".json").read_text("utf-8"))
