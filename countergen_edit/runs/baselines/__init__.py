"""Baselines of an audit's edits: prompting, steering, a random map."""

from countergen_edit.runs.baselines.base import BASELINES, Baseline, kept

__all__ = ["BASELINES", "Baseline", "kept"]
