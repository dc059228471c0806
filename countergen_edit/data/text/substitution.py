"""Substitution of one group of an axis for another in a text, aware of grammar.

A name always becomes the same other name. Every decision depends only on context whose class
substitution keeps; therefore `swap(swap(text)) == text` wherever the map is one to one, and
`swap(swap(swap(text))) == swap(text)` always. It is not one to one where several words share a
partner (Ms, Mrs and Miss all become Mr), and where English is ambiguous: "gave him books" and "gave
his books" both become "gave her books".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.typed import require, require_keys
from countergen_edit.data.axis import SPLITS, Axis, Group
from countergen_edit.data.axis import Word as Spelling
from countergen_edit.data.text import grammar
from countergen_edit.data.text.grammar import Kind, Word

_MARKS = "\u0300-\u036f"  # combining accents, which \w leaves out
_WORD = rf"[\w{_MARKS}]+"
_START, _END = rf"(?<![\w@#{_MARKS}])", rf"(?![\w{_MARKS}])"

_PRONOUN_FORMS = frozenset(["subject", "object", "possessive", "reflexive"])
"""Word forms of an axis that follow the grammar of pronouns."""

_Rows = tuple[tuple[str | None, ...], ...]
_TYPES: Mapping[str, Any] = {
    "columns": Sequence[str] | None,
    "words": Sequence[Sequence[Spelling | None]] | None,
    "names": Sequence[Sequence[Spelling | None]] | None,
    "keep": Sequence[str] | None,
}


@dataclass(frozen=True)
class WordTable:
    """The word lists of an axis: a row is one meaning, a column is one group."""

    columns: tuple[str, ...] = ()
    words: _Rows = ()
    """A word per group; None where a group has none."""
    names: _Rows = ()
    """Names beyond those of the axis, for texts that are not made from templates."""
    keep: tuple[str, ...] = ()
    """Phrases that are never changed: man-made, mother tongue."""

    @classmethod
    def from_config(cls, axis: Axis, config: Mapping[str, Any]) -> WordTable:
        """Check a `substitution` section.

        `UserError` if a key or group is unknown, or the cells of a row do not match the columns.
        """
        label = f"axis {axis.name!r}: substitution"
        require(Mapping[str, Any], config, label)
        require_keys(config, _TYPES, "substitution key", f"{label}.")
        columns = tuple(config.get("columns") or axis.groups)
        for column in columns:
            require_known(f"substitution column of axis {axis.name!r}:", column, axis.groups)
        rows = {key: tuple(map(tuple, config.get(key) or ())) for key in ("words", "names")}
        for row in (*rows["words"], *rows["names"]):
            if len(row) != len(columns):
                raise UserError(
                    f"{label} row {[*row]} has {len(row)} cells for the columns {[*columns]}; "
                    "write ~ where a group has no word"
                )
            if len({cell[0].isupper() for cell in row if cell}) > 1:
                raise UserError(
                    f"{label} row {[*row]} mixes capitalised and small words; capitals are taken "
                    "over from the text, so write them alike"
                )
        return cls(columns, rows["words"], rows["names"], tuple(config.get("keep") or ()))

    def word_pairs(self, a: Group, b: Group) -> list[tuple[str, str]]:
        """Words of two groups with one meaning: the axis's forms, then the rows of the table."""
        forms = [
            (a.forms[slot], b.forms[slot])
            for slot in a.forms
            if slot not in _PRONOUN_FORMS and slot in b.forms
        ]
        pairs = [*forms, *self._cells(self.words, a, b)]
        return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]

    def name_pairs(self, a: Group, b: Group, own: Mapping[str, str]) -> list[tuple[str, str]]:
        """Names of two groups, one to one: the name map's, then the axis's by place in its lists.

        A name of the axis whose partner has another in the map is paired with the next free one.
        """
        candidates = [*_by_place(a, b), *self._cells(self.names, a, b)]
        of_a, of_b = [p[0] for p in candidates], [p[1] for p in candidates]
        pairs = [
            (right, left) if left in of_b or right in of_a else (left, right)
            for left, right in own.items()
        ]
        used = {name for pair in pairs for name in pair}
        pairs += [pair for pair in candidates if not used & set(pair)]
        broken = [pair for pair in candidates if used & set(pair)]
        free_a = [x for x, _ in broken if x not in used]
        free_b = [y for _, y in broken if y not in used]
        pairs += zip(free_a, free_b, strict=False)  # own names can leave one over
        for name, count in Counter(name for pair in pairs for name in pair).items():
            if count > 1:
                raise UserError(
                    f"name {name!r} would be swapped with two names; "
                    "give every name one partner, and every partner one name"
                )
        return pairs

    def _cells(self, rows: _Rows, a: Group, b: Group) -> Iterator[tuple[str, str]]:
        if a.name in self.columns and b.name in self.columns:
            i, j = self.columns.index(a.name), self.columns.index(b.name)
            for row in rows:
                left, right = row[i], row[j]
                if left is not None and right is not None:
                    yield left, right


