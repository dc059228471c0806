"""What a run of an audit depends on, and the folder that follows from it.

Comes in: a composed config and what was built from it. Goes out: a `RunFolder` with its manifest.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.cli.settings import AuditSettings
from countergen_edit.experiments.audit import AuditPlan
from countergen_edit.experiments.manifest import make_manifest
from countergen_edit.models import LanguageModel


def identity(
    command: str,
    config: Mapping[str, Any],
    settings: AuditSettings,
    model: LanguageModel,
    data_hash: str,
    saving: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that a run depends on, and its manifest.

    Where a checkpoint went, which `saving` says, is nobody's business who gets it.
    """
    kept = {key: value for key, value in config.items() if key not in ("run_dir", *saving)}
    words = [w for w in sys.argv[1:] if w.partition("=")[0] not in saving]
    manifest = make_manifest(
        config=kept,
        model=settings.model.name,
        model_hash=model.fingerprint,
        data_hash=data_hash,
        seed=settings.seed,
        command=["countergen-edit", command, *words, *(["save=DIR"] if saving else [])],
    )
    return kept, manifest


def run_place(
    command: str, settings: AuditSettings, plan: AuditPlan, manifest: Mapping[str, Any]
) -> Path:
    """The folder that was asked for, or one under runs/ named after what the run depends on."""
    label = Path(settings.model.name).name
    named = f"{label}-{plan.fit[0].axis}-{manifest['fingerprint'][:8]}"
    return Path(settings.run_dir or Path("runs") / command / named)
