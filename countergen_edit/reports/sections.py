"""The tabs of a run's page: overview, search, costs, those of its metrics, and its origin."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from countergen_edit.decisions.judgement import recommended, selected
from countergen_edit.decisions.selection import MAX_COST_SHARE
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.compare import comparison
from countergen_edit.reports.findings import choice, failures, of_chosen
from countergen_edit.reports.glossary import terms
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views import base
from countergen_edit.runs.files import FAILED, ORIGINAL
from countergen_edit.runs.ran import conversation_in_words, in_words
from countergen_edit.runs.run import Run

_OVERVIEW, CHANGED = "overview", "original"
OTHERS = "…"
"""Stands for the tabs of custom metrics, in the order of their names."""
ORDER = (
    *(_OVERVIEW, CHANGED, "search", "bias", "layers", "costs", "other_axes", "paraphrases"),
    *("fairpair", "cid", "classifiers", OTHERS, "examples", "terms", "run"),
)
KIND_TITLES = {"bias": "bias", "cost": "costs", "other": "other measures"}
MOST_AT_A_GLANCE = 4
"""Edits in the first figure and in the terminal's table."""
NOT_SHOWN = ("schema", "texts")


def sections(run: Run) -> list[Section]:
    """The tabs that a run has something for."""
    tasks = {task: _merged(of_task(part)) for task, part in run.by_task().items()}
    parts = [section for of_one in tasks.values() for section in of_one]
    if len(tasks) > 1:
        parts = _merged(_named(task, s) for task, of_one in tasks.items() for s in of_one)
    if run.original is not None:
        against = comparison([run.original, run], int(run.manifest.get("seed", 0)))
        words = [b for b in against.sections[0].blocks if isinstance(b, Words)]
        names = ("paired", "paired_figures", "side_by_side")
        tables = [against.tables[name] for name in names if name in against.tables]
        parts = _merged([*base.as_section(_OVERVIEW, "Overview", words), *parts])
        parts += base.as_section(CHANGED, "Against its original", tables)
    parts += [terms(), origin(run)]
    return sorted(parts, key=lambda s: (ORDER.index(s.name if s.name in ORDER else OTHERS), s.name))


def of_task(run: Run) -> list[Section]:
    """The tabs of a run of one task."""
    of_views = [section for view in run.views for section in view.sections(run.results)]
    parts = [*overview(run), *search_section(run), *costs(run), *of_views]
    return [s.without_edits() for s in parts] if run.results.is_unedited else parts


def _merged(parts: Iterable[Section]) -> list[Section]:
    """Sections of one name as one, under the title of the first."""
    return [
        replace(same[0], blocks=tuple(block for part in same for block in part.blocks))
        for same in base.grouped(parts, lambda part: part.name).values()
    ]


def _named(task: str, section: Section) -> Section:
    """The section of one of several tasks, under names that tell its blocks apart."""
    blocks: list[Block] = [Words((f"Task: {task}",))]
    for block in section.blocks:
        if not isinstance(block, Figure) and block.folded:
            block = replace(block, folded=f"{block.folded}, {task}")
        if not isinstance(block, Words):
            block = replace(block, name=f"{block.name}_{task}", title=f"{block.title}, {task}")
        blocks.append(block)
    return replace(section, blocks=tuple(blocks))


def overview(run: Run) -> list[Section]:
    """The verdict, all test sets and costs before and after, and all findings."""
    about = of_chosen(run.results)
    lines, sentences = run.verdict.lines, run.findings
    blocks: list[Block] = [Words(lines, brief=True)] if lines else []
    blocks += [*at_a_glance(run), *before_and_after(run, about, _listed(about))]
    if sentences and sentences != lines:
        blocks.append(Words(sentences, folded="All findings"))
    return base.as_section(_OVERVIEW, "Overview", blocks)


def states(run: Run) -> list[State]:
    """The unedited model and the recommended edit, or all that are shown; a checkpoint's pair."""
    results, original = run.results, run.original
    if original is not None and results.is_unedited:
        before = original.by_task().get(results.task, original).results
        return [State(ORIGINAL, before, baseline=True), State("this checkpoint", results)]
    named = recommended(results)
    real = [edit for edit in results.shown if not edit.baseline]
    after = [named] if named else real[:MOST_AT_A_GLANCE]
    return [base.state_of(results, edit) for edit in (UNEDITED, *(e.id for e in after))]


