"""Several runs: their figures side by side, paired differences, and one page of all."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole
from countergen_edit.metrics.results import NO_EDIT
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Block, Cell, Number, Section, Table, Words
from countergen_edit.reports.findings import few
from countergen_edit.reports.render.csv import as_csv
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections import (
    OVERVIEW,
    groups_of,
    subject,
    title,
    without_edits,
)
from countergen_edit.reports.views.base import Quantity
from countergen_edit.runs.compare import paired, paired_figures, paired_items, unpaired
from countergen_edit.runs.logs import Log

if TYPE_CHECKING:
    from pandas import DataFrame

ROWS, TABLES = "rows.csv", "tables"
"""Beside a comparison's page: the file of all rows and the folder of the page's tables."""
TELLING = ("model", "seed")
"""Facts of the manifest that tell runs apart."""
MADE = ("model", "seed", "command", "fingerprint")
"""Facts of the manifest that the table of the runs lists."""
PAIR = ("run", "against_run", "edit", "against_edit")
"""Keys of a difference's two sides in its detail."""
OF_ITEMS = ("before", "after", "difference", "P (Holm)", "detectable", "items")
UNLIKE = (
    "These runs were made on different data (sets, names, or texts, which depend on the model "
    "unless texts= is given). Only columns on the same prompts compare them."
)
LEFT_OUT = {
    "samples_of_one": "Items of one log only",
    "repeated": "Items that occur more than once and count once, by their mean",
    "unscored": "Items without a score",
    "other_prompts": "Items with other prompts (other examples or template)",
}
"""Counts in the detail of a difference of items, as sentences name them."""
CORRECTED = (
    "P is corrected over all lines (Holm). A difference of the size `detectable` is found four "
    "times in five."
)


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    side_by_side: Table
    """The main figures of every run and edit."""
    paired: Table | None
    """Differences on shared prompts; None without any."""
    items: Table | None
    """Differences between logs, item by item; None without two logs."""
    figures: Table | None
    """Differences of benchmark figures on shared items; None without any."""
    every_row: Table
    """All rows of all runs, and the differences."""
    sections: tuple[Section, ...] = ()
    title: str = ""

    def to_frame(self) -> DataFrame:
        """Every row as a line of a DataFrame."""
        from pandas import read_csv

        return read_csv(io.StringIO(as_csv(self.every_row)))

    def report(self, folder: Path | str) -> Path:
        """Write the page, its tables (CSV and LaTeX) and all rows into a folder; the page's path.

        Raises
        ------
        UserError
            It cannot be written.
        """
        from countergen_edit.reports.render import export
        from countergen_edit.reports.render.html import REPORT, write_page

        folder = Path(folder)
        with whole(folder / ROWS) as temporary:
            temporary.write_text(as_csv(self.every_row), "utf-8", errors="replace")
        export(self.sections, folder / TABLES, (), ("csv", "latex"))
        return write_page(
            self.sections,
            folder / REPORT,
            title=self.title,
            kind="Comparison of language models",
            about=(f"{len(self.every_row.rows)} result rows, in {ROWS}",),
        )

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())


def comparison(runs: Sequence[Run], seed: int = 0) -> Comparison:
    """Compare runs; the later ones are paired with the first.

    Parameters
    ----------
    runs : two or more
    seed : of the resamples of paired intervals

    Raises
    ------
    UserError
        There are fewer than two.
    """
    if len({run.path.resolve() for run in runs}) < 2:
        raise UserError("compare needs two run folders: write countergen-edit compare RUN RUN")
    by_name = dict(zip(run_names(runs), runs, strict=True))
    own = {name: run for name, run in by_name.items() if run.log is None}
    logs = {name: run.log for name, run in by_name.items() if run.log is not None}
    paths = [(name, run.path) for name, run in own.items()]
    differences = paired([(name, run.path) for name, run in by_name.items()], seed)
    of_items = paired_items(logs, seed)
    of_figures = paired_figures(paths, seed) if len(own) > 1 else []
    beside = side_by_side(by_name)
    pairs = paired_table(differences, by_name) if differences else None
    items = items_table(of_items, logs) if of_items else None
    figures = figures_table(of_figures, by_name) if of_figures else None
    tables = (beside if any(run.compared() for run in runs) else None, pairs, figures, items)
    overview: list[Block] = [table for table in tables if table is not None]
    if sentences := in_words(differences, by_name):
        overview.insert(0, Words(tuple(sentences), brief=True))
    limits = [unpaired(paths, [*logs]), *(unlike(own) if len(own) > 1 else [])]
    if limits := [sentence for sentence in limits if sentence]:
        overview.append(Words(tuple(limits), brief=True))
    return Comparison(
        beside,
        pairs,
        items,
        figures,
        every_row(by_name, [*differences, *of_figures, *of_items]),
        _sections(by_name, overview),
        _title(runs),
    )


