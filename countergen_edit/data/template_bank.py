"""Templates of classifier tasks: originals with paraphrases, filled with words and people.

A bank is read from a file under `conf/template`, or a user's file in the same form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import conf_dir, config_of, read_config
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.typed import hints_of, require
from countergen_edit.core.writing import digest
from countergen_edit.data.axis import Axis
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
    """The family's row in the task's table; its name unless several families share one."""
    toxic: bool | None = None
    """Whether its texts are toxic, where no word decides that."""
    published: Mapping[str, Any] = field(default_factory=dict)
    """The paper's figures."""

    @property
    def templates(self) -> tuple[str, ...]:
        return (self.original, *self.paraphrases)


@dataclass(frozen=True)
class Filled:
    """A template filled with one choice of words."""

    text: str
    words: Mapping[str, str]
    """Slot → the base form of its word."""
    spans: Mapping[str, tuple[int, int]]
    """Slot → the characters of its first word."""
    toxic: bool | None = None

    def beside(self, slot: str) -> tuple[tuple[str, str], ...]:
        """The words of all other slots: texts that agree in them differ in `slot` alone."""
        return tuple(sorted((s, word) for s, word in self.words.items() if s != slot))


@dataclass(frozen=True)
class TemplateBank:
    """All templates of a task with their words and people."""

    task: str
    families: tuple[Family, ...]
    words: Mapping[str, tuple[Word, ...]]
    kinds: Mapping[str, Mapping[str, str]]
    """Slot → base form → kind of the word: `true`, `false` (toxic), `positive`, …"""
    table: str = ""
    """The paper's name of the table of this task."""
    groups: tuple[str, str] | None = None
    people: Mapping[str, tuple[Word, ...]] = field(default_factory=dict)
    """Group → people, the i-th of one group paired with the i-th of the other."""
    hypothesis: str | None = None
    """In inference, the slot that a person takes in the hypothesis."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Slot or kind → number of words of the whole or published list, where `words` has fewer."""
    published_for: tuple[str, ...] = ()
    """Ids of the models that the paper's figures are about."""
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Measure → the paper's figure of the original, and mean and SD of the paraphrases."""

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
            group: the person's group; the first by default.
            person: index of the person in the group.
            role: the slot that the person takes.
        """
        own = sorted(slot_names(template) - {role})
        for slot in own:
            if slot not in self.words:
                raise unknown(f"slot in template {template!r}:", slot, [*self.words, PERSON])
        people: dict[str, Word] = {}
        if role in slot_names(template):
            if self.groups is None:
                raise UserError(f"template {template!r} has a {{{role}}}, but there are no groups")
            people[role] = self.people[group or self.groups[0]][person]
        for choice in product(*(self.words[slot] for slot in own)):
            words = dict(zip(own, choice, strict=True))
            text, spans = render(template, words | people)
            bases = {slot: word["base"] for slot, word in words.items()}
            toxic = [self.kinds[s][b] == "true" for s, b in bases.items() if self.is_labelled(s)]
            yield Filled(text, bases, spans, any(toxic) if toxic else None)

    def is_labelled(self, slot: str) -> bool:
        """Whether the words of a slot decide if a text is toxic."""
        return set(self.kinds.get(slot, {}).values()) <= {"true", "false"} and slot in self.kinds

    @property
    def pair(self) -> tuple[str, str]:
        """The two groups that are compared."""
        if self.groups is None:
            raise UserError(f"task {self.task!r} compares two groups, but its templates have none")
        return self.groups

    def for_model(self, model: str) -> TemplateBank:
        """The bank with the paper's figures only if they are about this model."""
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
        """The bank with the first words of each kind of some slots; `sizes` keep the whole numbers.

        Args:
            most: slot → number of words of each kind; None takes all.

        Raises:
            UserError: there is no such slot, or the number is below one.
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
        """The number of texts of a template for one person, with whole lists of words."""
        slots = slot_names(template) & self.words.keys()
        return math.prod(self.sizes.get(slot, len(self.words[slot])) for slot in slots)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all templates and words."""
        return digest(asdict(self))


_Words = Sequence[str | Mapping[str, Any]]
_Person = str | Mapping[str, str] | Sequence[str]
_TYPES: Mapping[str, Any] = {
    "task": str,
    "table": str,
    "groups": Mapping[str, Any],
    "hypothesis": str | None,
    "words": Mapping[str, _Words | Mapping[str, _Words]],
    "sizes": Mapping[str, int],
    "published_for": Sequence[str] | str | None,
    "published": Mapping[str, Mapping[str, float]],
    "families": Sequence[Mapping[str, Any]],
}
"""Keys of a template file, with their types."""


def load_bank(task: str, template_file: str | None = None) -> TemplateBank:
    """The shipped templates of a task, with those of a user's file added.

    A task that is not shipped has the templates of the file alone.

    Raises:
        UserError: there are none, or the file is absent, no YAML, or for another task.
    """
    own = {} if template_file is None else yaml_mapping(Path(template_file))
    if own.get("task", task) != task:
        raise UserError(
            f"{template_file} is for task {own['task']!r}, but task={task} is asked for"
        )
    if own and not (conf_dir() / "template" / f"{task}.yaml").is_file():
        return bank_from_config({"task": task, **own})
    bank = bank_from_config(read_config("template", task))
    return extended(bank, own) if own else bank


