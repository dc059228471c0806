"""FairPair: a model's own continuations, held against their variability (Figures 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.wordings import ALPHA
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import UNEDITED, edit_label

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
    measured = results.of("fairpair_f")
    if not measured:
        return None
    rows = sorted(measured, key=lambda row: [_phi(r) for r in measured].index(_phi(row)))
    blocks: list[Block] = [_quantities(results, rows), _tests(rows)]
    blocks += _wordings(results, rows)
    blocks.append(_distributions(rows))
    blocks += _ablations(results)
    blocks += _phrases(results)
    blocks.append(_by_prompt(results, rows))
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
        changed = Number.of(change, signed=True) if change else ""
        lines.append((_phi(row), edit_label(row.edit), *cells, changed))
    return Table(
        "fairpair",
        "Bias of continuations against their variability",
        ("Φ", "edit", *QUANTITIES.values(), "change of F"),
        tuple(lines),
        "F = B²/(V_gp V_pg) is 1 where continuations for the two groups differ no more than those "
        "for one.",
        grouped=True,
    )


def _tests(rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        tested = row.detail.get("tested_prompts")
        lines.append(
            (
                _phi(row),
                edit_label(row.edit),
                _p(row.detail.get("p_adjusted")),
                _p(row.detail.get("t_p_v_pg")),
                _p(row.detail.get("t_p_v_gp")),
                "" if tested is None else f"{row.detail.get('significant_prompts')} of {tested}",
            )
        )
    return Table(
        "fairpair_tests",
        "Do the two sides differ?",
        (
            "Φ",
            "edit",
            "p, permutation",
            "p, t-test against V_pg",
            "p, t-test against V_gp",
            "prompts with p < 0.05",
        ),
        tuple(lines),
        "Permutation tests are adjusted for the number of tests, by Holm's method.",
        grouped=True,
    )


def _wordings(results: Results, rows: Sequence[Row]) -> list[Block]:
    """How F spreads over wordings of the prompts; nothing where there is one wording."""
    lines: list[tuple[Cell, ...]] = []
    single: dict[tuple[str, str], dict[str, Number]] = {}
    drawn: dict[str, list[Series]] = {}
    for row in rows:
        phi, edit = _phi(row), edit_label(row.edit)
        spread = results.under(row, row.edit, "fairpair_f_over_wordings")
        if spread is None:
            continue
        low, high = spread.detail["range"] or (None, None)
        lines.append(
            (
                phi,
                edit,
                Number(spread.value),
                Number(spread.detail["sd"]),
                Number(low),
                Number(high),
                f"{spread.detail['differ']} of {spread.n}",
                Number(spread.detail["flip_rate"], percent=True),
            )
        )
        found = _of_wordings(results, row)
        for r in found:
            p = r.detail["p_adjusted"]
            cell = Number.of(r, starred=p is not None and p < ALPHA)
            single.setdefault((phi, r.detail["wording"]), {})[edit] = cell
        known = [(r.detail["wording"], r.value) for r in found if r.value is not None]
        tips = tuple(f"{edit}, {wording}: {value:.3f}" for wording, value in known)
        values = tuple(value for _, value in known)
        of_none = row.edit == UNEDITED
        series = Series(edit, (), values, kind="spread", baseline=of_none, tips=tips)
        drawn.setdefault(phi, []).append(series)
    if not lines:
        return []
    panels = [Panel(phi, "F of a wording", "", tuple(series)) for phi, series in drawn.items()]
    edits = list(dict.fromkeys(edit for cells in single.values() for edit in cells))
    by_wording: list[tuple[Cell, ...]] = [
        (*of, *(cells.get(edit, Number(None)) for edit in edits)) for of, cells in single.items()
    ]
    return [
        Table(
            "fairpair_wordings",
            "Over wordings",
            (
                "Φ",
                "edit",
                "mean F",
                "SD",
                "least F",
                "greatest F",
                "wordings where the sides differ",
                "conclusions that flip",
            ),
            tuple(lines),
            "A conclusion flips where one of two wordings says that the sides differ and the "
            "other does not.",
            grouped=True,
        ),
        Figure(
            "fairpair_wordings",
            "F, wording by wording",
            tuple(panels),
            "Every dot is one wording of the prompts; boxes are quartiles. 1 is no bias.",
        ),
        Table(
            "fairpair_by_wording",
            "F, wording by wording",
            ("Φ", "wording", *edits),
            tuple(by_wording),
            f"* differs with an adjusted p below {ALPHA}.",
            grouped=True,
        ),
    ]


def _of_wordings(results: Results, row: Row) -> list[Row]:
    """F of each wording of the prompts that a row is about."""
    found = results.of("fairpair_f_of_wording", row.split)
    return [r for r in found if (r.dataset, r.edit) == (row.dataset, row.edit)]


def _p(value: float | None) -> Number:
    return Number(value, digits=P_DIGITS, bounded=True)


def _distributions(rows: Sequence[Row]) -> Figure:
    """B and both V over prompts (Figure 5)."""
    panels = []
    ends = _ends(rows)
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
            label = "mean of Φ over pairs"
            panels.append(Panel(title, label, "", tuple(series), limits=ends[_phi(row)]))
    return Figure(
        "fairpair_distributions",
        "B and V, prompt by prompt",
        tuple(panels),
        "Every dot is a prompt, boxes are quartiles. Bias is where B lies right of both V.",
    )


def _ends(rows: Sequence[Row]) -> dict[str, tuple[float, float]]:
    """For each Φ the ends of an axis that holds B and V of every edit."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for prompt in row.detail.get("prompts", []):
            values.setdefault(_phi(row), []).extend(v for v in prompt[1:4] if v is not None)
    margins = {phi: (max(found) - min(found)) / 25 or 0.01 for phi, found in values.items()}
    return {
        phi: (min(found) - margins[phi], max(found) + margins[phi]) for phi, found in values.items()
    }


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
            odds = Number(t["log_odds"], signed=True, digits=2)
            lines.append((edit_label(row.edit), t["text"], *shares, odds, _p(t["p"])))
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
        grouped=True,
    )
    return [Figure("fairpair_phrases", "Telling phrases", tuple(panels), words), table]


def _by_prompt(results: Results, rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    reworded = any(_of_wordings(results, row) for row in rows)
    for row in rows:
        prompts: list[list[Any]] = row.detail.get("prompts", [])
        wordings = [str(r.detail["wording"]) for r in _of_wordings(results, row)]
        for i, (label, *values, p) in enumerate(prompts):
            # Prompts come wording by wording, as many of each.
            of = [wordings[i * len(wordings) // len(prompts)] if wordings else ""]
            figures = (*map(Number, values), _p(p))
            lines.append((_phi(row), edit_label(row.edit), *of[:reworded], str(label), *figures))
    columns = ("B", "V_gp", "V_pg", "F", "p, adjusted")
    return Table(
        "fairpair_prompts",
        "Prompt by prompt",
        ("Φ", "edit", *(["wording"] if reworded else []), "prompt", *columns),
        tuple(lines),
        searchable=True,
        grouped=True,
    )


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