def run_names(runs: Sequence[Run]) -> list[str]:
    """Each run's folder, with as many of its parents as tell the runs apart."""
    parts = [run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def _title(runs: Sequence[Run]) -> str:
    """The models and the groups; the groups once where all runs share them."""
    parts = [title(run).partition(": ") for run in runs]
    if len({groups for _, _, groups in parts}) > 1:
        return "; ".join(dict.fromkeys("".join(part) for part in parts))
    return ", ".join(dict.fromkeys(model for model, _, _ in parts)) + "".join(parts[0][1:])


def _sections(runs: Mapping[str, Run], overview: Sequence[Block]) -> tuple[Section, ...]:
    first = Section(OVERVIEW, "Overview", tuple(overview))
    if all(run.results.is_unedited for run in runs.values()):
        first = without_edits(first)
    lines: list[tuple[Cell, ...]] = []
    for name, run in runs.items():
        facts = (run.manifest.get(key, "") for key in MADE)
        texts = (" ".join(map(str, f)) if isinstance(f, list) else str(f) for f in facts)
        lines.append((name, *texts, str(len(run.results.rows)), str(run.path)))
    note = "countergen-edit report FOLDER shows one run."
    table = Table("runs", "The runs", ("run", *MADE, "rows", "folder"), tuple(lines), note)
    return (first, Section("run", "The runs", (table,)))


def _label(run: Run, edit: str) -> str:
    return NO_EDIT if edit == UNEDITED else run.results.label(edit)


def side_by_side(runs: Mapping[str, Run]) -> Table:
    """Every run under every edit, with a column for each quantity by which a run is compared.

    A run shows its figure about the data of the column's first run, or else its own main one.
    """
    columns: dict[str, Quantity] = {}
    for run in runs.values():
        for quantity in run.compared():
            columns.setdefault(quantity.title, quantity)
    facts = [key for key in TELLING if len({str(r.manifest.get(key)) for r in runs.values()}) > 1]
    lines: list[tuple[Cell, ...]] = []
    for name, run in runs.items():
        quantities = [*run.compared(), *run.quantities()]
        own = [_alike(quantities, column) for column in columns.values()]
        for edit in (UNEDITED, *(record.id for record in run.results.shown)):
            cells = [q.number(edit) if q and edit in q.rows else "" for q in own]
            if any(isinstance(cell, Number) and cell.value is not None for cell in cells):
                of_run = (str(run.manifest.get(key, "")) for key in facts)
                lines.append((name, _label(run, edit), *of_run, *cells))
    hashes = {run.manifest.get("data_hash") for run in runs.values()} - {None, ""}
    note = UNLIKE if len(hashes) > 1 else ""
    titles = ("run", "edit", *facts, *columns)
    return Table(
        "side_by_side", "Side by side", titles, tuple(lines), note, grouped=True, brief=True
    )


def _alike(quantities: Sequence[Quantity], like: Quantity) -> Quantity | None:
    """The quantity of the same title, if possible about the same data, else the main one."""

    def data(quantity: Quantity) -> str:
        return next((subject(row) for row in quantity.rows.values()), "")

    named = [quantity for quantity in quantities if quantity.title == like.title]
    named.sort(key=lambda quantity: (data(quantity) != data(like), not quantity.main))
    return next(iter(named), None)


def unlike(runs: Mapping[str, Run]) -> list[str]:
    """How runs differ in their prompting, and the figures that one run alone has."""
    sentences = []
    how = {name: _conversation(run) for name, run in runs.items()}
    if len({*how.values()}) > 1:
        each = "; ".join(f"{name}: {text}" for name, text in how.items())
        sentences.append(f"The runs prompt differently, which may explain differences: {each}.")
    for name, run in runs.items():
        others = {
            quantity.title
            for other in runs.values()
            if other is not run
            for quantity in (*other.compared(), *other.quantities())
        }
        titles = dict.fromkeys(quantity.title for quantity in run.compared())
        if alone := [t for t in titles if t not in others]:
            sentences.append(f"Measured in {name} alone: {few(alone, '; ')}.")
    return sentences


def _conversation(run: Run) -> str:
    template = run.manifest.get("template")
    if not template:
        return "plain texts"
    system = f" with {template['instruction']!r}" if template["instruction"] else ""
    return f"chat template {template['sha256'][:8]}{system}"


def in_words(rows: Sequence[Row], runs: Mapping[str, Run]) -> list[str]:
    """The test sets on which a run is less or more biased than the first run.

    Parameters
    ----------
    rows : of paired differences; those of the first figure count
    runs : by name
    """

    def name(run: str, edit: str) -> str:
        return run if edit == UNEDITED else f"{run} with {_label(runs[run], edit)}"

    by_pair: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.split == "test" and row.detail["of"] == rows[0].detail["of"]:
            key = (*(str(row.detail[key]) for key in PAIR), row.edit)
            by_pair.setdefault(key, []).append(row)
    sentences = []
    for of_pair in by_pair.values():
        d = of_pair[0].detail
        found: dict[str, list[Row]] = {"lower": [], "higher": [], "not significantly different": []}
        for row in of_pair:
            is_lower, is_higher = (row.hi or 0.0) < 0, (row.lo or 0.0) > 0
            found[[*found][0 if is_lower else 1 if is_higher else 2]].append(row)
        parts = [f"{k} on {few([*map(set_label, sets)])}" for k, sets in found.items() if sets]
        after, before = name(d["run"], of_pair[0].edit), name(d["against_run"], d["against_edit"])
        figure = d["of"].partition(",")[0]
        sentences.append(f"{after} against {before}, {figure}: {'; '.join(parts)}.")
    return sentences


def _edits(row: Row, runs: Mapping[str, Run]) -> str:
    d = row.detail
    edit = _label(runs[d["run"]], row.edit)
    against = _label(runs[d["against_run"]], d["against_edit"])
    return edit if edit == against else f"{edit} − {against}"


def _runs(row: Row) -> str:
    return f"{row.detail['run']} − {row.detail['against_run']}"


def paired_table(rows: Sequence[Row], runs: Mapping[str, Run]) -> Table:
    """Paired differences, a line for each set and edit, a column for each figure."""
    figures = list(dict.fromkeys(row.detail["of"] for row in rows))
    by_set: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        key = (*(str(row.detail[key]) for key in PAIR), row.edit, row.dataset, row.split)
        by_set.setdefault(key, {})[row.detail["of"]] = row
    lines: list[tuple[Cell, ...]] = [
        (
            _runs(row),
            _edits(row, runs),
            set_label(row),
            *(Number.of(of_set.get(figure), signed=True) for figure in figures),
            f"{row.detail['samples']} of {row.detail['samples_of_either']}",
        )
        for of_set in by_set.values()
        for row in [next(iter(of_set.values()))]
    ]
    first = rows[0].detail["against_run"]
    note = (
        f"Below 0, a run is less biased than {first}. Intervals are 95 %, over templates and names."
    )
    if len({row.detail["run"] for row in rows}) > 1:
        note += f" All runs are compared with the first, {first}."
    columns = ("run", "edit", "set", *figures, "shared")
    heading = f"Paired differences from {first}, on shared prompts"
    return Table("paired", heading, columns, tuple(lines), note, grouped=True, brief=True)


def items_table(rows: Sequence[Row], logs: Mapping[str, Log]) -> Table:
    """Paired differences between logs, task by task."""
    lines = tuple((_runs(r), r.dataset, str(r.detail["of"]), *_of_items(r)) for r in rows)
    note = " ".join(_about_items(rows, logs))
    columns = ("logs", "task", "metric", *OF_ITEMS)
    heading = "Paired differences, item by item"
    return Table("paired_items", heading, columns, lines, note, grouped=True, brief=True)


def figures_table(rows: Sequence[Row], runs: Mapping[str, Run]) -> Table:
    """Paired differences of benchmark figures, on shared items."""
    lines = tuple(
        (_runs(r), _edits(r, runs), r.detail["about"], str(r.detail["of"]), *_of_items(r))
        for r in rows
    )
    single = {row.detail["about"]: row.detail["samples_of_one"] for row in rows}
    alone = ", ".join(f"{about} {count}" for about, count in single.items() if count)
    note = f"Intervals are 95 %, {_methods(rows)}. {CORRECTED}"
    note += f" Items of one run only: {alone}." if alone else ""
    columns = ("runs", "edit", "prompts", "figure", *OF_ITEMS)
    heading = "Paired differences of figures, on shared items"
    return Table("paired_figures", heading, columns, lines, note, grouped=True, brief=True)


def _of_items(row: Row) -> tuple[Cell, ...]:
    d = row.detail
    look: dict[str, Any] = {"digits": 4, "percent": True} if d.get("percent") else {}
    return (
        Number(d["before"], **look),
        Number(d["after"], **look),
        Number.of(row, signed=True, **look),
        Number(d.get("p_adjusted"), digits=4, bounded=True),
        Number(d["smallest"], **look),
        f"{d['samples']} of {d['samples_of_either']}",
    )


def _methods(rows: Sequence[Row]) -> str:
    return "; ".join(dict.fromkeys(row.detail["method"] for row in rows))


def _about_items(rows: Sequence[Row], logs: Mapping[str, Log]) -> Iterator[str]:
    """The method of differences between logs, and the items and tasks without one."""
    yield f"Means over the items of both logs; intervals are 95 %: {_methods(rows)}."
    if clusters := sorted({row.detail["clusters"] for row in rows if row.detail["clusters"]}):
        yield f"Clusters: {' to '.join(map(str, dict.fromkeys([clusters[0], clusters[-1]])))}."
    yield CORRECTED
    for key, text in LEFT_OUT.items():
        if counts := {row.dataset: row.detail[key] for row in rows if row.detail[key]}:
            yield f"{text}: {', '.join(f'{task} {count}' for task, count in counts.items())}."
    if unread := dict.fromkeys(name for log in logs.values() for name in log.unread):
        yield f"Not one number per item, and not compared: {'; '.join(unread)}."
    having: dict[str, list[str]] = {}
    for name, log in logs.items():
        for task in log.versions:
            having.setdefault(task, []).append(name)
    if single := [f"{t} ({', '.join(of)})" for t, of in having.items() if len(of) < len(logs)]:
        yield f"Not in every log: {', '.join(single)}."


def every_row(runs: Mapping[str, Run], differences: Sequence[Row]) -> Table:
    """All rows of all runs, and the differences."""
    rows = [(name, "", row) for name, run in runs.items() for row in run.results.rows]
    for row in differences:
        d = row.detail
        against = _label(runs[d["against_run"]], d["against_edit"])
        rows.append((d["run"], f"{d['against_run']}, {against}", row))
    lines: list[tuple[Cell, ...]] = [
        (
            name,
            against,
            row.metric,
            row.task,
            subject(row),
            row.axis,
            groups_of(row),
            _label(runs[name], row.edit),
            row.split,
            Number.of(row),
            str(row.n),
        )
        for name, against, row in rows
    ]
    columns = ("run", "minus", "metric", "task", "data", "axis", "groups", "edit", "split")
    return Table("compare", "Runs side by side", (*columns, "value", "n"), tuple(lines))
