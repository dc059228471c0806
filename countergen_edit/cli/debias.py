"""`countergen-edit debias`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from countergen_edit import api
from countergen_edit.cli.edit import SAVING, UNRECORDED, Saving
from countergen_edit.cli.printing import console, say, show_run
from countergen_edit.cli.study import Study, command_line, fitting_metrics
from countergen_edit.core.errors import UserError
from countergen_edit.models.capture import EVERYWHERE
from countergen_edit.reports.findings import nothing_fits, saved_as, why_nothing
from countergen_edit.reports.render.terminal import print_run


def run_debias(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Find the edit, audit it, save it; of form=folded only edits that fold are searched.

    Raises:
        SystemExit: with code 1 if no edit within the budgets is shown to remove bias.
    """
    saving = Saving("debias", config, words)
    study = (
        folding_study(config, words) if saving.form == "folded" else Study(config, words, SAVING)
    )
    model = study.load()
    layers = study.searched_layers(model)
    saving.check(model, study.place.site if study.fits_maps else None, layers)
    task = study.task(model)
    searched = api.search(
        model,
        task,
        study.erasers,
        fitting_metrics(study.metrics, task, words),
        study.run_dir,
        sites=(study.place.site,),
        layers=layers,
        combine=config["combine"],
        tested="chosen",
        command=command_line("debias", words, UNRECORDED),
        **study.how,
    )
    if searched.best is None or not searched.results.edits:
        print_run(searched, console)
        say([*nothing_fits(searched), f"Page: {searched.report()}"])
        print(f"countergen-edit: {why_nothing(searched)}", file=sys.stderr)
        raise SystemExit(1)
    show_run(searched, *saved_as(saving.save_best(searched)))


def folding_study(config: Mapping[str, Any], words: Sequence[str]) -> Study:
    """The study of edits that fold: of the residual stream everywhere, or without skipped tokens.

    Raises:
        UserError: the edits of no eraser fold.
    """
    edit = config["edit"]
    is_stream = edit.get("site") in ("resid_post", EVERYWHERE)
    own = {"layers": EVERYWHERE} if is_stream else {"skip_attention_sinks": False}
    study = Study({**config, "edit": {**edit, **own}}, words, SAVING)
    found = {name: eraser for name, eraser in study.erasers.items() if eraser.folds}
    if study.erasers and not found:
        raise UserError(
            f"no edit of eraser={next(iter(study.erasers))} is plain weights: name another, such "
            "as eraser=preserving, or another form, form=carried"
        )
    study.erasers = found
    return study
