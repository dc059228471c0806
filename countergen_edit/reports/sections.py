"""The tabs of a run's page: overview, search, costs, those of its metrics, and its origin."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Number,
    Section,
    Table,
    Words,
)
from countergen_edit.reports.findings import edit_of, of_chosen, recommended
from countergen_edit.reports.glossary import terms
from countergen_edit.reports.panels import Panel, Series, edit_dots
from countergen_edit.reports.search import search
from countergen_edit.reports.views.base import Quantity
from countergen_edit.runs.files import ORIGINAL
from countergen_edit.runs.ran import in_words

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

OVERVIEW, CHANGED = "overview", "original"
OTHERS = "…"
"""Stands for the tabs of custom metrics, in the order of their names."""
ORDER = (
    OVERVIEW,
    CHANGED,
    "search",
    "bias",
    "layers",
    "costs",
    "other_axes",
    "paraphrases",
    "fairpair",
    "cid",
    "classifiers",
    OTHERS,
    "examples",
    "terms",
    "run",
)
"""The tabs in their order."""
TRUTH = "planted"
KIND_TITLES = {"bias": "bias", "cost": "costs", "other": "other measures"}
MOST_AT_A_GLANCE = 4
"""Edits in the first figure and in the terminal's table."""
MOST_ROWS = 1500
"""Rows that the page lists."""
NOT_SHOWN = ("schema", "texts")
"""Keys of a manifest for programs alone."""
EDIT = "edit"
"""The column of edits."""


def sections(run: Run) -> list[Section]:
    """The tabs that a run has something for."""
    of_tasks = {task: merged(of_task(part)) for task, part in run.by_task().items()}
    parts = task_by_task(of_tasks)
    if run.original is not None:
        parts = _against_original(run, run.original, parts)
    return in_order([*parts, terms(), origin(run)])


def of_task(run: Run) -> list[Section]:
    """The tabs of a run of one task."""
    parts = [overview(run), search(run), costs(run)]
    parts += [section for view in run.views for section in view.sections(run.results)]
    shown = [section for section in parts if section is not None and section.blocks]
    return [*map(without_edits, shown)] if run.results.is_unedited else shown


def overviews(run: Run) -> Section | None:
    """The overview of every task."""
    found = {task: overview(part) for task, part in run.by_task().items()}
    parts = task_by_task({task: [section] for task, section in found.items() if section})
    return parts[0] if parts else None


def in_order(parts: Iterable[Section]) -> list[Section]:
    """Tabs in their order, those of custom metrics by name."""

    def place(section: Section) -> tuple[int, str]:
        known = section.name in ORDER
        return ORDER.index(section.name if known else OTHERS), "" if known else section.name

    return sorted(parts, key=place)


def merged(parts: Iterable[Section]) -> list[Section]:
    """Sections of one name as one, under the title of the first.

    >>> parts = [Section("bias", "Bias", (Words(("a",)),)), Section("bias", "B", (Words(("b",)),))]
    >>> [(section.title, len(section.blocks)) for section in merged(parts)]
    [('Bias', 2)]
    """
    by_name: dict[str, Section] = {}
    for part in parts:
        known = by_name.get(part.name, replace(part, blocks=()))
        by_name[part.name] = replace(known, blocks=(*known.blocks, *part.blocks))
    return list(by_name.values())


def task_by_task(of_tasks: Mapping[str, Iterable[Section]]) -> list[Section]:
    """The sections of one task, or of several under names that tell their blocks apart."""
    if len(of_tasks) == 1:
        return [section for parts in of_tasks.values() for section in parts]

    def named(block: Block, task: str) -> Any:
        if isinstance(block, Words):
            return block
        titled = replace(block, title=f"{block.title}, {task}")
        if isinstance(titled, Fold):
            return replace(titled, blocks=tuple(named(part, task) for part in titled.blocks))
        return replace(titled, name=f"{titled.name}_{task}")

    return merged(
        replace(s, blocks=(Words((f"Task: {task}",)), *(named(block, task) for block in s.blocks)))
        for task, parts in of_tasks.items()
        for s in parts
    )


