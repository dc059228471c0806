"""Consistent, grammar-aware substitution of one group of an axis for another.

Comes in: an axis and the `substitution` section of its config. Goes out: a `Substitution`, which
swaps two groups in a text (`swap`) or gives the text as one of them would have it (`map_to`).
Refused: a word that belongs to both groups, names that do not pair one to one.

The map is fixed: one name always becomes the same other name, so a person stays one person. Every
decision looks only at context that substitution leaves in its class; therefore

- `swap(swap(text)) == text` wherever the map is one to one, and
- `swap(swap(swap(text))) == swap(text)` always.

It is not one to one where several words share a partner (Ms, Mrs and Miss all become Mr), and where
English itself is ambiguous: "gave him books" and "gave his books" both become "gave her books".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.axis import Axis
from countergen_edit.data.text import grammar
from countergen_edit.data.text.grammar import Kind, Word
from countergen_edit.data.text.word_pairs import WordTable, name_pairs, word_pairs

_MARKS = "\u0300-\u036f"  # combining accents, which \w leaves out
_WORD = rf"[\w{_MARKS}]+"
_START, _END = rf"(?<![\w@#{_MARKS}])", rf"(?![\w{_MARKS}])"


@dataclass(frozen=True)
class Entry:
    """What is known of one spelling of a word."""

    side: int
    kind: Kind
    partner: str
    """The word for it on the other side; for a confused pronoun, its own spelling."""


@dataclass(frozen=True)
class Substitution:
    """Swaps two groups of an axis in a text.

    Raises:
        UserError: a word belongs to both groups, or the groups' names do not pair one to one.
    """

    axis: Axis
    groups: tuple[str, str]
    table: WordTable = field(default_factory=WordTable)
    own_names: Mapping[str, str] = field(default_factory=dict)
    """The user's own name map, before that of the axis."""

    def __post_init__(self) -> None:
        assert self._lexicon is not None  # built here, so that mistakes show at the door

    @classmethod
    def from_config(
        cls,
        axis: Axis,
        config: Mapping[str, Any] | None = None,
        groups: Sequence[str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> Substitution:
        """Build from the `substitution` section of `conf/axis/*.yaml`.

        Args:
            axis: Gives names and word forms; they pair without being listed again.
            config: The section; None where names and forms of the axis are all there is.
            groups: The two groups; the first two of the axis unless named.
            names: Name → name, which take precedence. A name the axis does not know counts as the
                first group's where it is a key and as the second's where it is a value, unless its
                partner says otherwise; only `map_to` cares.
        """
        a, b = axis.pair(groups)
        table = WordTable.from_config(axis, config or {})
        return cls(axis, (a.name, b.name), table, dict(names or {}))

    def between(self, groups: Sequence[str]) -> Substitution:
        """The same words and names for two groups, named in the order of comparison."""
        a, b = self.axis.pair(groups)
        return replace(self, groups=(a.name, b.name))

    def with_names(self, names: Mapping[str, str]) -> Substitution:
        """The same with a name map of the user's own, which takes precedence."""
        return replace(self, own_names=dict(names))

    def __call__(self, text: str) -> str:
        return self.swap(text)

    def swap(self, text: str) -> str:
        """The text with both groups swapped; unchanged where it shows neither.

        >>> from countergen_edit.data.axis import Group
        >>> f = Group("female", {"test": ("Jane",)}, {"subject": "she", "parent": "mother"})
        >>> m = Group("male", {"test": ("John",)}, {"subject": "he", "parent": "father"})
        >>> swap = Substitution(Axis("gender", {"female": f, "male": m}), ("female", "male"))
        >>> swap("Her mother told John that she saw him.")
        'His father told Jane that he saw her.'
        """
        return self._rewrite(text, sides=(0, 1))

    def perturb(self, text: str) -> str:
        """Swap, and refuse a text in which there is nothing to swap.

        Raises:
            UserError: the substitution changes nothing.
        """
        swapped = self.swap(text)
        if swapped == text:
            raise self._changes_nothing(text)
        return swapped

    def map_to(self, text: str, group: str) -> str:
        """The text as `group` would have it: CounterGen's f and m (section 3.1).

        Words of the other group are mapped; words already of `group` stay.
        """
        if group not in self.groups:
            raise unknown(f"group of axis {self.axis.name!r}", group, self.groups)
        return self._rewrite(text, sides=(1 - self.groups.index(group),))

    def pair(self, text: str) -> tuple[str, str]:
        """The text as each of the two groups would have it.

        Raises:
            UserError: the two do not differ.
        """
        a, b = (self.map_to(text, group) for group in self.groups)
        if a == b:
            raise self._changes_nothing(text)
        return a, b

    def words(self, text: str) -> list[Word]:
        """The words of a text, each with what it is and the side that it is on."""
        return [word for _, word in self._read(text)]

    def names_in(self, text: str) -> tuple[str, ...]:
        """The names of either group in the order of the text."""
        return tuple(word.text for _, word in self._read(text) if word.kind == "name")

    @cached_property
    def lexicon_words(self) -> frozenset[str]:
        """Every word of either group, in small letters."""
        return frozenset(part for word in self._lexicon for part in word.lower().split())

    def template(self, text: str) -> str:
        """The template without its people: names become `{name}`, the rest is the first group's."""
        text = self.map_to(text, self.groups[0])
        words = [(start, word) for start, word in self._read(text) if word.kind == "name"]
        for start, word in reversed(words):
            text = text[:start] + "{name}" + text[start + len(word.text) :]
        return text

    def _changes_nothing(self, text: str) -> UserError:
        a, b = self.groups
        return UserError(
            f"the {self.axis.name} perturbation changes nothing in {text!r}: it holds no name, "
            f"pronoun or word of {a!r} or {b!r}; reword it, or give its variations yourself"
        )

    def map_words(self, text: str, choose: Callable[[Sequence[Word]], Collection[int]]) -> str:
        """The text with some of its words swapped, such as those about one person.

        Args:
            text: Any text.
            choose: Of the words of the text, the indices of those to swap; others stay.
        """
        places = list(self._read(text))
        words = [word for _, word in places]
        return self._write(text, places, choose(words))

    def _rewrite(self, text: str, sides: tuple[int, ...]) -> str:
        places = list(self._read(text))
        return self._write(text, places, [i for i, (_, w) in enumerate(places) if w.side in sides])

    def _write(self, text: str, places: Sequence[tuple[int, Word]], some: Collection[int]) -> str:
        words = [word for _, word in places]
        new = [word.text for word in words]
        for i in some:
            new[i] = self._partner(words, i)
        for i in range(1, len(words)):
            article, gap = words[i - 1].text, words[i - 1].gap
            if (
                new[i] != words[i].text
                and article.lower() in ("a", "an")
                and gap.isspace()
                and grammar.vowel_sound(new[i]) != grammar.vowel_sound(words[i].text)
            ):
                new[i - 1] = grammar.other_article(article, words[i].text)
        head = text[: places[0][0]] if places else text
        return head + "".join(w + word.gap for w, word in zip(new, words, strict=True))

    def _partner(self, words: Sequence[Word], i: int) -> str:
        word = words[i]
        if grammar.in_proper_name(words, i):
            return word.text
        if word.text.lower() == "miss" and not grammar.miss_is_a_title(words, i):
            return word.text
        entry = self._lexicon[word.text]
        if word.kind != "pronoun":
            return entry.partner
        mine, theirs = self._paradigms[entry.side], self._paradigms[1 - entry.side]
        cases = [c for c in grammar.CONFUSED_CASES if mine[c] == word.text.lower()]
        owns = "determiner" in cases and grammar.before_own_noun(words, i)
        case = "determiner" if owns else next(c for c in cases if c != "determiner")
        return _recase(theirs[case], like=word.text)

    def _read(self, text: str) -> Iterator[tuple[int, Word]]:
        matches = list(self._words.finditer(text))
        starts = [*(match.start() for match in matches), len(text)]
        for match, next_start in zip(matches, starts[1:], strict=True):
            word, gap = match.group(), text[match.end() : next_start]
            entry = None if word.lower() in self._kept else self._lexicon.get(word)
            if entry is None:
                yield match.start(), Word(word, "plain", gap)
            else:
                yield match.start(), Word(word, entry.kind, gap, entry.side)

    @cached_property
    def _paradigms(self) -> tuple[Mapping[str, str], ...]:
        """The pronouns of both groups; none where they share them."""
        subjects = [self.axis.groups[group].forms.get("subject") for group in self.groups]
        if None in subjects or subjects[0] == subjects[1]:
            return ()
        for subject in subjects:
            if subject not in grammar.PRONOUNS:
                raise unknown("subject pronoun", subject, grammar.PRONOUNS)
        return tuple(grammar.PRONOUNS[str(subject)] for subject in subjects)

    @cached_property
    def _lexicon(self) -> Mapping[str, Entry]:
        """Spelling → what it is. The first pair that names a word decides its partner."""
        a, b = (self.axis.groups[group] for group in self.groups)
        pairs: list[tuple[Kind, tuple[str, str]]] = []
        if self._paradigms:
            she, he = self._paradigms
            pairs += [("other pronoun", (she[c], he[c])) for c in ("subject", "reflexive")]
            pairs += [("pronoun", (she[c], he[c])) for c in grammar.CONFUSED_CASES]
        pairs += [("name", pair) for pair in name_pairs(a, b, self.table, self.own_names)]
        pairs += [
            ("title" if {w.lower() for w in pair} <= grammar.TITLES else "noun", pair)
            for pair in word_pairs(a, b, self.table)
        ]
        lexicon: dict[str, Entry] = {}
        for kind, pair in pairs:
            for side in (0, 1):
                for word, partner in _spellings(pair[side], pair[1 - side]):
                    entry = lexicon.setdefault(word, Entry(side, kind, partner))
                    if entry.side != side:
                        raise UserError(
                            f"axis {self.axis.name!r}: {word!r} belongs to both {a.name!r} and "
                            f"{b.name!r}; a substitution cannot tell them apart by it"
                        )
        return lexicon

    @cached_property
    def _kept(self) -> frozenset[str]:
        """Phrases that stay, and what they would become, so that neither is ever made or lost."""
        if not self.table.keep:
            return frozenset()
        bare = replace(self, table=replace(self.table, keep=()))
        return frozenset(p.lower() for p in self.table.keep) | frozenset(
            bare.swap(phrase).lower() for phrase in self.table.keep
        )

    @cached_property
    def _words(self) -> re.Pattern[str]:
        phrases = [rf"(?i:{re.escape(p)})" for p in sorted(self._kept, key=len, reverse=True)]
        several = [word for word in self._lexicon if not re.fullmatch(r"\w+", word)]
        phrases += [re.escape(word) for word in sorted(several, key=len, reverse=True)]
        choices = "|".join([*phrases, _WORD])
        return re.compile(f"{_START}(?:{choices}){_END}")


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
