"""FairPair's tables: the paper's Table 3, its intervals and tests, prompts and phrases.

Comes in: the rows of a run. Goes out: plain tables. Published figures stand beside measured ones
where the model and the prompts are the same. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from countergen_edit.metrics.fairpair.published import PUBLISHED, PUBLISHED_SUCCESS, published_model
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.template_tests import ALPHA
from countergen_edit.reports.blocks import Cell, Number, Table

P_DIGITS = 4
FIGURES = ("V_pg", "V_gp", "B", "F", "change of F", "2B−V−V", "p")
"""Columns of Table 3, and what the paper has not."""
PHRASES = 3
"""Of each side, where only the most telling are shown."""


def phi_of(row: Row) -> str:
    """What the run calls the Φ of a row."""
    return str(row.facets["phi"])


def of_paraphrases(results: Results, row: Row) -> list[Row]:
    """F of each template of the prompts that a row is about."""
    rows = results.of("fairpair_f_of_paraphrase", row.split, row.edit)
    about = (row.task, row.dataset, phi_of(row))
    return [r for r in rows if (r.task, r.dataset, phi_of(r)) == about]


def table_3(results: Results, rows: Sequence[Row]) -> Table:
    """Variability, bias and F by edit, and whether the two sides differ.

    Args:
        results: Of the run.
        rows: `fairpair_f`, those of one Φ behind each other.
    """
    lines: list[tuple[Cell, ...]] = []
    for i, row in enumerate(rows):
        lines.append((phi_of(row), results.label(row.edit), *figures_of(results, row)))
        last = i + 1 == len(rows) or phi_of(rows[i + 1]) != phi_of(row)
        published = PUBLISHED.get(published_model(row), {}).get(phi_of(row))
        if last and published:
            lines.append((phi_of(row), "published", *published_figures(published)))
    detail = rows[0].detail
    return Table(
        "fairpair",
        f"FairPair: {detail.get('source')} perturbed to {detail.get('target')}",
        ("Φ", "edit", *FIGURES),
        tuple(lines),
        grouped=True,
        brief=True,
    )


def figures_of(results: Results, row: Row) -> tuple[Cell, ...]:
    """A row `fairpair_f` with what stands beside it, in the columns `FIGURES`."""
    ends = (results.under(row, row.edit, f"fairpair_{end}") for end in ("v_pg", "v_gp", "bias"))
    change = results.under(row, row.edit, "fairpair_f_change")
    return (
        *map(_point, ends),
        Number.of(row, 2),
        Number.of(change, 2, signed=True) if change else "",
        _point(results.under(row, row.edit, "fairpair_energy"), signed=True),
        _p(row.detail.get("p_adjusted"), 3),
    )


def published_figures(published: tuple[float, float, float, float]) -> tuple[Cell, ...]:
    """A line of the paper's Table 3 in the same columns; it has hundredths."""
    *hundredths, f = published
    return (*(Number(value / 100) for value in hundredths), Number(f, digits=2), "", "", "")


def _point(row: Row | None, *, signed: bool = False) -> Number:
    return Number(None if row is None else row.value, signed=signed)


def intervals(results: Results, rows: Sequence[Row]) -> Table:
    """B, both V and 2B − V − V with their intervals, and the other tests."""
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = [
            Number.of(results.under(row, row.edit, f"fairpair_{end}"), signed=end == "energy")
            for end in ("bias", "v_gp", "v_pg", "energy")
        ]
        prompts = row.detail.get("tested_prompts")
        lines.append(
            (
                phi_of(row),
                results.label(row.edit),
                *cells,
                _p(row.detail.get("t_p_v_pg")),
                _p(row.detail.get("t_p_v_gp")),
                "" if prompts is None else f"{row.detail.get('significant_prompts')} of {prompts}",
            )
        )
    return Table(
        "fairpair_tests",
        "Intervals and tests",
        (
            "Φ",
            "edit",
            "B",
            "V_gp",
            "V_pg",
            "2B − V − V",
            "p, t-test against V_pg",
            "p, t-test against V_gp",
            "prompts with p < 0.05",
        ),
        tuple(lines),
        "The prompts are tested by permutation, adjusted for their number by Holm's method; the "
        "t-tests of B are the paper's.",
        grouped=True,
    )


def over_paraphrases(results: Results, rows: Sequence[Row]) -> Table | None:
    """How F spreads over templates of the prompts; nothing where there is one template."""
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        spread = results.under(row, row.edit, "fairpair_f_over_paraphrases")
        if spread is None:
            continue
        low, high = spread.detail["range"] or (None, None)
        lines.append(
            (
                phi_of(row),
                results.label(row.edit),
                Number(spread.value),
                Number(spread.detail["sd"]),
                Number(low),
                Number(high),
                f"{spread.detail['differ']} of {spread.n}",
                Number(spread.detail["flip_rate"], percent=True),
            )
        )
    titles = ("mean F", "SD", "least F", "greatest F", "templates where the sides differ")
    note = (
        "A conclusion flips where one of two templates says that the sides differ and the other "
        "does not."
    )
    columns = ("Φ", "edit", *titles, "conclusions that flip")
    name, title = "fairpair_paraphrases", "F over templates"
    return Table(name, title, columns, tuple(lines), note, grouped=True) if lines else None


