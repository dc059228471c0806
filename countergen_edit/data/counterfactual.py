"""Counterfactual sets: the one shape in which evaluation and fitting data travel.

Comes in: samples with one or more variations per group. Goes out: a frozen `CounterfactualSet`.
Refused: an empty set, groups of unequal size, a perturbation that changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from countergen_edit.errors import UserError


@dataclass(frozen=True)
class Variation:
    """A prompt as one group would have it."""

    group: str
    text: str
    name: str | None = None
    """The name in the text, where the group shows in a name; None where it shows in other words."""
    start: int = 0
    """Character at which the prompt first shows the group; what stands before is shared."""


@dataclass(frozen=True)
class Sample:
    """A prompt with its variations and the continuations whose probabilities are compared."""

    template: str
    """The wording the prompt was made from: what must not occur in both fitting and test data."""
    outputs: tuple[str, ...]
    variations: tuple[Variation, ...]
    content: str | None = None
    """What is said, however worded: samples of one content are rewordings of each other. None where
    nothing else words it."""

    def of(self, group: str) -> tuple[Variation, ...]:
        return tuple(v for v in self.variations if v.group == group)


@dataclass(frozen=True)
class CounterfactualSet:
    """Samples on which two groups of an axis are compared (CounterGen, section 2.1).

    Raises:
        UserError: the set is empty, a sample's groups differ in size, or a pair of variations is
            identical, which would report "no bias" for a comparison that was never made.
    """

    name: str
    axis: str
    groups: tuple[str, str]
    samples: tuple[Sample, ...]

    def __post_init__(self) -> None:
        if not self.samples:
            raise UserError(f"set {self.name!r} is empty: it has no samples to compare")
        a, b = self.groups
        for sample in self.samples:
            of_a, of_b = sample.of(a), sample.of(b)
            if len(of_a) != len(of_b) or not of_a:
                raise UserError(
                    f"set {self.name!r}, {sample.template!r}: {len(of_a)} variation(s) for {a!r} "
                    f"but {len(of_b)} for {b!r}; give both groups the same number, at least one"
                )
            same = {v.text for v in of_a} & {v.text for v in of_b}
            if same:
                raise UserError(
                    f"set {self.name!r}: the perturbation changes nothing in {min(same)!r}; "
                    f"the texts for {a!r} and {b!r} must differ"
                )

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sample.template for sample in self.samples))

    @property
    def widest(self) -> int:
        """How many variations a group has in the sample that has most."""
        return max(len(sample.of(self.groups[0])) for sample in self.samples)

    @property
    def names(self) -> tuple[str, ...]:
        names = (v.name for sample in self.samples for v in sample.variations if v.name)
        return tuple(dict.fromkeys(names))