def at_a_glance(run: Run) -> list[Figure]:
    """One figure of all test data: bias, then costs."""
    first, *others = states(run)
    views = sorted(run.views, key=lambda view: base.KINDS.index(view.kind))
    panels = [panel for view in views for panel in view.glance([first, *others])]
    title = "Before and after, on all test data" if others else "On all test data"
    note = f"Hollow dots are {first.name}. " if others else ""
    return base.as_figure("glance", title, panels, f"{note}Dots have 95 % intervals.")


def _listed(results: Results) -> list[str]:
    """Ids of the compared edits and of the baselines; the selected comes first, controls last."""
    ids = [*results.compared, *(edit.id for edit in results.baselines)]
    ahead = {UNEDITED} | {edit.id for edit in [selected(results)] if edit}
    return sorted(ids, key=lambda e: (e != UNEDITED and results.is_reference(e), e not in ahead))


def summary(run: Run) -> list[Table]:
    """The table of all sets and costs by few edits: the verdict's first, its control last."""
    about, edit = of_chosen(run.results), selected(run.results)
    control = None if edit is None else about.baseline_of(edit)
    real = [e for e in _listed(about) if e != UNEDITED and not about.records[e].baseline]
    kept = [UNEDITED, *real[:MOST_AT_A_GLANCE], *([control.id] if control else [])]
    return before_and_after(run, about, list(dict.fromkeys(kept)))


def before_and_after(run: Run, results: Results, edits: Sequence[str]) -> list[Table]:
    """A row for each set and cost, a column for each edit, and the planted truth if it is known.

    Of test data; of a search without test data, of validation data.
    """
    split, quantities = "test", run.quantities()
    if not quantities and run.results.is_unedited:
        split, quantities = "validation", run.quantities("validation")
    quantities = [quantity for quantity in quantities if quantity.main]
    is_known = any(quantity.truth for quantity in quantities)
    labels = base.edit_titles(results, edits)
    places = {label.partition("@")[2] for edit, label in labels.items() if edit != UNEDITED}
    shared = places.pop() if len(places) == 1 else ""
    place = "" if "@" in shared else shared  # stands in the title; a combination has several
    short = {edit: label.removesuffix(f"@{place}") for edit, label in labels.items()}
    records: list[base.Record] = []
    for q in quantities:
        head = (q.how.label, q.of) if q.of and q.kind != "cost" else (KIND_TITLES[q.kind], q.title)
        record: dict[str, Cell] = dict(zip(("", "set"), head, strict=True))
        if is_known:
            truth = Number.of(q.truth, q.how.digits, percent=q.how.percent)
            record["planted"] = truth if q.truth else ""
        records.append({**record, **q.cells(short)})
    title = f"All sets and costs on {split} data{f', edits at {place}' if place else ''}"
    note = "Intervals are 95 %, over people and over templates, texts or topics."
    brief = all(quantity.kind != "bias" for quantity in quantities)  # else it stands for all
    return base.as_table("before_and_after", title, records, note, grouped=True, brief=brief)


def costs(run: Run) -> list[Section]:
    """Every cost under every compared edit; none where no edit is."""
    results = run.results
    quantities = [quantity for quantity in run.quantities() if quantity.kind == "cost"]
    if not quantities or results.is_unedited:
        return []
    panels, records = [], list[base.Record]()
    labels = base.edit_titles(results, results.compared)
    for q in quantities:
        if q.how.drawn:
            known = [(edit, label) for edit, label in labels.items() if edit in q.rows]
            series = [Series.of(t, [t], [q.rows[e]], results.is_reference(e)) for e, t in known]
            panels.append(Panel(q.title, q.how.label, "", (*series,), True, q.view.covers))
        n = str(q.rows[UNEDITED].n) if UNEDITED in q.rows else ""
        records.append({"cost": q.title, "n": n, **q.cells(labels)})
    note = "Dots have 95 % intervals. Hollow dots are the unedited model and the controls."
    figure = base.as_figure("costs", "Costs of each edit", panels, note)
    return base.as_section("costs", "Costs", figure, base.as_table("costs", "Costs", records))


def search_section(run: Run) -> list[Section]:
    """Every candidate, its removal and cost, and the Pareto front; none where nothing searched."""
    results, blocks = run.results, list[Block]()
    rows = results.of("cost", "validation")
    errors = [row for row in results.rows if row.metric == FAILED]
    is_tested = any(row.detail.get("cost_test") is not None for row in rows)
    ends = {"validation": "", **({"test": "_test"} if is_tested else {})}
    if sentences := choice(run) if rows or errors else []:
        blocks.append(Words(tuple(sentences)))
    if sentences and rows:
        panels = [_front(rows, split, end) for split, end in ends.items()]
        note = "The choice and the front use validation data alone."
        blocks += base.as_figure("front", "Bias removed against cost", panels, note)
    if errors:
        blocks.append(Words(tuple(failures(errors)), brief=True))
    records = _candidates(results, rows, ends)
    best = [dict([*r.items()][: 2 + 2 * len(ends)]) for r in records if r["state"]]
    title = "Pareto front: none removes more bias at less cost"
    note = f"Degradations are of {[*ends][-1]} data, in the unit of each metric."
    blocks += base.as_table("best", title, best, brief=True)
    blocks += base.as_table("tried", "Every candidate", records, note, searchable=True)
    return base.as_section("search", "Search", blocks)


