"""Templates of classifier tasks: originals with paraphrases, filled with words and people.

A bank is read from a file under `conf/template`, or a user's file in the same form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt, MinLen

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError, require_known, unknown
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.typed import built, hints_of, require, require_keys
from countergen_edit.core.writing import digest
from countergen_edit.data.templates import render, require_same_slots, slot_names

_Word = Mapping[str, str]
"""Form → text; `base` is the form of a slot that names none."""

PERSON = "person"


@dataclass(frozen=True)
class Family:
    """One original template and its paraphrases.

    `row` is the family's row in the task's table; `toxic` whether its texts are toxic, where no
    word decides that; `published` the paper's figures.
    """

    name: str
    original: str
    paraphrases: tuple[str, ...]
    row: str
    toxic: bool | None = None
    published: Mapping[str, Any] = field(default_factory=dict)

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.original, *self.paraphrases)


@dataclass(frozen=True)
class Filled:
    """A template filled with one choice of words."""

    text: str
    words: Mapping[str, str]
    """Slot → base form of its word."""
    spans: Mapping[str, tuple[int, int]]
    """Slot → characters of its first word."""
    toxic: bool | None = None

    def other_words(self, slot: str) -> tuple[tuple[str, str], ...]:
        """The words of all other slots: texts that agree in them differ in `slot` alone."""
        return tuple(sorted((s, word) for s, word in self.words.items() if s != slot))


@dataclass(frozen=True)
class TemplateBank:
    """All templates of a task with their words and people.

    The i-th person of one group is paired with the i-th of the other. `published` holds the
    paper's figures of `table`, about the models `published_for`.
    """

    task: str
    families: tuple[Family, ...]
    words: Mapping[str, tuple[_Word, ...]]
    kinds: Mapping[str, Mapping[str, str]]
    """Slot → base form → kind of the word: `true`, `false` (toxic), `positive`, …"""
    table: str = ""
    people: Mapping[str, tuple[_Word, ...]] = field(default_factory=dict)
    """Group → people; of two groups or none."""
    hypothesis: str | None = None
    """In inference, the slot that a person takes in the hypothesis."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Slot or kind → number of words of the whole or published list, where `words` has fewer."""
    published_for: tuple[str, ...] = ()
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for family in self.families:
            require_same_slots(family.original, family.paraphrases)
            for text in family.templates:
                if not slot_names(text):
                    raise UserError(f"template {text!r} has no slot: all its texts would be equal")
                next(self.fill(text))

    def fill(
        self, template: str, group: str | None = None, person: int = 0, *, role: str = PERSON
    ) -> Iterator[Filled]:
        """The template with every combination of words; a person of a group is in slot `role`."""
        slots = sorted(slot_names(template) - {role})
        for slot in slots:
            if slot not in self.words:
                raise unknown(f"slot in template {template!r}:", slot, [*self.words, PERSON])
        people: dict[str, _Word] = {}
        if role in slot_names(template):
            if not self.people:
                raise UserError(f"template {template!r} has a {{{role}}}, but there are no groups")
            people[role] = self.people[group or self.pair[0]][person]
        labelled = {s for s, kinds in self.kinds.items() if {*kinds.values()} <= {"true", "false"}}
        for choice in product(*(self.words[slot] for slot in slots)):
            words = dict(zip(slots, choice, strict=True))
            text, spans = render(template, words | people)
            bases = {slot: word["base"] for slot, word in words.items()}
            toxic = [self.kinds[s][b] == "true" for s, b in bases.items() if s in labelled]
            yield Filled(text, bases, spans, any(toxic) if toxic else None)

    @property
    def pair(self) -> tuple[str, str]:
        if not self.people:
            raise UserError(f"task {self.task!r} compares two groups, but its templates have none")
        first, second = self.people
        return first, second

    def for_model(self, model: str) -> TemplateBank:
        """The bank with the paper's figures only if they are about this model."""
        # A directory of that name is a model of the user's own.
        if model in self.published_for and not Path(model).exists():
            return self
        families = tuple(replace(family, published={}) for family in self.families)
        return replace(self, families=families, published={})

    def thinned(self, most: Mapping[str, Any]) -> TemplateBank:
        """The bank with the first words of each kind of some slots; None takes all."""
        words, sizes = dict(self.words), dict(self.sizes)
        for slot, count in most.items():
            if count is None:
                continue
            require_known("slot", slot, words)
            require(Annotated[int, Gt(0)], count, f"most.{slot}")
            kinds = self.kinds.get(slot, {})
            by_kind: dict[str, list[_Word]] = {}
            for word in words[slot]:
                by_kind.setdefault(kinds.get(word["base"], slot), []).append(word)
            for name, entries in {slot: words[slot], **by_kind}.items():
                sizes.setdefault(name, len(entries))
            words[slot] = tuple(word for entries in by_kind.values() for word in entries[:count])
        return replace(self, words=words, sizes=sizes)

    def whole(self, template: str) -> int:
        """The number of texts of a template for one person, with whole lists of words."""
        slots = slot_names(template) & self.words.keys()
        return math.prod(self.sizes.get(slot, len(self.words[slot])) for slot in slots)

    @property
    def fingerprint(self) -> str:
        return digest(asdict(self) | {"groups": [*self.people] or None})


