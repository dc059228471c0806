"""The audit's table in the terminal: what was biased, what was removed, what it cost, how sure."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results


def number(value: float | None, digits: int = 3) -> str:
    """A figure as tables show it.

    >>> number(0.12345), number(None)
    ('0.123', '–')
    """
    return "–" if value is None else f"{value:.{digits}f}"


def interval(row: Row | None, digits: int = 3) -> str:
    """A figure with its 95 % interval below it."""
    if row is None:
        return ""
    text = number(row.value, digits)
    if row.lo is not None and row.hi is not None:
        text += f"\n[dim]{number(row.lo, digits)} … {number(row.hi, digits)}[/dim]"
    return text


def percent(value: float | None) -> str:
    """A share in percent.

    >>> percent(0.634)
    '63 %'
    """
    return "–" if value is None else f"{100 * value:.0f} %"


def _edit_title(row: Row) -> str:
    where = "embeddings" if row.layer is None else f"layer {row.layer}"
    name = "random" if row.eraser == "random" else row.eraser
    return f"{name}\n[dim]rank {row.rank}, {where}[/dim]"


def audit_table(results: Results) -> Table:
    """Every test metric: planted truth where known, before, and under each edit."""
    edits = results.edits
    planted = {
        row.dataset: row
        for split in ("test", "fit")
        for row in results.of("planted_mean_abs_r", split=split)
    }
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    if planted:
        table.add_column("planted\n[dim]truth[/dim]", justify="right")
    table.add_column("before\n[dim]no edit[/dim]", justify="right")
    for edit in edits:
        table.add_column(_edit_title(edit), justify="right")

    def add(label: str, first: str, cells: list[str]) -> None:
        table.add_row(label, *([first] if planted else []), *cells)

    def section(title: str) -> None:
        table.add_row(f"[bold]{title}[/bold]")

    section("Bias: mean |R|, 0 is none")
    for row in [*results.of("mean_abs_r"), *results.of("mean_abs_r", split="fit")]:
        if row.edit != "none":
            continue
        cells = [interval(row)]
        for edit in edits:
            found = _same(results, row, edit.edit)
            gone = _same(results, row, edit.edit, "abs_r_reduction")
            cells.append(interval(found) + f"\n[dim]{_change(gone)}[/dim]")
        add(
            _set_label(row),
            number(planted[row.dataset].value) if row.dataset in planted else "",
            cells,
        )
    section("Direction: mean R, * two standard errors from 0")
    for row in [*results.of("r"), *results.of("r", split="fit")]:
        if row.edit == "none":
            rows = [row, *(_same(results, row, edit.edit) for edit in edits)]
            add(_set_label(row), "", [_starred(r) for r in rows])
    section("Grammar kept: P(right form), 1 is all")
    for row in results.of("agreement"):
        if row.edit == "none":
            who = "both groups" if row.group_b else row.group_a
            rows = [row, *(_same(results, row, edit.edit) for edit in edits)]
            add(f"  agreement, {who}", "", [interval(r) for r in rows])
    section("Cost on neutral text")
    for metric, label, digits in (
        ("perplexity", "perplexity", 3),
        ("kl", "KL to unedited, nats/token", 4),
    ):
        for row in results.of(metric):
            if row.edit == "none":
                rows = [row, *(_same(results, row, edit.edit) for edit in edits)]
                add(f"  {label}", "", [interval(r, digits) for r in rows])
    section("Group still readable at that layer: held-out probe accuracy")
    for kind in ("linear", "nonlinear"):
        cells = []
        for edit in edits:
            before, after = (
                next((r for r in results.of(m, "validation") if r.edit == edit.edit), None)
                for m in (f"{kind}_probe_accuracy_before", f"{kind}_probe_accuracy")
            )
            cells.append(
                f"{number(before.value, 2)} → {number(after.value, 2)}" if before and after else ""
            )
        add(f"  {kind} probe", "", ["", *cells])
    return table


def _same(results: Results, row: Row, edit: str, metric: str | None = None) -> Row | None:
    return results.find(
        metric or row.metric,
        dataset=row.dataset,
        group_a=row.group_a,
        group_b=row.group_b,
        edit=edit,
        split=row.split,
    )


def _set_label(row: Row) -> str:
    name = row.dataset.removesuffix(f"_{row.split}").replace("_", " ")
    return f"  {name}" + (" (fitted on)" if row.split == "fit" else "")


def _starred(row: Row | None) -> str:
    if row is None:
        return ""
    return ("" if row.value is None else f"{row.value:+.3f}") + (
        "*" if row.detail.get("starred") else " "
    )


def _change(row: Row | None) -> str:
    if row is None or row.value is None:
        return ""
    verb = "removed" if row.value >= 0 else "added"
    return f"{percent(abs(row.value))} {verb}"


def headline(results: Results) -> list[str]:
    """Four sentences: what was biased, what was removed, what it cost, how sure that is."""
    rows = results.of("mean_abs_r")
    main = next(row for row in rows if row.edit == "none")
    subject = _set_label(main).strip()
    a, b = main.group_a, main.group_b
    sentences = [
        f"Biased: on {subject}, swapping {a} for {b} changes a continuation's probability by "
        f"{percent(main.value)} on average (mean |R| {_with_interval(main)})."
    ]
    for edit in results.edits:
        after = _same(results, main, edit.edit)
        gone = _same(results, main, edit.edit, "abs_r_reduction")
        if after is None or gone is None:
            continue
        name = f"{edit.eraser} (rank {edit.rank})"
        if edit.eraser == "random":
            sentences.append(
                f"Baseline: {name} changes mean |R| by {percent(abs(gone.value or 0))} only: "
                "removing just anything does not do it."
                if gone.value is not None and abs(gone.value) < 0.1
                else f"Baseline: under {name} mean |R| is {_with_interval(after)}."
            )
            continue
        kept = [
            f"{row.group_a} {number(row.value)} → {number(found.value)}"
            for row in results.of("agreement")
            if row.edit == "none" and not row.group_b
            if (found := _same(results, row, edit.edit)) is not None
        ]
        outcome = "Removed" if (gone.value or 0) > 0 else "Not removed"
        ratio = results.find("perplexity_ratio", dataset="neutral", edit=edit.edit)
        cost = f", neutral perplexity × {number(ratio.value)}" if ratio else ""
        sentences.append(
            f"{outcome}: {name} takes mean |R| to {_with_interval(after)}: {_change(gone)}. "
            f"Cost: agreement {', '.join(kept)}{cost}."
        )
    sentences.append(
        f"How sure: 95 % intervals, drawn over templates and names together; {main.n} "
        "prompt-output pairs with names and wordings that no eraser was fitted on."
    )
    return sentences


def _with_interval(row: Row) -> str:
    return f"{number(row.value)} [{number(row.lo)}, {number(row.hi)}]"


def audit_text(results: Results) -> RenderableType:
    """Table and headline together."""
    lines = [Text(f"• {sentence}") for sentence in headline(results)]
    return Group(audit_table(results), Text(), *lines)


def print_audit(results: Results, console: Console) -> None:
    """Print an audit."""
    console.print(audit_text(results))
