"""`countergen-edit testbed`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import say
from countergen_edit.models import load_model
from countergen_edit.reports.verify_testbed import agreement_shares, verify_testbed
from countergen_edit.testbed import directory, load_truth, truth_in


def run_testbed(config: Mapping[str, Any], words: Sequence[str] = ()) -> None:
    """Verify a testbed."""
    source = Path(config["folder"]) if config["folder"] else directory()
    model, truth = load_model(source), truth_in(source) or load_truth()
    table = verify_testbed(model, truth)
    say([table.to_string(float_format="%.3f", na_rep="–")])
    each = (
        f"{group or 'both groups'} {p:.3f}" for group, p in agreement_shares(model, truth).items()
    )
    say([f"Agreement: {', '.join(each)}."])
    say(["Next, erase what was planted: countergen-edit audit"])
