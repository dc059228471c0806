"""How the figures of an audit spread over wordings: beside the headline, or wording by wording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import edits_shown, number, percent

LEANS = {1: "alike", -1: "against", 0: "insig."}


def templates_section(results: Results, console: Console) -> None:
    """Print the spread over wordings; every wording with it where the run measured nothing else."""
    before = [row for row in results.of("r_sd_over_wordings") if row.edit == "none"]
    if not before:
        return
    reworded = [row for row in before if row.value is not None]
    edits: list[Row | None] = [*edits_shown(results)] or [None]
    for edit in edits:
        if not results.of("mean_abs_r"):
            console.print(_by_wording(results, reworded, edit))
            console.print()
        console.print(_by_set(results, reworded, edit))
        console.print()
    for sentence in sentences(results):
        console.print(Text(f"• {sentence}"))
    console.print()


def sentences(results: Results) -> list[str]:
    """On how many wordings the conclusions hold, before and after each edit."""
    found = []
    for name in ("none", *(edit.edit for edit in edits_shown(results))):
        holds = _of(results, "wordings_holding", name)
        flips = _of(results, "wording_flip_rate", name)
        if not holds:
            continue
        count, of = sum(int(row.value or 0) for row in holds), sum(row.n for row in holds)
        compared = sum(row.n for row in flips)
        rate = sum((row.value or 0) * row.n for row in flips) / compared if compared else None
        state = "Before any edit" if name == "none" else f"After {name}"
        text = (
            f"{state} outputs lean the way the other wordings say on {count} of {of} wordings; "
            f"{percent(rate)} of conclusions about single outputs flip from wording to wording"
        )
        if removed := _of(results, "reduction_holding", name):
            count, of = sum(int(row.value or 0) for row in removed), sum(row.n for row in removed)
            text += f". Some bias is surely removed on {count} of {of} wordings outside the fit"
        gap = next(iter(_of(results, "reduction_gap", name)), None)
        if gap is not None and gap.value is not None:
            text += (
                f" ({percent(gap.detail['test'])} of mean |R| there, "
                f"{percent(gap.detail['fit'])} on what was fitted)"
            )
        found.append(text + ".")
    return found


def _of(results: Results, metric: str, edit: str) -> list[Row]:
    return [row for row in results.of(metric) if row.edit == edit]


def _same(results: Results, row: Row, metric: str, edit: str) -> Row | None:
    groups = {"group_a": row.group_a, "group_b": row.group_b}
    return results.find(metric, dataset=row.dataset, edit=edit, split=row.split, **groups)


def _table(title: str, edit: Row | None) -> Table:
    of = "" if edit is None else f", before and after {edit.edit}"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.title, table.title_justify, table.title_style = f"[bold]{title}[/bold]{of}", "left", ""
    return table


def _label(row: Row) -> str:
    return row.dataset.removesuffix(f"_{row.split}").replace("_", " ")


def _by_set(results: Results, rows: Sequence[Row], edit: Row | None) -> Table:
    table = _table("Over wordings", edit)
    table.add_column("", no_wrap=True)
    for title in ("wordings", "SD of\nmean |R|", "lean\nalike", "flips", "variance\nof wordings"):
        table.add_column(title, justify="right")
    if edit is not None:
        table.add_column("bias\nremoved on", justify="right")
    names = ["none", *([] if edit is None else [edit.edit])]
    for row in rows:

        def cells(metric: str, row: Row = row) -> list[Row | None]:
            return [_same(results, row, metric, name) for name in names]

        removed = [] if edit is None else [_same(results, row, "reduction_holding", edit.edit)]
        table.add_row(
            _label(row),
            str(row.n),
            _arrow(_short(r) for r in cells("r_sd_over_wordings")),
            _arrow(number(r.value, 0) if r else "" for r in cells("wordings_holding")),
            _arrow(_share(r) for r in cells("wording_flip_rate")),
            _arrow(_share(r) for r in cells("wording_variance_share")),
            *(f"{number(r.value, 0)} of {r.n}" if r else "" for r in removed),
        )
    return table


def _by_wording(results: Results, rows: Sequence[Row], edit: Row | None) -> Table:
    table = _table("Wording by wording", edit)
    table.add_column("")
    a, b = rows[0].group_a[:1], rows[0].group_b[:1]
    for title in ("R", "mean |R|", "leans", f"{a}>{b}/{b}>{a}/–"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(f"[bold]{_label(row)}[/bold]")
        after = None if edit is None else _same(results, row, row.metric, edit.edit)
        later = after.detail["wordings"] if after is not None else [None] * row.n
        for first, then in zip(row.detail["wordings"], later, strict=True):
            states = [state for state in (first, then) if state is not None]
            table.add_row(
                Text(f"  {first['wording']}"),
                _arrow(f"{s['r']:+.2f}" for s in states),
                _arrow(f"{s['mean_abs_r']:.2f}" for s in states),
                _arrow(LEANS[s["leans"]] for s in states),
                _arrow(f"{s['a']}/{s['b']}/{s['insignificant']}" for s in states),
            )
    return table


def _short(row: Row | None) -> str:
    return "" if row is None else number(row.value).replace("0.", ".", 1)


def _share(row: Row | None) -> str:
    return "" if row is None else percent(row.value).replace(" ", "")


def _arrow(texts: Iterable[str]) -> str:
    """Before → after; once where there is no after.

    >>> _arrow(["1", "2"])
    '1 → 2'
    """
    return " → ".join(texts)
