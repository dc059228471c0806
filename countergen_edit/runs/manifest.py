"""The manifest of a run: all that it depends on, when and where it was made."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import countergen_edit
from countergen_edit.core.writing import described, digest, own_code, versions
from countergen_edit.data.axis import SPLITS
from countergen_edit.metrics.base import METRICS, Cost, Metric
from countergen_edit.metrics.rows import SCHEMA
from countergen_edit.models import LanguageModel
from countergen_edit.models.tokens import doubled
from countergen_edit.runs.plan import Plan

QUANTIZED = "All figures are of quantised weights; a checkpoint has full ones: audit it too."


def source_digest() -> str:
    """SHA-256 of the package's code and data: a changed program starts a new run."""
    root = Path(countergen_edit.__file__).parent
    sha = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".yaml", ".txt")):
        sha.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return sha.hexdigest()


def git_commit() -> str | None:
    """The commit of the package's own checkout; None for an installed package."""
    root = Path(countergen_edit.__file__).parent.parent
    if not (root / ".git").exists() or not shutil.which("git"):
        return None
    command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None


def make_manifest(
    *,
    config: Mapping[str, Any],
    model: str,
    model_hash: str,
    data_hash: str,
    seed: int,
    command: Sequence[str],
    bos: bool | None = None,
    template: Mapping[str, str] | None = None,
    metrics: Sequence[Metric] = (),
    origin: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The manifest of a run; `fingerprint` covers everything that its rows depend on.

    `origin` is the file that the weights were converted from, `bos` whether texts begin with the
    beginning-of-text token (None without one), `template` as `LanguageModel.conversation`.
    """
    depends = {
        "model_hash": model_hash,
        "bos": bos,
        "template": dict(template) if template else None,
        "data_hash": data_hash,
        "source_hash": source_digest(),
        "versions": versions(),
        "seed": seed,
    }
    return {
        "schema": SCHEMA,
        "fingerprint": digest({"config": config, **depends}),
        "model": model,
        **({"model_origin": dict(origin)} if origin else {}),
        **depends,
        "python": platform.python_version(),
        "command": [*command],
        "metrics": {metric.name: METRICS.name_of(metric) for metric in metrics},
        "budgets": {metric.name: metric.budget for metric in metrics if isinstance(metric, Cost)},
        "git_commit": git_commit(),
    }


def manifest_of(
    plan: Plan, model: LanguageModel, config: Mapping[str, Any] | None, command: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings (those of the plan unless given) and the manifest of a plan's run."""
    tasks = plan.tasks
    code = own_code([*plan.erasers.values(), *plan.metrics, *plan.baselines.values()])
    settings = dict(config or described(plan, ("tasks", "before", "scratch")))
    settings |= {"own_code": code} if code else {}
    settings |= {"before": plan.before.id} if plan.before else {}
    data = {t.name: digest([t.fingerprint, described(t.neutral)]) for t in tasks}
    manifest = make_manifest(
        config=settings,
        model=model.name,
        model_hash=model.fingerprint,
        bos=model.adds_bos,
        template=model.conversation,
        data_hash=digest(data),
        seed=plan.seed,
        command=command,
        metrics=plan.metrics,
        origin=model.origin,
    )
    measuring = [described(metric, without=("budget",)) for metric in plan.metrics]
    depends = ("model_hash", "bos", "template", "source_hash", "versions", "seed")
    alike = [*(manifest[key] for key in depends), plan.positions, plan.skip_attention_sinks]
    alike += [measuring, code]
    warnings = [w for t in tasks for w in t.warnings]
    added = {} if model.adds_bos is None else model.tokenizer.added_tokens_decoder
    sets = [data for t in tasks for split in SPLITS for data in t.sets(split)]
    texts = "\n".join(text for data in sets for text in data.texts)
    if tokens := [str(x) for x in added.values() if x.special and str(x) in texts]:
        warnings.append(f"Prompts contain control tokens of {model.name}: {', '.join(tokens)}.")
    warnings += [QUANTIZED] if model.is_quantized else []
    if model.conversation and (twice := doubled(model)):
        warnings.append(f"The chat template of {model.name} writes {' and '.join(twice)} twice.")
    test = (*tasks[0].test, *(lack.data for lack in tasks[0].out_of_vocabulary))
    first = [sample for data in test[:1] for sample in data.samples[:2]]
    prompts = [v.text for sample in first for v in sample.variations[::7][:2]]
    return settings, {
        **manifest,
        # Jobs of a sweep share the units of a task if these digests are equal.
        "tasks": {
            t.name: digest([*alike, described(t.axis), t.groups, data[t.name]]) for t in tasks
        },
        **({"before": [plan.before.label]} if plan.before else {}),
        **({"is_quantized": True} if model.is_quantized else {}),
        **({"warnings": [*dict.fromkeys(warnings)]} if warnings else {}),
        # Test prompts of two groups, and neutral text, to prove a saved model equal on.
        "texts": [*prompts, *tasks[0].neutral.get("test", ())[:4]],
        "names": {t.name: t.names for t in tasks},
        "compared": {t.name: t.axis.of_how_many(len(t.groups)) for t in tasks},
        "fitted": {t.name: [data.name for data in t.fit] for t in tasks},
        "kept": {t.name: [data.name for data in t.keep] for t in tasks},
    }
