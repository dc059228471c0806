"""The audit's table in the terminal: what was biased, what was removed, what it cost, how sure."""

from __future__ import annotations

from itertools import pairwise

from rich import box
from rich.table import Table

from countergen_edit.metrics.rows import BASELINE, Row
from countergen_edit.reports.results import Results


def number(value: float | None, digits: int = 3) -> str:
    """A figure as tables show it.

    >>> number(0.12345), number(None)
    ('0.123', '–')
    """
    return "–" if value is None else f"{value:.{digits}f}"


def interval(row: Row | None, digits: int = 3) -> str:
    """A figure with its 95 % interval below it, as statisticians write what is below one.

    >>> interval(Row("r", 0.25, lo=0.1, hi=0.4))
    '0.250\\n[dim].100–.400[/dim]'
    """
    if row is None:
        return ""
    text = number(row.value, digits)
    if row.lo is not None and row.hi is not None:
        text += f"\n[dim]{_short(row.lo, digits)}–{_short(row.hi, digits)}[/dim]"
    return text


def _short(value: float, digits: int) -> str:
    """A figure without the nought before its point.

    >>> _short(0.25, 2), _short(-0.25, 2), _short(10.04, 2)
    ('.25', '-.25', '10.04')
    """
    text = number(value, digits)
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def percent(value: float | None) -> str:
    """A share in percent.

    >>> percent(0.634)
    '63 %'
    """
    return "–" if value is None else f"{100 * value:.0f} %"


def short(edit: str) -> str:
    """A combined edit's name without what its parts repeat.

    >>> short("leace-1@resid_post.2 + leace-1@resid_post.3")
    'leace-1@resid_post.2 + .3'
    """
    parts = edit.split(" + ")
    said = [parts[0]]
    for before, part in pairwise(parts):
        same = part.rpartition(".")[0] == before.rpartition(".")[0]
        said.append(part.removeprefix(part.rpartition(".")[0]) if same else part)
    return " + ".join(said)


def called(edit: Row) -> str:
    """An edit in a sentence, which tells its place only where it is made of several.

    >>> called(Row("r", 0.0, edit="rlace-1@resid_post.3", eraser="rlace", rank=1))
    'rlace (rank 1)'
    """
    return f"{short(edit.edit) if ' + ' in edit.edit else edit.eraser} (rank {edit.rank})"


def baseline_of(results: Results, edit: Row) -> Row | None:
    """The random directions of equal rank at the same place, if the run measured them."""
    place = edit.edit.removeprefix(edit.eraser)
    return next(
        (r for r in results.edits if r.is_baseline and r.edit == f"{BASELINE}{place}"), None
    )


def edits_shown(results: Results) -> list[Row]:
    """The edits that get a table: all but the random directions another is held against."""
    baselines = {
        baseline.edit
        for edit in results.edits
        if not edit.is_baseline and (baseline := baseline_of(results, edit)) is not None
    }
    return [edit for edit in results.edits if edit.edit not in baselines]


