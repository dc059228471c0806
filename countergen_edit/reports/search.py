"""A search: what each edit removes and costs, the front, the choice, and what failed.

Comes in: the rows that a search adds to those of metrics: `cost` (validation data; its detail holds
all that the choice depends on), `bias_removed`, `error`; of an audit `choice`. Goes out: the tab
Search, and the sentences of the choice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from countergen_edit.decisions.selection import WRECK
from countergen_edit.decisions.significance import BIAS_SIGNIFICANT, has_significant_bias
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import SCREENING, Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.by_layer import Recipe, eraser_labels, of_layers, recipe
from countergen_edit.runs.folder import FAILED

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

NUMBER = re.compile(r"\d[\d.]*(?:e-?\d+)?")
MOST_FRONT = 12
"""Most edits of the front that are listed."""


def single(edit: EditRecord) -> bool:
    """Whether an edit was fitted as one, at one place, under no other."""
    return not edit.parts and len(edit.places) == 1 and not (edit.baseline_kind or edit.after)


def by_eraser(edits: Sequence[EditRecord]) -> dict[str, list[EditRecord]]:
    """Edits by their eraser, which is named with its rank, or the span of its ranks."""
    labels = eraser_labels(edits)
    by_label: dict[str, list[EditRecord]] = {}
    for edit in edits:
        by_label.setdefault(labels[recipe(edit)], []).append(edit)
    return by_label


def share(value: float | None) -> str:
    """A share in percent."""
    return Number(value, percent=True).text


def short(cost: float) -> str:
    """A cost with as many digits as it needs."""
    return f"{cost:.1f}" if cost < 10 else f"{cost:.0f}"


def search(run: Run) -> Section | None:
    """What was tried; nothing where the run is no search."""
    results = run.results
    rows = results.of("cost", "validation")
    errors = [row for row in results.rows if row.metric == FAILED]
    if not rows and not errors:
        return None
    blocks: list[Block] = []
    if sentences := choice(run):
        blocks += [Words(tuple(sentences)), _figure(results, rows)]
    blocks += layer_tables(results)
    if errors:
        blocks.append(Words(tuple(failures(results, errors)), brief=True))
    if rows:
        front = sorted((r for r in rows if r.detail["front"]), key=lambda r: -r.detail["removed"])
        title = "Front: no other edit removes more for less, on validation data"
        blocks.append(_edits(results, "front", title, front[:MOST_FRONT], brief=False))
        every = sorted(rows, key=lambda r: (r.baseline, -r.detail["removed"]))
        blocks.append(_edits(results, "tried", "Every edit", every, brief=False))
    return Section("search", "Search", tuple(blocks))


def choice(run: Run) -> list[str]:
    """What the rule chose and the rule; empty where the run is no search."""
    results = run.results
    chosen = [row for row in results.of("cost", "validation") if row.detail["chosen"]]
    sentences = []
    for row in chosen:
        removed = next(iter(results.of("bias_removed", "test", row.edit)), None)
        split = "validation" if removed is None else "test"
        ending = "_test" if removed and row.detail.get("degradations_test") else ""
        removed = removed or next(iter(results.of("bias_removed", "validation", row.edit)), None)
        span = "" if removed is None else Number.of(removed, percent=True).interval
        gone = row.detail["removed"] if removed is None else removed.value
        sets = "" if removed is None else f" ({removed.dataset.replace('+', ', ')})"
        named = "Best" if worthwhile(row) else f"{unfit(row, run.budgets)} Cheapest"
        degradations = degradations_in_words(
            row.detail[f"degradations{ending}"], row.detail.get(f"groups{ending}")
        )
        about = f", {results.task}" if results.task else ""
        sentences.append(
            f"{named}{about}: {results.label(row.edit)} removes {100 * (gone or 0.0):.1f} %"
            f"{f' [{span} %]' if span else ''} of the bias on {split} data{sets}. "
            f"Change for the worse: {degradations}."
        )
    if sentences:
        tolerated = degradations_in_words(run.budgets)
        sentences.append(
            "Chosen on validation names and templates: of the edits with a cost of at most 1 that "
            "are shown to remove bias, the one that removes most; if there is none, the cheapest "
            "that removes half as much as any. Cost 1 is all that is "
            f"tolerated of the worst of {tolerated or 'all costs'}."
        )
    return sentences or layer_choices(results, run.budgets)


def significant_bias(results: Results) -> bool:
    """Whether there is a bias to remove: a significant one, where it is tested."""
    return has_significant_bias(results.unedited(BIAS_SIGNIFICANT, "validation"))


def no_bias(results: Results) -> str:
    """Why there is no bias to remove by validation data; empty where there is one."""
    row = next((r for r in results.unedited(BIAS_SIGNIFICANT, "validation") if r.value == 0), None)
    if row is None:
        return ""
    if needed := row.detail.get("names_to_test"):
        return f"bias on validation data cannot be tested: needs {needed} names per group"
    return "no significant bias on validation data"


def worthwhile(row: Row) -> bool:
    """Whether the edit of a choice keeps within the budgets and is shown to remove bias."""
    return bool(row.detail["affordable"] and row.detail.get("shown", True))


def unfit(row: Row, budgets: Mapping[str, float]) -> str:
    """Why the edit of a choice is none to keep: it breaks budgets, or shows nothing."""
    if row.detail["affordable"]:
        return "No edit within the budgets is shown to remove any bias."
    broken = breaches(row.detail, budgets)
    by = f" ({'; '.join(broken)})" if broken else ""
    return f"No edit that removes bias costs as little as is tolerated{by}."


def breaches(detail: Mapping[str, Any], budgets: Mapping[str, float]) -> list[str]:
    """Each cost of an edit that is beyond its budget, with the group on which it is largest.

    >>> breaches({"over": ["loss"], "degradations": {"loss": 0.06}, "groups": {}}, {"loss": 0.03})
    ['loss worse by 0.06, budget 0.03']
    """
    return [
        f"{of_group(name, detail.get('groups'))} worse by {detail['degradations'][name]:.2g}"
        + (f", budget {budgets[name]:.2g}" if name in budgets else "")
        + (", within its interval" if name in detail.get("maybe", ()) else "")
        for name in detail.get("over", ())
    ]


def of_group(name: str, groups: Mapping[str, str] | None) -> str:
    """A cost, with the group on which it is largest where each group has one."""
    return f"{name} of {groups[name]}" if groups and groups.get(name) else name


def layer_choices(results: Results, budgets: Mapping[str, float]) -> list[str]:
    """Of an audit: which of its erasers keep within the budgets at no layer, and what is shown."""
    rows = [row for row in results.of("choice", "validation") if not worthwhile(row)]
    if not rows:
        return []
    each = [
        f"{results.label(row.edit)} ({'; '.join(breaches(row.detail, budgets)) or 'nothing shown'})"
        for row in rows
    ]
    return [
        "Of the layers measured on all validation data, none within the budgets is shown to "
        f"remove bias: {'; '.join(each)}. Shown is the cheapest that removes half as much as any."
    ]


def degradations_in_words(degradations: Any, groups: Mapping[str, str] | None = None) -> str:
    """Changes for the worse, or budgets, by the name of the metric, and the group if it has one.

    >>> degradations_in_words({"grammar": 0.0012, "loss": -0.5}, {"grammar": "female"})
    'grammar of female 0.0012, loss −0.5'
    """
    return ", ".join(
        f"{of_group(name, groups)} {f'{value:.3g}'.replace('-', '−')}"
        for name, value in (degradations or {}).items()
    )


def _figure(results: Results, rows: Sequence[Row]) -> Figure:
    panels = [_panel(results, rows, "validation", "")]
    if any(row.detail.get("cost_test") is not None for row in rows):
        panels.append(_panel(results, rows, "test", "_test"))
    note = "The chosen edit and the front were found on validation data alone."
    return Figure("front", "Bias removed against cost", tuple(panels), note)


def _panel(results: Results, rows: Sequence[Row], split: str, ending: str) -> Panel:
    def points(name: str, mine: Sequence[Row], steps: bool = False) -> Series:
        known: list[tuple[Row, float, float]] = []
        for row in mine:
            paid = row.detail.get(f"cost{ending}") if ending else row.value
            gone = row.detail.get(f"removed{ending}")
            if paid is not None and gone is not None:
                known.append((row, min(WRECK, float(paid)), float(gone)))
        tips = tuple(
            f"{results.label(row.edit)}: removed {gone:.3f}, cost {paid:.2f}"
            for row, paid, gone in known
        )
        x, y = tuple(paid for _, paid, _ in known), tuple(gone for *_, gone in known)
        baseline = bool(mine) and all(row.baseline for row in mine)
        return Series(name, x, y, kind="steps" if steps else "dots", baseline=baseline, tips=tips)

    series = [
        points(name, [row for row in rows if row.eraser == name])
        for name in dict.fromkeys(row.eraser for row in rows)
    ]
    if not ending:
        front = sorted((r for r in rows if r.detail["front"]), key=lambda r: r.value or 0.0)
        series.append(points("front", front, steps=True))
    series.append(points("chosen", [row for row in rows if row.detail["chosen"]]))
    label = "cost (1 = all that is tolerated)"
    kept = tuple(s for s in series if s.x)
    return Panel(
        f"{split} data", label, "share of bias removed", kept, covers=(0.0, 1.0), wide=True
    )


def _edits(results: Results, name: str, title: str, rows: Sequence[Row], *, brief: bool) -> Table:
    tested = any(row.detail.get("cost_test") is not None for row in rows)
    degradations = list(dict.fromkeys(key for row in rows for key in row.detail["degradations"]))
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        d = row.detail
        after = d.get("degradations_test") or ({} if tested else d["degradations"])
        state = "chosen" if d["chosen"] else "front" if d["front"] else ""
        label = f"→ {results.label(row.edit)}" if brief and d["chosen"] else results.label(row.edit)
        cells: list[Cell] = [Number(d["removed"], percent=True)]
        cells += [Number(d.get("removed_test"), percent=True)] if tested else []
        cells.append(Number(row.value, digits=2))
        cells += [Number(d.get("cost_test"), digits=2)] if tested else []
        cells += [Number(after.get(key), digits=4, signed=True) for key in degradations]
        lines.append((label, *([] if brief else [state]), *cells))
    splits = ("validation", "test") if tested else ("validation",)
    return Table(
        name,
        title,
        (
            "edit",
            *([] if brief else ["state"]),
            *(f"removed, {split}" for split in splits),
            *(f"cost, {split}" for split in splits),
            *(f"{key}, worse by" for key in degradations),
        ),
        tuple(lines),
        f"Changes for the worse are of {splits[-1]} data, each in its metric's own unit.",
        searchable=not brief,
        brief=brief,
    )


def layer_tables(results: Results) -> list[Table]:
    """For each site what an edit at each layer removes, its cost in brackets, and what failed."""
    errors = [row for row in results.rows if row.metric == FAILED]
    rows, split = of_layers(results, "bias_removed")
    cells = [*(row for row in rows if _is_single(results, row)), *errors]
    sites = dict.fromkeys(row.site for row in cells)
    return [
        _by_layer(results, [row for row in cells if row.site == site], site, split)
        for site in sites
    ]


def _is_single(results: Results, row: Row) -> bool:
    return row.edit not in results.records or single(results.records[row.edit])


def _by_layer(results: Results, cells: Sequence[Row], site: str, split: str) -> Table:
    costs = {row.edit: row for row in results.of("cost", "validation")}
    records = [results.records[row.edit] for row in cells if row.edit in results.records]
    records.sort(key=lambda record: record.baseline)
    columns = eraser_labels(records)
    recipes = {key: recipe(e) for e in reversed(records) for key in (e.eraser, (e.eraser, e.rank))}

    def column(row: Row) -> Recipe:
        """What was asked; a fit that failed left no record, but the eraser and its rank, if any."""
        if row.edit in results.records:
            return recipe(results.records[row.edit])
        key = recipes.get((row.eraser, row.rank)) or recipes.get(row.eraser)
        if key is None:
            key = row.eraser, str(row.rank)
            columns.setdefault(key, f"{row.eraser}-{row.rank}" if row.rank else row.eraser)
        return key

    places: dict[tuple[int, ...], dict[Recipe, Row]] = {}
    for row in cells:
        places.setdefault(row.layers, {})[column(row)] = row
    lines = []
    for layers in sorted(places):
        texts = [_cell(places[layers].get(key), costs, split) for key in columns]
        lines.append(("+".join(map(str, layers)), *texts))
    screened = any(row.split == SCREENING for row in cells)
    few = "; ~ was, on few validation names only" if screened else ""
    return Table(
        f"layers_{site}",
        f"Bias removed after each layer, {site}, on {split} data; cost in brackets",
        ("layer", *columns.values()),
        tuple(lines),
        f"→ was chosen; – was not measured{few}.",
        brief=True,
    )


def _cell(row: Row | None, costs: dict[str, Row], split: str) -> str:
    if row is None:
        return "–"
    if row.metric == FAILED:
        return "failed"
    if row.split == SCREENING:
        return f"~{share(row.value)}"
    cost = costs.get(row.edit)
    if cost is None:
        return share(row.value)
    paid = cost.detail.get("cost_test") if split == "test" else cost.value
    mark = "→ " if cost.detail["chosen"] else ""
    return f"{mark}{share(row.value)}" + ("" if paid is None else f" [{short(paid)}]")


def failures(results: Results, errors: Collection[Row]) -> list[str]:
    """What went wrong in which cells, errors that differ in their numbers alone said once."""
    by_error: dict[str, tuple[str, dict[str, None]]] = {}
    for row in errors:
        place = ".".join(filter(None, (row.site, "+".join(map(str, row.layers)))))
        known = row.edit in results.records or not row.eraser
        rank = f"-{row.rank}" if row.rank else ""
        label = results.label(row.edit) if known else f"{row.eraser}{rank}@{place}"
        error = str(row.detail.get("error", ""))
        by_error.setdefault(NUMBER.sub("#", error), (error, {}))[1][label] = None
    return [f"Failed: {', '.join(labels)}: {error}" for error, labels in by_error.values()]
