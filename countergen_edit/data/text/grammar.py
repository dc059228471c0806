"""English grammar for substitution: the cases of pronouns, words in their places, and a/an."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from countergen_edit.core.errors import UserError
from countergen_edit.data.language import NO_WORD, Labels, Rules, labelled

WordKind = Literal["plain", "name", "title", "noun", "pronoun", "other pronoun", "agreeing"]
"""`pronoun` is a case that English confuses (her, his, him, hers); `other pronoun` is not."""

CASES = ("subject", "object", "determiner", "independent", "reflexive")
_NO_RULES = Rules({})

_INSIDE_PHRASE = re.compile(
    r"(?:[\"”’'\])*_`]|</\w+>)*(?:[^\S\n]+|[^\S\n]*\n[^\S\n]*(?:#|//|\*|--|>)?[^\S\n]*)"
    r"(?:[\"“'‘\[*_`$€£]|<\w+>)*"
)
_VOWEL_LETTER_CONSONANT_SOUND = re.compile(r"eu|ewe|once|one\b|uni(?!n|m)|us[aeiu]|ut[eio]")
_PAUSE = re.compile(r"\s*(?:\.\.\.|…|-+|[–—])\s*")
_SILENT_H = re.compile(r"heir|hour|honest|hono")


@dataclass(frozen=True)
class Word:
    """A word of a text as the grammar sees it."""

    text: str
    kind: WordKind
    gap: str
    """The characters between this word and the next one (or the end)."""
    side: int | None = None
    """Which of the two groups the word belongs to; None for most words."""
    meaning: tuple[str, ...] = ()
    """The meaning that a word shares with its partner, or the cases of a pronoun."""
    stays: str | None = None
    """The phrase in which a word is left as it is, for a warning; empty where that is certain."""
    partners: tuple[str, ...] = ()
    """The forms that replace an agreeing word, the likeliest first."""
    rules: Rules = field(default=_NO_RULES, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The word for context rules; its kind where substitution would change it."""
        return self.text.lower() if self.kind == "plain" else f"<{self.kind.replace(' ', '_')}>"

    @property
    def labels(self) -> Labels:
        """The labels for rules, alike for words of both groups."""
        return labelled(self.rules.labels_of(self.key), CAPITALISED=self.capitalised)

    @property
    def own_labels(self) -> Labels:
        """The labels for rules that ask about the word itself."""
        labels = self.rules.labels_of(self.text.lower()) | {f"<{self.kind.replace(' ', '_')}>"}
        return labelled(labels, CAPITALISED=self.capitalised, STAYS=self.stays is not None)

    @property
    def capitalised(self) -> bool:
        return self.text[:1].isupper() and (len(self.text) == 1 or not self.text.isupper())


def pronouns_of(rules: Rules) -> Mapping[str, Mapping[str, str]]:
    """Subject form → case → word. Both `her` and `his` serve two cases."""
    forms = (line.split() for line in rules.pronouns)
    return {words[0]: dict(zip(CASES, words, strict=True)) for words in forms}


def paradigm(forms: Mapping[str, str], axis: str, rules: Rules) -> Mapping[str, str]:
    """The pronouns of a group, by case: those of she and he, or its own forms."""
    slots = {case: "possessive" if case == "determiner" else case for case in CASES}
    defaults = pronouns_of(rules).get(forms["subject"], {})
    for case, slot in slots.items():
        if slot not in forms and case not in defaults:
            raise UserError(
                f"axis {axis!r}: the pronoun {forms['subject']!r} has no form {slot!r}: write it "
                "into the forms of its group ('independent' is hers or theirs)"
            )
    return {case: forms.get(slot) or defaults[case] for case, slot in slots.items()}


def genitive(words: Sequence[Word], i: int, new: str) -> str:
    """The characters after the word at `i` when `new` replaces it: James' house, Sarah's house."""
    quoted = any(re.search(r"(?:^|\s)['‘]$", word.gap) for word in words[:i])
    becomes_full = words[i].text.endswith("s") and not new.endswith("s") and not quoted
    return re.sub(r"^(['’])(?=\s)", r"\1s" if becomes_full else r"\1", words[i].gap)


def within_a_phrase(gap: str) -> bool:
    """Whether the characters between two words end neither sentence nor clause."""
    return bool(_INSIDE_PHRASE.fullmatch(gap))


def neighbour(words: Sequence[Word], i: int, step: int) -> Labels:
    """The labels of the word before word `i` in its clause, or after it; `step` is -1 or 1."""
    first, last = sorted((i, i + step))
    is_on = first >= 0 and last < len(words) and within_a_phrase(words[first].gap)
    return words[i + step].labels if is_on else NO_WORD


def before(words: Sequence[Word], i: int) -> Labels:
    """The labels of the word before word `i`, and whether a clause begins with `i`."""
    labels = neighbour(words, i, -1)
    return labelled(labels, OPENS=labels & {"END", "CONJUNCTIONS"})


