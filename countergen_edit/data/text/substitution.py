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
from itertools import pairwise
from typing import Any

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.typed import built, hints_of, require, require_keys
from countergen_edit.data.axis import SPLITS, Axis, Group
from countergen_edit.data.axis import NonEmpty as Spelling
from countergen_edit.data.language import Rules, language_of
from countergen_edit.data.text import grammar
from countergen_edit.data.text.grammar import Word, WordKind, reading
from countergen_edit.data.text.marking import Meanings, columns_of, settled, with_agreeing

_MARKS = "\u0300-\u036f"  # combining accents, which \w leaves out
_WORD = rf"[\w{_MARKS}]+"
_START, _END = rf"(?<![\w@#{_MARKS}])", rf"(?![\w{_MARKS}])"

_Rows = tuple[tuple[Spelling | None, ...], ...]


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
    unsure: tuple[str, ...] = ()
    """Words without a sure partner, and names that are words: never changed, but reported."""
    generic: tuple[str, ...] = ()
    """Words of one group that are said of the other too: an actor, of a woman."""
    neutral: tuple[str, ...] = ()
    """Words of the lists that show no group: a seamstress becomes a tailor, a tailor stays."""

    @classmethod
    def from_config(cls, axis: Axis, config: Mapping[str, Any]) -> WordTable:
        """Check a `substitution` section; `UserError` for a wrong key, group or row."""
        label = f"axis {axis.name!r}: substitution"
        require(Mapping[str, Any], config, label)
        content = {key: value for key, value in config.items() if value is not None}
        require_keys(content, hints_of(cls), "substitution key", f"{label}.")
        table = built(cls, {"columns": [*axis.groups], **content}, label)
        for column in table.columns:
            require_known(f"substitution column of axis {axis.name!r}:", column, axis.groups)
        for row in (*table.words, *table.names):
            if len(row) != len(table.columns):
                raise UserError(
                    f"{label} row {[*row]} has {len(row)} cells for the columns "
                    f"{[*table.columns]}; write ~ where a group has no word"
                )
            if len({cell[0].isupper() for cell in row if cell}) > 1:
                raise UserError(
                    f"{label} row {[*row]} mixes capitalised and small words; capitals are taken "
                    "over from the text, so write them alike"
                )
        return table

    def word_pairs(self, a: Group, b: Group, rules: Rules) -> list[tuple[str, str]]:
        """Words of two groups with one meaning: the axis's forms, then the rows of the table."""
        forms = [(a.forms[s], b.forms[s]) for s in a.forms if s not in rules.pronoun_forms]
        pairs = [*forms, *self._cells(self.words, a, b)]
        return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]

    def name_pairs(self, a: Group, b: Group, name_map: Mapping[str, str]) -> list[tuple[str, str]]:
        """Names of two groups, one to one: the name map's, then the axis's by place in its lists.

        Names whose partners have others in the map are paired with each other.
        """
        candidates = [*_by_place(a, b), *self._cells(self.names, a, b)]
        of_a, of_b = [p[0] for p in candidates], [p[1] for p in candidates]
        pairs = [
            (right, left) if left in of_b or right in of_a else (left, right)
            for left, right in name_map.items()
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
        for row in rows:
            cells = dict(zip(self.columns, row, strict=True))
            left, right = cells.get(a.name), cells.get(b.name)
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
class Substitution:
    """Swaps two groups of an axis in a text; `UserError` if a word or name belongs to both."""

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
        """Build from the `substitution` section of an axis; by default for its first groups."""
        a, b = axis.pair(groups)
        return cls(axis, (a.name, b.name), WordTable.from_config(axis, config or {}))

    def between(self, groups: Sequence[str]) -> Substitution:
        """The same words and names for two groups, in the order of comparison."""
        if tuple(groups) == self.groups:  # keeps its lexicon
            return self
        a, b = self.axis.pair(groups)
        return replace(self, groups=(a.name, b.name))

    def with_names(self, names: Mapping[str, str]) -> Substitution:
        """The same with a name map from the first to the second group, which takes precedence."""
        return replace(self, own_names=dict(names))

    @property
    def rules(self) -> Rules:
        return language_of(self.axis.language).rules

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

    def map_to(self, text: str, group: str, output: str = "") -> str:
        """The text with the words of the other group mapped: CounterGen's f and m (section 3.1)."""
        require_known(f"group of axis {self.axis.name!r}", group, self.groups)
        return self._rewrite(text, (1 - self.groups.index(group),), output)

    def pair(self, text: str, output: str = "") -> tuple[str, str]:
        """The text mapped to each of the two groups, as `output` continues it.

        `UserError` if it shows neither, or neither text nor output decides how a word is mapped.
        """
        self.require_decided(text, output)
        a, b = (self.map_to(text, group, output) for group in self.groups)
        if a == b:
            first, second = self.groups
            raise UserError(
                f"the {self.axis.name} perturbation changes nothing in {text!r}: it holds no name, "
                f"pronoun or word of {first!r} or {second!r} alone; reword it, or give its "
                "variations yourself"
            )
        return a, b

    def require_decided(self, text: str, output: str = "") -> None:
        """Refuse a text whose last pronoun may become two words, or whose verb would not agree."""
        words = self.words(text, output)
        length = len(self._read(text)[1])
        reason = f"the output {output!r} does not decide" if output else "no output decides"
        for i, word in enumerate(words[:length]):
            partners = self.partners(words, i)
            is_read = len(partners) > 1 and word.kind == "pronoun"
            if is_read and reading(words, i).last >= length:
                raise UserError(
                    f"{word.text!r} in {text!r} may become {partners[0]!r} or {partners[1]!r}, and "
                    f"{reason}: give its variations yourself"
                )
            before, after = grammar.before(words, i), grammar.at(words, i + 1)
            agrees = self.rules.answer("agreement", before, after)
            forms = {word.text.lower(), partners[0].lower()}
            if agrees == "no" and "they" in forms and len(forms) > 1:
                raise UserError(
                    f"the verb of {word.text!r} in {text!r} would not agree with {partners[0]!r}: "
                    "give its variations yourself"
                )

    def words(self, text: str, output: str = "") -> list[Word]:
        """The words of a text and of its continuation, each with its kind and side."""
        return self._settled(self._read(text)[1], output)

    def names_in(self, text: str) -> tuple[str, ...]:
        """The names of either group in the order of the text."""
        return tuple(word.text for word in self.words(text) if word.kind == "name")

    @cached_property
    def lexicon_words(self) -> frozenset[str]:
        """Every word of either group, in small letters."""
        sided = (text for text, word in self._lexicon.items() if word.side is not None)
        return frozenset(" ".join(sided).lower().split())

    def template(self, text: str) -> str:
        """The text mapped to the first group, with `{name}` for every name."""
        text = self.map_to(text, self.groups[0])
        named = (("{name}" if w.kind == "name" else w.text) + w.gap for w in self.words(text))
        return self.rules.contracted(self._read(text)[0] + "".join(named))

    def map_words(
        self, text: str, choose: Callable[[Sequence[Word]], Collection[int]], output: str = ""
    ) -> str:
        """The text with some of its words swapped; `choose` returns their indices."""
        head, old = self._read(text)
        words = self._settled(old, output)
        new, gaps = [word.text for word in old], [word.gap for word in old]
        for i in choose(words):
            if i < len(old):
                new[i] = self.partners(words, i)[0]
                gaps[i] = grammar.genitive(old, i, new[i])
        for i, (article, word) in enumerate(pairwise(old)):
            if (
                new[i + 1] != word.text
                and article.text.lower() in self.rules.words.get("before_vowels", ())
                and article.gap.isspace()
                and grammar.vowel_sound(new[i + 1]) != grammar.vowel_sound(word.text)
            ):
                new[i] = grammar.other_article(article.text, word.text)
        mapped = head + "".join(word + gap for word, gap in zip(new, gaps, strict=True))
        return self.rules.contracted(mapped)

    def _rewrite(self, text: str, sides: tuple[int, ...], output: str = "") -> str:
        return self.map_words(
            text, lambda words: [i for i, word in enumerate(words) if word.side in sides], output
        )

    def partners(self, words: Sequence[Word], i: int) -> tuple[str, ...]:
        """The forms that replace word `i`, the likeliest first where it is read in two ways."""
        word = words[i]
        if word.side is None or word.stays is not None:
            return (word.text,)
        if word.kind == "agreeing":
            return tuple(_recase(partner, like=word.text) for partner in word.partners)
        if word.kind != "pronoun":
            return word.partners
        read = reading(words, i)
        cases = [*word.meaning]
        sure = read.sure or (cases[0] == "determiner" and not read.alone)
        if cases == ["independent"] and not (read.alone or read.owns):
            return word.text, *word.partners  # before a noun phrase, it would not come back
        if read.alone if cases[0] == "determiner" else read.owns:
            cases.reverse()
        theirs = self._paradigms[1 - word.side]
        partners = dict.fromkeys(_recase(theirs[case], like=word.text) for case in cases)
        return tuple(partners)[: 1 if sure else 2]

    def is_of_several(self, word: Word) -> bool:
        """Whether the word is also the pronoun of several people: they, their."""
        they = [paradigm["subject"] == "they" for paradigm in self._paradigms]
        return word.side is not None and "pronoun" in word.kind and they[word.side]

    def _read(self, text: str) -> tuple[str, list[Word]]:
        """The characters before the first word, and the words."""
        head, *parts = self._words.split(self.rules.expanded(text))
        words = []
        for token, gap in zip(parts[::2], parts[1::2], strict=True):
            word = None if token.lower() in self._kept else self._lexicon.get(token)
            word = replace(word, gap=gap) if word else Word(token, "plain", gap, rules=self.rules)
            words.append(word)
        return head, words

    def _settled(self, words: Sequence[Word], output: str = "") -> list[Word]:
        """The words of a text and its continuation, without those that stay as they are."""
        if output and words:
            head, more = self._read(output)
            words = [*words[:-1], replace(words[-1], gap=words[-1].gap + head), *more]
        names = {*self.own_names, *self.own_names.values()}
        return with_agreeing(settled(words, names, *self._one_sided), self._columns)

    @cached_property
    def _columns(self) -> tuple[int, ...]:
        """The grammatical gender of each group; empty where the language or axis has none."""
        return columns_of(self.rules, [self.axis.groups[group].forms for group in self.groups])

    @cached_property
    def _paradigms(self) -> tuple[Mapping[str, str], ...]:
        """The pronouns of both groups; none where they share them."""
        groups = [self.axis.groups[group] for group in self.groups]
        subjects = [group.forms.get("subject") for group in groups]
        if None in subjects or subjects[0] == subjects[1] or not self.rules.pronouns:
            return ()
        return tuple(grammar.paradigm(group.forms, self.axis.name, self.rules) for group in groups)

    @cached_property
    def _lexicon(self) -> Mapping[str, Word]:
        """Spelling → word; the first pair with a word decides its partner."""
        a, b = (self.axis.groups[group] for group in self.groups)
        pairs: list[tuple[WordKind, tuple[str, str]]] = []
        titles = self.rules.words.get("titles", frozenset())
        for she, he in [self._paradigms] if self._paradigms else []:
            pairs += [("other pronoun", (she[c], he[c])) for c in ("subject", "reflexive")]
            pairs += [("pronoun", (she[c], he[c])) for c in grammar.CASES[1:4]]
        pairs += [("name", pair) for pair in self.table.name_pairs(a, b, self.own_names)]
        pairs += [
            ("title" if {w.lower() for w in pair} <= titles else "noun", pair)
            for pair in self.table.word_pairs(a, b, self.rules)
        ]
        lexicon: dict[str, Word] = {}
        for kind, pair in pairs:
            meanings = [lexicon[word].meaning for word in pair if word in lexicon]
            meaning = meanings[0] if meanings else (pair[0].lower(),)
            for i in (0, 1):
                side = None if pair[i].lower() in self.table.neutral else i
                if "pronoun" in kind:
                    forms = self._paradigms[i]
                    meaning = tuple(case for case in forms if forms[case] == pair[i])
                for text, partner in _spellings(pair[i], pair[1 - i]):
                    new = Word(text, kind, "", side, meaning, None, (partner,), self.rules)
                    if lexicon.setdefault(text, new).side != side:
                        raise UserError(
                            f"axis {self.axis.name!r}: {text!r} belongs to both {a.name!r} and "
                            f"{b.name!r}; a substitution cannot tell them apart by it"
                        )
        for word in self.table.unsure:
            for text, _ in _spellings(word, word):
                lexicon.setdefault(text, Word(text, "plain", "", stays=text, rules=self.rules))
        return lexicon

    @cached_property
    def _one_sided(self) -> tuple[Meanings, Meanings]:
        """The meanings of generic words, and of words with a neutral partner."""
        words = self._lexicon.values()
        generic = frozenset(word.meaning for word in words if word.text in self.table.generic)
        neutral = {*self.table.neutral}
        return generic, frozenset(word.meaning for word in words if neutral & {*word.partners})

    @cached_property
    def _kept(self) -> frozenset[str]:
        """The phrases to keep, and their swapped forms, so that neither is made or lost."""
        if not self.table.keep:
            return frozenset()
        bare = replace(self, table=replace(self.table, keep=()))
        return frozenset(form.lower() for p in self.table.keep for form in (p, bare.swap(p)))

    @cached_property
    def _words(self) -> re.Pattern[str]:
        several = [word for word in self._lexicon if not re.fullmatch(r"\w+", word)]
        choices = [
            *(rf"(?i:{re.escape(p)})" for p in sorted(self._kept, key=len, reverse=True)),
            *map(re.escape, sorted(several, key=len, reverse=True)),
        ]
        return re.compile(f"{_START}({'|'.join([*choices, _WORD])}){_END}")


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
