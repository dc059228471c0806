"""Edits: erasures inserted into a model; removable, composable and savable."""

from countergen_edit.edits.edit import UNCHANGED, Edit, Placement, Shift, applied, attach
from countergen_edit.edits.files import NamedEdit, load_edit, save_edit
from countergen_edit.edits.record import EditRecord, Place, combined_record, read_record

__all__ = [
    "UNCHANGED",
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
