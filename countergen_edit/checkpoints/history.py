"""Which edits a checkpoint holds: those that it carries, and those that its weights have taken in.

Comes in: a checkpoint's record, or a model that was loaded from one. Goes out: a line for each
edit, in the order in which they were made: its axis, its label, its eraser and where it acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.checkpoints.checksums import CHECKSUMS
from countergen_edit.edits import EditRecord
from countergen_edit.locating import RECORD
from countergen_edit.models import LanguageModel
from countergen_edit.reading import json_mapping

EDIT, BEFORE = "edit", "before"
"""Names in a checkpoint: its edit; within that, what was folded into the weights before it."""


def is_checkpoint(directory: str | Path) -> bool:
    """Whether `save_checkpoint` made this directory."""
    return all((Path(directory).expanduser() / name).is_file() for name in (RECORD, CHECKSUMS))


def told(record: EditRecord) -> list[dict[str, Any]]:
    """An edit axis by axis, as a checkpoint tells of it."""
    return [
        {
            "axis": part.task,
            "edit": part.label,
            "id": part.id,
            "eraser": part.eraser,
            "parameters": dict(part.params),
            "places": [str(place) for place in part.places],
            "rank": part.rank,
        }
        for part in record.parts or (record,)
    ]


def edits_of(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All edits that a checkpoint's record tells of; one that tells of no axis holds one edit."""
    if "edits" in about:
        return [dict(edit) for edit in about["edits"]]
    axis = about.get("config", {}).get("axis") or {}
    known = {key: about[key] for key in ("edit", "id", "eraser", "parameters") if key in about}
    return [{"axis": axis.get("name", ""), **known}] if known else []


def folded_into(model: LanguageModel) -> list[dict[str, Any]]:
    """The edits that the weights of a model have taken in, as those of a folded checkpoint have."""
    folder = Path(model.name).expanduser()
    if not is_checkpoint(folder) or hasattr(model.bridge, "carried"):
        return []
    about = json_mapping(folder / RECORD)
    return edits_of(about) if about.get("form") == "folded" else []
