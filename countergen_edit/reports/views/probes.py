"""Views of probes after an edit, and of how far gates opened.

A probe finds the group significantly where the interval of its held-out accuracy, over names, lies
above chance, the share of the largest group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.fits import CLOSED, OPEN
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Figure, Number
from countergen_edit.reports.views.base import Record, View, and_list, percent, place_in_text
from countergen_edit.reports.views.by_layer import SHARE, layer_figures

_ACCURACY = {"linear": "linear_probe_accuracy", "non-linear": "nonlinear_probe_accuracy"}
BEFORE, CHANCE = "_before", "probe_majority_rate"
_CASES = ("linear", "non-linear", "neither", "never")
"""The probes that find the group, each case with its sentence."""
Figures = Mapping[str, Row]


class GuardednessView(View, declared="guardedness"):
    """Probe accuracy before and after edits, with certificates."""

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        figures = _figures(results, edit)
        case = _case(figures) if figures else "neither"
        if case not in _ACCURACY:
            return []
        accuracy, chance = percent(figures[_ACCURACY[case]]), percent(figures[CHANCE])
        return [f"a {case} probe finds the group ({accuracy.in_text}, chance {chance.text})"]

    def sentences(self, results: Results) -> list[str]:
        """One for each case among the edits shown; those of several parts are not probed as one."""
        edits = [edit for edit in results.shown if not edit.baseline]
        probed = [(edit, figures) for edit in edits if (figures := _figures(results, edit))]
        sentences = []
        for case in _CASES:
            if parts := [_finds(edit, f) for edit, f in probed if _case(f) == case]:
                sentences.append(f"On held-out names, {'; '.join(parts)}. {self.says[case]}")
        linear = _ACCURACY["linear"]
        after = [e for e in edits if any(part.after for part in e.parts)]
        by_kind = {
            "seen": [edit for edit, f in probed if not f[linear].detail.get("refitted", True)],
            "alone": [e for e in edits if e.parts and e not in after],
            "after": after,
        }
        names = {kind: ", ".join(e.name_in_text for e in of) for kind, of in by_kind.items()}
        remarks = {kind: self.say(kind, edits=text) for kind, text in names.items() if text}
        if sentences:
            seen = remarks.pop("seen", "")
            sentences[-1] = f"{sentences[-1]} {self.says['place']} {seen}".rstrip()
        return [*sentences, *remarks.values()]

    def caveats(self, results: Results) -> list[str]:
        edits: dict[str, list[str]] = {}
        shown = {edit.id for edit in results.shown}
        for row in results.of(_ACCURACY["linear"], self.split):
            if row.edit in shown and (remark := row.detail.get("remark")):
                edits.setdefault(remark, []).append(results.label(row.edit))
        return [f"Of {', '.join(labels)}: {remark}." for remark, labels in edits.items()]

    def records(self, results: Results) -> list[Record]:
        """Probe accuracy under each edit that was fitted as one, and its guarantee."""
        records = super().records(results)
        proofs: dict[str, Cell] = {}
        for row in results.of(_ACCURACY["linear"], self.split):
            column, proved = results.label(row.edit), row.detail.get("guaranteed")
            if proved is not None and records and column in records[0]:
                proofs[column] = "yes" if proved else f"no: {row.detail.get('reason') or ''}"
        return [*records, {"figure": self.says["proof"], **proofs}] if proofs else records

    def figure(self, results: Results) -> list[Figure]:
        figures: list[Figure] = []
        for kind, metric in _ACCURACY.items():
            axis = "held-out accuracy"
            figures += layer_figures(results, metric, metric, f"{kind} probe", axis, SHARE)
        return figures


def _figures(results: Results, edit: EditRecord) -> Figures:
    """Empty where the edit has no certificate, or one that could not measure the probes."""
    metrics = [CHANCE, *(m + when for m in _ACCURACY.values() for when in ("", BEFORE))]
    for row in results.of(_ACCURACY["linear"], "validation", edit.id):
        measured = {metric: results.under(row, edit.id, metric) for metric in metrics}
        figures = {m: r for m, r in measured.items() if r is not None and r.value is not None}
        if len(figures) == len(metrics):
            return figures
    return {}


def _significant(figures: Figures, when: str = "") -> list[str]:
    """The kinds of the probes that find the group significantly."""
    chance = figures[CHANCE].value or 0.0
    ends = {kind: figures[metric + when].lo for kind, metric in _ACCURACY.items()}
    return [kind for kind, lo in ends.items() if lo is not None and lo > chance]


def _case(figures: Figures) -> str:
    if not _significant(figures, BEFORE):
        return "never"
    return next(iter(_significant(figures)), "neither")


def _finds(edit: EditRecord, figures: Figures) -> str:
    """Whether each probe finds the group, with its interval and chance."""
    when = BEFORE if _case(figures) == "never" else ""
    significant, chance = _significant(figures, when), percent(figures[CHANCE]).text
    parts = []
    for kind, metric in _ACCURACY.items():
        row = figures[metric + when]
        accuracy = percent(row)
        if row.lo is not None and Number(row.lo, percent=True).text == chance:
            accuracy = percent(row, 4)  # on which side of chance it ends
        text = f"{accuracy.in_text}, chance {chance}"
        text += "" if when else f", before the edit {percent(figures[metric + BEFORE]).text}"
        does = "finds" if kind in significant else "does not find"
        parts.append(f"a {kind} probe {does} the group significantly ({text})")
    between = ", but " if len(significant) == 1 else ", and "
    return f"{'before' if when else 'after'} {place_in_text(edit)} {between.join(parts)}"


_MOST = 0.1
"""Share of prompts above which a gate that is wrongly open or closed is mentioned."""


class GatesView(View, declared="gates"):
    """Openings of the gates of the edits shown."""

    def edits(self, results: Results) -> list[str]:
        return [edit.id for edit, _ in _gated(results)]

    def about(self, row: Row) -> str:
        return self.says[f"{row.facets['texts']}_title"]

    def sentences(self, results: Results) -> list[str]:
        sentences = []
        for edit, rows in _gated(results):
            if edit.baseline:
                continue
            text = f"The gate of {place_in_text(edit)} opened {and_list(map(self._where, rows))}"
            shares = {row.facets["texts"]: row.detail["not_closed"] for row in rows}
            wrong = {
                "agreement": shares.get("agreement", 0.0) > _MOST,
                "erase": shares.get("erase", 1.0) < 1 - _MOST,
            }
            remarks = [self.says[kind] for kind, is_wrong in wrong.items() if is_wrong]
            sentences.append(" ".join([f"{text}: {CLOSED}", *remarks]))
        return sentences

    def _where(self, row: Row) -> str:
        share, lo, hi = (row.detail[f"not_closed{end}"] for end in ("", "_lo", "_hi"))
        edge = min(share, 1 - share)
        number = Number(share, lo, hi, 3 + (edge < 0.01) + (edge < 0.001), percent=True)
        part = {0: "none of the", 1: "all"}.get(share, f"{number.in_text} of the")
        return self.say(f"{row.facets['texts']}_at", share=f"{part} {row.detail['tokens']}")


def _gated(results: Results) -> list[tuple[EditRecord, Sequence[Row]]]:
    """The edits shown that have a gate, an edit of several parts by its parts."""
    shown = {part.id: part for edit in results.shown for part in edit.parts or (edit,)}
    pairs = [(edit, results.of(OPEN, "validation", edit.id)) for edit in shown.values()]
    return [(edit, rows) for edit, rows in pairs if rows]
