"""`countergen-edit testbed`: hold the shipped model against its planted truth, or train it anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import console, say
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.models import load
from countergen_edit.reports.render.terminal import print_table
from countergen_edit.reports.verify_testbed import effect_table, recovery_table, verify_testbed
from countergen_edit.testbed import directory, load_axis, load_truth, truth_in
from countergen_edit.testbed.train import train

ACTIONS = ("verify", "train")
BUILT = Path("build") / "testbed"


def run(config: Mapping[str, Any]) -> None:
    """Do what `action` says."""
    action, place = config["action"], config["directory"]
    if action not in ACTIONS:
        raise unknown("action", action, ACTIONS)
    if action == "train":
        target = Path(place) if place else BUILT
        if target.exists() and any(target.iterdir()):
            raise UserError(f"directory={target} is not empty: choose another or remove it")
        train(load_truth(), load_axis("gender"), target)
        say([f"Testbed written to {target}; verify with directory={target}"])
        return
    source = Path(place) if place else directory()
    truth = truth_in(source) or load_truth()
    rows = verify_testbed(load(source), truth)
    for table in (recovery_table(rows), effect_table(rows)):
        print_table(table, console)
    say(["Next, erase what was planted: countergen-edit audit"])