def _against_original(run: Run, original: Run, parts: Sequence[Section]) -> list[Section]:
    """The tabs of a checkpoint, with its differences from the model that it was made of."""
    from countergen_edit.reports.compare import comparison  # late: it shows sections, too

    found = comparison([original, run], int(run.manifest.get("seed", 0)))
    tables = (found.paired, found.figures, found.side_by_side)
    first = next(iter(found.sections), Section("", "")).blocks
    words = [block for block in first if isinstance(block, Words)]
    return [
        *(
            replace(part, blocks=(*words, *part.blocks)) if part.name == OVERVIEW else part
            for part in parts
        ),
        Section(CHANGED, "Against its original", tuple(table for table in tables if table)),
    ]


def overview(run: Run) -> Section | None:
    """The verdict, all test sets and costs before and after, and all findings."""
    split, quantities = measured(run)
    columns = [quantity for quantity in quantities if quantity.main]
    lines, sentences = run.verdict.lines, run.findings
    blocks: list[Block] = [Words(lines, brief=True)] if lines else []
    blocks += at_a_glance(run)
    if columns:
        about = of_chosen(run.results)
        blocks.append(before_and_after(about, columns, listed(about), split))
    blocks += [] if run.results.is_unedited else _bias_against_costs(run.results, quantities)
    if sentences and sentences != lines:
        blocks.append(Fold("All findings", (Words(sentences),)))
    return Section(OVERVIEW, "Overview", tuple(blocks)) if blocks else None


def states(run: Run) -> list[State]:
    """The unedited model and the recommended edit, or all that are shown; a checkpoint's pair."""
    results, original = run.results, run.original
    if original is not None and results.is_unedited:
        own = original.by_task().get(results.task, original)
        return [
            State(ORIGINAL, own.results, UNEDITED, baseline=True),
            State("this checkpoint", results),
        ]
    before = State(results.label(UNEDITED), results, UNEDITED, baseline=not results.is_unedited)
    named = recommended(results)
    real = [edit for edit in results.shown if not edit.baseline]
    after = [named] if named else real[:MOST_AT_A_GLANCE]
    return [before, *(State(edit.label, results, edit.id) for edit in after)]


def at_a_glance(run: Run) -> list[Block]:
    """One figure of all test data: bias, then costs."""
    compared = states(run)
    views = sorted(run.views, key=lambda view: [*KIND_TITLES].index(view.kind))
    panels = tuple(panel for view in views for panel in view.glance(compared))
    if not panels:
        return []
    several = len(compared) > 1
    title = "Before and after, on all test data" if several else "On all test data"
    note = f"Hollow dots are {compared[0].name}. " if several else ""
    return [Figure("glance", title, panels, f"{note}Dots have 95 % intervals.")]


def listed(results: Results) -> list[str]:
    """Ids of the compared edits and of the baselines; controls come last."""
    ids = [*results.compared, *(edit.id for edit in results.baselines)]
    return sorted(ids, key=lambda edit: edit != UNEDITED and results.is_reference(edit))


def measured(run: Run) -> tuple[str, list[Quantity]]:
    """The quantities of test data; of a search without test data, those of validation data."""
    if quantities := run.quantities():
        return "test", quantities
    return "validation", run.quantities("validation") if run.results.is_unedited else []


def summary(run: Run) -> Table | None:
    """The table of all sets and costs by few edits: the verdict's first, its control last."""
    about, edit = of_chosen(run.results), edit_of(run.results)
    control = None if edit is None else about.baseline_of(edit)
    real = [e for e in listed(about) if e != UNEDITED and not about.records[e].baseline]
    real.sort(key=lambda e: edit is None or e != edit.id)
    kept = [UNEDITED, *real[:MOST_AT_A_GLANCE], *([control.id] if control else [])]
    split, quantities = measured(run)
    columns = [quantity for quantity in quantities if quantity.main]
    return before_and_after(about, columns, list(dict.fromkeys(kept)), split) if columns else None


