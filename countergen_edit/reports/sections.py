"""The tabs of a run's page: overview, search, costs, those of its metrics, and its origin."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.decisions.judgement import recommended, selected
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
    plain,
)
from countergen_edit.reports.findings import of_chosen
from countergen_edit.reports.glossary import terms
from countergen_edit.reports.panels import Panel, edit_dots
from countergen_edit.reports.search import search
from countergen_edit.runs.files import ORIGINAL
from countergen_edit.runs.ran import in_words

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

OVERVIEW, CHANGED = "overview", "original"
OTHERS = "…"
"""Stands for the tabs of custom metrics, in the order of their names."""
ORDER = (
    *(OVERVIEW, CHANGED, "search", "bias", "layers", "costs", "other_axes", "paraphrases"),
    *("fairpair", "cid", "classifiers", OTHERS, "examples", "terms", "run"),
)
"""The tabs in their order."""
TRUTH = "planted"
KIND_TITLES = {"bias": "bias", "cost": "costs", "other": "other measures"}
MOST_AT_A_GLANCE = 4
"""Edits in the first figure and in the terminal's table."""
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


def in_order(parts: Iterable[Section]) -> list[Section]:
    """Tabs in their order, those of custom metrics by name."""
    return sorted(parts, key=lambda s: (ORDER.index(s.name if s.name in ORDER else OTHERS), s.name))


def merged(parts: Iterable[Section]) -> list[Section]:
    """Sections of one name as one, under the title of the first."""
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
    words = [block for block in found.sections[0].blocks if isinstance(block, Words)]
    with_words = [
        replace(part, blocks=(*words, *part.blocks)) if part.name == OVERVIEW else part
        for part in parts
    ]
    tables = filter(None, (found.paired, found.figures, found.side_by_side))
    return [*with_words, Section(CHANGED, "Against its original", tuple(tables))]


def overview(run: Run) -> Section | None:
    """The verdict, all test sets and costs before and after, and all findings."""
    about = of_chosen(run.results)
    lines, sentences = run.verdict.lines, run.findings
    blocks: list[Block] = [Words(lines, brief=True)] if lines else []
    blocks += at_a_glance(run)
    if (table := before_and_after(run, about, listed(about))) is not None:
        blocks.append(table)
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
    """Ids of the compared edits and of the baselines; the selected comes first, controls last."""
    ids = [*results.compared, *(edit.id for edit in results.baselines)]
    ahead = {UNEDITED} | {edit.id for edit in [selected(results)] if edit}
    return sorted(ids, key=lambda e: (e != UNEDITED and results.is_reference(e), e not in ahead))


def summary(run: Run) -> Table | None:
    """The table of all sets and costs by few edits: the verdict's first, its control last."""
    about, edit = of_chosen(run.results), selected(run.results)
    control = None if edit is None else about.baseline_of(edit)
    real = [e for e in listed(about) if e != UNEDITED and not about.records[e].baseline]
    kept = [UNEDITED, *real[:MOST_AT_A_GLANCE], *([control.id] if control else [])]
    return before_and_after(run, about, list(dict.fromkeys(kept)))


def before_and_after(run: Run, results: Results, edits: Sequence[str]) -> Table | None:
    """A row for each set and cost, a column for each edit, and the planted truth if it is known.

    Of test data; of a search without test data, of validation data.
    """
    split, quantities = "test", run.quantities()
    if not quantities and run.results.is_unedited:
        split, quantities = "validation", run.quantities("validation")
    quantities = [quantity for quantity in quantities if quantity.main]
    if not quantities:
        return None
    is_known = any(quantity.truth for quantity in quantities)
    rows: list[tuple[Cell, ...]] = []
    for q in quantities:
        truth = Number.of(q.truth, q.digits, percent=q.percent) if q.truth else ""
        cells = [q.number(edit) if edit in q.rows else "" for edit in edits]
        head = (q.axis, q.of) if q.of else (KIND_TITLES[q.kind], q.title)
        rows.append((*head, *([truth] if is_known else []), *cells))
    labels = [results.label(edit) for edit in edits]
    places = {results.label(edit).partition("@")[2] for edit in edits if edit != UNEDITED}
    shared = places.pop() if len(places) == 1 else ""
    place = "" if "@" in shared else shared  # stands in the title; a combination has several
    columns = ("", "set", *([TRUTH] if is_known else []))
    columns += tuple(label.removesuffix(f"@{place}") for label in labels)
    title = f"All sets and costs on {split} data{f', edits at {place}' if place else ''}"
    note = "Intervals are 95 %, over names and templates."
    brief = all(quantity.kind == "other" for quantity in quantities)  # else it stands for all
    return Table("before_and_after", title, columns, tuple(rows), note, grouped=True, brief=brief)


