"""Several runs: their figures side by side, paired differences, and one page of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import spreadsheet_cell, whole
from countergen_edit.metrics.results import NO_EDIT
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Block, Cell, Number, Section, Table, Words
from countergen_edit.reports.findings import few
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections import (
    OVERVIEW,
    subject,
    title,
    without_edits,
)
from countergen_edit.reports.views.base import Quantity
from countergen_edit.runs.compare import DIFFERENCES, paired, paired_figures, paired_items

if TYPE_CHECKING:
    from pandas import DataFrame

MADE = ("model", "seed", "command", "fingerprint")
"""Facts of the manifest that the table of the runs lists."""
UNLIKE = (
    "These runs were made on different data (sets, names, or texts, which depend on the model "
    "unless texts= is given). Only columns on the same prompts compare them."
)
COUNTS = {
    "clusters": "Clusters",
    "samples_of_one": "Items of one side only",
    "repeated": "Items that occur more than once and count once, by their mean",
    "unscored": "Items without a score",
    "other_prompts": "Items with other prompts (other examples or template)",
}
"""Counts in the detail of a difference of items, as sentences name them."""


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Attributes:
        side_by_side: the main figures of every run and edit.
        paired: differences on shared prompts; None without any.
        items: differences between logs, item by item; None without two logs.
        figures: differences of benchmark figures on shared items; None without any.
        rows: all rows of all runs, and the differences.
        sections: the parts of the page.
        title: of the page.
    """

    side_by_side: Table
    paired: Table | None
    items: Table | None
    figures: Table | None
    rows: DataFrame
    sections: tuple[Section, ...]
    title: str

    def to_frame(self) -> DataFrame:
        """Every row as a line of a DataFrame."""
        return self.rows

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
        safe = self.rows.map(lambda cell: spreadsheet_cell(cell) if isinstance(cell, str) else cell)
        with whole(folder / "rows.csv") as temporary:
            safe.to_csv(temporary, index=False, lineterminator="\n", errors="replace")
        export(self.sections, folder / "tables", ("csv", "latex"))
        return write_page(
            self.sections,
            folder / REPORT,
            title=self.title,
            kind="Comparison of language models",
            about=(f"{len(self.rows)} result rows, in rows.csv",),
        )

    def _repr_html_(self) -> str:
        return str(self.rows._repr_html_())


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
    logs = {name: run.log for name, run in by_name.items() if run.log is not None}
    paths = {name: run.path for name, run in by_name.items() if run.log is None}
    differences = paired(paths, seed)
    of_items, of_figures = paired_items(logs, seed), paired_figures(paths, seed)
    beside = side_by_side(by_name)
    pairs = paired_table(differences, by_name) if differences else None
    heading = "Paired differences, item by item"
    items = items_table(of_items, by_name, "paired_items", heading) if of_items else None
    heading = "Paired differences of figures, on shared items"
    figures = items_table(of_figures, by_name, "paired_figures", heading) if of_figures else None
    first = beside if any(run.compared() for run in runs) else None
    overview: list[Block] = [table for table in (first, pairs, figures, items) if table is not None]
    if sentences := in_words(differences, by_name):
        overview.insert(0, Words(tuple(sentences), brief=True))
    return Comparison(
        beside,
        pairs,
        items,
        figures,
        every_row(by_name, [*differences, *of_figures, *of_items]),
        _sections(by_name, overview),
        "; ".join(dict.fromkeys(map(title, runs))),
    )


