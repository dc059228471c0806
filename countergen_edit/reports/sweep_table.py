"""A sweep in the terminal: what each cell removes, the front, the choice, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import number, percent, short

SHOWN = 12
"""Most edits of the front that are listed."""


def eraser_label(row: Row) -> str:
    """An eraser with its rank, as columns and legends name it.

    >>> eraser_label(Row("r", 0.0, eraser="inlp", rank=8))
    'inlp-8'
    """
    return f"{row.eraser}-{row.rank}"


def asked(row: Row) -> str:
    """What was asked of a row's eraser, the same at every layer; its rank may be found by fitting.

    >>> asked(Row("r", 0.0, unit="gender/cell/preserving(rank=cv)", eraser="preserving"))
    'preserving(rank=cv)'
    >>> asked(Row("r", 0.0, unit="search", eraser="leace", rank=1))
    'leace'
    """
    last = row.unit.rpartition("/")[2]
    return last if last.partition("(")[0] == row.eraser else row.eraser


def eraser_labels(rows: Sequence[Row]) -> dict[str, str]:
    """For each eraser as `asked`, its label; where its rank differs by layer, the span of ranks.

    >>> of_layers = [Row("r", 0.0, unit="a/own(rank=cv)", eraser="own", rank=k) for k in (6, 3)]
    >>> eraser_labels(of_layers)
    {'own(rank=cv)': 'own-3…6'}
    """
    ranks: dict[str, list[Row]] = {}
    for row in rows:
        ranks.setdefault(asked(row), []).append(row)
    labels = {}
    for key, alike in ranks.items():
        low, *_, high = sorted(2 * [row.rank for row in alike])
        last = f"…{high}" if high > low else ""
        labels[key] = f"{eraser_label(replace(alike[0], rank=low))}{last}"
    return labels


def site_of(row: Row) -> str:
    """The site of a single edit, with its axis where its name tells it.

    >>> site_of(Row("r", 0.0, edit="inlp-8@resid_post.3"))
    'resid_post'
    >>> site_of(Row("r", 0.0, edit="inlp-8@resid_post.3/gender"))
    'resid_post, gender'
    """
    place, _, axis = row.edit.partition("@")[2].partition("/")
    return place.partition(".")[0] + (f", {axis}" if axis else "")


def cells_of(results: Results) -> list[Row]:
    """One row for every cell: what its edit removes on test data, or the error it ended with."""
    return [
        r
        for r in results.rows
        if (r.metric == "error" or (r.metric, r.split) == ("bias_removed", "test"))
        and " + " not in r.edit
    ]


def layer_table(results: Results, site: str) -> Table:
    """Bias removed on test data, layer by layer, with each cell's cost beside it."""
    rows = [row for row in cells_of(results) if site_of(row) == site]
    costs = {row.edit: row for row in results.of("cost", "validation")}
    # A failed fit has no rank; what was asked for stands for it where no layer has one.
    columns = {asked(row): asked(row).removesuffix("()") for row in rows}
    columns |= eraser_labels([row for row in rows if row.metric != "error"])
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 2))
    table.add_column("layer", justify="right")
    for name in columns.values():
        table.add_column(name, justify="right", no_wrap=True)
    for layer in sorted({row.layer for row in rows}, key=lambda at: -1 if at is None else at):
        found = {asked(row): row for row in rows if row.layer == layer}
        cells = [_cell(found.get(key), costs) for key in columns]
        table.add_row("" if layer is None else str(layer), *cells)
    return table


def failures(rows: Sequence[Row]) -> list[str]:
    """What went wrong in which cells, the same error said once."""
    by_error: dict[str, list[str]] = {}
    for row in rows:
        if row.metric == "error":
            by_error.setdefault(row.detail["error"], []).append(row.edit)
    return [f"Failed: {', '.join(edits)}: {error}" for error, edits in by_error.items()]


def _cell(row: Row | None, costs: dict[str, Row]) -> str:
    if row is None:
        return "–"  # not swept, or not yet
    if row.metric == "error":
        return "failed"
    cost = costs.get(row.edit)
    text = percent(row.value)
    if cost is None:
        return text
    style = "bold" if cost.detail["chosen"] else "dim" if (cost.value or 0) > 1 else ""
    shown = f"{text} [{_short(cost.detail['cost_test'])}]".replace("[", "\\[")
    return f"[{style}]{shown}[/{style}]" if style else shown


def _short(cost: float) -> str:
    return f"{cost:.1f}" if cost < 10 else f"{cost:.0f}"


def front_table(results: Results, axis: str = "") -> Table:
    """The edits that no other beats, on validation data, and what test data say of them."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 2))
    table.add_column("edit", overflow="fold")
    for name in (
        "removed\nvalid.",
        "\ntest",
        "cost\nvalid.",
        "\ntest",
        "P(right)\ntest",
        "perpl.\ntest",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [r for r in results.of("cost", "validation") if r.detail["front"]]
    for row in sorted(rows, key=lambda r: -r.detail["removed"])[:SHOWN]:
        d = row.detail
        table.add_row(
            ("→ " if d["chosen"] else "") + short(row.edit.removesuffix(f"/{axis}")),
            percent(d["removed"]),
            percent(d["removed_test"]),
            _short(row.value or 0),
            _short(d["cost_test"]),
            f"{-100 * d['agreement_lost_test']:+.1f} pt",
            f"× {number(d['perplexity_ratio_test'])}",
        )
    return table


def sentences(results: Results) -> list[str]:
    """What the rule chose, for each axis, and the rule."""
    said = []
    for row in results.of("cost", "validation"):
        if not row.detail["chosen"]:
            continue
        d = row.detail
        test = next(r for r in results.of("bias_removed") if r.edit == row.edit)
        span = ""
        if test.lo is not None and test.hi is not None:
            span = f" [{percent(test.lo)}, {percent(test.hi)}]"
        named = (
            "Best"
            if (row.value or 0.0) <= 1
            else "No edit costs as little as is tolerated. Cheapest"
        )
        said.append(
            f"{named}: {short(row.edit)} removes {100 * d['removed_test']:.1f} %{span} of mean |R| "
            f"on test data ({test.dataset.replace('+', ', ')}). Agreement "
            f"{-100 * d['agreement_lost_test']:+.2f} points, neutral perplexity "
            f"× {d['perplexity_ratio_test']:.4f}."
        )
    if said:
        said.append(
            "Chosen on validation names and wordings: of the edits with a cost of at most 1, the "
            "one that removes most; if there is none, the cheapest. Cost 1 is all that is "
            "tolerated of the worst of agreement lost, perplexity gained and KL divergence."
        )
    return said


def print_sweep(results: Results, console: Console) -> None:
    """Print a sweep: for each axis a table for each site and the front, and what that says."""
    for axis, part in results.by_axis().items():
        cells = cells_of(part)
        for site in dict.fromkeys(map(site_of, cells)):
            where = f"after each layer, {site}; cost in brackets"
            console.print(f"[bold]Mean |R| removed[/bold] {where}")
            console.print(layer_table(part, site))
            for sentence in failures([row for row in cells if site_of(row) == site]):
                console.print(Text(sentence))
            console.print()
        if part.of("cost", "validation"):
            name = f"Front, {axis}" if axis else "Front"
            rule = "no other edit removes more for less, on validation data"
            console.print(f"[bold]{name}[/bold]: {rule}")
            console.print(front_table(part, axis))
            console.print()
    for sentence in sentences(results):
        console.print(Text(f"• {sentence}"))
