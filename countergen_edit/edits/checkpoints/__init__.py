"""Checkpoints: an edited model as a folder of plain transformers."""

from countergen_edit.edits.checkpoints.forms import fold as fold
from countergen_edit.edits.checkpoints.loading import Checkpoint as Checkpoint
from countergen_edit.edits.checkpoints.loading import edits_in_record as edits_in_record
from countergen_edit.edits.checkpoints.loading import folded_into as folded_into
from countergen_edit.edits.checkpoints.loading import is_checkpoint as is_checkpoint
from countergen_edit.edits.checkpoints.loading import load_checkpoint as load_checkpoint
from countergen_edit.edits.checkpoints.loading import load_unedited as load_unedited
from countergen_edit.edits.checkpoints.loading import open_checkpoint as open_checkpoint
from countergen_edit.edits.checkpoints.loading import source_of as source_of
from countergen_edit.edits.checkpoints.parity import Parity as Parity
from countergen_edit.edits.checkpoints.saving import FORMS as FORMS
from countergen_edit.edits.checkpoints.saving import Form as Form
from countergen_edit.edits.checkpoints.saving import Saved as Saved
from countergen_edit.edits.checkpoints.saving import check_target as check_target
from countergen_edit.edits.checkpoints.saving import choose_form as choose_form
from countergen_edit.edits.checkpoints.saving import record_of as record_of
from countergen_edit.edits.checkpoints.saving import require_form as require_form
from countergen_edit.edits.checkpoints.saving import save_checkpoint as save_checkpoint
