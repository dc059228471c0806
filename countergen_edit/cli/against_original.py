"""A checkpoint that is audited is held against the model that it was made of, on the same prompts.

Comes in: the settings of the audit, and its finished run. Goes out: `RUN_DIR/original`, the run of
the unedited model, and what both differ by. Refused: a model that is named and is not
the one that the checkpoint was made of. Where none is named and it is not available, that is said.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli import compare
from countergen_edit.cli.models import ModelSettings, model_settings
from countergen_edit.cli.printing import say
from countergen_edit.core.errors import UserError
from countergen_edit.edits.checkpoints import Checkpoint, is_checkpoint, open_checkpoint
from countergen_edit.runs.folder import ORIGINAL


def wanted(config: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint that is audited, where its original is asked for.

    Raises:
        UserError: an original is named of what is no checkpoint.
    """
    named, model = config["original"], model_settings(config["model"])
    checkpoint = isinstance(model, ModelSettings) and is_checkpoint(model.name)
    if named not in (None, api.ON_RECORD) and not checkpoint:
        raise UserError(
            f"original={named}: {model.name} is no checkpoint of this package, which alone has an "
            "original: hold two runs against each other by countergen-edit compare RUN RUN"
        )
    return open_checkpoint(model.name) if checkpoint and named is not None else None


def run(config: Mapping[str, Any], checkpoint: Checkpoint, audited: Path) -> None:
    """Audit the original, or resume that audit, and print what the checkpoint changed.

    Raises:
        UserError: an original was named, and is not available or is another model.
    """
    from countergen_edit.cli.audit import prepare

    where = asdict(model_settings(config["model"]))
    del where["name"], where["revision"]
    gc.collect()
    try:
        model = api.load_original(checkpoint, config["original"], **where)
    except UserError as error:
        if config["original"] != api.ON_RECORD:
            raise
        say(["", f"Not held against its original: {error}"])
        return
    as_it_came = {**config, "eraser": {}, "baseline": {}}
    prepared, _ = prepare(as_it_came, lambda: model)
    before = prepared.at(audited / ORIGINAL).run(model)
    say(["", f"Against {model.name}, the model that it was made of:", ""])
    compare.show(api.compare(before, audited, seed=config["seed"]))
    say([f"Report, with what it changed: {api.load_run(audited).report()}"])