def costs(run: Run) -> Section | None:
    """Every cost under every compared edit; None where no edit is."""
    results = run.results
    quantities = [quantity for quantity in run.quantities() if quantity.kind == "cost"]
    if not quantities or results.is_unedited:
        return None
    panels = []
    for q in (q for q in quantities if q.drawn):
        series = tuple(edit_dots(results, next(iter(q.rows.values()))))
        panels.append(Panel(q.title, q.label, "", series, True, q.limits, q.covers))
    lines: list[tuple[Cell, ...]] = []
    for q in quantities:
        cells = [q.number(edit) if edit in q.rows else "" for edit in results.compared]
        lines.append((q.title, str(q.rows[UNEDITED].n) if UNEDITED in q.rows else "", *cells))
    columns = ("cost", "n", *map(results.label, results.compared))
    note = "Dots have 95 % intervals. Hollow dots are the unedited model and the controls."
    blocks: list[Block] = [Figure("costs", "Costs of each edit", tuple(panels), note)]
    blocks.append(Table("costs", "Costs", columns, tuple(lines), brief=True))
    return Section("costs", "Costs", tuple(blocks if panels else blocks[1:]))


def without_edits(section: Section) -> Section:
    """A section of a run without edits: its tables without empty columns and names of edits."""

    def reduced(block: Any) -> Any:
        if isinstance(block, Fold):
            return replace(block, blocks=tuple(map(reduced, block.blocks)))
        return _without_edits(block) if isinstance(block, Table) else block

    return replace(section, blocks=tuple(map(reduced, section.blocks)))


def _without_edits(table: Table) -> Table:
    def is_kept(column: str, cells: Sequence[Cell]) -> bool:
        # Names of edits stay where they tell measured from published values.
        is_one_edit = column == EDIT and len({*cells} - {""}) == 1
        return not is_one_edit and any(plain(cell) not in ("", "–") for cell in cells)

    cells = [[row[i] for row in table.rows] for i in range(len(table.columns))]
    kept = [i for i, name in enumerate(table.columns) if is_kept(name, cells[i])]
    rows = tuple(tuple(row[i] for i in kept) for row in table.rows)
    several = len({row[0] for row in rows if isinstance(row[0], str)}) < len(rows)
    columns = tuple("" if table.columns[i] == EDIT else table.columns[i] for i in kept)
    return replace(table, columns=columns, rows=rows, grouped=table.grouped and several)


def title(run: Run) -> str:
    """The model, and the groups of each task."""
    model = Path(str(run.manifest.get("model", run.name))).name
    about = []
    for task, part in run.by_task().items():
        for row in [r for r in part.results.rows if r.group_a and r.group_b][:1]:
            pair = f"{row.group_a} and {row.group_b}".replace("_", " ")
            if of_how_many := run.manifest.get("compared", {}).get(task):
                pair += f" ({of_how_many.partition(';')[0]})"
            about.append(f"{row.axis}, {pair}" if row.axis else pair)
    return f"{model}: {'; '.join(about)}" if about else model


def kind(run: Run) -> str:
    """The command, such as "Audit of a language model"."""
    words = [str(word).capitalize() for word in run.manifest.get("command", [])][1:2]
    return f"{words[0]} of a language model" if words else ""


def about(run: Run) -> list[str]:
    """The facts below the title of the page."""
    manifest = run.manifest
    made_of, version = manifest.get("model_origin"), manifest.get("versions", {})
    lines = [
        f"run {run.name}",
        in_words(manifest),
        f"made of {made_of['file']}: {made_of['weights']}" if made_of else "",
        in_template(manifest),
        f"seed {manifest['seed']}" if "seed" in manifest else "",
        f"countergen-edit {version['countergen-edit']}" if "countergen-edit" in version else "",
    ]
    return [*filter(None, lines), f"{len(run.results.rows)} result rows"]


def in_template(manifest: Mapping[str, Any]) -> str:
    """The conversation that contains the texts; empty for plain texts."""
    if not (template := manifest.get("template")):
        return ""
    reply = "texts stand in the model's chat template, as the beginning of its reply to"
    thought = ", which begins after an empty thought" if "thought" in template else ""
    return f"{reply} “{template['instruction']}”{thought}"


def origin(run: Run) -> Section:
    """The tab of the manifest and the settings."""
    facts = {"run folder": run.name}
    facts |= {key: fact for key, fact in run.manifest.items() if key not in NOT_SHOWN}
    if "command" in facts:
        facts["command"] = shlex.join(map(str, facts["command"]))
    tables = [Table("run", "Manifest", ("fact", "value"), _flat(facts, ": "))]
    if config := _flat(run.config, "."):
        tables.append(Table("settings", "Settings", ("setting", "value"), config, searchable=True))
    return Section("run", "The run", tuple(tables))


def _flat(content: Mapping[str, Any], sep: str) -> tuple[tuple[str, str], ...]:
    """Nested facts by the names that lead to them."""
    from pandas import json_normalize

    [facts] = json_normalize(dict(content), sep=sep).to_dict("records") or [{}]
    return tuple(
        (str(key), ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact))
        for key, fact in facts.items()
    )


def subject(row: Row) -> str:
    """The data of a row with its facets."""
    facets = (f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.facets.items())
    return ", ".join(filter(None, (row.dataset, *facets)))