def before_and_after(
    results: Results, quantities: Collection[Quantity], edits: Sequence[str], split: str
) -> Table:
    """A row for each quantity, a column for each edit; the planted truth where it is known."""
    known = any(quantity.truth for quantity in quantities)
    rows: list[tuple[Cell, ...]] = []
    for q in quantities:
        truth = (
            [Number.of(q.truth, q.digits, percent=q.percent) if q.truth else ""] if known else []
        )
        cells = [q.number(edit) if edit in q.rows else "" for edit in edits]
        rows.append((q.axis if q.of else KIND_TITLES[q.kind], q.of or q.title, *truth, *cells))
    labels = [results.label(edit) for edit in edits]
    places = {results.label(edit).partition("@")[2] for edit in edits if edit != UNEDITED}
    place = places.pop() if len(places) == 1 else ""  # stands in the title
    columns = ("", "set", *([TRUTH] if known else []))
    columns += tuple(label.removesuffix(f"@{place}") for label in labels)
    title = f"All sets and costs on {split} data{f', edits at {place}' if place else ''}"
    note = "Intervals are 95 %, over names and templates."
    return Table("before_and_after", title, columns, tuple(rows), note, grouped=True)


def _bias_against_costs(results: Results, quantities: Collection[Quantity]) -> list[Block]:
    """The first bias quantity against each cost, with a point for each tested edit."""
    drawn = [quantity for quantity in quantities if quantity.drawn]
    bias = next((quantity for quantity in drawn if quantity.kind == "bias"), None)
    if bias is None:
        return []
    panels = []
    for cost in (quantity for quantity in drawn if quantity.kind == "cost"):
        every = (_point(results, bias, cost, edit) for edit in listed(results))
        if series := tuple(point for point in every if point is not None):
            limits, covers = bias.limits, cost.covers
            panels.append(
                Panel(cost.title, cost.label, bias.label, series, limits=limits, covers=covers)
            )
    note = "Low and left is best: no bias at the costs of the unedited model."
    title = "Bias against cost, on test data"
    return [Figure("pareto", title, tuple(panels), note)] if panels else []


def _point(results: Results, bias: Quantity, cost: Quantity, edit: str) -> Series | None:
    left, paid = bias.rows.get(edit), cost.rows.get(edit)
    if left is None or paid is None or left.value is None or paid.value is None:
        return None
    label, y = results.label(edit), left.value
    ends = (y if left.lo is None else left.lo,), (y if left.hi is None else left.hi,)
    tip = f"{label}: {bias.label} {bias.number(edit).text}, {cost.label} {cost.number(edit).text}"
    control = results.is_reference(edit)
    return Series(label, (paid.value,), (y,), *ends, "dots", control, (tip,))


def costs(run: Run) -> Section | None:
    """Every cost under every compared edit; None where no edit is."""
    results = run.results
    quantities = [quantity for quantity in run.quantities() if quantity.kind == "cost"]
    if not quantities or results.is_unedited:
        return None
    panels = tuple(
        Panel(
            q.title,
            q.label,
            "",
            tuple(edit_dots(results, next(iter(q.rows.values())))),
            True,
            q.limits,
            q.covers,
        )
        for q in quantities
        if q.drawn
    )
    lines: list[tuple[Cell, ...]] = []
    for q in quantities:
        cells = [q.number(edit) if edit in q.rows else "" for edit in results.compared]
        lines.append((q.title, str(q.rows[UNEDITED].n) if UNEDITED in q.rows else "", *cells))
    columns = ("cost", "n", *map(results.label, results.compared))
    note = "Dots have 95 % intervals. Hollow dots are the unedited model and the controls."
    blocks: list[Block] = [Figure("costs", "Costs of each edit", panels, note)] if panels else []
    blocks.append(Table("costs", "Costs", columns, tuple(lines), brief=True))
    return Section("costs", "Costs", tuple(blocks))


def without_edits(section: Section) -> Section:
    """A section of a run without edits: its tables without empty columns and names of edits."""

    def reduced(block: Any) -> Any:
        if isinstance(block, Fold):
            return replace(block, blocks=tuple(map(reduced, block.blocks)))
        return _without_edits(block) if isinstance(block, Table) else block

    return replace(section, blocks=tuple(map(reduced, section.blocks)))


