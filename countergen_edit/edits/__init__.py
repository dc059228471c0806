"""Edits: erasures inserted into a model, removable, composable and savable."""

from countergen_edit.edits.edit import UNCHANGED, AttachedEdit, Edit, Placement, applied, attach
from countergen_edit.edits.files import load_edit, save_edit
from countergen_edit.edits.named import NamedEdit
from countergen_edit.edits.record import EditRecord, Place, combined_record, read_record
from countergen_edit.edits.shift import Shift

__all__ = [
    "UNCHANGED",
    "AttachedEdit",
    "Edit",
    "EditRecord",
    "NamedEdit",
    "Place",
    "Placement",
    "Shift",
    "applied",
    "attach",
    "combined_record",
    "load_edit",
    "read_record",
    "save_edit",
]