def run_names(runs: Sequence[Run]) -> list[str]:
    """Each run's folder, with as many of its parents as tell the runs apart."""
    parts = [run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def _sections(runs: Mapping[str, Run], overview: Sequence[Block]) -> tuple[Section, ...]:
    first = Section(OVERVIEW, "Overview", tuple(overview))
    if all(run.results.is_unedited for run in runs.values()):
        first = without_edits(first)
    lines = tuple(
        (name, *(_facts(run)[key] for key in MADE), str(len(run.results.rows)), str(run.path))
        for name, run in runs.items()
    )
    note = "countergen-edit report FOLDER shows one run."
    table = Table("runs", "The runs", ("run", *MADE, "rows", "folder"), lines, note)
    return (first, Section("run", "The runs", (table,)))


def side_by_side(runs: Mapping[str, Run]) -> Table:
    """Every run under every edit, with a column for each quantity by which a run is compared.

    A run shows its figure about the data of the column's first run, or else its own main one.
    """
    columns: dict[str, Quantity] = {}
    for run in runs.values():
        for quantity in run.compared():
            columns.setdefault(quantity.title, quantity)
    told = {name: _facts(run) for name, run in runs.items()}
    facts = [
        key for key in ("model", "seed", "prompts") if len({own[key] for own in told.values()}) > 1
    ]
    lines: list[tuple[Cell, ...]] = []
    for name, run in runs.items():
        quantities = [*run.compared(), *run.quantities()]
        own = [_alike(quantities, column) for column in columns.values()]
        for edit in (UNEDITED, *(record.id for record in run.results.shown)):
            cells = [q.number(edit) if q and edit in q.rows else "" for q in own]
            if any(isinstance(cell, Number) and cell.value is not None for cell in cells):
                label = NO_EDIT if edit == UNEDITED else run.results.label(edit)
                lines.append((name, label, *(told[name][fact] for fact in facts), *cells))
    hashes = {run.manifest.get("data_hash") for run in runs.values()} - {None, ""}
    note = UNLIKE if len(hashes) > 1 else ""
    titles = ("run", "edit", *facts, *columns)
    return Table(
        "side_by_side", "Side by side", titles, tuple(lines), note, grouped=True, brief=True
    )


def _facts(run: Run) -> dict[str, str]:
    facts = {key: run.manifest.get(key, "") for key in MADE}
    texts = {k: " ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in facts.items()}
    template = run.manifest.get("template")
    if not template:
        return texts | {"prompts": "plain texts"}
    prompts = f"chat template {template['sha256'][:8]} {template['instruction']}".strip()
    return texts | {"prompts": prompts}


def _alike(quantities: Sequence[Quantity], like: Quantity) -> Quantity | None:
    """The quantity of the same title, if possible about the same data, else the main one."""

    def data(quantity: Quantity) -> str:
        return next((subject(row) for row in quantity.rows.values()), "")

    named = [quantity for quantity in quantities if quantity.title == like.title]
    named.sort(key=lambda quantity: (data(quantity) != data(like), not quantity.main))
    return next(iter(named), None)


def in_words(rows: Sequence[Row], runs: Mapping[str, Run]) -> list[str]:
    """The sets on which the first figure of a run is lower or higher than the first run's."""
    by_pair: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.detail["of"] == rows[0].detail["of"]:
            way = "lower" if (row.hi or 0) < 0 else "higher" if (row.lo or 0) > 0 else ""
            way = "equal" if row.value == row.lo == row.hi == 0 else way
            sets = by_pair.setdefault(_sides(row, runs, " against "), {})
            sets.setdefault(way or "not significantly different", []).append(set_label(row))
    figure = rows[0].detail["of"].partition(",")[0] if rows else ""
    return [
        f"{pair}, {figure}: {'; '.join(f'{way} on {few(own)}' for way, own in sets.items())}."
        for pair, sets in by_pair.items()
    ]


def _sides(row: Row, runs: Mapping[str, Run], between: str = " − ") -> str:
    """Both sides of a difference, each a run and its edit."""
    d = row.detail
    sides = ((d["run"], row.edit), (d["against_run"], d["against_edit"]))
    return between.join(
        f"{run}{' with' * (edit != UNEDITED)} {of.label(edit)}" if of.edits else run
        for (run, edit), of in ((side, runs[side[0]].results) for side in sides)
    )


def paired_table(rows: Sequence[Row], runs: Mapping[str, Run]) -> Table:
    """Paired differences, a line for each set and edit, a column for each figure."""
    lines: list[tuple[Cell, ...]] = []
    for row, other in zip(rows[::2], rows[1::2], strict=True):  # both figures of a set
        numbers = (Number.of(figure, signed=True) for figure in (row, other))
        shared = f"{row.detail['samples']} of {row.detail['samples_of_either']}"
        lines.append((_sides(row, runs), set_label(row), *numbers, shared))
    first = rows[0].detail["against_run"]
    note = (
        f"Below 0, a run is less biased than {first}. Intervals are 95 %, over templates and names."
    )
    columns = ("runs", "set", *DIFFERENCES.values(), "shared")
    heading = f"Paired differences from {first}, on shared prompts"
    return Table("paired", heading, columns, tuple(lines), note, grouped=True, brief=True)


def items_table(rows: Sequence[Row], runs: Mapping[str, Run], name: str, heading: str) -> Table:
    """Paired differences over items: of benchmark figures, or of logs."""
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        d = row.detail
        look: dict[str, Any] = {"digits": 4, "percent": True} if d.get("percent") else {}
        numbers = (
            Number(d["before"], **look),
            Number(d["after"], **look),
            Number.of(row, signed=True, **look),
            Number(d.get("p_adjusted"), digits=4, bounded=True),
            Number(d["smallest"], **look),
        )
        items = f"{d['samples']} of {d['samples_of_either']}"
        lines.append((_sides(row, runs), _about(row), d["of"], *numbers, items))
    figures = ("before", "after", "difference", "P (Holm)", "detectable", "items")
    columns, note = ("runs", "task", "figure", *figures), " ".join(_notes(rows, runs))
    return Table(name, heading, columns, tuple(lines), note, grouped=True, brief=True)


def _about(row: Row) -> str:
    return str(row.detail.get("about", row.dataset))


def _notes(rows: Sequence[Row], runs: Mapping[str, Run]) -> Iterator[str]:
    """The methods of differences over items, and what they leave out."""
    methods = "; ".join(dict.fromkeys(row.detail["method"] for row in rows))
    yield f"Over the items of both; intervals are 95 %, {methods}. P is corrected over all lines"
    yield "(Holm). A difference of the size `detectable` is found four times in five."
    for key, text in COUNTS.items():
        counts = {_about(row): row.detail.get(key) for row in rows}
        if said := [f"{about} {count}" for about, count in counts.items() if count]:
            yield f"{text}: {', '.join(said)}."
    logs = {name: run.log for name, run in runs.items() if run.log is not None}
    if unread := dict.fromkeys(name for log in logs.values() for name in log.unread):
        yield f"Not one number per item, and not compared: {'; '.join(unread)}."
    tasks = dict.fromkeys(task for log in logs.values() for task in log.versions)
    having = {task: [n for n, log in logs.items() if task in log.versions] for task in tasks}
    if single := [f"{t} ({', '.join(of)})" for t, of in having.items() if len(of) < len(logs)]:
        yield f"Not in every log: {', '.join(single)}."


def every_row(runs: Mapping[str, Run], differences: Sequence[Row]) -> DataFrame:
    """All rows of all runs, and the differences."""
    from pandas import DataFrame, concat

    frames = [run.to_frame().assign(run=name) for name, run in runs.items()]
    between = [
        row.to_dict() | {"run": row.detail["run"], "minus": row.detail["against_run"]}
        for row in differences
    ]
    return concat([*frames, DataFrame(between)], ignore_index=True)