def _without_edits(table: Table) -> Table:
    kept = [
        i
        for i, column in enumerate(table.columns)
        if not all(_is_empty(row[i]) for row in table.rows)
        # Where it tells measured from published values it stays, without a name.
        and not (column == EDIT and len({row[i] for row in table.rows} - {""}) == 1)
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    several = len({row[0] for row in rows if isinstance(row[0], str)}) < len(rows)
    columns = tuple("" if table.columns[i] == EDIT else table.columns[i] for i in kept)
    return replace(table, columns=columns, rows=rows, grouped=table.grouped and several)


def _is_empty(cell: Cell) -> bool:
    return cell == "" or (isinstance(cell, Number) and cell.value is None)


def title(run: Run) -> str:
    """The model, and the groups of each task."""
    model = Path(str(run.manifest.get("model", run.name))).name
    about = []
    for task, part in run.by_task().items():
        first = next((r for r in part.results.rows if r.group_a and r.group_b), None)
        if first is not None:
            pair = f"{first.group_a} and {first.group_b}".replace("_", " ")
            if of_how_many := run.manifest.get("compared", {}).get(task):
                pair += f" ({of_how_many.partition(';')[0]})"
            about.append(f"{first.axis}, {pair}" if first.axis else pair)
    return f"{model}: {'; '.join(about)}" if about else model


def kind(run: Run) -> str:
    """The command, such as "Audit of a language model"."""
    words = [str(word).capitalize() for word in run.manifest.get("command", [])][1:2]
    return f"{words[0]} of a language model" if words else ""


def about(run: Run) -> list[str]:
    """The facts below the title of the page."""
    manifest = run.manifest
    lines = [f"run {run.name}", in_words(manifest)]
    if made_of := manifest.get("model_origin"):
        lines.append(f"made of {made_of['file']}: {made_of['weights']}")
    lines.append(in_template(manifest))
    if "seed" in manifest:
        lines.append(f"seed {manifest['seed']}")
    if version := manifest.get("versions", {}).get("countergen-edit"):
        lines.append(f"countergen-edit {version}")
    return [*filter(None, lines), f"{len(run.results.rows)} result rows"]


def in_template(manifest: Mapping[str, Any]) -> str:
    """The conversation that contains the texts; empty for plain texts."""
    template = manifest.get("template")
    if not template:
        return ""
    return (
        "texts stand in the model's chat template, as the beginning of its reply to "
        f"“{template['instruction']}”"
    )


def origin(run: Run) -> Section:
    """The tab of the manifest, the settings and all rows."""

    def text(fact: object) -> str:
        return "; ".join(map(str, fact)) if isinstance(fact, list) else str(fact)

    lines: list[tuple[Cell, ...]] = [("run folder", run.name)]
    for key, value in run.manifest.items():
        if key in NOT_SHOWN:
            continue
        if isinstance(value, Mapping):
            lines += [(f"{key}: {name}", text(fact)) for name, fact in value.items()]
        elif key == "command":
            lines.append((key, shlex.join(map(str, value))))
        else:
            lines.append((key.replace("_", " "), "" if value is None else text(value)))
    tables = [Table("run", "Manifest", ("fact", "value"), tuple(lines))]
    if config := tuple(_flat(run.config)):
        tables.append(Table("settings", "Settings", ("setting", "value"), config, searchable=True))
    return Section("run", "The run", (*tables, _rows(run)))


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{prefix}{key}", text


def subject(row: Row) -> str:
    """The data of a row with its facets.

    >>> subject(Row("m", 0.0, dataset="jobs", facets={"lambda": 10.0}))
    'jobs, lambda 10'
    """
    facets = (f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.facets.items())
    return ", ".join(filter(None, (row.dataset, *facets)))


def groups_of(row: Row) -> str:
    """The groups of a row."""
    return " / ".join(group for group in (row.group_a, row.group_b) if group)


def _rows(run: Run) -> Table:
    rows, label = run.results.rows, run.results.label
    lines: list[tuple[Cell, ...]] = [
        (r.metric, subject(r), groups_of(r), label(r.edit), r.split, Number.of(r, 4), str(r.n))
        for r in rows[:MOST_ROWS]
    ]
    note = f"The first {MOST_ROWS} of {len(rows)}; results.jsonl has all."
    note = "" if len(rows) <= MOST_ROWS else note
    columns = ("metric", "data", "groups", EDIT, "split", "value", "n")
    return Table("rows", "Every row of the run", columns, tuple(lines), note, searchable=True)