def edit_table(results: Results, edit: Row) -> Table:
    """One edit: planted truth where known, before, random directions, and after."""
    baseline = baseline_of(results, edit) if not edit.is_baseline else None
    where = edit.edit.partition("@")[2].replace(".", ", layer ", 1)
    title = f"[bold]{edit.eraser}[/bold], rank {edit.rank}, {where}"
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1), title=title
    )
    table.title_justify, table.title_style = "left", ""
    table.add_column("", no_wrap=True)
    for name in ("truth", "before", "random", "after", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    planted = {
        row.dataset: row
        for split in ("test", "fit")
        for row in results.of("planted_mean_abs_r", split=split)
    }

    def under(row: Row, of: Row | None, metric: str | None = None) -> Row | None:
        return None if of is None else results.under(row, of.edit, metric)

    def section(title: str, metric: str) -> list[Row]:
        """The unedited rows of the metric, below their title where there are any."""
        rows = [*results.of(metric), *results.of(metric, split="fit")]
        rows = [row for row in rows if row.edit == "none"]
        if rows:
            table.add_row(f"[bold]{title}[/bold]")
        return rows

    for row in section("Bias: mean |R|", "mean_abs_r"):
        truth = planted.get(row.dataset)
        cells = [interval(r) for r in (row, under(row, baseline), under(row, edit))]
        gone = under(row, edit, "abs_r_reduction")
        change = "" if gone is None or gone.value is None else f"{-100 * gone.value:+.0f}%"
        table.add_row(_set_label(row), "" if truth is None else number(truth.value), *cells, change)
        if (spread := under(row, row, "r_sd_over_wordings")) and spread.value is not None:
            held = under(row, edit, "reduction_holding")
            table.add_row(
                f"    [dim]SD, {spread.n} wordings[/dim]",
                "",
                _spread(spread),
                _spread(under(row, baseline, "r_sd_over_wordings")),
                _spread(under(row, edit, "r_sd_over_wordings")),
                "" if held is None else f"[dim]{number(held.value, 0)} of {held.n}[/dim]",
            )
    for row in section("Direction: mean R", "r"):
        cells = [_starred(r) for r in (row, under(row, baseline), under(row, edit))]
        table.add_row(_set_label(row), "", *cells)
    for row in section("Grammar: P(right form)", "agreement"):
        who = "both groups" if row.group_b else row.group_a
        cells = [interval(r) for r in (row, under(row, baseline), under(row, edit))]
        table.add_row(f"  {who}", "", *cells)
    for row in section("Neutral text", "perplexity"):
        cells = [interval(r) for r in (row, under(row, baseline), under(row, edit))]
        table.add_row("  perplexity", "", *cells)
        kl = [results.find("kl", dataset=row.dataset, edit=e) for e in ("none", edit.edit)]
        random = under(row, baseline, "kl")
        cells = [interval(r, 4) for r in (kl[0], random, kl[1])]
        table.add_row("  KL, nats/token", "", *cells)
    table.add_row("[bold]Probe accuracy, held out[/bold]")
    for kind in ("linear", "nonlinear"):
        before, after = (
            next((r for r in results.of(metric, "validation") if r.edit == edit.edit), None)
            for metric in (f"{kind}_probe_accuracy_before", f"{kind}_probe_accuracy")
        )
        if before is not None and after is not None:
            table.add_row(f"  {kind}", "", number(before.value), "", number(after.value))
    return table


def summary_table(results: Results) -> Table | None:
    """All edits side by side: bias left, and what each cost; None where R was not measured."""
    main = _main(results)
    if main is None:
        return None
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.title = f"[bold]Side by side[/bold], bias on {_set_label(main).strip()}"
    table.title_justify, table.title_style = "left", ""
    table.add_column("edit", no_wrap=True)
    # Agreement is about gender, whichever groups the bias is about.
    agreed = [r for r in results.of("agreement") if not r.group_b]
    groups = list(dict.fromkeys(r.group_a for r in agreed))
    for name in ("mean |R|", "change", *(f"P(right)\n{group}" for group in groups)):
        table.add_column(name, justify="right")
    table.add_column("perplexity\nratio", justify="right")
    for edit in ("none", *(row.edit for row in results.edits)):
        bias, gone = (results.under(main, edit, m) for m in ("mean_abs_r", "abs_r_reduction"))
        kept = {r.group_a: r.value for r in agreed if r.edit == edit}
        ratio = next((r for r in results.of("perplexity_ratio") if r.edit == edit), None)
        table.add_row(
            edit,
            number(bias.value if bias else None),
            "" if gone is None or gone.value is None else f"{-100 * gone.value:+.0f}%",
            *(number(kept[group]) if group in kept else "" for group in groups),
            number(ratio.value if ratio else None),
        )
    return table


def _main(results: Results) -> Row | None:
    """The set that stands for the run: the first one measured."""
    return next((row for row in results.of("mean_abs_r") if row.edit == "none"), None)


def _set_label(row: Row) -> str:
    name = row.dataset.removesuffix(f"_{row.split}").replace("_", " ")
    return f"  {name}" + (" (fitted)" if row.split == "fit" else "")


def _starred(row: Row | None) -> str:
    if row is None:
        return ""
    return ("" if row.value is None else f"{row.value:+.3f}") + (
        "*" if row.detail.get("starred") else " "
    )


def _spread(row: Row | None) -> str:
    return "" if row is None else f"[dim]±{number(row.value).replace('0.', '.', 1)}[/dim]"


def _change(row: Row | None) -> str:
    if row is None or row.value is None:
        return ""
    verb = "removed" if row.value >= 0 else "added"
    return f"{percent(abs(row.value))} {verb}"


def headline(results: Results) -> list[str]:
    """Sentences: what was biased, what was removed, what it cost, how sure that is."""
    main = _main(results)
    if main is None:
        return []
    subject = _set_label(main).strip()
    sentences = [
        f"Biased: on {subject}, swapping {main.group_a} for {main.group_b} changes a "
        f"continuation's probability by {percent(main.value)} on average "
        f"(mean |R| {_with_interval(main)})."
    ]
    for edit in edits_shown(results):
        after = results.under(main, edit.edit)
        gone = results.under(main, edit.edit, "abs_r_reduction")
        if after is None or gone is None:
            continue
        kept = [
            f"{row.group_a} {number(row.value)} → {number(found.value)}"
            for row in results.of("agreement")
            if row.edit == "none" and not row.group_b
            if (found := results.under(row, edit.edit)) is not None
        ]
        outcome = "Removed" if (gone.value or 0) > 0 else "Not removed"
        ratio = results.find("perplexity_ratio", dataset="neutral", edit=edit.edit)
        cost = f", neutral perplexity × {number(ratio.value)}" if ratio else ""
        baseline = baseline_of(results, edit) if not edit.is_baseline else None
        random = results.under(main, baseline.edit, "abs_r_reduction") if baseline else None
        sentences.append(
            f"{outcome}: {called(edit)} takes it to {_with_interval(after)}: "
            f"{_change(gone)}{f'; random directions: {_change(random)}' if random else ''}. "
            f"Cost: agreement {', '.join(kept)}{cost}."
        )
    sentences += _over_wordings(results) + _contrast(results)
    sentences.append(
        f"How sure: 95 % intervals, drawn over templates and names together; {main.n} "
        "prompt-output pairs with names and wordings that no eraser was fitted on. "
        "* is two standard errors from 0."
    )
    return sentences


def _over_wordings(results: Results) -> list[str]:
    """On how many wordings each edit's conclusion holds."""
    held = []
    for edit in edits_shown(results):
        rows = [r for r in results.of("reduction_holding") if r.edit == edit.edit]
        if rows:
            count, of = sum(int(r.value or 0) for r in rows), sum(r.n for r in rows)
            held.append(f"{called(edit)} on {count} of {of}")
    if not held:
        return []
    return [f"Wordings: bias is surely removed by {', '.join(held)} wordings outside the fit."]


def _contrast(results: Results) -> list[str]:
    """What each edit leaves of the divergence that contrastive decoding brings out."""
    rows = [r for r in results.of("cid_divergence") if r.edit == "none"]
    if not rows:
        return []
    found = [
        f"{after.value:.4f} after {called(edit)}"
        for edit in edits_shown(results)
        if (after := results.under(rows[-1], edit.edit)) and after.value is not None
    ]
    where = rows[-1].dataset.removeprefix("cid, ")
    return [
        f"Contrastive decoding: at {where} what the model would say next of either group lies "
        f"{number(rows[-1].value, 4)} nats a token apart; {', '.join(found)}."
    ]


def _with_interval(row: Row) -> str:
    if row.lo is None or row.hi is None:
        return f"{number(row.value)}, without interval: one wording and no names to draw from"
    return f"{number(row.value)} [{number(row.lo)}, {number(row.hi)}]"
