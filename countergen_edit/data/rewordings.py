"""A task's templates, each original with its rewordings, filled with words and people.

Comes in: a file under `conf/template`, or a user's own in the same shape. Goes out: a
`TemplateBank`, whose wordings are filled into texts. Refused: a rewording without a slot of its
original, a slot or form that no word list fills, fewer than two groups, groups of unequal size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from countergen_edit.data.axis import Axis
from countergen_edit.data.templates import render, require_same_slots, slot_names
from countergen_edit.errors import UserError, unknown

Word = Mapping[str, str]
"""Form → text; `base` is the form of a slot that names none."""

PERSON = "person"
_KEYS = ("task", "table", "groups", "hypothesis", "words", "published_for", "published", "families")
_FAMILY_KEYS = ("name", "row", "toxic", "published", "original", "rewordings")


@dataclass(frozen=True)
class Family:
    """One original template and its rewordings."""

    name: str
    original: str
    rewordings: tuple[str, ...]
    row: str
    """The row of the task's table in which the family stands; its name unless several share one."""
    toxic: bool | None = None
    """Whether its texts are toxic, where no word says so."""
    published: Mapping[str, Any] = field(default_factory=dict)

    @property
    def wordings(self) -> tuple[str, ...]:
        return (self.original, *self.rewordings)


@dataclass(frozen=True)
class Filled:
    """A wording with one choice of words, for one person of a group if it has that slot."""

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
    published_for: str = ""
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.families:
            raise UserError(f"the templates of task {self.task!r} hold no families")
        for family in self.families:
            require_same_slots(family.original, family.rewordings)
            for text in family.wordings:
                if not slot_names(text):
                    raise UserError(f"template {text!r} has no slot: all its texts would be equal")
                next(self.fill(text))

    def fill(
        self, wording: str, group: str | None = None, person: int = 0, *, role: str = PERSON
    ) -> Iterator[Filled]:
        """The wording with every combination of words, for one person of a group.

        Args:
            wording: the template.
            group: whose person; the first group's if it is not said.
            person: which of the group's people.
            role: the slot that the person takes.

        Raises:
            UserError: the wording has a slot or form that nothing fills.
        """
        own = sorted(slot_names(wording) - {role})
        for slot in own:
            if slot not in self.words:
                raise unknown(f"slot in template {wording!r}:", slot, [*self.words, PERSON])
        if role in slot_names(wording):
            if self.groups is None:
                raise UserError(f"template {wording!r} has a {{{role}}}, but there are no groups")
            about: dict[str, Word] = {role: self.people[group or self.groups[0]][person]}
        else:
            about = {}
        for chosen in product(*(self.words[slot] for slot in own)):
            words = dict(zip(own, chosen, strict=True))
            text, spans = render(wording, words | about)
            bases = {slot: word["base"] for slot, word in words.items()}
            toxic = [self.kinds[s][b] == "true" for s, b in bases.items() if self.is_labelled(s)]
            yield Filled(text, bases, spans, any(toxic) if toxic else None)

    def is_labelled(self, slot: str) -> bool:
        """Whether the words of a slot say if a text is toxic."""
        return set(self.kinds.get(slot, {}).values()) <= {"true", "false"} and slot in self.kinds

    def extended(self, config: Mapping[str, Any], axes: Mapping[str, Axis]) -> TemplateBank:
        """The bank with a user's own families; words and groups of theirs stand in for its own."""
        mine = _parts(config, axes)
        families = (*self.families, *mine.pop("families", ()))
        for key in ("words", "kinds"):
            mine[key] = {**getattr(self, key), **mine[key]}
        return replace(self, families=families, **mine)


def bank_from_config(config: Mapping[str, Any], axes: Mapping[str, Axis]) -> TemplateBank:
    """Build a bank from the mapping that `conf/template/*.yaml` holds.

    Args:
        config: the mapping.
        axes: axes by name, for `groups: {axis: race}`.

    Raises:
        UserError: something is unknown, missing or does not fit together.
    """
    for key in ("task", "families"):
        if key not in config:
            raise UserError(f"a template file needs {key!r}; this one holds {sorted(config)}")
    return TemplateBank(task=config["task"], **_parts(config, axes))


