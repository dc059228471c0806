"""Edits: erasures inserted into a model, removable, composable and savable."""

from countergen_edit.edits.edit import AttachedEdit, Edit, Placement, applied, attach
from countergen_edit.edits.files import load_edit, save_edit

__all__ = ["AttachedEdit", "Edit", "Placement", "applied", "attach", "load_edit", "save_edit"]
