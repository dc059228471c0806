"""Languages: folders of data files, shipped in `languages/` or of the user.

The rules of a language are tables: what stands before, at and after a place. A rule has a field for
each place, and an answer: `before | word | after -> answer`. A field lists what may stand there (if
empty, anything): a word, or in capitals a class or shape; `a+b` is both, `!a` is not a. The first
rule that fits answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import shipped_yaml, yaml_mapping
from countergen_edit.core.typed import require_keys
from countergen_edit.data.axis import ENGLISH, DoesNotFitError

_SHIPPED = Path(__file__).with_name("languages")
Labels = frozenset[str]
Rule = tuple[list[list[tuple[Labels, Labels]]], str]
"""The alternatives of each field, as labels to have and labels to lack; and the answer."""
NO_WORD: Labels = frozenset({"", "END"})
"""The labels of the place before the first word or after the last."""
_Lists = Mapping[str, str]
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("rules", "classes", "coreference"), _Lists),
    "endings": Mapping[str, _Lists],
    **dict.fromkeys(("pronouns", "pronoun_forms"), Sequence[str]),
    "agreement_form": str,
    "agreeing": Mapping[str, Sequence[Sequence[str]]],
    "contractions": Sequence[tuple[str, str]],
}
_FIELDS = {"possessive": 4, "agreement": 2}
"""Fields of the rules of a table, where they are not three."""


def _option(text: str) -> tuple[Labels, Labels]:
    has = frozenset(part for part in text.split("+") if part[0] != "!")
    return has, frozenset(part[1:] for part in text.split("+") if part[0] == "!")


def _rule(line: str, table: str) -> Rule:
    places, arrow, answer = line.split("#")[0].partition("->")
    fields = places.split("|")
    count = _FIELDS.get(table, 3)
    if not arrow or len(fields) != count:
        raise UserError(f"rule {line.strip()!r} of {table}: write {count} fields | … -> answer")
    return [[*map(_option, field.split())] for field in fields], answer.strip()


def _classes(lists: _Lists) -> dict[str, Labels]:
    return {name: frozenset(words.split()) for name, words in lists.items()}


class Rules:
    """The `substitution.yaml` of a language; docs/languages.md explains its keys.

    A table that a language lacks answers nothing. `UserError` for a wrong key, type or rule.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        require_keys(content, _TYPES, "key of substitution.yaml:", "substitution.")
        self.words = _classes(content.get("classes", {}))
        """Classes of words."""
        self.coreference = _classes(content.get("coreference", {}))
        self.pronouns: Sequence[str] = content.get("pronouns", ())
        """The pronouns of each group by case, where a word serves two cases."""
        self.pronoun_forms: Sequence[str] = content.get("pronoun_forms", ())
        """Word forms of an axis that are not words in running text."""
        self.agreement_form: str = content.get("agreement_form", "")
        """The form of a group that stands in the first row of the first of `agreeing`."""
        self.agreeing: Mapping[str, Sequence[Sequence[str]]] = content.get("agreeing", {})
        """Words, or endings after a hyphen, by name: a column for each grammatical gender."""
        contractions: Sequence[tuple[str, str]] = content.get("contractions", ())
        self.expanded = _replacing({short: full for full, short in contractions})
        """The text with the words that contractions stand for."""
        self.contracted = _replacing(dict(contractions))
        """The text with contractions."""
        self._endings: Mapping[str, _Lists] = content.get("endings", {})
        self._tables: Mapping[str, Sequence[Rule]] = {
            name: [_rule(line, name) for line in table.splitlines()]
            for name, table in content.get("rules", {}).items()
        }
        self._closed = self.words.get("prepositions", NO_WORD) | self.words.get("closed", NO_WORD)
        both = "|".join(map(re.escape, sorted(self.words.get("both", {"-"}))))
        each = "|".join(map(re.escape, sorted(self.words.get("each", {"-"}))))
        self.joining = re.compile(rf"\.?(?:\s*[/&]\s*|,?[\s-](?:{both})[\s-](?:(?:{each})\s)?)")
        """The characters between two words of groups in a phrase that names both on purpose."""
        self.labels_of = cache(self._labels_of)

    def answer(self, table: str, *labels: Labels) -> str:
        """The answer of the first rule of a table that fits; empty where none does."""
        for fields, result in self._tables.get(table, ()):
            for options, place in zip(fields, labels, strict=True):
                if options and not any(a <= place and place.isdisjoint(no) for a, no in options):
                    break
            else:
                return result
        return ""

    @property
    def ordinary(self) -> Labels:
        """Words that are not names."""
        return frozenset().union(
            *(words for name, words in self.words.items() if name not in ("months", "surnames"))
        )

    def _labels_of(self, key: str) -> Labels:
        """The word itself, and in capitals its classes and what its ending shows."""
        classes = (name.upper() for name, words in self.words.items() if key in words)
        labels = frozenset({key, *classes})
        shapes: dict[str, object] = {}
        for shape, ending in self._endings.items():
            stems = {key.removesuffix(end) for end in ending["of"].split() if key.endswith(end)}
            if "after" in ending:
                stems &= self.words.get(ending["after"], frozenset())
            excluded = key.endswith(tuple(ending.get("not", "-").split()))
            shapes[shape] = stems and not excluded and ending.get("but") not in labels
        shapes |= {"NUMBER": key[:1].isdigit(), "CARDINAL": key.isdigit(), "END": not key}
        shapes |= {"CLOSED": key in self._closed, "SIDED": key.startswith("<")}
        return labelled(labels, **shapes)


def _replacing(pairs: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces phrases in a text, in small letters or capitalised."""
    if not pairs:
        return str
    new = dict(pairs) | {a[0].upper() + a[1:]: b[0].upper() + b[1:] for a, b in pairs.items()}
    longest = sorted(map(re.escape, new), key=len, reverse=True)
    phrases = re.compile(rf"(?<!\w)(?:{'|'.join(longest)})(?!\w)")
    return lambda text: phrases.sub(lambda match: new[match[0]], text)


def labelled(labels: Labels, **shapes: object) -> Labels:
    """Labels and the shapes that hold."""
    return labels | {shape for shape, holds in shapes.items() if holds}


@dataclass(frozen=True)
class Language:
    """The data of one language; a file is read when it is needed."""

    folder: Path

    def read(self, file: str, *keys: str) -> Any:
        """The content of a YAML file, or the part under some keys; `UserError` for a wrong key.

        `DoesNotFitError` where the language has no such file.
        """
        path = self.folder / f"{file}.yaml"
        if not path.is_file():
            raise DoesNotFitError(f"language {str(self.folder)!r} has no {path.name}")
        content: Any = _content(path)
        for key in keys:
            require_known(f"key of {path}:", key, content)
            content = content[key]
        return content

    @cached_property
    def rules(self) -> Rules:
        """Rules of substitution; none where the language has no file of them."""
        has_rules = (self.folder / "substitution.yaml").is_file()
        return Rules(self.read("substitution") if has_rules else {})


@cache
def language_of(name: str = ENGLISH) -> Language:
    """A shipped language by name, or a folder; `UserError` if there is neither."""
    folder = _SHIPPED / name
    if not folder.is_dir():
        folder = Path(name).expanduser()
    if not folder.is_dir():
        require_known("language or folder", name, [p.name for p in sorted(_SHIPPED.iterdir())])
    return Language(folder)


@cache
def _content(path: Path) -> dict[str, Any]:
    return dict(shipped_yaml(path)) if path.parent.parent == _SHIPPED else yaml_mapping(path)
