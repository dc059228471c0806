"""`countergen-edit sweep`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import show_run
from countergen_edit.cli.study import Study, command_line, integers, texts_in
from countergen_edit.core.writing import only_writer
from countergen_edit.models import Scratch
from countergen_edit.reports.findings import after_search
from countergen_edit.reports.render import export
from countergen_edit.reports.sections import sections
from countergen_edit.runs.files import FAILED


def run_sweep(config: Mapping[str, Any], words: Sequence[str]) -> None:
    """Run or resume a sweep; it ends with code 1 if an eraser failed on a candidate."""
    study = Study(config, words)
    model = study.load()
    swept = api.search(
        model,
        study.task(model),
        study.erasers,
        study.metrics,
        study.run_dir,
        sites=texts_in(config["sites"]) or (study.place.site,),
        layers=study.searched_layers(model),
        ranks=integers("ranks", config["ranks"]),
        combine=config["combine"],
        tested="every",
        scratch=Scratch(int(config["memory_gib"] * 2**30)),
        command=command_line("sweep", words),
        **study.how,
    )
    with only_writer(swept.path):
        searched = [part for part in sections(swept) if part.name in ("search", "layers")]
        files = export(searched, swept.path / "figures", ["svg", "png"])
    show_run(swept, f"Figures: {', '.join(path.name for path in files)}", *after_search(swept))
    failed = [row for row in swept.results.rows if row.metric == FAILED]
    if failed:
        print(f"countergen-edit: {len(failed)} cell(s) failed, see above", file=sys.stderr)
        raise SystemExit(1)