_Forms = Annotated[Mapping[str, Any], MinLen(1)]
_Words = Annotated[Sequence[str | _Forms], MinLen(1)]
_Person = str | _Forms
_TYPES: Mapping[str, Any] = {
    "task": str,
    "table": str,
    "groups": Mapping[str, Mapping[str, Any]],
    "hypothesis": str | None,
    "words": Mapping[str, _Words | Mapping[str, _Words]],
    "sizes": Mapping[str, int],
    "published_for": Sequence[str],
    "published": Mapping[str, Mapping[str, float]],
    "families": Annotated[Sequence[Mapping[str, Any]], MinLen(1)],
}
_GROUP = {"forms": Mapping[str, str], "people": Sequence[_Person | Sequence[_Person]]}


def load_bank(task: str, template_file: str | None = None) -> TemplateBank:
    """The shipped templates of a task, or those of a user's file; `UserError` if there are none."""
    file = None if template_file is None else Path(template_file)
    config = yaml_mapping(file) if file else read_config("template", task)
    if config.get("task", task) != task:
        raise UserError(f"{file} is for task {config['task']!r}, but task={task} is asked for")
    return bank_from_config({"task": task, **config})


def bank_from_config(config: Mapping[str, Any]) -> TemplateBank:
    """A bank of the mapping that `conf/template/*.yaml` holds; `UserError` if it is wrong."""
    require_keys(config, _TYPES, "key of a template file:", "template file: ")
    for key in ("task", "families"):
        if key not in config:
            raise UserError(f"a template file needs {key!r}; this one holds {sorted(config)}")
    words: dict[str, tuple[_Word, ...]] = {}
    kinds: dict[str, dict[str, str]] = {}
    for slot, content in config.get("words", {}).items():
        by_kind = content if isinstance(content, Mapping) else {"": content}
        entries = [(_word(entry), str(kind).lower()) for kind in by_kind for entry in by_kind[kind]]
        words[slot] = tuple(word for word, _ in entries)
        if kind_of := {word["base"]: kind for word, kind in entries if kind}:
            kinds[slot] = kind_of
    families = []
    for entry in config["families"]:
        require_keys(entry, hints_of(Family), "key of a template family:", "template family: ")
        row = {"row": entry["name"]} if "name" in entry else {}
        families.append(built(Family, {"paraphrases": (), **row, **entry}, "template family: "))
    optional = {k: config[k] for k in ("hypothesis", "published", "sizes", "table") if k in config}
    if "groups" in config:
        optional["people"] = _people(config["groups"])
    optional["published_for"] = tuple(config.get("published_for", ()))
    return TemplateBank(config["task"], tuple(families), words, kinds, **optional)


def _word(entry: Any) -> dict[str, str]:
    """A word as its forms; the first form is the base where none is given."""
    forms = {"base": entry} if isinstance(entry, str) else entry
    first = next(iter(forms.values()))
    return {str(form): str(text) for form, text in {"base": first, **forms}.items()}


def _people(config: Mapping[str, Any]) -> dict[str, tuple[_Word, ...]]:
    """Group → people; nested lists are joined."""
    people: dict[str, tuple[_Word, ...]] = {}
    for group, content in config.items():
        require_keys(content, _GROUP, "key of a group:", f"template file: groups.{group}.")
        lists = [e if isinstance(e, list) else [e] for e in content.get("people", ())]
        forms = {k: v for k, v in content.get("forms", {}).items() if k == "reflexive"}
        words = []
        for word in (_word(entry) for entries in lists for entry in entries):
            cases = dict.fromkeys(("subject", "object"), word["base"])
            words.append(cases | {"possessive": f"{word['base']}'s"} | forms | word)
        people[group] = tuple(words)
    sizes = {group: len(words) for group, words in people.items()}
    if len(people) != 2:
        raise UserError(f"templates compare two groups, not {len(people)}: {sorted(people)}")
    if len(set(sizes.values())) > 1 or not all(sizes.values()):
        raise UserError(
            f"groups need the same number of people, at least one; they have {sizes}: "
            "the first of one group is paired with the first of the other"
        )
    return people
