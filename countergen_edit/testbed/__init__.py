"""The testbed: a small language model whose biases were planted and are therefore known."""

from __future__ import annotations

from pathlib import Path

from countergen_edit.testbed.files import SHIPPED, load_axis, load_truth, truth_in
from countergen_edit.testbed.truth import Truth

__all__ = ["Truth", "directory", "load_axis", "load_truth", "truth_in"]


def directory() -> Path:
    """Where the shipped weights and tokenizer lie."""
    return SHIPPED
