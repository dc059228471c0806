"""Ratings of runs by people: sheets that go out, and rows of what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import write_json_lines
from countergen_edit.metrics.cid.ratings import CidTexts
from countergen_edit.metrics.fairpair.judges import FairPairTexts
from countergen_edit.metrics.ratings import RatedTexts, Ratings, distinct, read_sheet, write_sheet
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.files import RATINGS
from countergen_edit.runs.folder import finished_rows

_KINDS: dict[str, type[RatedTexts]] = {kind.name: kind for kind in (FairPairTexts, CidTexts)}
"""What people can rate, a kind of sheet each."""


def write_sheets(
    runs: Sequence[Path], folder: Path, raters: Sequence[str], seed: int
) -> dict[Path, str]:
    """Write `RATER_KIND.csv` for each rater; texts of all runs and edits are shuffled together.

    Returns the question of each sheet. `UserError` if no runs or raters are named, a run has no
    texts, or a sheet exists.
    """
    if not raters:
        raise UserError("raters=[] names nobody: write raters=[anna,ben]")
    texts = rated_in(runs)
    sheets = {folder / f"{rater}_{kind}.csv": kind for kind in texts for rater in raters}
    for path in sheets:  # before the first is written
        if path.exists():
            raise UserError(
                f"rating sheet {path} exists and may hold ratings: move it away, or choose another "
                "folder"
            )
    for path, kind in sheets.items():
        write_sheet(path, _KINDS[kind], distinct(texts[kind].values()), seed)
    return {path: _KINDS[kind].asks for path, kind in sheets.items()}


def read_ratings(runs: Sequence[Path], folder: Path, seed: int) -> None:
    """Keep in each run what raters said of it (`ratings.jsonl`), instead of an earlier rating.

    `UserError` if there are no sheets, or one does not hold exactly what the runs hold.
    """
    texts = rated_in(runs)
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise UserError(f"{folder} holds no rating sheets (*.csv): action=sheet writes them")
    ratings: dict[str, dict[str, Ratings]] = {}
    for path in paths:
        rater, _, kind = path.stem.rpartition("_")
        if kind not in texts:
            names = " or ".join(f"RATER_{kind}.csv" for kind in texts)
            raise UserError(f"{path} is not a sheet of these runs, which are named {names}")
        sheet = read_sheet(path, _KINDS[kind], distinct(texts[kind].values()))
        ratings.setdefault(kind, {})[rater] = sheet
    rows: dict[Path, list[Row]] = {run: [] for run in runs}
    for kind, given in ratings.items():
        for run, own in texts[kind].items():
            rows[run] += own.rows(given, seed)
    for run, rated in rows.items():
        write_json_lines(run / RATINGS, (row.to_dict() for row in rated))


def rated_in(runs: Sequence[Path]) -> dict[str, dict[Path, RatedTexts]]:
    """What people can rate in runs, by kind of sheet and run; `UserError` if a run has none."""
    if not runs:
        raise UserError("no runs are named: write countergen-edit rate RUN, a run's folder")
    texts: dict[str, dict[Path, RatedTexts]] = {}
    for run in runs:
        results = Results(finished_rows(run), folder=run)
        if not (found := [own for kind in _KINDS.values() if (own := kind(results)).items]):
            raise UserError(
                f"{run} holds no texts to rate: name the run of an audit with metric=fairpair or "
                "metric=cid"
            )
        for own in found:
            texts.setdefault(own.name, {})[run] = own
    return texts
