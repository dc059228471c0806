"""English grammar for substitution: pronoun cases, the words that tell them apart, and a/an.

The word lists hold closed classes (prepositions, auxiliaries, …) and a few decisive open words.
They hold no word that a substitution would swap, except titles in every form, so that an answer is
the same before and after substitution.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["plain", "name", "title", "noun", "pronoun", "other pronoun"]
"""`pronoun` is a case that English confuses (her, his, him, hers); `other pronoun` is not."""

PRONOUNS: Mapping[str, Mapping[str, str]] = {
    "she": {
        "subject": "she",
        "object": "her",
        "determiner": "her",
        "independent": "hers",
        "reflexive": "herself",
    },
    "he": {
        "subject": "he",
        "object": "him",
        "determiner": "his",
        "independent": "his",
        "reflexive": "himself",
    },
}
"""Subject form → case → word. Both `her` and `his` serve two cases."""

CONFUSED_CASES = ("object", "determiner", "independent")


def word_set(words: str) -> frozenset[str]:
    """The words of a text that is separated by white space."""
    return frozenset(words.split())


TITLES = word_set("mr mrs ms miss sir madam ma'am dame mister dr prof")

# Words that cannot begin the noun phrase after a possessive.
_PREPOSITIONS = word_set(
    """about above across after against along among around as at before behind below beneath beside
    besides between beyond by despite during except for from in into like near of off on onto over
    per since than through till to toward towards under unless until up upon via with within without
    """
)
_CLOSED = _PREPOSITIONS | word_set(
    """a an the this that these those some any each every either neither both all no not none
    i you we they it me us them my your our their its mine yours ours theirs
    myself yourself ourselves themselves itself
    who whom whose what which when where why how whether if because although though while whereas
    whenever wherever and but or nor yet so
    is are was were am be been has have had do does did would can cannot could shall should may must
    down out away apart together alone aside ahead again also here there then now today tonight
    tomorrow yesterday soon later afterwards anymore anyway instead once twice just even already
    still never forever upstairs downstairs indoors outdoors inside outside abroad
    something anything nothing everything someone anyone everyone nobody somewhere anywhere
    everywhere much enough another several plenty such
    came went became seems seemed said says took got gave knew thought began
    please thanks too ago etc"""
)

# Words between a possessive and its noun that may also end a clause: the next word decides.
_TRANSPARENT = word_set(
    """very quite rather really almost always often ever more most less better worse well
    happy sad angry mad crazy famous rich poor sick ill proud nervous upset safe busy warm cold
    tired afraid asleep awake alive dead beautiful pretty ugly smart clever stupid attractive strong
    weak late free unhappy jealous ready responsible guilty pregnant comfortable uncomfortable
    lonely hungry embarrassed interesting likable competent incompetent brilliant weird boring
    funny kind rude lazy brave"""
)
_NOUNS_IN_LY = word_set(
    """family belly bully ally assembly anomaly reply supply jelly fly lily melancholy butterfly
    july monopoly homily tally rally"""
)
_NOUNS_IN_ING = word_set(
    """wedding building feeling clothing painting ring earring thing evening morning string wing
    training hearing meeting writing drawing suffering offspring sibling darling"""
)

_GIVING = word_set(
    """give gives gave given giving tell tells told telling ask asks asked asking show shows showed
    shown showing send sends sent sending offer offers offered offering teach teaches taught lend
    lent hand handed pay paid owe owes owed promise promised cost bring brings brought bringing
    grant granted wish wished buy buys bought call calls called calling name named"""
)
_QUANTITIES = word_set(
    "more most less many few fewer two three four five six seven eight nine ten one"
)
_CAUSING = word_set(
    """let lets letting make makes made making help helps helped helping see sees saw seen watch
    watches watched watching hear hears heard hearing have had feel felt notice noticed"""
)
_BARE_VERBS = word_set(
    """go be do come become get take know leave sit stand eat sing speak say tell grow understand
    learn realise realize find feel keep forget remember believe think wait choose decide pay buy
    sell win lose carry bring enter arrive stay live die sleep write read cry pass understand
    move suffer fall see hear apologise apologize talk succeed fail
    """
)
_PERCEIVING = word_set(
    """see sees saw seen seeing watch watches watched watching hear hears heard hearing find finds
    found catch caught leave left keep keeps kept notice noticed spot spotted remember remembered
    """
)
_EITHER_WAY = frozenset(["back", "home"])
_OWNING = word_set("hurt broke injured turned strained bought sold built cleaned left")
_TIMES = word_set("night week weekend month year summer winter spring autumn time")
_OPENERS = word_set("dear hi hello hey oh yes happy good poor my ask tell thank")

_INSIDE_PHRASE = re.compile(r"\s+[\"'“‘$€£]?|[\"”’']\s+")
_VOWEL_LETTER_CONSONANT_SOUND = re.compile(r"eu|ewe|once|one\b|uni(?!n|m)|us[aeiu]|ut[eio]")
_SILENT_H = re.compile(r"heir|hour|honest|hono")


@dataclass(frozen=True)
class Word:
    """A word of a text as the grammar sees it."""

    text: str
    kind: Kind
    gap: str
    """The characters between this word and the next one (or the end)."""
    side: int | None = None
    """Which of the two groups the word belongs to; None for most words."""

    @property
    def key(self) -> str:
        """The word for context rules; its kind where substitution would change it."""
        return self.text.lower() if self.kind == "plain" else f"<{self.kind}>"

    @property
    def capitalised(self) -> bool:
        return self.text[:1].isupper() and (len(self.text) == 1 or not self.text.isupper())


def before_own_noun(words: Sequence[Word], i: int) -> bool:
    """Whether the pronoun at `i` is in the place of a possessive, before its noun.

    The answer is the same for her, his, him and hers, and for words of either side; two pronouns
    joined by and/or/slash matter only in being of one side or two.
    """
    previous = words[i - 1].key if i > 0 and within_a_phrase(words[i - 1].gap) else ""
    j = i
    while j + 1 < len(words):
        if joined := _joined_pronoun(words, j):
            j = joined  # "his or her book": what holds for the second holds for the first
            continue
        if not within_a_phrase(words[j].gap):
            return False
        following, after = words[j + 1], _key(words, j + 2)
        key = following.key
        if following.kind == "noun" or (following.kind == "plain" and following.gap == "-"):
            return True  # "her sister", "her up-to-date report"
        if following.kind != "plain" or key in TITLES or key in _CLOSED:
            return False
        is_count = key in _QUANTITIES or key.isdigit()
        if previous in _GIVING and (is_count or following.text[0].isupper()):
            return False  # "gave her two books", "told her Bob left"
        if previous in _CAUSING and key in _BARE_VERBS:
            return False  # "let her go"
        if previous in _PERCEIVING and key.endswith("ing") and key not in _NOUNS_IN_ING:
            return False  # "saw her walking"
        if key in ("last", "next") and after in _TIMES and previous not in _PREPOSITIONS:
            return False  # "met her last week"
        if key in _EITHER_WAY:
            return previous in _PREPOSITIONS | _OWNING | {""} or after in ("is", "was")
        if key in _TRANSPARENT or (key.endswith("ly") and key not in _NOUNS_IN_LY):
            j += 1
            continue
        return True
    return False


def may_be_object_or_owner(words: Sequence[Word], i: int) -> bool:
    """Whether the `her` at `i` is ambiguous: "gave her books", "saw her leave"."""
    if i == 0 or i + 1 == len(words) or not within_a_phrase(words[i].gap):
        return False
    return words[i - 1].key in _GIVING | _CAUSING | _PERCEIVING and words[i + 1].kind == "plain"


def within_a_phrase(gap: str) -> bool:
    """Whether the characters between two words end neither sentence nor clause."""
    return bool(_INSIDE_PHRASE.fullmatch(gap))


def is_closed(word: Word) -> bool:
    """Whether a word is of a class without names: the, when, of, today, …"""
    return word.key in _CLOSED | _OPENERS


def _key(words: Sequence[Word], i: int) -> str:
    """The key of word `i` if the clause reaches it, else nothing."""
    return words[i].key if i < len(words) and within_a_phrase(words[i - 1].gap) else ""


def _joined_pronoun(words: Sequence[Word], i: int) -> int | None:
    """Index of the other half of `his or her`, `her/his`, if word `i` is the first half."""
    if words[i].kind != "pronoun":
        return None
    if words[i].gap != "/" and _key(words, i + 1) not in ("and", "or"):
        return None
    other = i + (1 if words[i].gap == "/" else 2)
    if other >= len(words) or words[other].kind != "pronoun":
        return None
    return other if words[other].side != words[i].side else None


def in_proper_name(words: Sequence[Word], i: int) -> bool:
    """Whether word `i` belongs to the capitalised word before it: Gossip Girl, Jane King.

    A name directly after a name is a surname; a common noun counts when both are capitalised.
    """
    if i == 0:
        return False
    word, previous = words[i], words[i - 1]
    joined = (" ", "-", ". ") if previous.kind == "title" else (" ", "-")
    if previous.gap not in joined:
        return False
    if word.kind == "name":
        return previous.kind == "name"
    return (
        word.kind == "noun"
        and word.capitalised
        and previous.capitalised
        and previous.kind in ("plain", "name", "title")
        and previous.key not in _CLOSED | _OPENERS
    )


def is_before_name(words: Sequence[Word], i: int) -> bool:
    """Whether the title at `i` stands before a name: "Miss Smith", but not "Miss you"."""
    is_capitalised = i + 1 < len(words) and words[i + 1].text[:1].isupper()
    return words[i].capitalised and words[i].gap in (" ", ". ") and is_capitalised


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
