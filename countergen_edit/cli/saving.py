"""Where a checkpoint goes and as what, for the commands that save one.

Comes in: a composed config. Goes out: checked settings, and a saved edit. Refused before any work:
a target that cannot be written, an edit that cannot be saved in the form asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.cli.printing import say
from countergen_edit.cli.settings import command_line
from countergen_edit.core.errors import unknown
from countergen_edit.core.typed import require
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.edits.checkpoints import (
    FORMS,
    Saved,
    check_target,
    choose_form,
    fold,
    push_to_hub,
    record_of,
)
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel
from countergen_edit.models.capture import has_layers
from countergen_edit.reports.run import Run
from countergen_edit.runs.manifest import masked


@dataclass(frozen=True)
class SaveSettings:
    """Where the checkpoint goes, and as what."""

    save: Path | None
    """None: into the run folder."""
    form: str
    overwrite: bool
    push: str | None
    private: bool

    def check(
        self,
        model: LanguageModel,
        site: str,
        layers: Sequence[int] | None,
        before: NamedEdit | None = None,
    ) -> None:
        """Find out before anything is measured whether an edit there can be saved as asked.

        Args:
            model: without the edits before.
            site: of the edit.
            layers: the same.
            before: edits that are saved with it.

        Raises:
            UserError: it does not fold.
        """
        direction = np.ones((model.d_model, 1)) / np.sqrt(model.d_model)
        erasure = AffineErasure(direction, direction.T, np.ones(model.d_model))
        places = layers or (0,) if has_layers(site) else (None,)
        sample = Edit.at(site, dict.fromkeys(places, erasure))
        if before is not None:
            sample = before.edit.then(sample)
        if choose_form(model, sample, self.form) == "folded":
            fold(model, sample)

    def save_best(self, run: Run) -> Saved:
        """Save a run's best edit with its card, proven equal in a fresh process."""
        assert run.best is not None
        return run.best.save(self.save or run.path / "checkpoint", self.form, self.overwrite)

    def upload(self, saved: Saved) -> None:
        """Send the checkpoint to the hub, if that was asked for."""
        if self.push:
            say([f"Uploaded: {push_to_hub(saved.folder, self.push, private=self.private)}"])


SAVING = tuple(SaveSettings.__dataclass_fields__)


def save_settings(command: str, config: Mapping[str, Any]) -> SaveSettings:
    """Check the part of a composed config that is about saving.

    A checkpoint that the same command made may be there: it was stopped after saving.

    Raises:
        UserError: the target may not be written, there is no such form, or a switch is neither true
            nor false.
    """
    if config["form"] not in FORMS:
        raise unknown("form", config["form"], FORMS)
    for key in ("overwrite", "private"):
        require(bool, config[key], key)
    target = Path(str(config["save"])).expanduser() if config["save"] else None
    if target is not None:
        ours = record_of(target).get("command") == masked(command_line(command, SAVING))
        check_target(target, config["overwrite"] or ours)
    return SaveSettings(**({key: config[key] for key in SAVING} | {"save": target}))