def _by_place(a: Group, b: Group) -> Iterator[tuple[str, str]]:
    for split in SPLITS:
        names_a, names_b = a.names.get(split, ()), b.names.get(split, ())
        if len(names_a) != len(names_b):
            raise UserError(
                f"groups {a.name!r} and {b.name!r} have {len(names_a)} and {len(names_b)} names in "
                f"the {split!r} split: they cannot be paired one to one; give both the same number"
            )
        # Groups of crossed axes may share names: these stay.
        yield from ((x, y) for x, y in zip(names_a, names_b, strict=True) if x != y)


@dataclass(frozen=True)
class _Entry:
    """One spelling of a word."""

    side: int
    kind: Kind
    partner: str
    """The word of the other side; for a confused pronoun, its own spelling."""


@dataclass(frozen=True)
class Substitution:
    """Swaps two groups of an axis in a text.

    `UserError` if a word belongs to both groups, or the groups' names do not pair one to one.
    """

    axis: Axis
    groups: tuple[str, str]
    table: WordTable = field(default_factory=WordTable)
    own_names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self._lexicon is not None  # built here, so that mistakes show early

    @classmethod
    def from_config(
        cls,
        axis: Axis,
        config: Mapping[str, Any] | None = None,
        groups: Sequence[str] | None = None,
    ) -> Substitution:
        """Build from the `substitution` section of `conf/axis/*.yaml` for two groups.

        Without it the axis's names and forms alone are used; the first two groups by default.
        """
        a, b = axis.pair(groups)
        return cls(axis, (a.name, b.name), WordTable.from_config(axis, config or {}))

    def between(self, groups: Sequence[str]) -> Substitution:
        """The same words and names for two groups, in the order of comparison."""
        if tuple(groups) == self.groups:
            return self
        a, b = self.axis.pair(groups)
        return replace(self, groups=(a.name, b.name))

    def with_names(self, names: Mapping[str, str]) -> Substitution:
        """The same with a name map, which takes precedence over the names of the axis.

        Of names that the axis does not know, keys belong to the first group and values to the
        second, unless their partners decide.
        """
        return replace(self, own_names=dict(names))

    def swap(self, text: str) -> str:
        """The text with both groups swapped.

        >>> from countergen_edit.data.axis import Group
        >>> f = Group("female", {"test": ("Jane",)}, {"subject": "she", "parent": "mother"})
        >>> m = Group("male", {"test": ("John",)}, {"subject": "he", "parent": "father"})
        >>> swap = Substitution(Axis("gender", {"female": f, "male": m}), ("female", "male"))
        >>> swap("Her mother told John that she saw him.")
        'His father told Jane that he saw her.'
        """
        return self._rewrite(text, sides=(0, 1))

    __call__ = swap

    def map_to(self, text: str, group: str) -> str:
        """The text with the words of the other group mapped: CounterGen's f and m (section 3.1)."""
        require_known(f"group of axis {self.axis.name!r}", group, self.groups)
        return self._rewrite(text, sides=(1 - self.groups.index(group),))

    def pair(self, text: str) -> tuple[str, str]:
        """The text mapped to each of the two groups."""
        a, b = (self.map_to(text, group) for group in self.groups)
        if a == b:
            first, second = self.groups
            raise UserError(
                f"the {self.axis.name} perturbation changes nothing in {text!r}: it holds no name, "
                f"pronoun or word of {first!r} or {second!r}; reword it, or give its variations "
                "yourself"
            )
        return a, b

    def words(self, text: str) -> list[Word]:
        """The words of a text, each with its kind and side."""
        return self._read(text)[1]

    def names_in(self, text: str) -> tuple[str, ...]:
        """The names of either group in the order of the text."""
        return tuple(word.text for word in self.words(text) if word.kind == "name")

    @cached_property
    def lexicon_words(self) -> frozenset[str]:
        """Every word of either group, in small letters."""
        return frozenset(part for word in self._lexicon for part in word.lower().split())

    def template(self, text: str) -> str:
        """The text mapped to the first group, with `{name}` for every name."""
        head, words = self._read(self.map_to(text, self.groups[0]))
        return head + "".join(
            ("{name}" if word.kind == "name" else word.text) + word.gap for word in words
        )

    def map_words(self, text: str, choose: Callable[[Sequence[Word]], Collection[int]]) -> str:
        """The text with some of its words swapped; `choose` returns their indices."""
        head, words = self._read(text)
        new = [word.text for word in words]
        for i in choose(words):
            new[i] = self._partner(words, i)
        for i, (word, article) in enumerate(zip(words[1:], words, strict=False)):
            if (
                new[i + 1] != word.text
                and article.text.lower() in ("a", "an")
                and article.gap.isspace()
                and grammar.vowel_sound(new[i + 1]) != grammar.vowel_sound(word.text)
            ):
                new[i] = grammar.other_article(article.text, word.text)
        return head + "".join(w + word.gap for w, word in zip(new, words, strict=True))

    def _rewrite(self, text: str, sides: tuple[int, ...]) -> str:
        return self.map_words(
            text, lambda words: [i for i, word in enumerate(words) if word.side in sides]
        )

    def _partner(self, words: Sequence[Word], i: int) -> str:
        word = words[i]
        if grammar.in_proper_name(words, i):
            return word.text
        if word.text.lower() == "miss" and not grammar.is_before_name(words, i):
            return word.text
        entry = self._lexicon[word.text]
        if word.kind != "pronoun":
            return entry.partner
        mine, theirs = self._paradigms[entry.side], self._paradigms[1 - entry.side]
        cases = [c for c in grammar.CONFUSED_CASES if mine[c] == word.text.lower()]
        owns = "determiner" in cases and grammar.before_own_noun(words, i)
        case = "determiner" if owns else next(c for c in cases if c != "determiner")
        return _recase(theirs[case], like=word.text)

    def _read(self, text: str) -> tuple[str, list[Word]]:
        """What stands before the first word, and the words."""
        matches = list(self._words.finditer(text))
        starts = [*(match.start() for match in matches), len(text)]
        words = []
        for match, end in zip(matches, starts[1:], strict=True):
            word, gap = match.group(), text[match.end() : end]
            entry = None if word.lower() in self._kept else self._lexicon.get(word)
            words.append(
                Word(word, entry.kind, gap, entry.side) if entry else Word(word, "plain", gap)
            )
        return text[: starts[0]], words

    @cached_property
    def _paradigms(self) -> tuple[Mapping[str, str], ...]:
        """The pronouns of both groups; none where they share them."""
        subjects = [self.axis.groups[group].forms.get("subject") for group in self.groups]
        if None in subjects or subjects[0] == subjects[1]:
            return ()
        for subject in subjects:
            require_known("subject pronoun", subject, grammar.PRONOUNS)
        return tuple(grammar.PRONOUNS[str(subject)] for subject in subjects)

    @cached_property
    def _lexicon(self) -> Mapping[str, _Entry]:
        """Spelling → entry. The first pair with a word decides its partner."""
        a, b = (self.axis.groups[group] for group in self.groups)
        pairs: list[tuple[Kind, tuple[str, str]]] = []
        if self._paradigms:
            she, he = self._paradigms
            pairs += [("other pronoun", (she[c], he[c])) for c in ("subject", "reflexive")]
            pairs += [("pronoun", (she[c], he[c])) for c in grammar.CONFUSED_CASES]
        pairs += [("name", pair) for pair in self.table.name_pairs(a, b, self.own_names)]
        pairs += [
            ("title" if {w.lower() for w in pair} <= grammar.TITLES else "noun", pair)
            for pair in self.table.word_pairs(a, b)
        ]
        lexicon: dict[str, _Entry] = {}
        for kind, pair in pairs:
            for side in (0, 1):
                for word, partner in _spellings(pair[side], pair[1 - side]):
                    entry = lexicon.setdefault(word, _Entry(side, kind, partner))
                    if entry.side != side:
                        raise UserError(
                            f"axis {self.axis.name!r}: {word!r} belongs to both {a.name!r} and "
                            f"{b.name!r}; a substitution cannot tell them apart by it"
                        )
        return lexicon

    @cached_property
    def _kept(self) -> frozenset[str]:
        """The phrases to keep, and their swapped forms, so that neither is made or lost."""
        if not self.table.keep:
            return frozenset()
        bare = replace(self, table=replace(self.table, keep=()))
        return frozenset(
            phrase.lower() for kept in self.table.keep for phrase in (kept, bare.swap(kept))
        )

    @cached_property
    def _words(self) -> re.Pattern[str]:
        several = [word for word in self._lexicon if not re.fullmatch(r"\w+", word)]
        choices = [
            *(rf"(?i:{re.escape(p)})" for p in sorted(self._kept, key=len, reverse=True)),
            *map(re.escape, sorted(several, key=len, reverse=True)),
        ]
        return re.compile(f"{_START}(?:{'|'.join([*choices, _WORD])}){_END}")


def _spellings(word: str, partner: str) -> Iterator[tuple[str, str]]:
    """The spellings of a word with its partner's: as listed, capitalised, in capitals."""
    yield word, partner
    if word.islower():
        yield word[0].upper() + word[1:], partner[0].upper() + partner[1:]
    if len(word) > 1:
        yield word.upper(), partner.upper()


def _recase(word: str, like: str) -> str:
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if like[0].isupper() else word
