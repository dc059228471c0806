"""A classifier task's templates, each original with its paraphrases, filled with words and people.

Comes in: families of templates, words and people; `template_files` reads them. Goes out: a
`TemplateBank`, whose templates are filled into texts. Refused: a paraphrase without a slot of its
original, a slot or form that no word list fills, a comparison of groups where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.writing import digest
from countergen_edit.data.templates import render, require_same_slots, slot_names

Word = Mapping[str, str]
"""Form → text; `base` is the form of a slot that names none."""

PERSON = "person"


@dataclass(frozen=True)
class Family:
    """One original template and its paraphrases."""

    name: str
    original: str
    paraphrases: tuple[str, ...]
    row: str
    """The row of the task's table in which the family stands; its name unless several share one."""
    toxic: bool | None = None
    """Whether its texts are toxic, where no word says so."""
    published: Mapping[str, Any] = field(default_factory=dict)
    """The paper's figures of it."""

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.original, *self.paraphrases)


@dataclass(frozen=True)
class Filled:
    """A template with one choice of words, for one person of a group if it has that slot."""

    text: str
    words: Mapping[str, str]
    """Slot → the base form of its word."""
    spans: Mapping[str, tuple[int, int]]
    """Slot → the characters that show it first."""
    toxic: bool | None = None

    def beside(self, slot: str) -> tuple[tuple[str, str], ...]:
        """The words of all other slots: texts that agree in them differ in `slot` alone."""
        return tuple(sorted((s, word) for s, word in self.words.items() if s != slot))


@dataclass(frozen=True)
class TemplateBank:
    """All templates of a task and what fills them."""

    task: str
    families: tuple[Family, ...]
    words: Mapping[str, tuple[Word, ...]]
    kinds: Mapping[str, Mapping[str, str]]
    """Slot → base form → what kind of word it is: `true`, `false` (toxic), `positive`, …"""
    table: str = ""
    """What the paper calls the table of this task."""
    groups: tuple[str, str] | None = None
    people: Mapping[str, tuple[Word, ...]] = field(default_factory=dict)
    """Group → its people, the i-th of one group paired with the i-th of the other."""
    hypothesis: str | None = None
    """In inference, the slot that a person takes in the hypothesis."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Slot or kind of word → how many words the whole list holds, or the published one, where these
    are but a part of it or others in its place."""
    published_for: tuple[str, ...] = ()
    """The exact ids of the model that the paper's figures are about."""
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Measure → the paper's figure of the original, and mean and SD of the paraphrases'."""

    def __post_init__(self) -> None:
        if not self.families:
            raise UserError(f"the templates of task {self.task!r} hold no families")
        for family in self.families:
            require_same_slots(family.original, family.paraphrases)
            for text in family.templates:
                if not slot_names(text):
                    raise UserError(f"template {text!r} has no slot: all its texts would be equal")
                next(self.fill(text))

    def fill(
        self, template: str, group: str | None = None, person: int = 0, *, role: str = PERSON
    ) -> Iterator[Filled]:
        """The template with every combination of words, for one person of a group.

        Args:
            template: the template.
            group: whose person; the first group's if it is not said.
            person: which of the group's people.
            role: the slot that the person takes.

        Raises:
            UserError: the template has a slot or form that nothing fills.
        """
        own = sorted(slot_names(template) - {role})
        for slot in own:
            if slot not in self.words:
                raise unknown(f"slot in template {template!r}:", slot, [*self.words, PERSON])
        if role in slot_names(template):
            if self.groups is None:
                raise UserError(f"template {template!r} has a {{{role}}}, but there are no groups")
            about: dict[str, Word] = {role: self.people[group or self.groups[0]][person]}
        else:
            about = {}
        for choice in product(*(self.words[slot] for slot in own)):
            words = dict(zip(own, choice, strict=True))
            text, spans = render(template, words | about)
            bases = {slot: word["base"] for slot, word in words.items()}
            toxic = [self.kinds[s][b] == "true" for s, b in bases.items() if self.is_labelled(s)]
            yield Filled(text, bases, spans, any(toxic) if toxic else None)

    def is_labelled(self, slot: str) -> bool:
        """Whether the words of a slot say if a text is toxic."""
        return set(self.kinds.get(slot, {}).values()) <= {"true", "false"} and slot in self.kinds

    @property
    def pair(self) -> tuple[str, str]:
        """The two groups that are compared.

        Raises:
            UserError: it has none.
        """
        if self.groups is None:
            raise UserError(f"task {self.task!r} compares two groups, but its templates have none")
        return self.groups

    def asked_of(self, model: str) -> TemplateBank:
        """The bank as one model is asked: with the paper's figures only where they are its own."""
        # A directory of that name is a model of the user's own.
        if model in self.published_for and not Path(model).exists():
            return self
        return self.unpublished

    @property
    def unpublished(self) -> TemplateBank:
        """The bank without the paper's figures."""
        families = tuple(replace(family, published={}) for family in self.families)
        return replace(self, families=families, published={})

    def thinned(self, most: Mapping[str, Any]) -> TemplateBank:
        """The bank with the first words of each kind of some slots; `sizes` keep what it had.

        Args:
            most: slot → how many words of each kind; None takes them all.

        Raises:
            UserError: there is no such slot, or the number is none of one or more.
        """
        words, sizes = dict(self.words), dict(self.sizes)
        for slot, count in most.items():
            if count is None:
                continue
            if slot not in words:
                raise unknown("slot", slot, words)
            if not isinstance(count, int) or count < 1:
                raise UserError(f"{count!r} words of slot {slot!r}: at least 1")
            kinds = self.kinds.get(slot, {})
            by_kind: dict[str, list[Word]] = {}
            for word in words[slot]:
                by_kind.setdefault(kinds.get(word["base"], slot), []).append(word)
            for name, own in {slot: words[slot], **by_kind}.items():
                sizes.setdefault(name, len(own))
            words[slot] = tuple(word for own in by_kind.values() for word in own[:count])
        return replace(self, words=words, sizes=sizes)

    def whole(self, template: str) -> int:
        """How many texts a template makes, of one person if it has any, with whole lists."""
        slots = slot_names(template) & self.words.keys()
        return math.prod(self.sizes.get(slot, len(self.words[slot])) for slot in slots)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all templates and words."""
        return digest(asdict(self))
