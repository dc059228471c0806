"""`countergen-edit augment`: texts → counterfactual pairs, what was left out, and how it was made.

Comes in: a composed config. Goes out: a run folder with `pairs.jsonl`. Refused: no file of texts, a
line that is none, a setting out of range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit.cli.models import model_settings, told
from countergen_edit.cli.printing import show
from countergen_edit.cli.settings import command_line, integer
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import digest
from countergen_edit.data.augmentation import Conditions
from countergen_edit.data.axis import Axis
from countergen_edit.data.sources.inputs import read_inputs
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.reports.run import open_run
from countergen_edit.runs.augmenting import PAIRS, REFUSED, Augmentation
from countergen_edit.runs.folder import Prepared
from countergen_edit.runs.manifest import make_manifest

PLACES = ("run_dir", "batch_size", "inputs", "texts")
"""Settings that no pair depends on; of the file its texts count."""
BY_WORDS = "word substitution"


def run(config: Mapping[str, Any]) -> None:
    """Make the pairs, or what is left of them; say how many, and where they are."""
    plan, axis = plan_of(config)
    section = config.get("model")
    model = model_settings(section).load() if section else None
    plan.check(model)
    model = model.alone() if model else None  # each request is a conversation of its own
    content = {key: value for key, value in config.items() if key not in PLACES}
    content |= {"axis": axis} | ({"model": told(section)} if section else {})
    manifest = make_manifest(
        config=content,
        model=model.name if model else BY_WORDS,
        model_hash=model.fingerprint if model else "",
        bos=model.adds_bos if model else None,
        data_hash=digest([asdict(one) for one in plan.inputs]),
        seed=plan.seed,
        command=command_line("augment"),
        origin=model.origin if model else None,
    )
    label = f"{plan.name}-{axis['name']}-{manifest['fingerprint'][:8]}"
    path = Path(config["run_dir"] or Path("runs") / "augment" / label)
    Prepared(path, content, manifest, lambda: model, plan.run).run()
    pairs = path / PAIRS
    lines = [f"Pairs: {pairs}", f"Left out: {path / REFUSED}"]
    if pairs.stat().st_size:
        lines.append(f"A model's bias on them: countergen-edit audit eraser=none data={pairs}")
    show(open_run(path), *lines)


def plan_of(config: Mapping[str, Any]) -> tuple[Augmentation, Mapping[str, Any]]:
    """What a composed config describes, checked, and the axis as its file has it.

    Raises:
        UserError: there is no file of texts, or a setting is out of range.
    """
    inputs, temperature = config["inputs"], float(config["temperature"])
    if temperature == 0:
        raise UserError("temperature=0: paraphrases are sampled, which takes one above 0")
    content = config_of("axis", config["axis"])
    axis = Axis.from_config(content)
    substitution = Substitution.from_config(axis, content.get("substitution"), config["groups"])
    plan = Augmentation(
        inputs=read_inputs(inputs),
        name=Path(inputs).stem,
        conditions=Conditions(substitution, float(config["max_dissimilarity"]), config["compared"]),
        request=config["request"],
        paraphrases=integer("paraphrases", config["paraphrases"]),
        paraphrase_request=config["paraphrase_request"],
        top_p=float(config["top_p"]),
        temperature=temperature,
        batch_size=integer("batch_size", config["batch_size"]),
        seed=integer("seed", config["seed"]),
    )
    return plan, content
