"""Edits: erasures inserted into a model; removable, composable and savable."""

from countergen_edit.edits.edit import UNCHANGED as UNCHANGED
from countergen_edit.edits.edit import Edit as Edit
from countergen_edit.edits.edit import LowRankUpdate as LowRankUpdate
from countergen_edit.edits.edit import Placement as Placement
from countergen_edit.edits.edit import Shift as Shift
from countergen_edit.edits.edit import applied as applied
from countergen_edit.edits.record import WEIGHTS as WEIGHTS
from countergen_edit.edits.record import EditRecord as EditRecord
from countergen_edit.edits.record import NamedEdit as NamedEdit
from countergen_edit.edits.record import Place as Place
from countergen_edit.edits.record import load_edit as load_edit
from countergen_edit.edits.record import read_record as read_record
from countergen_edit.edits.record import save_edit as save_edit
