"""Contrastive input decoding in the terminal: a figure, and the texts behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import interval, number

T = TypeVar("T")
TEXTS = 2
"""Continuations shown of each group; the run folder has all."""
MARK = "†"
AUTOMATIC = (
    f"{MARK} names a protected criterion outright: an automatic pre-rating by a lexicon, which no "
    "person has checked."
)
FRACTIONS = {
    "cid_biased_fraction": "[bold]Biased continuations[/bold], agreed by raters",
    "cid_biased_fraction_automatic": (
        "[bold]Biased continuations[/bold], automatic pre-rating by a lexicon: no person has rated"
    ),
}
DIVERGENCE = (
    "[bold]Contrastive input decoding[/bold]: divergence of the two sides, nats a token "
    "(Jensen–Shannon)"
)
CONTINUATIONS = "[bold]Continuations[/bold], with how many pairs of names they came from"


def cid_section(results: Results, console: Console) -> None:
    """Print what CID found; nothing where the run has none of its rows."""
    brief = bool(results.of("mean_abs_r"))  # one metric of an audit; its report shows the rest
    if results.of("cid_divergence"):
        _print(console, DIVERGENCE, divergence_table(results, brief))
        console.print(CONTINUATIONS)
        if any(row.detail["automatic"] for row in results.of("cid_continuations")):
            console.print(Text(AUTOMATIC, style="dim"))
        for template in dict.fromkeys(
            r.detail["template"] for r in results.of("cid_continuations")
        ):
            console.print()
            console.print(Text(template, style="italic"))
            console.print(texts_table(results, template, brief))
        console.print()
    for metric, title in FRACTIONS.items():
        rows = results.of(metric)
        if rows and not any(row.value or row.hi for row in rows):
            console.print(f"{title}; none, before or after any edit\n")
        elif rows:
            _print(console, title, fractions_table(results, metric))
    for row in results.of("cid_rater_agreement"):
        said = (
            row.detail.get("reason") or f"{number(row.value)} [{number(row.lo)}, {number(row.hi)}]"
        )
        console.print(Text(f"{row.detail['statistic']} of {row.detail['rated_by']}: {said}\n"))


def effect_section(results: Results, console: Console) -> None:
    """Print λ* by kind of perturbation and similarity by λ; nothing where there are none."""
    stars = results.of("cid_lambda_star")
    if not stars:
        return
    tau = stars[0].detail["tau"]
    title = f"[bold]Perturbation effect[/bold]: λ* at τ = {tau:g}; smaller is stronger"
    table = _table("kind")
    for name in ("median", "95 %", "quartiles", "never", "n"):
        table.add_column(name, justify="right")
    for row in stars:
        quartiles = _range(row, *row.detail["quartiles"])
        ends = "" if row.lo is None else _range(row, row.lo, row.hi)
        table.add_row(
            row.dataset,
            _star(row, row.value),
            ends,
            quartiles,
            str(row.detail["never"]),
            str(row.n),
        )
    _print(console, title, table)
    table = _table("")
    table.add_column("mean", justify="right")
    for row in results.of("cid_similarity"):
        table.add_row(row.dataset, interval(row))
    _print(console, "[bold]Similarity of the two continuations[/bold]", table)


def _star(row: Row, value: float | None) -> str:
    return f">{row.detail['largest']:g}" if value is None else f"{value:.3g}"


def _range(row: Row, low: float | None, high: float | None) -> str:
    return f"{_star(row, low)}–{_star(row, high)}"


def divergence_table(results: Results, brief: bool = False) -> Table:
    """How far apart the next-token distributions are along the CID path, before and after.

    In brief: at the smallest and the largest λ, an edit a line.
    """
    rows = results.of("cid_divergence")
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    if brief:
        datasets = _ends(datasets)
    table = _table("")
    for dataset in datasets:
        table.add_column(dataset.removeprefix("cid, "), justify="right", no_wrap=True)
    for edit in dict.fromkeys(row.edit for row in rows):
        cells = []
        for dataset in datasets:
            row = _of(results, "cid_divergence", dataset, edit)
            gone = _of(results, "cid_divergence_reduction", dataset, edit)
            change = "" if gone is None or gone.value is None else f"{-100 * gone.value:+.0f}% "
            text = change + interval(row, 4)
            cells.append(text.replace("\n", " ") if brief else text)
        table.add_row("before" if edit == "none" else edit, *cells)
    return table


def texts_table(results: Results, template: str, brief: bool = False) -> Table:
    """The commonest continuations of a template, by λ and group, before and after.

    One line serves all edits where they leave both groups with the same. In brief: at the smallest
    and the largest λ, an edit a line.
    """
    rows = [r for r in results.of("cid_continuations") if r.detail["template"] == template]
    groups = list(dict.fromkeys(row.group_a for row in rows))
    edits = list(dict.fromkeys(row.edit for row in rows))
    most = 1 if brief else TEXTS
    table = _table("")
    table.columns[0].min_width = 4
    if len(edits) > 1:
        table.add_column("edit", no_wrap=True, min_width=max(map(len, edits)))
    for group in groups:
        table.add_column(group, ratio=1, no_wrap=brief)
    strengths = list(dict.fromkeys(row.detail["lambda"] for row in rows))
    for strength in _ends(strengths) if brief else strengths:
        of_strength = [row for row in rows if row.detail["lambda"] == strength]
        alike = len(edits) > 1 and len({_shown(row, most) for row in of_strength}) == 1
        for i, edit in enumerate(edits[:1] if alike else edits):
            cells = [
                Text(_shown(row, most))
                for group in groups
                for row in of_strength
                if (row.group_a, row.edit) == (group, edit)
            ]
            name = "all" if alike else "before" if edit == "none" else edit
            label = "" if i else f"λ={strength:g}"
            table.add_row(label, *([name] if len(edits) > 1 else []), *cells)
    return table


def fractions_table(results: Results, metric: str) -> Table:
    """The share of biased continuations by λ and group, as the paper's Figures 2, 6 and 7."""
    rows = results.of(metric)
    table = _table("")
    groups = list(dict.fromkeys(row.group_a for row in rows))
    edits = list(dict.fromkeys(row.edit for row in rows))
    if len(edits) > 1:
        table.add_column("edit")
    for group in groups:
        table.add_column(group, justify="right")
    for dataset in dict.fromkeys(row.dataset for row in rows):
        for i, edit in enumerate(edits):
            cells = [
                number(row.value, 2)
                + ("" if row.lo is None else f" [dim]{row.lo:.2f}–{row.hi:.2f}[/dim]")
                for group in groups
                for row in rows
                if (row.dataset, row.edit, row.group_a) == (dataset, edit, group)
            ]
            label = "" if i else dataset.removeprefix("cid, ")
            name = ["before" if edit == "none" else edit] if len(edits) > 1 else []
            table.add_row(label, *name, *cells)
    return table


def _table(corner: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(corner, no_wrap=True)
    return table


def _print(console: Console, title: str, table: Table) -> None:
    """A table under a title that is wider than it."""
    console.print(title)
    console.print(table)
    console.print()


def _of(results: Results, metric: str, dataset: str, edit: str) -> Row | None:
    found = (r for r in results.of(metric) if (r.dataset, r.edit) == (dataset, edit))
    return next(found, None)


def _ends(values: list[T]) -> list[T]:
    """The first and the last."""
    return values if len(values) < 2 else [values[0], values[-1]]


def _shown(row: Row, most: int) -> str:
    counts: Sequence[tuple[str, int]] = row.detail["counts"]
    texts = [
        f"{text}{MARK if text in row.detail['automatic'] else ''} ({count})"
        for text, count in counts[:most]
    ]
    return "; ".join(texts + (["…"] if row.value is not None and row.value > most else []))
