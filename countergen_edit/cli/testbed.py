"""`countergen-edit testbed`: hold the shipped model against its planted truth, or train it anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.verify_testbed import verify_testbed
from countergen_edit.models import load
from countergen_edit.reports.results import Results
from countergen_edit.reports.testbed_table import recovery_table
from countergen_edit.testbed import directory, load_axis, load_truth
from countergen_edit.testbed.train import train

ACTIONS = ("verify", "train")
BUILT = Path("build") / "testbed"


def run(config: Mapping[str, Any]) -> None:
    """Do what `action` says."""
    action, place = config["action"], config["directory"]
    if action not in ACTIONS:
        raise unknown("action", action, ACTIONS)
    console = Console(highlight=False)
    if action == "train":
        target = Path(place) if place else BUILT
        if target.exists() and any(target.iterdir()):
            raise UserError(f"directory={target} is not empty: choose another or remove it")
        train(load_truth(), load_axis("gender"), load_axis("nationality"), target)
        console.print(f"Testbed written to {target}; verify with directory={target}")
        return
    model = load(Path(place) if place else directory())
    console.print(recovery_table(Results(verify_testbed(model, load_truth()))))
