"""Sets that a model cannot be asked, as it was never taught their words.

Comes in: a set, and what a model lacks to be asked it. Goes out: the two as one value.
"""

from __future__ import annotations

from dataclasses import dataclass

from countergen_edit.data.counterfactual import CounterfactualSet


@dataclass(frozen=True)
class Untaught:
    """A set in words that a model never met."""

    data: CounterfactualSet
    share: float
    """Of the prompts with outputs of the group with fewest, those in words that it met."""
    words: tuple[str, ...]
    """Words that it did not meet, those that tell the groups apart first."""