def _parts(config: Mapping[str, Any], axes: Mapping[str, Axis]) -> dict[str, Any]:
    for key in config:
        if key not in _KEYS:
            raise unknown("key of a template file:", key, _KEYS)
    words, kinds = {}, {}
    for slot, content in config.get("words", {}).items():
        words[slot], kinds[slot] = _word_list(slot, content)
    parts: dict[str, Any] = {
        "words": words,
        "kinds": {slot: found for slot, found in kinds.items() if found},
    }
    if "families" in config:
        parts["families"] = tuple(_family(entry) for entry in config["families"])
    if "groups" in config:
        parts["people"] = people = _people(config["groups"], axes)
        parts["groups"] = tuple(people)
    scalars = ("hypothesis", "published_for", "published", "table")
    return parts | {key: config[key] for key in scalars if key in config}


def _family(entry: Mapping[str, Any]) -> Family:
    for key in entry:
        if key not in _FAMILY_KEYS:
            raise unknown("key of a template family:", key, _FAMILY_KEYS)
    for key in ("name", "original"):
        if not isinstance(entry.get(key), str):
            raise UserError(f"a template family needs {key!r}; this one holds {sorted(entry)}")
    return Family(
        entry["name"],
        entry["original"],
        tuple(entry.get("rewordings", ())),
        entry.get("row", entry["name"]),
        entry.get("toxic"),
        entry.get("published", {}),
    )


def _word(entry: Any) -> dict[str, str]:
    """A word as its forms; those given without a base take their first form for it."""
    if isinstance(entry, str):
        return {"base": entry}
    forms = {str(form): str(text) for form, text in entry.items() if form != "toxic"}
    return {"base": next(iter(forms.values()))} | forms


def _word_list(slot: str, content: Any) -> tuple[tuple[Word, ...], dict[str, str]]:
    """The words of a slot, and of what kind each is where the file says so."""
    if not content:
        raise UserError(f"the word list of slot {slot!r} is empty")
    if isinstance(content, Mapping):  # words by kind
        entries = [(entry, kind) for kind, group in content.items() for entry in group]
    else:
        entries = [
            (entry, str(entry["toxic"]).lower())
            if isinstance(entry, Mapping) and "toxic" in entry
            else (entry, "")
            for entry in content
        ]
    words = tuple(_word(entry) for entry, _ in entries)
    kinds = {word["base"]: kind for word, (_, kind) in zip(words, entries, strict=True) if kind}
    return words, kinds


def _people(config: Mapping[str, Any], axes: Mapping[str, Axis]) -> dict[str, tuple[Word, ...]]:
    """Group → people, from an axis by name or from lists in the file."""
    if "axis" in config:
        if config["axis"] not in axes:
            raise unknown("axis", config["axis"], axes)
        axis = axes[config["axis"]]
        found = {
            group.name: tuple(_person(name, group.forms) for name in group.all_names())
            for group in axis.pair(config.get("compare"))
        }
    else:
        found = {}
        for group, content in config.items():
            flat = [
                person
                for entry in content["people"]
                for person in (entry if isinstance(entry, list) else [entry])
            ]
            found[group] = tuple(_person(person, content.get("forms", {})) for person in flat)
    sizes = {group: len(people) for group, people in found.items()}
    if len(found) != 2:
        raise UserError(
            f"templates compare two groups, but there are {len(found)}: {sorted(found)}"
        )
    if len(set(sizes.values())) > 1 or not all(sizes.values()):
        raise UserError(
            f"groups need the same number of people, at least one; they have {sizes}: "
            "the first of one group is paired with the first of the other"
        )
    return found


def _person(entry: Any, forms: Mapping[str, str]) -> Word:
    """A person in every grammatical form: what is not given follows from the base form."""
    word = _word(entry)
    regular = {"subject": word["base"], "object": word["base"], "possessive": f"{word['base']}'s"}
    reflexive = {form: text for form, text in forms.items() if form == "reflexive"}
    return regular | reflexive | word
