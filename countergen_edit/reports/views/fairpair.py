"""The view of FairPair: Tables 1 to 3 and Figures 3 to 6 of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.fairpair.continuations import read_texts
from countergen_edit.metrics.paraphrases import ALPHA
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import (
    Cell,
    Figure,
    Number,
    Quote,
    Quotes,
    Section,
    Table,
    Words,
)
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import (
    Quantity,
    Record,
    View,
    and_list,
    as_figure,
    as_section,
    as_table,
    grouped,
    lines_along,
    p_holm,
)

TENTATIVE = 0.667
"""The smallest Krippendorff's α from which conclusions may be drawn (Krippendorff 2004)."""
LETTERS = {"B": 1, "V_gp": 2, "V_pg": 3}
"""The position of each in the list of a prompt in a row's detail."""
VS = "V_pg", "V_gp"
_MOST_TEXTS = 1200
PER_PROMPT = 3
"""Continuations of one prompt and edit in the examples."""


class FairPairView(View, declared="fairpair"):
    """The tables, figures and sentences of `FairPair`."""

    def about(self, row: Row) -> str:
        return ", ".join(map(str, row.facets.values()))

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        row = quantity.rows.get(edit)
        cell = super().cell(results, quantity, edit)
        return replace(cell, starred=True) if row and _differs(row) else cell  # type: ignore[type-var]

    def sections(self, results: Results) -> list[Section]:
        """The tab of FairPair, and continuations among the examples."""
        rows, notes = results.of("fairpair_perturbed"), _undefined(results)
        if empty := sum(row.detail.get("empty_continuations", 0) for row in rows):
            notes.append(f"{empty} continuations were empty.")
        notes += [_left_out(row) for row in rows if any(row.detail.get("left_out", {}).values())]
        return [
            *as_section(
                *self.place,
                self.table(results),
                [Words(tuple(notes), brief=True)] if notes else [],
                _tests(results),
                _distributions(results),
                _by_size(results),
                _perturbed(results),
                _phrases(results),
            ),
            *as_section("examples", "Examples", _continuations(results)),
        ]

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """The Φ by which texts for the two groups still differ under an edit."""
        rows = results.of("fairpair_f", edit=edit.id)
        phis = [self.about(row) for row in rows if _differs(row)]
        return [f"texts differ by {' and '.join(phis)} (permutation test)"] if phis else []

    def sentences(self, results: Results) -> list[str]:
        """The result of the pooled tests, a sentence for each Φ."""
        sentences = []
        for phi, rows in grouped(results.of("fairpair_f"), self.about).items():
            said = "; ".join(
                " ".join([*_state(results, row), _verdict(results, row)]) for row in rows
            )
            sentences.append(f"By {phi}, the continuations for the two groups {said}.")
        return sentences + _agreement(results)


def _phi(row: Row) -> str:
    return str(row.facets["phi"])


def _differs(row: Row) -> bool:
    p = row.detail.get("p_adjusted")
    return row.value is not None and p is not None and p < ALPHA


def _left_out(row: Row) -> str:
    """The perturbations that fail each filter, and that pass with each unit (Table 1)."""
    counts = [
        f"{count} by filter {reason!r}" for reason, count in row.detail["left_out"].items() if count
    ]
    units = row.detail["shares"].items()
    shares = [f"by {unit} {Number(share, percent=True).text}" for unit, share in units]
    return f"Left out of {row.n} perturbations: {and_list(counts)}; {and_list(shares)} pass."


def _tests(results: Results) -> list[Table]:
    """The permutation test, and the paper's paired t-tests (section 4.1)."""
    records: list[Record] = [
        {"Φ": _phi(row), "edit": results.label(row.edit)}
        | {"permutations": p_holm(row)}
        | {f"t-test, {v}": Number(row.detail.get(f"t_p_{v.lower()}"), bounded=True) for v in VS}
        for row in results.of("fairpair_f")
    ]
    note = (
        "Permutations: of 2B−V−V (Holm). t-tests: of B and V, paired over prompts, as published; "
        "they also find sides of which one varies more."
    )
    return as_table("fairpair_tests", "P values", records, note)


def _by_size(results: Results) -> list[Figure]:
    """Figures 3 and 4: B and V by the number of continuations and of folds."""
    panels = [
        lines_along(results, rows, size, about, f"{size} of each side", f"mean {_phi(rows[0])}")
        for size in ("samples", "folds")
        for about, rows in grouped(
            results.of(f"fairpair_by_{size}"), lambda row: f"{row.facets['quantity']}, {_phi(row)}"
        ).items()
    ]
    note = "A fold has the words of all its texts, and the mean of their scores."
    return as_figure("fairpair_sizes", "B and V by sample size and folds", panels, note)


def _perturbed(results: Results) -> list[Table]:
    """Table 2: perturbations that passed and that did not."""
    records: list[Record] = [
        {"edit": results.label(row.edit)}
        | {side: one[side] for side in ("original", "perturbed")}
        | {u: Number(1 - d, digits=4, percent=True) for u, d in one["dissimilarity"].items()}
        | {"correct": f"✗ {one['left_out']}" if one["left_out"] else "✓"}
        for row in results.of("fairpair_perturbed")
        for one in row.detail.get("examples", ())
    ]
    note = "Similarity (Jaccard) by neutral words, all words and characters. ✗: the filter."
    return as_table("fairpair_perturbations", "Perturbations", records, note, searchable=True)


