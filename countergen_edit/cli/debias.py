"""`countergen-edit debias`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from countergen_edit import api
from countergen_edit.cli.edit import UNRECORDED, Saving
from countergen_edit.cli.printing import console, say, show_run
from countergen_edit.cli.study import command_line, fitting_metrics
from countergen_edit.reports.findings import nothing_fits, saved_as, why_nothing
from countergen_edit.reports.render.terminal import print_run


def run_debias(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Find the edit, audit it, save it; unless form=carried, of those that weights hold.

    Raises:
        SystemExit: with code 1 if no edit within the budgets is shown to remove bias.
    """
    saving = Saving("debias", config, words)
    study = saving.study(config, words)
    model = study.load()
    layers = study.searched_layers(model)
    saving.check(model, study, layers)
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
