"""Which figures of benchmarks stand in the table that papers print, and what is said of them there.

Comes in: rows `benchmark`, `benchmark_change` and `benchmark_source`. Goes out: columns, those of
benchmarks that were not measured among them. Where a run has several bias types, a column is of all
of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from countergen_edit.data.benchmarks import sources
from countergen_edit.errors import UserError
from countergen_edit.metrics.base import Quantity, Standing, alike
from countergen_edit.metrics.benchmarks.base import ALL, BENCHMARKS, Benchmark, Printed
from countergen_edit.metrics.benchmarks.show import (
    CHANGE,
    DIGITS,
    ROW,
    SOURCE,
    is_changed,
    where_text_stands,
)
from countergen_edit.metrics.r.significance import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row

STAR = (
    f"* is where an edit is shown to change a figure (P ≤ {SIGNIFICANT}, Holm over all figures of "
    "benchmarks of the edit)."
)


def standings(results: Results) -> list[Standing]:
    """The columns of every benchmark that has some."""
    read = {str(row.facets["benchmark"]): row for row in results.unedited(SOURCE)}
    names = dict.fromkeys([*(name for name in BENCHMARKS if ".py:" not in name), *read])
    columns = [column for name in names for column in _of(results, name, read.get(name))]
    shown = [row for row in read.values() if row.detail["title"] in {c.of for c in columns}]
    said = (*_said(columns, shown), *([] if results.is_unedited else [STAR]))
    at = next((i for i, column in enumerate(columns) if column.quantity.rows), None)
    if at is not None:
        columns[at] = replace(columns[at], notes=said)
    return columns


def _of(results: Results, name: str, source: Row | None) -> Iterator[Standing]:
    try:
        kind: type[Benchmark] = BENCHMARKS.get(name)
    except UserError:  # a user's own whose file is not at hand
        return
    own = [row for row in results.unedited(ROW) if row.facets["benchmark"] == name]
    known = sources()[name].title if name in sources() else name
    chosen = [_row(own, printed) for printed in kind.printed]
    for printed, row in zip(kind.printed, chosen, strict=True):
        rows = {} if row is None else alike(results, row)
        changes = {edit: results.under(row, edit, CHANGE) for edit in rows} if row else {}
        signed = next(one.signed for one in kind.figures if one.name == printed.figure)
        yield Standing(
            Quantity(printed.title, rows, "other", DIGITS, percent=True, signed=signed),
            of=str(source.detail["title"]) if source else known,
            about=_about(own, [one for one in chosen if one], source) if source else "",
            changed=[edit for edit, change in changes.items() if is_changed(change)],
            measured_by=f"metric=benchmarks metric.benchmarks.of={name}",
            usual=kind.usual,
        )


def _row(rows: Sequence[Row], printed: Printed) -> Row | None:
    """The row of the model as it came: over all bias types where there are several."""
    about = (printed.figure, printed.part)
    own = [row for row in rows if (row.facets["figure"], row.facets.get("part", "")) == about]
    of_all = [row for row in own if row.facets["bias_type"] == ALL]
    return next(iter(of_all or own), None)


def _about(rows: Sequence[Row], chosen: Sequence[Row], source: Row) -> str:
    """Bias types, and how many items and clusters the columns are of."""
    types = dict.fromkeys(str(row.facets["bias_type"]).replace("_", " ") for row in rows)
    parts = dict.fromkeys(str(row.facets["part"]) for row in chosen if "part" in row.facets)
    named = ", ".join(name for name in types if name != ALL)
    items = _span([row.n for row in chosen])
    clusters = _span([row.detail["clusters"] for row in chosen])
    kept = " and ".join(part.replace("_", " ") for part in parts)
    return (
        f"{named}{f'; {kept}' if kept else ''}{', each' if len(parts) > 1 else ''}: "
        f"{items} items of {clusters} {source.detail['clusters']}"
    )


def _span(counts: Sequence[int]) -> str:
    few, many = min(counts), max(counts)
    return f"{few:,}" if few == many else f"{few:,} to {many:,}"


def _said(columns: Sequence[Standing], read: Sequence[Row]) -> Iterator[str]:
    """What is true of all columns together, each once."""
    by_fair: dict[float, list[str]] = {}
    for column in columns:
        row = column.quantity.rows.get(UNEDITED)
        if row is not None and row.detail["fair"] is not None:
            called = f"{column.of} {column.quantity.title}"
            by_fair.setdefault(row.detail["fair"], []).append(called)
    fair = "; ".join(f"{value:.0%} of {', '.join(of)}" for value, of in by_fair.items())
    if fair:
        yield f"Fair is {fair.replace('%', ' %')}; of other figures of benchmarks more is better."
    clusters = dict.fromkeys(str(row.detail["clusters"]) for row in read)
    yield f"Intervals are drawn over {', '.join(clusters)}, the same before and after."
    few = [
        f"{row.detail['title']} {row.n:,} of {row.detail['all_items']:,}"
        for row in read
        if row.n < row.detail["all_items"]
    ]
    if few:
        yield f"Items are drawn evenly, by seed {read[0].seed}: {', '.join(few)}."
    stands = dict.fromkeys(filter(None, map(where_text_stands, read)))
    yield from (f"{where.capitalize()}." for where in stands)
