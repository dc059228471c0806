"""Saving a checkpoint, for `edit` and `debias`; refusals come before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.cli.study import command_line
from countergen_edit.core.errors import unknown
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.edits.checkpoints import (
    FORMS,
    Saved,
    check_target,
    choose_form,
    fold,
    record_of,
)
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel
from countergen_edit.models.capture import has_layers
from countergen_edit.reports.run import Run
from countergen_edit.runs.manifest import masked


@dataclass(frozen=True)
class SaveSettings:
    """Where the checkpoint goes, and in which form."""

    save: Path | None
    """None: into the run folder."""
    form: str
    overwrite: bool

    def check(
        self,
        model: LanguageModel,
        site: str,
        layers: Sequence[int] | None,
        before: NamedEdit | None = None,
    ) -> None:
        """Check before any work that an edit at a place can be saved in the form.

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
        """Save a run's best edit."""
        assert run.best is not None
        return run.best.save(self.save or run.path / "checkpoint", self.form, self.overwrite)


SAVING = tuple(SaveSettings.__dataclass_fields__)


def save_settings(command: str, config: Mapping[str, Any]) -> SaveSettings:
    """The settings of saving, checked; a checkpoint of the same command may exist."""
    if config["form"] not in FORMS:
        raise unknown("form", config["form"], FORMS)
    target = Path(str(config["save"])).expanduser() if config["save"] else None
    if target is not None:
        own = record_of(target).get("command") == masked(command_line(command, SAVING))
        check_target(target, config["overwrite"] or own)
    return SaveSettings(**({key: config[key] for key in SAVING} | {"save": target}))
