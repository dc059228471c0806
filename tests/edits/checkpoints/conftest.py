"""Edited models, saved once, and their answers in a process without this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel, capture, load
from tests import tiny_models
from tests.tiny_models import FAMILIES, tiny_model_dir

TEXT = "Jane is a nurse and John"
NEW_TOKENS = 24


def oblique_erasure(d: int, rank: int = 2, seed: int = 0, mean: Any = None) -> AffineErasure:
    """left ≠ rightᵀ and a mean far from zero, so that a lost transpose or offset shows."""
    rng = np.random.default_rng(seed)
    right, _ = np.linalg.qr(rng.normal(size=(d, rank)))
    left = right + 0.2 * rng.normal(size=(d, rank))
    left = left @ np.linalg.inv(right.T @ left)
    return AffineErasure(left, right.T, rng.normal(size=d) if mean is None else mean)


def edit_at(model: LanguageModel, site: str) -> Edit:
    layer = None if site == "embed" else 1
    mean = None
    if model.d_model > 32:  # a trained model: a mean it has never seen would blow its logits up
        mean = capture(model, [TEXT], sites=(site,), layers=[1]).values[site][0, 0]
    return Edit.at(site, {layer: oblique_erasure(model.d_model, mean=mean)})


FOLDED = {"gpt2": ("attn_out", "mlp_out"), "llama": ("attn_out",), "opt": ("mlp_out",)}
"""Places that fold exactly: with bias, and with a bias switched on."""
CARRIED = dict.fromkeys(FAMILIES, ("resid_post",)) | {
    "qwen2": ("resid_post", "attn_out"),
    "opt": ("resid_post", "mlp_out"),
    "gemma": ("resid_post", "embed"),
}


@pytest.fixture(scope="session")
def models(
    tmp_path_factory: pytest.TempPathFactory, testbed: LanguageModel
) -> dict[str, LanguageModel]:
    root = tmp_path_factory.mktemp("sources")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_models, "CONTEXT", 96)  # room for the prompt and what follows it
        tiny = {family: load(tiny_model_dir(family, root / family)) for family in FAMILIES}
    return {"testbed": testbed} | tiny


@pytest.fixture(scope="session")
def saved(
    models: dict[str, LanguageModel], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[str, Edit, Path]]:
    """By name `family-site-form`: the family, the edit, and its folder."""
    root = tmp_path_factory.mktemp("saved")
    checkpoints = {}
    for form, table in (("folded", FOLDED), ("carried", CARRIED | {"testbed": ("resid_post",)})):
        for family, sites in table.items():
            for site in sites:
                name = f"{family}-{site}-{form}"
                folder, edit = root / name, edit_at(models[family], site)
                folder.mkdir()
                write_model(models[family], edit, folder, form)  # type: ignore[arg-type]
                checkpoints[name] = (family, edit, folder)
    return checkpoints


@pytest.fixture(scope="session")
def stranger(
    models: dict[str, LanguageModel],
    saved: dict[str, tuple[str, Edit, Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("stranger")
    job = {
        "folders": {name: str(folder) for name, (_, _, folder) in saved.items()},
        "ids": {
            name: models[family].tokenizer(TEXT).input_ids for name, (family, *_) in saved.items()
        },
        "text": TEXT,
        "new": NEW_TOKENS,
        "out": str(place / "out.json"),
    }
    (place / "job.json").write_text(json.dumps(job))
    script = (Path(__file__).parent / "stranger.py").read_text("utf-8")
    run = subprocess.run(
        [sys.executable, "-c", script, str(place / "job.json")],
        cwd=place,
        env=os.environ | {"HF_MODULES_CACHE": str(place / "modules")},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return dict(json.loads((place / "out.json").read_text()))
