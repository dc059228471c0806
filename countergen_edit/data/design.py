"""Designs of test sets: how many templates, contents and people are drawn, and at what passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HALF_WIDTH = "half_width"
"""The row of the half-width that a design led to, with the design in its detail."""


@dataclass(frozen=True)
class SetDesign:
    """The design of a test set, chosen by a pilot on validation data."""

    dataset: str
    cells: int
    """Templates with a content, each with people of its own."""
    templates: int
    contents: int
    people: int
    """Of each group in a cell."""
    passes: int
    """Prompts, each a forward pass."""
    pilot: int
    """Prompts of the pilot."""
    half_width: float
    """Expected half-width of the 95 % interval of the group effect, nats."""
    target: float
    """The half-width that was asked for, nats."""
    contents_needed: int | None
    """Number of contents that reaches the target where those on record do not; None otherwise."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Variance components of the squared group effect, nats⁴."""
