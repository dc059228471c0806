"""The registry of data sources, and what every source does with a text.

Comes in: a `Request` and the keys of a dataset config. Goes out: samples with one variation or more
per group. Refused: a text in which substitution changes nothing, groups of unequal size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.data.axis import Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.text.substitution import Substitution


@dataclass(frozen=True)
class Request:
    """What a source gets beside its own keys: axis, split, groups, substitution, name."""

    axis: Axis
    split: Split
    groups: tuple[str, str]
    substitution: Substitution
    name: str | None
    """The set's name where the config gives one; a source has its own default."""

    def make(self, name: str, samples: Sequence[Sample]) -> CounterfactualSet:
        """The set, under the config's name or else `name`."""
        return CounterfactualSet(self.name or name, self.axis.name, self.groups, tuple(samples))


Source = Callable[..., CounterfactualSet]
"""`source(request, **keys)`: its keyword-only parameters are the keys a dataset config may hold."""

SOURCES: Registry[Source] = Registry(
    "data source",
    "countergen_edit.sources",
    {
        "templates": "countergen_edit.data.sources.loading:templates",
        "jsonl": "countergen_edit.data.sources.files:jsonl",
        "csv": "countergen_edit.data.sources.files:csv_file",
        "hub": "countergen_edit.data.sources.published:hub",
        "countergen": "countergen_edit.data.sources.published:countergen",
        "testbed": "countergen_edit.testbed.files:family_set",
        "testbed_agreement": "countergen_edit.testbed.files:testbed_agreement",
        "natural_agreement": "countergen_edit.data.natural:agreement",
        "natural_people": "countergen_edit.data.natural.people:people",
        "natural_stereotypes": "countergen_edit.data.natural:stereotypes",
        "natural_facts": "countergen_edit.data.natural:legitimate_differences",
    },
)
"""Every data source by its name in a dataset config; a user enters one with `SOURCES.register`."""


def sample_from_text(
    text: str, outputs: Sequence[str], request: Request, where: str = ""
) -> Sample:
    """A sample whose variations substitution makes: the text as each group would have it.

    Raises:
        UserError: substitution changes nothing; the message begins with `where`.
    """
    try:
        texts = request.substitution.pair(text)
    except UserError as error:
        raise UserError(f"{where}{error}") from None
    by_group = dict(zip(request.groups, ([texts[0]], [texts[1]]), strict=True))
    return sample_from_variations(text, outputs, by_group, request, where)


def sample_from_variations(
    text: str,
    outputs: Sequence[str],
    texts: Mapping[str, Sequence[str]],
    request: Request,
    where: str = "",
) -> Sample:
    """A sample with given variations by group, checked at once so that a mistake has its place.

    Raises:
        UserError: the groups differ in size or share a text; the message begins with `where`.
    """
    variations = []
    for group, other in (request.groups, request.groups[::-1]):
        for variation in texts.get(group, ()):
            names = request.substitution.names_in(variation)
            start = min((first_difference(variation, t) for t in texts.get(other, ())), default=0)
            variations.append(Variation(group, variation, names[0] if names else None, start))
    sample = Sample(request.substitution.template(text), tuple(outputs), tuple(variations))
    try:
        request.make("sample", [sample])
    except UserError as error:
        raise UserError(f"{where}{error}") from None
    return sample


def first_difference(a: str, b: str) -> int:
    """Where the first word stands in which two texts differ.

    >>> first_difference("Ask the man.", "Ask the men.")
    8
    """
    i = 0
    while i < min(len(a), len(b)) and a[i] == b[i]:
        i += 1
    while i > 0 and a[i - 1].isalnum():
        i -= 1
    return i


def as_texts(value: Any, key: str, where: str = "") -> tuple[str, ...]:
    """A config value as one text or more.

    Raises:
        UserError: it is empty, or holds something other than texts (unquoted Yes and No, say).
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not texts:
        raise UserError(f"{where}{key!r} holds no texts: {value!r}")
    for text in texts:
        if not isinstance(text, str) or not text:
            raise UserError(f"{where}{key!r} must hold texts, in quotes; got {text!r}")
    return tuple(texts)


def as_text(value: Any, key: str, where: str = "") -> str:
    """A cell that must hold one text.

    Raises:
        UserError: it is empty or no text.
    """
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{where}{key!r} must hold a text; got {value!r}")
    return value