def at(words: Sequence[Word], i: int) -> Labels:
    """The labels of word `i` if it is in the clause of the word before it."""
    return neighbour(words, i - 1, 1)


def vowel_sound(word: str) -> bool:
    """Whether the indefinite article before `word` is `an`.

    >>> [vowel_sound(w) for w in ("imam", "university", "heiress", "uncle", "80")]
    [True, False, True, True, True]
    """
    word = unicodedata.normalize("NFD", word).lower()
    if _SILENT_H.match(word):
        return True
    if _VOWEL_LETTER_CONSONANT_SOUND.match(word):
        return False
    return word[:1] in "aeiou8" or word[:2] in ("11", "18")


def with_article(noun: str) -> str:
    """The noun after its indefinite article.

    >>> with_article("engineer"), with_article("university teacher")
    ('an engineer', 'a university teacher')
    """
    return f"{'an' if vowel_sound(noun) else 'a'} {noun}"


def other_article(article: str, before: str) -> str:
    """`a` for `an` and `an` for `a`, in the case that stands before the word `before`."""
    if article.lower() == "an":
        return article[0]
    return article + ("N" if article == "A" and len(before) > 1 and before.isupper() else "n")


@dataclass(frozen=True)
class Reading:
    """How a pronoun such as `her` is read."""

    owns: bool
    """Whether it stands before its noun."""
    alone: bool
    """Whether no noun can follow at all."""
    sure: bool
    last: int
    """The word that decides; the number of words where the end of the text does."""


def reading(words: Sequence[Word], i: int) -> Reading:
    """How the pronoun at `i` is read: alike for her, his, him and hers, of either side."""
    near = before(words, i)
    rules = words[i].rules
    if "of" in near and i > 1:
        near |= {f"OF_{label}" for label in words[i - 2].labels}
    passed: list[str] = []
    last, answer = i, "end"
    while (k := _next(words, last, near)) is not None:
        after = at(words, k + 1)
        if "old" in at(words, k + 2):
            after -= {"TIMES"}  # "her two year old son"
        answer = rules.answer("possessive", near, _passed(passed), _in_phrase(words, k), after)
        if not answer.startswith("pass"):
            break
        passed += answer.split()[1:]
        last, answer = k, "end"
    if answer == "end":
        gap = words[last].gap.lstrip("\"”'’" if passed else "")  # her "famous"
        open_ended = last + 1 == len(words) and re.fullmatch(
            r"[^\S\n]*(?<=\s)[\"“‘(]?|[^\S\n]*", gap
        )
        ending = labelled(at(words, last), UNFINISHED=open_ended)
        answer = rules.answer("possessive_end", near, _passed(passed), ending)
        k = len(words) if open_ended else last
    kind = answer.rstrip("?")
    return Reading(kind == "owner", kind == "alone", kind == answer, k or last)


def _passed(classes: Sequence[str]) -> Labels:
    """The labels of the words that decided nothing."""
    labels = frozenset([*classes, *(f"LAST_{name}" for name in classes[-1:])])
    return labelled(labels, FIRST=not classes, LATER=classes, ADVERBS={*classes} <= {"ADVERB"})


def _in_phrase(words: Sequence[Word], k: int) -> Labels:
    """The labels of word `k` after the pronoun, and of the noun in which its open words end."""
    head = k
    while not at(words, head + 1) & {"END", "SIDED", "CLOSED", "VERBS"}:
        head += 1
    return labelled(
        words[k].labels | {f"HEAD_{label}" for label in words[head].labels},
        SINGLE=head == k,
        HYPHENATED=words[k].gap == "-" and k + 1 < len(words),
        QUOTED=words[k - 1].gap.strip(),
    )


def _next(words: Sequence[Word], j: int, before: Labels) -> int | None:
    """The word after word `j` in the phrase, past a parenthesis or a repetition."""
    gap = words[j].gap
    k = j + 1
    if k == len(words):
        return None
    if within_a_phrase(gap):
        return None if "\n" in gap and words[k].capitalised else k
    labels, following = words[j].labels, words[k].labels
    if gap.strip() == "(":
        closing = next((m for m in range(k, len(words) - 1) if ")" in words[m].gap), None)
        return closing + 1 if closing and within_a_phrase(words[closing].gap) else None
    if (_PAUSE.fullmatch(gap) and words[k].text.lower() == words[j].text.lower()) or (
        gap == "/" and words[j].kind == "pronoun" and "CLOSED" in following  # "her/their"
    ):
        return _next(words, k, before)
    is_number = gap in (",", ".") and "NUMBER" in labels & following
    goes_on = "CLOSED" not in following and ("END" not in at(words, k + 1) or words[k].gap == gap)
    is_list = gap == ", " and "ADJECTIVES" in labels and "MAKING" not in before and goes_on
    return k if is_number or is_list else None  # "her long, dark hair"
