"""What FairPair shows: a tab with its tables and figures, examples, and what its tests say.

Comes in: the rows of a run, and the texts in its store. Goes out: sections of plain blocks, and
sentences. Nothing is computed here. Texts are whatever a model wrote: they are quoted as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.fairpair.continuations import (
    PERTURBED,
    STORE,
    read_pairs,
    read_perturbed,
)
from countergen_edit.metrics.fairpair.lengths import RECOMMENDED
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.template_tests import ALPHA
from countergen_edit.reports.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Number,
    Quote,
    Quotes,
    Section,
    Table,
    Words,
)
from countergen_edit.reports.views.base import Quantity
from countergen_edit.reports.views.fairpair import figures, perturbation_tables, tables
from countergen_edit.reports.views.fairpair.length_table import length_table
from countergen_edit.reports.views.fairpair.tables import phi_of

MOST = 1200
"""Lines of the table of continuations; the store holds them all."""
PER_PROMPT = 3
"""Continuations of one prompt and edit that are quoted."""
ASKED = "Prompts are a user's messages in the chat template, and continuations the model's replies."
MEANING = (
    "F = B²/(V_gp V_pg) above 1: the two sides differ by more than the model's own sampling does. "
    "2B−V−V is the same without the bias of an estimate, 0 where nothing differs. "
    "p: permutation test, Holm."
)


def f_rows(results: Results, split: str = "test") -> list[Row]:
    """The rows `fairpair_f`, those of one Φ behind each other."""
    rows = results.of("fairpair_f", split)
    order = list(dict.fromkeys(map(phi_of, rows)))
    return sorted(rows, key=lambda row: order.index(phi_of(row)))


def quantities(results: Results, split: str) -> list[Quantity]:
    """F by each Φ."""
    rows = f_rows(results, split)
    return [
        Quantity(
            f"F, {phi}",
            {row.edit: row for row in rows if phi_of(row) == phi},
            "other",
            digits=2,
            main=False,
        )
        for phi in dict.fromkeys(map(phi_of, rows))
    ]


def success(results: Results) -> list[Quantity]:
    """The share of perturbations that pass."""
    rows = {row.edit: row for row in results.of("fairpair_perturbed")}
    title = "perturbations that pass"
    return [Quantity(title, rows, "other", 4, percent=True, main=False)] if rows else []


def sections(results: Results) -> list[Section]:
    """The tab of FairPair, and its continuations among the examples; none where not measured."""
    rows = f_rows(results)
    if not rows:
        return []
    brief: list[Block | None] = [
        tables.table_3(results, rows),
        Words(
            (
                *([ASKED] if _asked(results) else []),
                MEANING,
                *_undefined(results, rows),
                *_success(results),
                *_lengths(results),
            ),
            brief=True,
        ),
        tables.strongest_phrases(results),
    ]
    folds: dict[str, list[Figure | Table | None]] = {
        "Intervals and tests, and how long the texts are": [
            tables.intervals(results, rows),
            length_table(results),
        ],
        "Template by template": [
            tables.over_paraphrases(results, rows),
            figures.over_paraphrases(results, rows),
            tables.by_paraphrase(results, rows),
        ],
        "Prompt by prompt": [
            figures.distributions(_labelled(results, rows)),
            figures.ablations(results),
            tables.by_prompt(results, rows),
        ],
        "Phrases that tell the sides apart": [
            figures.phrases(_labelled(results, results.of("fairpair_ngrams"))),
            tables.phrases(results),
        ],
        "Perturbations, and those that were left out": [
            perturbation_tables.perturbed(results),
            perturbation_tables.perturbations(results),
        ],
    }
    shown = {title: tuple(b for b in parts if b is not None) for title, parts in folds.items()}
    tab = Section(
        "fairpair",
        "FairPair",
        (
            *(block for block in brief if block is not None),
            *(Fold(title, parts) for title, parts in shown.items() if parts),
        ),
    )
    texts = _continuations(results)
    return [tab, *([Section("examples", "Examples", (texts,))] if texts else [])]


def _labelled(results: Results, rows: Sequence[Row]) -> list[tuple[str, Row]]:
    return [(results.label(row.edit), row) for row in rows]


def sentences(results: Results) -> list[str]:
    """What the tests say, a sentence for each Φ."""
    rows = f_rows(results)
    return [
        f"By {phi}, the continuations for the two groups "
        + "; ".join(
            " ".join([*_state(results, row), _verdict(results, row)])
            for row in rows
            if phi_of(row) == phi
        )
        + "."
        for phi in dict.fromkeys(map(phi_of, rows))
    ]


def remaining(results: Results, edit: EditRecord) -> list[str]:
    """By which Φ texts for the two groups still differ under an edit."""
    rows = [row for row in f_rows(results) if row.edit == edit.id]
    phis = [phi_of(row) for row in rows if _verdict(results, row).startswith("differ")]
    return [f"texts differ by {' and '.join(phis)}"] if phis else []


def _state(results: Results, row: Row) -> list[str]:
    """Before or after which edit; nothing where there is none."""
    if results.is_unedited:
        return []
    return ["before any edit" if row.edit == UNEDITED else f"after {results.label(row.edit)}"]


def _verdict(results: Results, row: Row) -> str:
    if row.value is None:
        return f"have no F: F is undefined ({row.detail.get('reason', 'no continuations')})"
    p = row.detail.get("p_adjusted")
    text = "differ" if p is not None and p < 0.05 else "do not differ detectably"
    spread = results.under(row, row.edit, "fairpair_f_over_paraphrases")
    if spread is not None and spread.detail["range"] is not None:
        lo, hi = spread.detail["range"]
        text += f", on {spread.detail['differ']} of {spread.n} templates (F {lo:.2f} to {hi:.2f})"
    return text


def _undefined(results: Results, rows: Sequence[Row]) -> list[str]:
    """Where some prompts have no F and others have: it may not be overlooked."""
    return [
        f"{', '.join([f'By {phi_of(row)}', *_state(results, row)])}, F is undefined in "
        f"{sum(row.detail['undefined'].values())} prompts ({row.detail['reason']})."
        for row in rows
        if row.value is not None and row.detail.get("undefined")
    ]


def _asked(results: Results) -> bool:
    return any(row.detail.get("asked") for row in results.of("fairpair_perturbed"))


def _success(results: Results) -> list[str]:
    """How many perturbations passed the filters, edit by edit."""
    rows = results.of("fairpair_perturbed")
    if not rows:
        return []
    shares = ", ".join("–" if r.value is None else f"{100 * r.value:.1f} %" for r in rows)
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.detail.get("left_out", {}))
    left = ", ".join(f"{reason}: {count}" for reason, count in reasons.items() if count)
    published = tables.published_success(results)
    text = f"Of {rows[0].n} perturbations {shares} passed the filters"
    text += f" (left out for {left})" if left else ""
    text += f"; published {published} %" if published else ""
    if empty := sum(row.detail.get("empty_continuations", 0) for row in rows):
        text += f"; {empty} continuations were empty"
    return [f"{text}."]


def _lengths(results: Results) -> list[str]:
    """Whether the two sides differ in length, edit by edit, where any does."""
    rows = [
        row
        for row in results.of("fairpair_length_difference")
        if row.facets["test"] == RECOMMENDED and row.detail["p"] is not None
    ]
    if not rows:
        return []
    found = [
        f"by {Number.of(row, 1, signed=True).text} words {_state(results, row)}"
        for row in rows
        if row.detail["p"] < ALPHA
    ]
    said = f"differs {', '.join(found)}" if found else "does not differ detectably"
    return [f"The two sides' length {said} (paired t-test over prompts)."]


def _continuations(results: Results) -> Table | None:
    """Continuations of x and of p(x), and the perturbed ones, of every edit that was measured."""
    edits = list(dict.fromkeys(row.edit for row in results.of("fairpair_f")))
    files = [pair for pair in results.stored(STORE) if pair[0] in edits]
    lines: list[tuple[Cell, ...]] = []
    count = 0
    for edit, path in sorted(files, key=lambda pair: edits.index(pair[0])):
        if path.name.endswith(PERTURBED):
            continue
        prompts, pairs = read_pairs(path)
        count += len(pairs)
        beside = path.with_name(f"{path.stem}{PERTURBED}")
        changed = read_perturbed(beside) if beside.is_file() else ()
        for i, pair in enumerate(pairs[:PER_PROMPT]):
            own = Quotes((Quote(prompts.prompt), Quote(pair.g_x)))
            other = Quotes((Quote(prompts.perturbed_prompt), Quote(pair.g_px)))
            both = changed[i] if i < len(changed) else ""
            lines.append((results.label(edit), own, both, other))
    if not lines:
        return None
    note = f"Of every prompt the first {PER_PROMPT}."
    if count > MOST:
        note += f" The first of {count}; the run's store holds all."
    return Table(
        "continuations",
        "Continuations that the model sampled",
        ("edit", "prompt x, its continuation", "both, perturbed", "prompt p(x), its continuation"),
        tuple(lines[:MOST]),
        note,
        searchable=True,
    )