def bank_from_config(config: Mapping[str, Any]) -> TemplateBank:
    """Build a bank from the mapping that `conf/template/*.yaml` holds.

    Raises:
        UserError: something is unknown, missing or does not fit together.
    """
    for key in ("task", "families"):
        if key not in config:
            raise UserError(f"a template file needs {key!r}; this one holds {sorted(config)}")
    return TemplateBank(task=config["task"], **_parts(config))


def extended(bank: TemplateBank, config: Mapping[str, Any]) -> TemplateBank:
    """The bank with a user's families added and its words and groups replaced by the user's."""
    parts = _parts(config)
    families = (*bank.families, *parts.pop("families", ()))
    # The user's words are whole lists, unless the file gives their sizes.
    listed = [kind for slot in parts["words"] for kind in bank.kinds.get(slot, {}).values()]
    kept = {k: n for k, n in bank.sizes.items() if k not in {*parts["words"], *listed}}
    parts["sizes"] = kept | parts.get("sizes", {})
    for key in ("words", "kinds"):
        parts[key] = {**getattr(bank, key), **parts[key]}
    return replace(bank, families=families, **parts)


def _parts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a bank that a config gives, without `task`."""
    for key in config:
        if key not in _TYPES:
            raise unknown("key of a template file:", key, _TYPES)
        require(_TYPES[key], config[key], f"template file: {key}")
    lists = {slot: _word_list(slot, content) for slot, content in config.get("words", {}).items()}
    parts: dict[str, Any] = {
        "words": {slot: words for slot, (words, _) in lists.items()},
        "kinds": {slot: kinds for slot, (_, kinds) in lists.items() if kinds},
    }
    if "families" in config:
        parts["families"] = tuple(_family(entry) for entry in config["families"])
    if "groups" in config:
        parts["people"] = people = _people(config["groups"])
        parts["groups"] = tuple(people)
    if "published_for" in config:
        ids = config["published_for"]
        parts["published_for"] = (ids,) if isinstance(ids, str) else tuple(map(str, ids or ()))
    scalars = ("hypothesis", "published", "sizes", "table")
    return parts | {key: config[key] for key in scalars if key in config}


def _family(entry: Mapping[str, Any]) -> Family:
    hints = hints_of(Family)
    for key in entry:
        if key not in hints:
            raise unknown("key of a template family:", key, hints)
        require(hints[key], entry[key], f"template family: {key}")
    for key in ("name", "original"):
        if not isinstance(entry.get(key), str):
            raise UserError(f"a template family needs {key!r}; this one holds {sorted(entry)}")
    paraphrases = tuple(entry.get("paraphrases", ()))
    return Family(**{"row": entry["name"], **entry, "paraphrases": paraphrases})


def _word(entry: Any) -> dict[str, str]:
    """A word as its forms; the first form is the base where none is given."""
    if isinstance(entry, str):
        return {"base": entry}
    require(Mapping[str, Any], entry, "word of a template file")
    forms = {str(form): str(text) for form, text in entry.items() if form != "toxic"}
    if not forms:
        raise UserError(f"word of a template file {entry!r} has no form: write {{base: WORD}}")
    return {"base": next(iter(forms.values()))} | forms


def _word_list(slot: str, content: Any) -> tuple[tuple[Word, ...], dict[str, str]]:
    """The words of a slot, and base form → kind where the file gives kinds."""
    if not content:
        raise UserError(f"the word list of slot {slot!r} is empty")
    if isinstance(content, Mapping):  # words by kind
        entries = [(entry, kind) for kind, group in content.items() for entry in group]
    else:
        entries = [
            (e, str(e["toxic"]).lower() if isinstance(e, Mapping) and "toxic" in e else "")
            for e in content
        ]
    words = tuple(_word(entry) for entry, _ in entries)
    kinds = {word["base"]: kind for word, (_, kind) in zip(words, entries, strict=True) if kind}
    return words, kinds


def _people(config: Mapping[str, Any]) -> dict[str, tuple[Word, ...]]:
    """Group → people, from an axis or from lists in the file."""
    people = {}
    if "axis" in config:
        axis = Axis.from_config(config_of("axis", config["axis"]))
        for group in axis.pair(config.get("compare")):
            people[group.name] = tuple(_person(n, group.forms) for n in group.all_names())
    else:
        for group_name, content in config.items():
            where = f"template file: groups.{group_name}"
            require(Mapping[str, Any], content, where)
            require(Mapping[str, str], content.get("forms", {}), f"{where}.forms")
            require(Sequence[_Person], content.get("people"), f"{where}.people")
            entries = [e if isinstance(e, list) else [e] for e in content.get("people") or ()]
            people[group_name] = tuple(
                _person(person, content.get("forms", {})) for entry in entries for person in entry
            )
    sizes = {group: len(words) for group, words in people.items()}
    if len(people) != 2:
        raise UserError(
            f"templates compare two groups, but there are {len(people)}: {sorted(people)}"
        )
    if len(set(sizes.values())) > 1 or not all(sizes.values()):
        raise UserError(
            f"groups need the same number of people, at least one; they have {sizes}: "
            "the first of one group is paired with the first of the other"
        )
    return people


def _person(entry: Any, forms: Mapping[str, str]) -> Word:
    """A person in every grammatical form; missing forms follow from the base form."""
    word = _word(entry)
    regular = {"subject": word["base"], "object": word["base"], "possessive": f"{word['base']}'s"}
    reflexive = {form: text for form, text in forms.items() if form == "reflexive"}
    return regular | reflexive | word
