"""Checkpoints: an edited model as a folder that anyone can load.

In: a model and an edit. Out: a directory of plain transformers, proven equal to the edited model
in a process without this package; and such a directory back as a `LanguageModel`.
Refused: an inexact fold, a folder that was changed after it was saved.
"""

from countergen_edit.checkpoints.folding import fold
from countergen_edit.checkpoints.history import edits_of, folded_into, is_checkpoint, told
from countergen_edit.checkpoints.hub import push_to_hub
from countergen_edit.checkpoints.loading import (
    Base,
    Checkpoint,
    load_base,
    load_checkpoint,
    load_unedited,
    open_checkpoint,
)
from countergen_edit.checkpoints.parity import Parity, check_parity
from countergen_edit.checkpoints.saving import (
    FORMS,
    Form,
    Saved,
    check_target,
    choose_form,
    made_by,
    save_checkpoint,
)

__all__ = [
    "FORMS",
    "Base",
    "Checkpoint",
    "Form",
    "Parity",
    "Saved",
    "check_parity",
    "check_target",
    "choose_form",
    "edits_of",
    "fold",
    "folded_into",
    "is_checkpoint",
    "load_base",
    "load_checkpoint",
    "load_unedited",
    "made_by",
    "open_checkpoint",
    "push_to_hub",
    "save_checkpoint",
    "told",
]
