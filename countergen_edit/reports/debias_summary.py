"""What debiasing came to, in plain words, and what one might do next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from countergen_edit.checkpoints import Saved
from countergen_edit.experiments.pareto import Point, Tolerance
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import number, percent

SHOWN = 8
"""Most edits of the front that are listed."""


def summary(results: Results, saved: Saved, budgets: Tolerance) -> list[str]:
    """What was biased, what is left of it, what it cost, how sure that is, and where it lies."""
    edit = next(row for row in results.edits if not row.is_baseline)
    lines = []
    for before in [r for r in results.of("mean_abs_r") if r.edit == "none"][:1]:
        after = _of(results, "mean_abs_r", edit.edit, before.dataset)
        gone = _of(results, "abs_r_reduction", edit.edit, before.dataset)
        name = before.dataset.removesuffix("_test").replace("_", " ")
        lines.append(
            f"The model treated {before.group_a} and {before.group_b} differently: on {name}, "
            f"swapping one for the other changed what it expects by {percent(before.value)}. "
            f"Now it is {percent(after.value if after else None)}"
            f" ({percent(gone.value if gone else None)} of it is gone), on names and wordings that "
            "nothing was fitted or chosen on."
        )
    kept = [
        f"{row.group_a} {number(was.value)} → {number(row.value)}"
        for row in results.of("agreement")
        if row.edit == edit.edit and not row.group_b
        if (was := results.find("agreement", dataset=row.dataset, edit="none", group_a=row.group_a))
        is not None
    ]
    ratio = _of(results, "perplexity_ratio", edit.edit, "neutral")
    kl = _of(results, "kl", edit.edit, "neutral")
    lines.append(
        f"What it cost: grammar (her after Jane, his after John) {', '.join(kept)}; perplexity of "
        f"neutral text × {number(ratio.value if ratio else None)}; its next-token distributions "
        f"moved by {number(kl.value if kl else None, 4)} nats. Budgets, on validation data: "
        f"{100 * budgets.agreement:g} points, × {1 + budgets.perplexity:g}, {budgets.kl:g} nats."
    )
    held = [r for r in results.of("reduction_holding") if r.edit == edit.edit]
    if held:
        lines.append(
            f"How sure: the bias falls on {sum(int(r.value or 0) for r in held)} of "
            f"{sum(r.n for r in held)} wordings; every figure has its interval in the report."
        )
    where = edit.edit.partition("@")[2].replace(".", ", after block ", 1)
    lines.append(f"The edit: {edit.eraser}, rank {edit.rank}, {where}.")
    lines.append(f"Saved ({saved.form}), and proven equal in a fresh process: {saved.folder}")
    return lines


def next_steps(saved: Saved, run: Path) -> list[str]:
    """Three things one might do now."""
    trust = ", trust_remote_code=True" if saved.form == "carried" else ""
    return [
        "Next:",
        f"  1. Talk to both models: countergen-edit chat {saved.folder}",
        f'  2. Use it: AutoModelForCausalLM.from_pretrained("{saved.folder}"{trust})',
        f"  3. Look at the audit: {run}/report.html; then measure it on prompts of your own: "
        f"countergen-edit audit model={saved.folder} data=pairs.jsonl",
    ]


def nothing_fits(front: Sequence[Point], budgets: Tolerance) -> list[str]:
    """That no edit fits, and the edits that come nearest."""
    lines = [
        f"No edit fits the budgets (agreement −{100 * budgets.agreement:g} points, perplexity "
        f"× {1 + budgets.perplexity:g}, KL {budgets.kl:g} nats a token). No other edit removes "
        "more for less than these, on validation data:",
    ]
    lines += [
        f"  {p.edit}: {percent(p.removed)} of mean |R| removed, agreement "
        f"{-100 * p.agreement_lost:+.1f} points, perplexity × {number(p.perplexity_ratio)}, "
        f"KL {number(p.kl, 4)}"
        for p in front[:SHOWN]
    ]
    return [*lines, "Nothing was saved. Widen a budget, or try other erasers: eraser=[…]."]


def _of(results: Results, metric: str, edit: str, dataset: str) -> Row | None:
    found = (r for r in results.of(metric) if (r.edit, r.dataset) == (edit, dataset))
    return next(found, None)
