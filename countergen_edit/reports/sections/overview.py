"""The result in words, all edits side by side, and bias against cost."""

from __future__ import annotations

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Figure, Number, Section, Table, Words
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import (
    COVERED,
    MOST_EDITS,
    UNEDITED,
    compared,
    edit_label,
    set_label,
    shown,
)
from countergen_edit.reports.sweep_table import asked, eraser_labels
from countergen_edit.reports.table import baseline_of, edits_shown, headline

BIAS = "mean |R|"
AGREEMENT = "P(right form), both groups"
LIMITS = (0.0, 1.0)


def overview(run: Run) -> Section | None:
    """What was found; nothing where R was not measured."""
    results = run.results
    main = next(iter(results.unedited("mean_abs_r")), None)
    if main is None:
        return None
    columns = ("edit", BIAS, "bias removed", *_agreement_titles(results), "perplexity ratio", "KL")
    rows = []
    for edit in compared(results):
        kept = [results.under(row, edit) for row in _agreement(results)]
        neutral = next(iter(results.unedited("perplexity_ratio")), None)
        costs = [
            None if neutral is None else results.under(neutral, edit, metric)
            for metric in ("perplexity_ratio", "kl")
        ]
        gone = results.under(main, edit, "abs_r_reduction")
        rows.append(
            (
                edit_label(edit),
                Number.of(results.under(main, edit)),
                Number.of(gone, percent=True) if gone else "",
                *(Number.of(row) for row in kept),
                Number.of(costs[0]),
                Number.of(costs[1], 4),
            )
        )
    table = Table(
        "side_by_side",
        f"All edits side by side; bias on {set_label(main)}",
        columns,
        tuple(rows),
        "Bias removed is 1 − after/before. KL is in nats per token of neutral text. Intervals are "
        "95 %, drawn over templates and names together.",
    )
    blocks: list[Block] = [Words(tuple(_headline(results))), table, _pareto(run)]
    if (layers := _by_layer(results, main)) is not None:
        blocks.append(layers)
    return Section("overview", "Overview", tuple(blocks))


def _headline(results: Results) -> list[str]:
    """The result in sentences; of a sweep, about the edit that was chosen."""
    picked = {row.edit for row in results.of("cost", "validation") if row.detail["chosen"]}
    swept = any(row.edit in picked for row in shown(results)[:1])
    if not swept and len(edits_shown(results)) <= MOST_EDITS:
        return headline(results)
    chosen = shown(results)[0]
    held_against = baseline_of(results, chosen)
    kept = [UNEDITED, chosen.edit, *([held_against.edit] if held_against else [])]
    return headline(Results([row for row in results.rows if row.edit in kept]))


def _agreement(results: Results) -> list[Row]:
    return [row for row in results.unedited("agreement") if not row.group_b]


def _agreement_titles(results: Results) -> list[str]:
    return [f"P(right form), {row.group_a}" for row in _agreement(results)]


def _pareto(run: Run) -> Figure:
    """Bias left against what grammar and neutral text paid for it."""
    results = run.results
    main = results.unedited("mean_abs_r")[0]
    both = next((r for r in results.unedited("agreement") if r.group_b), None)
    neutral = next(iter(results.unedited("perplexity_ratio")), None)
    panels = []
    for title, cost, label, covers in (
        ("agreement", both, AGREEMENT, COVERED["agreement"]),
        ("neutral text", neutral, "perplexity, edited / unedited", COVERED["perplexity_ratio"]),
    ):
        if cost is None:
            continue
        series = []
        for edit in compared(results):
            paid, left = results.under(cost, edit), results.under(main, edit)
            if paid is None or left is None or paid.value is None or left.value is None:
                continue
            name = edit_label(edit)
            tip = f"{name}: {BIAS} {left.value:.3f}, {label} {paid.value:.3f}"
            series.append(
                Series(
                    name,
                    (paid.value,),
                    (left.value,),
                    (left.value if left.lo is None else left.lo,),
                    (left.value if left.hi is None else left.hi,),
                    "dots",
                    results.is_reference(edit),
                    (tip,),
                )
            )
        panels.append(
            Panel(title, label, f"{BIAS} left", tuple(series), limits=LIMITS, covers=covers)
        )
    return Figure(
        "pareto",
        "Bias against cost, on test data",
        tuple(panels),
        "Best is low, where no bias is left, at the agreement and perplexity of the model as it "
        "came.",
    )


def _by_layer(results: Results, main: Row) -> Figure | None:
    """Every layer that was tried on validation data."""
    tried = results.of("mean_abs_r", "validation")
    stem = main.dataset.removesuffix("_test")
    mine = [r for r in tried if r.dataset.removesuffix("_validation") == stem] or tried
    mine = [r for r in mine if r.eraser and r.dataset == mine[0].dataset]
    mine = [r for r in mine if " + " not in r.edit]
    kept = {r.edit: r for r in results.of("agreement", "validation") if r.group_b}
    series = []
    for key, name in eraser_labels(mine).items():
        rows = [r for r in mine if asked(r) == key and r.edit in kept]
        random = any(r.is_baseline for r in rows)
        rows = [r for r in rows if r.value is not None and kept[r.edit].value is not None]
        paid = tuple(kept[r.edit].value or 0.0 for r in rows)
        tips = tuple(
            f"{edit_label(r.edit)}: {BIAS} {r.value:.3f}, P(right form) {x:.3f}"
            for r, x in zip(rows, paid, strict=True)
        )
        left = tuple(r.value or 0.0 for r in rows)
        series.append(Series(name, paid, left, kind="dots", baseline=random, tips=tips))
    if not any(s.x for s in series):
        return None
    panel = Panel(
        set_label(mine[0]),
        AGREEMENT,
        f"{BIAS} left",
        tuple(series),
        limits=LIMITS,
        covers=COVERED["agreement"],
    )
    words = "One point for every layer that was tried; what is shown of test data was chosen here."
    return Figure("pareto_layers", "Bias against cost, on validation data", (panel,), words)
