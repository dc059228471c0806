"""Other ways to the same end, measured beside the edits of an audit: asking, steering, chance."""

from countergen_edit.experiments.beside.base import BESIDE, Beside, kept

__all__ = ["BESIDE", "Beside", "kept"]