def _distributions(results: Results) -> list[Figure]:
    """Figure 5: B and V by prompt."""

    def letter(name: str, prompts: Iterable[Sequence[Any]]) -> Series:
        known = [(p[0], float(p[LETTERS[name]])) for p in prompts if p[LETTERS[name]] is not None]
        tips = tuple(f"{name}, {prompt}: {value:.3f}" for prompt, value in known)
        return Series(name, (), tuple(value for _, value in known), kind="spread", tips=tips)

    panels = []
    for row in results.of("fairpair_f"):
        series = tuple(letter(name, row.detail.get("prompts", [])) for name in LETTERS)
        if any(one.y for one in series):
            title = f"{_phi(row)}, {results.label(row.edit)}"
            panels.append(Panel(title, f"{_phi(row)} over pairs", "", series))
    note = "Every dot is a prompt; boxes: quartiles."
    return as_figure("fairpair_distributions", "B and V by prompt", panels, note)


def _phrases(results: Results) -> list[Table]:
    """Figure 6: the share of the texts of both sides with each phrase."""
    records: list[Record] = [
        {
            "edit": results.label(row.edit),
            "phrase": term["text"],
            f"after {row.detail['source']}, perturbed": Number(term["share_pg"], percent=True),
            f"after {row.detail['target']}": Number(term["share_gp"], percent=True),
        }
        for row in results.of("fairpair_ngrams")
        for term in sorted(row.detail["terms"], key=lambda term: term["log_odds"])
    ]
    note = "Phrases of one to four words whose share of continuations differs significantly."
    title = "Phrases of each side"
    return as_table("fairpair_phrases", title, records, note, searchable=True, grouped=True)


def _state(results: Results, row: Row) -> list[str]:
    if results.is_unedited:
        return []
    return ["before any edit" if row.edit == UNEDITED else f"after {results.label(row.edit)}"]


def _verdict(results: Results, row: Row) -> str:
    if row.value is None:
        return f"have no F: F is undefined ({row.detail.get('reason', 'no continuations')})"
    text = "differ" if _differs(row) else "do not differ detectably"
    if _differs(row) and row.lo is not None and row.lo <= 1:
        text += " on these prompts alone"
    p = Number(row.detail.get("p_adjusted"), bounded=True).text
    text += f" (permutation test, P {p}, Holm; F {Number.of(row, 2).in_text})"
    each = results.of("fairpair_f_of_paraphrase", edit=row.edit)
    if each := [one for one in each if one.value is not None and _phi(one) == _phi(row)]:
        above = sum(one.lo is not None and one.lo > 1 for one in each)
        tested = sum(map(_differs, each))
        text += f", by the test on {tested} of {len(each)} templates, by F's interval on {above}"
    return text


def _agreement(results: Results) -> list[str]:
    """Whether judges agree enough, for each edit."""
    sentences = []
    for row in results.of("fairpair_judge_agreement"):
        if row.value is None or row.lo is None or row.hi is None:
            continue
        agree = "agree" if row.lo >= TENTATIVE else "do not agree"
        if row.lo < TENTATIVE <= row.hi:
            agree = "cannot be shown to agree"
        judges = f"The judges {and_list(row.detail['judges'])} {agree} on the texts"
        said = " ".join([judges, *_state(results, row)])
        alpha = Number(row.value, row.lo, row.hi, digits=2).in_text
        sentences.append(f"{said} (Krippendorff's α {alpha}; {TENTATIVE} or more is agreement).")
    return sentences


def _undefined(results: Results) -> list[str]:
    """The prompts without F, where others have one."""
    return [
        f"{', '.join([f'By {_phi(row)}', *_state(results, row)])}, F is undefined in "
        f"{sum(row.detail['undefined'].values())} prompts ({row.detail['reason']})."
        for row in results.of("fairpair_f")
        if row.value is not None and row.detail.get("undefined")
    ]


def _continuations(results: Results) -> list[Table]:
    """Continuations of x and of p(x), and the perturbed ones, of every measured edit."""
    edits = list(dict.fromkeys(row.edit for row in results.of("fairpair_f")))
    records: list[Record] = [
        {
            "edit": results.label(edit),
            "prompt x, its continuation": Quotes((Quote(s.prompt.source), Quote(g_x))),
            "perturbed": p_x,
            "prompt p(x), its continuation": Quotes((Quote(s.prompt.target), Quote(g_px))),
        }
        for edit, sampled in read_texts(results, edits).items()
        for s in sampled
        for g_x, p_x, g_px in [*zip(s.g_x, s.p_x, s.g_px, strict=True)][:PER_PROMPT]
    ]
    note = f"The first {PER_PROMPT} of every prompt; the run's store holds all."
    shown = records[:_MOST_TEXTS]
    return as_table("continuations", "Continuations", shown, note, searchable=True)
