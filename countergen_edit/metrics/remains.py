"""What probes find of the groups after an edit, in words, and what that means for whoever trains.

Comes in: the rows of certificates. Goes out: a sentence for each of the cases that occur among the
edits shown: a linear probe still finds the groups; a non-linear one alone; neither; or neither did
before. A probe finds them where the interval of its held-out accuracy, over names, lies above the
share of the larger group. Certificates probe the rows to erase: what is to be kept is kept on
purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.blocks import Number
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row

Case = Literal["linear", "nonlinear", "neither", "never"]
FIRST: dict[Case, str] = {
    "linear": (
        "After {edit} a linear probe still tells {a} from {b} for {linear} of the activations to "
        "erase, names held out (before: {linear_before}; chance: {chance}), a non-linear one for "
        "{nonlinear}"
    ),
    "nonlinear": (
        "After {edit} a linear probe does no better than chance on the activations to erase, names "
        "held out ({linear}; before: {linear_before}; chance: {chance}), but a non-linear one "
        "tells {a} from {b} for {nonlinear}"
    ),
    "neither": (
        "After {edit} neither a linear probe ({linear}; before: {linear_before}) nor a non-linear "
        "one ({nonlinear}; before: {nonlinear_before}) does better than chance ({chance}) at "
        "telling {a} from {b} in the activations to erase, names held out"
    ),
    "never": (
        "Probes could not tell {a} from {b} before {edit} either (linear {linear_before}, "
        "non-linear {nonlinear_before}; chance: {chance})"
    ),
}
MORE: dict[Case, str] = {
    "linear": "; after {edit} for {linear} and {nonlinear}",
    "nonlinear": "; after {edit} {linear} and {nonlinear}",
    "neither": "; nor after {edit} ({linear} and {nonlinear})",
    "never": "; nor before {edit} ({linear_before} and {nonlinear_before})",
}
MEANING: dict[Case, str] = {
    "linear": (
        ": what the model says has changed, not what it knows, and whoever trains on these "
        "activations can bring the difference back."
    ),
    "nonlinear": (
        ": the difference is hidden from linear readers alone, and a network trained on these "
        "activations can bring it back."
    ),
    "neither": ": what these probes could bring back is gone from there.",
    "never": ": that they find nothing after it proves nothing.",
}
FIGURES = {
    "linear": "linear_probe_accuracy",
    "linear_before": "linear_probe_accuracy_before",
    "nonlinear": "nonlinear_probe_accuracy",
    "nonlinear_before": "nonlinear_probe_accuracy_before",
    "chance": "probe_majority_rate",
}
"""What a sentence needs, and the row metrics that have it."""
PLACE = " Probes read the edited place only: later layers may rebuild what is gone there."
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
        least = row.value if row.lo is None else row.lo
        return (least or 0.0) > (self.chance.value or 0.0)

    def said(self, pattern: str) -> str:
        """The pattern with the figures of this certificate."""
        [place] = self.edit.places
        where = f"layer {place.layer}" if place.site == "resid_post" else str(place)
        several = "groups" in self.linear.detail
        return pattern.format(
            edit=f"{self.edit.called} at {where}",
            a="each group" if several else self.linear.group_a,
            b="the others" if several else self.linear.group_b,
            linear=_percent(self.linear),
            linear_before=_percent(self.linear_before),
            nonlinear=_percent(self.nonlinear),
            nonlinear_before=_percent(self.nonlinear_before),
            chance=_percent(self.chance),
        )


def sentences(results: Results) -> list[str]:
    """One for each case among the edits shown; edits of several parts were not probed as one."""
    edits = [edit for edit in results.shown if not edit.baseline]
    probed = [own for edit in edits if (own := Probed.of(results, edit)) is not None]
    said = []
    for case in FIRST:
        some = [own for own in probed if own.case == case]
        if some:
            first, *rest = some
            more = [own.said(MORE[case]) for own in rest]
            said.append(first.said(FIRST[case]) + "".join(more) + MEANING[case])
    seen = [own.edit.called for own in probed if not own.linear.detail.get("refitted", True)]
    if said:
        said[-1] += PLACE + (SEEN.format(edits=", ".join(seen)) if seen else "")
    return said + _of_several_parts(edits)


def _of_several_parts(edits: Sequence[EditRecord]) -> list[str]:
    several = [edit for edit in edits if edit.parts]
    chained = [any(part.after for part in edit.parts) for edit in several]
    alone, in_turn = (
        ", ".join(e.called for e, own in zip(several, chained, strict=True) if own == kind)
        for kind in (False, True)
    )
    said = []
    if alone:
        said.append(
            f"No probe read what {alone} leaves as a whole; the certificates are of its parts, "
            "each fitted as if alone."
        )
    if in_turn:
        said.append(
            f"The certificates of {in_turn} are of its parts, each fitted on what those before it "
            "leave, and read there."
        )
    return said


def _percent(row: Row) -> str:
    return Number(row.value, percent=True).text
