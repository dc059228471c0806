"""Sentences on the group that probes find after an edit, and the consequences for training.

There is a sentence for each case among the edits shown: a linear probe finds the group; a
non-linear one alone; neither; or neither did before. A probe finds the group significantly where
the interval of its held-out accuracy, over names, lies above the share of the largest group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number

Case = Literal["linear", "nonlinear", "neither", "never"]
MEANING: dict[Case, str] = {
    "linear": (
        "The activations there still contain the group, and training on them can bring the "
        "difference back."
    ),
    "nonlinear": (
        "The group is hidden from linear probes alone, and a network trained on the activations "
        "there can bring the difference back."
    ),
    "neither": "No probe shows that the activations there still contain the group.",
    "never": "That they do not find it after the edit shows nothing.",
}
FIGURES = {
    "linear": "linear_probe_accuracy",
    "linear_before": "linear_probe_accuracy_before",
    "nonlinear": "nonlinear_probe_accuracy",
    "nonlinear_before": "nonlinear_probe_accuracy_before",
    "chance": "probe_majority_rate",
}
"""What a sentence needs, and the row metrics that have it."""
PLACE = " Probes read the edited place only: later layers may rebuild the group."
SEEN = (
    " The names are held out from probes alone, not from the fit of {edits}, which takes too long."
)
"""Said of edits whose fit saw the names that probes are measured on."""


@dataclass(frozen=True)
class Probed:
    """The certificate of one edit."""

    edit: EditRecord
    linear: Row
    linear_before: Row
    nonlinear: Row
    nonlinear_before: Row
    chance: Row

    @classmethod
    def of(cls, results: Results, edit: EditRecord) -> Probed | None:
        """None where the edit has no certificate, or one that could not measure the probes."""
        for row in results.of("linear_probe_accuracy", "validation", edit.id):
            found = {name: results.under(row, edit.id, metric) for name, metric in FIGURES.items()}
            known = {name: own for name, own in found.items() if own and own.value is not None}
            if len(known) == len(FIGURES):
                return cls(edit, **known)
        return None

    @property
    def case(self) -> Case:
        """What the probes find, before and after."""
        if not (self._finds(self.linear_before) or self._finds(self.nonlinear_before)):
            return "never"
        if self._finds(self.linear):
            return "linear"
        return "nonlinear" if self._finds(self.nonlinear) else "neither"

    def _finds(self, row: Row) -> bool:
        return row.lo is not None and row.lo > (self.chance.value or 0.0)

    @property
    def said(self) -> str:
        """What each probe finds, with its interval and chance."""
        [place] = self.edit.places
        where = f"layer {place.layer}" if place.site == "resid_post" else str(place)
        edit = f"{self.edit.name_in_text} at {where}"
        if self.case == "never":
            linear, nonlinear = self.linear_before, self.nonlinear_before
            before = ["", ""]
            when = "before"
        else:
            linear, nonlinear = self.linear, self.nonlinear
            before = [
                f", before the edit {Number(row.value, percent=True).text}"
                for row in (self.linear_before, self.nonlinear_before)
            ]
            when = "after"
        word = "and" if self._finds(linear) == self._finds(nonlinear) else "but"
        return (
            f"{when} {edit} a linear probe {self._found(linear, before[0])}, {word} a non-linear "
            f"probe {self._found(nonlinear, before[1])}"
        )

    def _found(self, row: Row, before: str) -> str:
        does = "finds" if self._finds(row) else "does not find"
        accuracy, chance = Number.of(row, percent=True), Number.of(self.chance, percent=True)
        if row.lo is not None and Number(row.lo, percent=True).text == chance.text:
            accuracy = Number.of(row, 4, percent=True)  # on which side of chance it ends
        ends = f" [{accuracy.interval.replace(' to ', ', ')}]" if accuracy.interval else ""
        return (
            f"{does} the group significantly ({accuracy.text}{ends}, chance {chance.text}{before})"
        )


def remaining(results: Results, edit: EditRecord) -> list[str]:
    """That a probe still finds the group after an edit, by the stronger statement of the two."""
    probed = Probed.of(results, edit)
    if probed is None or probed.case not in ("linear", "nonlinear"):
        return []
    kind, row = (
        ("linear", probed.linear) if probed.case == "linear" else ("non-linear", probed.nonlinear)
    )
    accuracy = Number.of(row, percent=True)
    chance = Number.of(probed.chance, percent=True).text
    ends = accuracy.interval.replace(" to ", ", ")
    return [f"a {kind} probe finds the group ({accuracy.text} [{ends}], chance {chance})"]


def sentences(results: Results) -> list[str]:
    """One for each case among the edits shown; edits of several parts were not probed as one."""
    edits = [edit for edit in results.shown if not edit.baseline]
    probed = [own for edit in edits if (own := Probed.of(results, edit)) is not None]
    said = []
    for case in get_args(Case):
        if some := [own.said for own in probed if own.case == case]:
            said.append(f"On held-out names, {'; '.join(some)}. {MEANING[case]}")
    seen = [own.edit.name_in_text for own in probed if not own.linear.detail.get("refitted", True)]
    if said:
        said[-1] += PLACE + (SEEN.format(edits=", ".join(seen)) if seen else "")
    return said + _of_several_parts(edits)


def _of_several_parts(edits: Sequence[EditRecord]) -> list[str]:
    several = [edit for edit in edits if edit.parts]
    chained = [any(part.after for part in edit.parts) for edit in several]
    alone, sequential = (
        ", ".join(e.name_in_text for e, own in zip(several, chained, strict=True) if own == kind)
        for kind in (False, True)
    )
    said = []
    if alone:
        said.append(
            f"No probe read what {alone} leaves as a whole; the certificates are of its parts, "
            "each fitted as if alone."
        )
    if sequential:
        said.append(
            f"The certificates of {sequential} are of its parts, each fitted on what those before "
            "it "
            "leave, and read there."
        )
    return said