def _measured(row: Row, end: str) -> tuple[float | None, float | None]:
    return row.detail.get("cost_test") if end else row.value, row.detail.get(f"removed{end}")


def _front(rows: Sequence[Row], split: str, end: str) -> Panel:
    """The removal and cost of every candidate on one split, of validation data with the front."""
    by_name = base.grouped(rows, lambda row: row.eraser)
    if not end:
        front = [row for row in rows if row.detail["front"]]
        by_name["front"] = sorted(front, key=lambda row: row.value or 0.0)
    by_name["chosen"] = [row for row in rows if row.detail["chosen"]]
    series = []
    for name, same in by_name.items():
        pairs = [_measured(row, end) for row in same]
        if known := [
            (min(MAX_COST_SHARE, x), y) for x, y in pairs if x is not None and y is not None
        ]:
            x, y = zip(*known, strict=True)
            kind: Any = "steps" if name == "front" else "dots"
            is_baseline = all(row.baseline for row in same)
            series.append(Series(name, x, y, kind=kind, baseline=is_baseline))
    labels = "cost (1 = the budget)", "share of bias removed"
    return Panel(f"{split} data", *labels, tuple(series), covers=(0.0, 1.0), wide=True)


def _candidates(
    results: Results, rows: Sequence[Row], ends: Mapping[str, str]
) -> list[base.Record]:
    records: list[base.Record] = []
    names = dict.fromkeys(key for row in rows for key in row.detail["degradations"])
    for row in sorted(rows, key=lambda row: (row.baseline, -row.detail["removed"])):
        pairs = {split: _measured(row, end) for split, end in ends.items()}
        worse = row.detail.get(f"degradations{[*ends.values()][-1]}") or {}
        state = "chosen" if row.detail["chosen"] else "front" if row.detail["front"] else ""
        removed = {f"removed, {s}": Number(y, percent=True) for s, (_, y) in pairs.items()}
        cost = {f"cost, {s}": Number(x, digits=2) for s, (x, _) in pairs.items()}
        each = {f"{k}, worse by": Number(worse.get(k), digits=4, signed=True) for k in names}
        records.append({"edit": results.label(row.edit), "state": state, **removed, **cost, **each})
    return records


def head(run: Run) -> dict[str, Any]:
    """The title of the page, the kind of the run, and facts about it."""
    manifest = run.manifest
    commands = [str(word) for word in manifest.get("command", [])][1:2]
    made_of, version = manifest.get("model_origin"), manifest.get("versions", {})
    facts = [
        f"run {run.name}",
        in_words(manifest),
        f"made of {made_of['file']}: {made_of['weights']}" if made_of else "",
        conversation_in_words(manifest),
        f"seed {manifest['seed']}" if "seed" in manifest else "",
        f"countergen-edit {version['countergen-edit']}" if "countergen-edit" in version else "",
        f"{len(run.results.rows)} result rows",
    ]
    kind = f"countergen-edit {commands[0]}" if commands else ""
    return {"title": run.title, "kind": kind, "about": [*filter(None, facts)]}


def origin(run: Run) -> Section:
    """The tab of the manifest and the settings."""
    facts = {"run folder": run.name}
    facts |= {key: fact for key, fact in run.manifest.items() if key not in NOT_SHOWN}
    if "command" in facts:
        facts["command"] = shlex.join(map(str, facts["command"]))
    manifest = [{"fact": key, "value": text} for key, text in _flat(facts, ": ")]
    settings = [{"setting": key, "value": text} for key, text in _flat(run.config, ".")]
    tables = base.as_table("run", "Manifest", manifest)
    tables += base.as_table("settings", "Settings", settings, searchable=True)
    return Section("run", "The run", tuple(tables))


def _flat(content: Mapping[str, Any], sep: str) -> list[tuple[str, str]]:
    from pandas import json_normalize

    [facts] = json_normalize(dict(content), sep=sep).to_dict("records") or [{}]
    texts = (", ".join(map(str, f)) if isinstance(f, list) else str(f) for f in facts.values())
    return [*zip(map(str, facts), texts, strict=True)]
