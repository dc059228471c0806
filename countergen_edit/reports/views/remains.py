"""Sentences on the group that probes find after an edit, and the consequences for training.

There is a sentence for each case among the edits shown: a linear probe finds the group; a
non-linear one alone; neither; or neither did before. A probe finds the group significantly where
the interval of its held-out accuracy, over names, lies above the share of the largest group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import place_in_text

ACCURACY = {"linear": "linear_probe_accuracy", "non-linear": "nonlinear_probe_accuracy"}
BEFORE, CHANCE = "_before", "probe_majority_rate"
MEANING = {
    "linear": (
        "The activations there still contain the group, and training on them can bring the "
        "difference back."
    ),
    "non-linear": (
        "The group is hidden from linear probes alone, and a network trained on the activations "
        "there can bring the difference back."
    ),
    "neither": "No probe shows that the activations there still contain the group.",
    "never": "That they do not find it after the edit shows nothing.",
}
"""By case."""
PLACE = " Probes read the edited place only: later layers may rebuild the group."
SEEN = (
    " The names are held out from probes alone, not from the fit of {edits}, which takes too long."
)
"""Said of edits whose fit saw the names that probes are measured on."""
Figures = Mapping[str, Row]
"""The rows of a certificate, by metric."""


def remaining(results: Results, edit: EditRecord) -> list[str]:
    """That a probe still finds the group after an edit, by the stronger statement of the two."""
    figures = _figures(results, edit)
    case = _case(figures) if figures else "neither"
    if case not in ACCURACY:
        return []
    accuracy, chance = (Number.of(figures[m], percent=True) for m in (ACCURACY[case], CHANCE))
    return [f"a {case} probe finds the group ({accuracy.in_text}, chance {chance.text})"]


def sentences(results: Results) -> list[str]:
    """One for each case among the edits shown; edits of several parts were not probed as one."""
    edits = [edit for edit in results.shown if not edit.baseline]
    probed = [(edit, figures) for edit in edits if (figures := _figures(results, edit))]
    said = []
    for case, meaning in MEANING.items():
        if some := [_said(edit, own) for edit, own in probed if _case(own) == case]:
            said.append(f"On held-out names, {'; '.join(some)}. {meaning}")
    seen = [
        edit.name_in_text
        for edit, figures in probed
        if not figures[ACCURACY["linear"]].detail.get("refitted", True)
    ]
    if said:
        said[-1] += PLACE + (SEEN.format(edits=", ".join(seen)) if seen else "")
    return said + _of_several_parts([edit for edit in edits if edit.parts])


def _figures(results: Results, edit: EditRecord) -> Figures:
    """Empty where the edit has no certificate, or one that could not measure the probes."""
    metrics = [CHANCE, *(m + when for m in ACCURACY.values() for when in ("", BEFORE))]
    for row in results.of(ACCURACY["linear"], "validation", edit.id):
        found = {metric: results.under(row, edit.id, metric) for metric in metrics}
        known = {m: own for m, own in found.items() if own is not None and own.value is not None}
        if len(known) == len(metrics):
            return known
    return {}


def _finding(figures: Figures, when: str = "") -> list[str]:
    """The kinds of probe that find the group."""
    chance = figures[CHANCE].value or 0.0
    ends = {kind: figures[metric + when].lo for kind, metric in ACCURACY.items()}
    return [kind for kind, lo in ends.items() if lo is not None and lo > chance]


def _case(figures: Figures) -> str:
    if not _finding(figures, BEFORE):
        return "never"
    return next(iter(_finding(figures)), "neither")


def _said(edit: EditRecord, figures: Figures) -> str:
    """What each probe finds, with its interval and chance."""
    when = BEFORE if _case(figures) == "never" else ""
    finding, chance = _finding(figures, when), Number.of(figures[CHANCE], percent=True).text
    parts = []
    for kind, metric in ACCURACY.items():
        row = figures[metric + when]
        accuracy = Number.of(row, percent=True)
        if row.lo is not None and Number(row.lo, percent=True).text == chance:
            accuracy = Number.of(row, 4, percent=True)  # on which side of chance it ends
        text = f"{accuracy.in_text}, chance {chance}"
        if not when:
            text += f", before the edit {Number.of(figures[metric + BEFORE], percent=True).text}"
        does = "finds" if kind in finding else "does not find"
        parts.append(f"a {kind} probe {does} the group significantly ({text})")
    between = ", but " if len(finding) == 1 else ", and "
    return f"{'before' if when else 'after'} {place_in_text(edit)} {between.join(parts)}"


def _of_several_parts(several: Sequence[EditRecord]) -> list[str]:
    names: dict[bool, list[str]] = {False: [], True: []}
    for edit in several:
        names[any(part.after for part in edit.parts)].append(edit.name_in_text)
    alone, sequential = (", ".join(names[which]) for which in (False, True))
    said = {
        alone: f"No probe read what {alone} leaves as a whole; the certificates are of its parts, "
        "each fitted as if alone.",
        sequential: f"The certificates of {sequential} are of its parts, each fitted on what those "
        "before it leave, and read there.",
    }
    return [sentence for edits, sentence in said.items() if edits]
