"""Template files: from YAML to a `TemplateBank`.

Comes in: a file under `conf/template`, or a user's own in the same shape. Goes out: a bank.
Refused: an unknown key, an empty word list, a number of groups that is not two, groups of unequal
size, a file that is not there, is not YAML or is for another task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import conf_dir, config_of, read_config
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.typed import hints_of, require
from countergen_edit.data.axis import Axis
from countergen_edit.data.template_bank import Family, TemplateBank, Word

_KEYS = (
    "task",
    "table",
    "groups",
    "hypothesis",
    "words",
    "sizes",
    "published_for",
    "published",
    "families",
)
_FAMILY_KEYS = ("name", "row", "toxic", "published", "original", "paraphrases")


_Words = Sequence[str | Mapping[str, Any]]
_Person = str | Mapping[str, str] | Sequence[str]
_TYPES: Mapping[str, Any] = {
    "task": str,
    "table": str,
    "hypothesis": str | None,
    "published": Mapping[str, Mapping[str, float]],
    "families": Sequence[Mapping[str, Any]],
    "words": Mapping[str, _Words | Mapping[str, _Words]],
    "groups": Mapping[str, Any],
    "sizes": Mapping[str, int],
    "published_for": Sequence[str] | str | None,
}


def load_bank(task: str, template_file: str | None = None) -> TemplateBank:
    """A task's shipped templates and those of a user's own file; of a user's own task its file's.

    Args:
        task: the task's name.
        template_file: path of a YAML file.

    Raises:
        UserError: there are none, or the file is not there, is no YAML, or does not fit the task.
    """
    own = {} if template_file is None else _own(Path(template_file), task)
    if own and not (conf_dir() / "template" / f"{task}.yaml").is_file():
        return bank_from_config({"task": task, **own}, _axes(own))
    shipped = read_config("template", task)
    bank = bank_from_config(shipped, _axes(shipped))
    return extended(bank, own, _axes(own)) if own else bank


def _axes(content: Mapping[str, Any]) -> dict[str, Axis]:
    """The axis whose names a template file takes, where it names one: of ours, or a YAML file."""
    groups = content.get("groups")
    name = groups.get("axis") if isinstance(groups, Mapping) else None
    return {} if name is None else {name: Axis.from_config(config_of("axis", name))}


def _own(path: Path, task: str) -> dict[str, Any]:
    """What a user's template file holds."""
    content = yaml_mapping(path)
    if content.get("task", task) != task:
        raise UserError(f"{path} is for task {content['task']!r}, but task={task} is asked for")
    return content


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


def extended(
    bank: TemplateBank, config: Mapping[str, Any], axes: Mapping[str, Axis]
) -> TemplateBank:
    """The bank with a user's own families; words and groups of theirs stand in for its own.

    Words of theirs are whole lists, unless the file gives their sizes.

    Raises:
        UserError: as for `bank_from_config`.
    """
    parts = _parts(config, axes)
    families = (*bank.families, *parts.pop("families", ()))
    listed = [kind for slot in parts["words"] for kind in bank.kinds.get(slot, {}).values()]
    kept = {k: n for k, n in bank.sizes.items() if k not in {*parts["words"], *listed}}
    parts["sizes"] = kept | parts.get("sizes", {})
    for key in ("words", "kinds"):
        parts[key] = {**getattr(bank, key), **parts[key]}
    return replace(bank, families=families, **parts)


def _parts(config: Mapping[str, Any], axes: Mapping[str, Axis]) -> dict[str, Any]:
    for key in config:
        if key not in _KEYS:
            raise unknown("key of a template file:", key, _KEYS)
        require(_TYPES.get(key, Any), config[key], f"template file: {key}")
    words, kinds = {}, {}
    for slot, content in config.get("words", {}).items():
        words[slot], kinds[slot] = _word_list(slot, content)
    parts: dict[str, Any] = {
        "words": words,
        "kinds": {slot: by_word for slot, by_word in kinds.items() if by_word},
    }
    if "families" in config:
        parts["families"] = tuple(_family(entry) for entry in config["families"])
    if "groups" in config:
        parts["people"] = people = _people(config["groups"], axes)
        parts["groups"] = tuple(people)
    if "published_for" in config:
        ids = config["published_for"]
        parts["published_for"] = (ids,) if isinstance(ids, str) else tuple(map(str, ids or ()))
    scalars = ("hypothesis", "published", "sizes", "table")
    return parts | {key: config[key] for key in scalars if key in config}


def _family(entry: Mapping[str, Any]) -> Family:
    for key in entry:
        if key not in _FAMILY_KEYS:
            raise unknown("key of a template family:", key, _FAMILY_KEYS)
    for key, hint in hints_of(Family).items():
        if key in entry:
            require(hint, entry[key], f"template family: {key}")
    for key in ("name", "original"):
        if not isinstance(entry.get(key), str):
            raise UserError(f"a template family needs {key!r}; this one holds {sorted(entry)}")
    return Family(
        entry["name"],
        entry["original"],
        tuple(entry.get("paraphrases", ())),
        entry.get("row", entry["name"]),
        entry.get("toxic"),
        entry.get("published", {}),
    )


def _word(entry: Any) -> dict[str, str]:
    """A word as its forms; those given without a base take their first form for it."""
    if isinstance(entry, str):
        return {"base": entry}
    require(Mapping[str, Any], entry, "word of a template file")
    forms = {str(form): str(text) for form, text in entry.items() if form != "toxic"}
    if not forms:
        raise UserError(f"word of a template file {entry!r} has no form: write {{base: WORD}}")
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
        people = {
            group.name: tuple(_person(name, group.forms) for name in group.all_names())
            for group in axis.pair(config.get("compare"))
        }
    else:
        people = {}
        for group, content in config.items():
            require(Mapping[str, Any], content, f"template file: groups.{group}")
            require(Mapping[str, str], content.get("forms", {}), f"template file: {group}.forms")
            people_of = content.get("people")
            require(Sequence[_Person], people_of, f"template file: groups.{group}.people")
            flat = [
                person
                for entry in people_of or ()
                for person in (entry if isinstance(entry, list) else [entry])
            ]
            people[group] = tuple(_person(person, content.get("forms", {})) for person in flat)
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
    """A person in every grammatical form: what is not given follows from the base form."""
    word = _word(entry)
    regular = {"subject": word["base"], "object": word["base"], "possessive": f"{word['base']}'s"}
    reflexive = {form: text for form, text in forms.items() if form == "reflexive"}
    return regular | reflexive | word
