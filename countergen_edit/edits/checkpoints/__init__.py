"""Checkpoints: an edited model as a folder of plain transformers."""

from countergen_edit.edits.checkpoints.forms import fold
from countergen_edit.edits.checkpoints.loading import (
    Base,
    Checkpoint,
    edits_in_record,
    folded_into,
    is_checkpoint,
    load_base,
    load_checkpoint,
    load_unedited,
    open_checkpoint,
)
from countergen_edit.edits.checkpoints.parity import Parity
from countergen_edit.edits.checkpoints.saving import (
    FORMS,
    Form,
    Saved,
    check_target,
    choose_form,
    record_of,
    save_checkpoint,
)

__all__ = [
    "FORMS",
    "Base",
    "Checkpoint",
    "Form",
    "Parity",
    "Saved",
    "check_target",
    "choose_form",
    "edits_in_record",
    "fold",
    "folded_into",
    "is_checkpoint",
    "load_base",
    "load_checkpoint",
    "load_unedited",
    "open_checkpoint",
    "record_of",
    "save_checkpoint",
]
