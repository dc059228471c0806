"""FairPair: a model's own continuations, held against their variability (Figures 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import edit_label

QUANTITIES = {
    "f": "F",
    "bias": "B",
    "v_gp": "V_gp",
    "v_pg": "V_pg",
    "energy": "2B − V − V",
}
"""Ends of metric names → the paper's letters."""
P_DIGITS = 4


def fairpair(run: Run) -> Section | None:
    """What FairPair found; nothing where the run has none of its rows."""
    results = run.results
    rows = results.of("fairpair_f")
    if not rows:
        return None
    blocks: list[Block] = [_quantities(results, rows), _distributions(rows)]
    blocks += _ablations(results)
    blocks += _phrases(results)
    blocks.append(_by_prompt(rows))
    blocks += _perturbed(results)
    return Section("fairpair", "FairPair", tuple(blocks))


def _quantities(results: Results, rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = [
            Number.of(results.under(row, row.edit, f"fairpair_{end}"), signed=end == "energy")
            for end in QUANTITIES
        ]
        change = results.under(row, row.edit, "fairpair_f_change")
        tested = row.detail.get("tested_prompts")
        lines.append(
            (
                _phi(row),
                edit_label(row.edit),
                *cells,
                Number.of(change, signed=True) if change else "",
                Number(row.detail.get("p_adjusted"), digits=P_DIGITS),
                Number(row.detail.get("t_p_v_pg"), digits=P_DIGITS),
                "" if tested is None else f"{row.detail.get('significant_prompts')} of {tested}",
            )
        )
    return Table(
        "fairpair",
        "Bias of continuations against their variability",
        (
            "Φ",
            "edit",
            *QUANTITIES.values(),
            "change of F",
            "p, permutation",
            "p, t-test",
            "prompts with p < 0.05",
        ),
        tuple(lines),
        "F = B²/(V_gp V_pg) is 1 where continuations for the two groups differ no more than those "
        "for one. P-values are adjusted for the number of tests.",
    )


def _distributions(rows: Sequence[Row]) -> Figure:
    """B and both V over prompts (Figure 5)."""
    panels = []
    for row in rows:
        prompts: list[list[Any]] = row.detail.get("prompts", [])
        series = []
        for place, name in ((1, "B"), (2, "V_gp"), (3, "V_pg")):
            found = [(str(p[0]), float(p[place])) for p in prompts if p[place] is not None]
            tips = tuple(f"{name}, {label}: {value:.3f}" for label, value in found)
            y = tuple(value for _, value in found)
            series.append(Series(name, (), y, kind="spread", tips=tips))
        if any(s.y for s in series):
            title = f"{_phi(row)}, {edit_label(row.edit)}"
            panels.append(Panel(title, "mean of Φ over pairs", "", tuple(series)))
    return Figure(
        "fairpair_distributions",
        "B and V, prompt by prompt",
        tuple(panels),
        "Every dot is a prompt, boxes are quartiles. Bias is where B lies right of both V.",
    )


def _ablations(results: Results) -> list[Figure]:
    """B and both V by number of continuations and of folds (Figures 3 and 4)."""
    panels = []
    for row in results.of("fairpair_bias"):
        for key, label in (("by_samples", "continuations"), ("by_folds", "folds")):
            sizes: list[list[Any]] = row.detail.get(key, [])
            series = []
            for place, name in ((1, "B"), (2, "V_gp"), (3, "V_pg")):
                known = [s for s in sizes if s[place] is not None]
                x, y = tuple(int(s[0]) for s in known), tuple(float(s[place]) for s in known)
                series.append(Series(name, x, y))
            if sizes:
                title = f"{_phi(row)}, {edit_label(row.edit)}"
                panels.append(Panel(title, f"{label} of each side", "mean of Φ", tuple(series)))
    words = "Where the lines are level, more continuations would not change the result."
    title = "B and V by sample size"
    return [Figure("fairpair_sizes", title, tuple(panels), words)] if panels else []


def _phrases(results: Results) -> list[Block]:
    """The phrases that one side uses more (Figure 6)."""
    panels: list[Panel] = []
    lines: list[tuple[Cell, ...]] = []
    for row in results.of("fairpair_ngrams"):
        source, target = row.detail["source"], row.detail["target"]
        terms: list[dict[str, Any]] = row.detail["terms"]
        series = []
        for who, sign in ((f"more for {target}", 1), (f"more for {source}, perturbed", -1)):
            mine = [t for t in terms if t["log_odds"] * sign > 0]
            x = tuple(str(t["text"]) for t in mine)
            series.append(Series(who, x, tuple(t["log_odds"] for t in mine), kind="bars"))
        if terms:
            panels.append(Panel(edit_label(row.edit), "log odds", "", tuple(series), True))
        for t in terms:
            shares = [Number(t[side], percent=True) for side in ("share_gp", "share_pg")]
            odds, p = Number(t["log_odds"], signed=True, digits=2), Number(t["p"], digits=P_DIGITS)
            lines.append((edit_label(row.edit), t["text"], *shares, odds, p))
    if not lines:
        return []
    words = "Phrases of one to four words whose share of texts differs significantly."
    titles = ("edit", "phrase", "share of texts of p(x)", "share of perturbed texts of x")
    table = Table(
        "fairpair_phrases",
        "Telling phrases",
        (*titles, "log odds", "p, adjusted"),
        tuple(lines),
        searchable=True,
    )
    return [Figure("fairpair_phrases", "Telling phrases", tuple(panels), words), table]


def _by_prompt(rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (_phi(row), edit_label(row.edit), str(p[0]), *(Number(v) for v in p[1:]))
        for row in rows
        for p in row.detail.get("prompts", [])
    ]
    columns = ("Φ", "edit", "prompt", "B", "V_gp", "V_pg", "F", "p, adjusted")
    return Table("fairpair_prompts", "Prompt by prompt", columns, tuple(lines), searchable=True)


def _perturbed(results: Results) -> list[Block]:
    """How often perturbing worked (Table 1), with examples (Table 2)."""
    lines: list[tuple[Cell, ...]] = []
    examples: list[tuple[Cell, ...]] = []
    for row in results.of("fairpair_perturbed"):
        left_out = row.detail.get("left_out", {})
        reasons = ", ".join(f"{reason}: {count}" for reason, count in left_out.items() if count)
        lines.append((edit_label(row.edit), Number.of(row, percent=True), reasons, str(row.n)))
        for e in row.detail.get("examples", []):
            kept = "passed" if e["left_out"] is None else f"left out: {e['left_out']}"
            examples.append((edit_label(row.edit), e["original"], e["perturbed"], kept))
    blocks: list[Block] = []
    if lines:
        titles = ("edit", "pass the filters", "left out", "n")
        blocks.append(Table("fairpair_perturbed", "Perturbations that pass", titles, tuple(lines)))
    if examples:
        titles = ("edit", "original", "perturbed", "filters")
        name = "fairpair_perturbations"
        blocks.append(Table(name, "Examples of perturbations", titles, tuple(examples)))
    return blocks


def _phi(row: Row) -> str:
    return row.dataset.rpartition("/")[2]