def by_paraphrase(results: Results, rows: Sequence[Row]) -> Table | None:
    """F of every template, the edits side by side; nothing where there is one template."""
    cells: dict[tuple[str, str], dict[str, Number]] = {}
    for row in rows:
        for single in of_paraphrases(results, row):
            p = single.detail["p_adjusted"]
            of = phi_of(row), str(single.facets["paraphrase"])
            starred = p is not None and p < ALPHA
            cells.setdefault(of, {})[row.edit] = Number.of(single, starred=starred)
    edits = list(dict.fromkeys(edit for numbers in cells.values() for edit in numbers))
    lines: list[tuple[Cell, ...]] = [
        (*of, *(numbers.get(edit, Number(None)) for edit in edits)) for of, numbers in cells.items()
    ]
    columns = ("Φ", "paraphrase", *map(results.label, edits))
    name, title = "fairpair_by_paraphrase", "F, template by template"
    note = f"* differs with an adjusted p below {ALPHA}."
    return Table(name, title, columns, tuple(lines), note, grouped=True) if lines else None


def by_prompt(results: Results, rows: Sequence[Row]) -> Table:
    """B, both V, F and p of every prompt."""
    lines: list[tuple[Cell, ...]] = []
    several = any(of_paraphrases(results, row) for row in rows)
    for row in rows:
        prompts: list[list[Any]] = row.detail.get("prompts", [])
        paraphrases = [str(r.facets["paraphrase"]) for r in of_paraphrases(results, row)]
        for i, (label, *values, p) in enumerate(prompts):
            # Prompts come template by template, as many of each.
            of = [paraphrases[i * len(paraphrases) // len(prompts)] if paraphrases else ""]
            figures = (*map(Number, values), _p(p))
            lines.append(
                (phi_of(row), results.label(row.edit), *of[:several], str(label), *figures)
            )
    columns = ("B", "V_gp", "V_pg", "F", "p, adjusted")
    return Table(
        "fairpair_prompts",
        "Prompt by prompt",
        ("Φ", "edit", *(["paraphrase"] if several else []), "prompt", *columns),
        tuple(lines),
        searchable=True,
        grouped=True,
    )


def phrases(results: Results) -> Table | None:
    """Every phrase that one side uses more (Figure 6)."""
    lines = [
        (results.label(row.edit), *_phrase(term))
        for row in results.of("fairpair_ngrams")
        for term in row.detail["terms"]
    ]
    columns = ("share of texts of p(x)", "share of perturbed texts of x", "log odds", "p, adjusted")
    name, title = "fairpair_phrases", "Telling phrases"
    titles = ("edit", "phrase", *columns)
    return (
        Table(name, title, titles, tuple(lines), searchable=True, grouped=True) if lines else None
    )


def strongest_phrases(results: Results) -> Table | None:
    """The most telling phrases of either side, of the unedited model."""
    row = next(iter(results.unedited("fairpair_ngrams")), None)
    if row is None or not row.detail["terms"]:
        return None
    # Rows hold the terms from one end to the other.
    terms = row.detail["terms"]
    target = [term for term in terms if term["log_odds"] > 0][:PHRASES]
    source = [term for term in terms if term["log_odds"] <= 0][-PHRASES:]
    return Table(
        "fairpair_strongest_phrases",
        f"The most telling phrases, {results.label(UNEDITED)}",
        ("phrase", row.detail["target"], f"{row.detail['source']}, perturbed", "log odds", "p"),
        tuple(_phrase(term) for term in (*target, *source)),
        "Of each side's texts, the share that has the phrase.",
        brief=True,
    )


def _phrase(term: dict[str, Any]) -> tuple[Cell, ...]:
    shares = [Number(term[side], digits=4, percent=True) for side in ("share_gp", "share_pg")]
    odds = Number(term["log_odds"], signed=True, digits=2)
    return (str(term["text"]), *shares, odds, _p(term["p"]))


def published_success(results: Results) -> float | None:
    """The published percentage of perturbations that pass, of the same model and prompts."""
    row = next(iter(results.of("fairpair_f")), None)
    return None if row is None else PUBLISHED_SUCCESS.get(published_model(row))


def _p(value: float | None, digits: int = P_DIGITS) -> Number:
    return Number(value, digits=digits, bounded=True)
