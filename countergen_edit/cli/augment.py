"""`countergen-edit augment`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit.cli.models import model_settings, without_requesting
from countergen_edit.cli.printing import show
from countergen_edit.cli.study import command_line
from countergen_edit.core.conf_path import config_of
from countergen_edit.core.writing import digest
from countergen_edit.data.augmentation import Conditions
from countergen_edit.data.axis import Axis
from countergen_edit.data.sources.inputs import read_inputs
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.reports.run import open_run
from countergen_edit.runs.augmenting import PAIRS, REFUSED, Augmentation
from countergen_edit.runs.manifest import make_manifest
from countergen_edit.runs.prepared import Prepared

NO_ROW = ("run_dir", "file")
"""Settings that no pair depends on; of the file its texts count."""
REQUEST = (
    "Change {change} in the following text in the same way without changing anything else: "
    "{text}\n\nOutput:"
)
"""As in FairPair."""
PARAPHRASE_REQUEST = (
    "Say the following in other words, without changing what it says or whom it is about: "
    "{text}\n\nOutput:"
)


def run(config: Mapping[str, Any]) -> None:
    """Make the pairs, or resume."""
    content = config_of("axis", config["axis"])
    axis = Axis.from_config(content)
    substitution = Substitution.from_config(axis, content.get("substitution"), config["groups"])
    plan = Augmentation(
        inputs=read_inputs(config["file"]),
        name=Path(config["file"]).stem,
        conditions=Conditions(substitution, 0.15, "neutral"),
        request=REQUEST,
        paraphrases=config["paraphrases"],
        paraphrase_request=PARAPHRASE_REQUEST,
        top_p=0.7,
        temperature=1.0,
        batch_size=16,
        seed=config["seed"],
    )
    section = config.get("model")
    model = model_settings(section).load() if section else None
    plan.check(model)
    model = model.alone() if model else None  # each request is a conversation of its own
    kept = {key: value for key, value in config.items() if key not in NO_ROW}
    kept |= {"axis": content} | ({"model": without_requesting(section)} if section else {})
    manifest = make_manifest(
        config=kept,
        model=model.name if model else "word substitution",
        model_hash=model.fingerprint if model else "",
        bos=model.adds_bos if model else None,
        data_hash=digest([asdict(one) for one in plan.inputs]),
        seed=plan.seed,
        command=command_line("augment"),
        origin=model.origin if model else None,
    )
    label = f"{plan.name}-{content['name']}-{manifest['fingerprint'][:8]}"
    path = Path(config["run_dir"] or Path("runs") / "augment" / label)
    Prepared(path, kept, manifest, lambda: model, plan.run).run()
    pairs = path / PAIRS
    lines = [f"Pairs: {pairs}", f"Left out: {path / REFUSED}"]
    if pairs.stat().st_size:
        lines.append(f"A model's bias on them: countergen-edit audit eraser=none data={pairs}")
    show(open_run(path), *lines)
