"""Coreference by rules of English: the words of a text that show the group of its protagonist.

Everything that the text does not give to somebody else is the protagonist's: "his father" is
another man, and "he" after "His father called." is that man, but "he" after "Jane met his father at
the station." is not. A later pronoun first means the subject of its clause; the subject of the main
clause stays so in the next sentence; "him" is not the subject of its own clause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from countergen_edit.data.language import language_of
from countergen_edit.data.text.grammar import Word, pronouns_of

Person = int
PROTAGONIST: Person = 0
_SENTENCE_END = re.compile(r"[.!?…]|\n")
_OPENING_QUOTE = re.compile(r"(?:^|[\s(—-])[\"“]$|(?:^|[\s(—-])[\"“](?=\S*$)")
_CLOSING_QUOTE = re.compile(r"^[.,!?…\s]*[\"”]")
_ENGLISH = language_of().rules
_TITLES, _LISTED = _ENGLISH.words["titles"], _ENGLISH.coreference
_CLASSES = {
    **_LISTED,
    "abbreviations": _TITLES | _LISTED["abbreviations"],
    "bringing": _LISTED["subordinators"] - {"who", "than"},
}
_PLURALS = re.compile(r"men$|s$")
_NOWHERE = Word("", "plain", ". ")


@dataclass
class _Reader:
    """One pass over the words that keeps track of the persons."""

    words: Sequence[Word]
    name: str
    forms: Mapping[str, str]
    """The pronouns of the protagonist, whose group is the first, by case."""
    about: list[int] = field(default_factory=list)
    persons: dict[str, Person] = field(default_factory=dict)
    """Names and surnames, in small letters."""
    of_side: set[Person] = field(default_factory=lambda: {PROTAGONIST})
    """Persons whose pronouns are the protagonist's own: the same group, or an unknown one."""
    main: Person = PROTAGONIST
    local: Person = PROTAGONIST
    subject: Person | None = PROTAGONIST
    """Of the current clause; None where no pronoun could mean it."""
    last: tuple[int, Person | None, bool] = (-9, None, False)
    """The latest mention: its last word, the person, and whether it is kin of the protagonist."""
    newest: Person = PROTAGONIST
    """The latest other person of the side."""
    predicates: set[int] = field(default_factory=set)
    """Predicative nouns."""
    speaker: Person | None = None
    quoted: bool = False

    def read(self) -> list[int]:
        self.persons[self.name.lower()] = PROTAGONIST
        for i in range(len(self.words)):
            self._punctuation(i)
            self._word(i)
        return self.about

    def _at(self, i: int) -> Word:
        return self.words[i] if 0 <= i < len(self.words) else _NOWHERE

    def _gap(self, i: int) -> str:
        return self._at(i).gap

    def _key(self, i: int) -> str:
        return self._at(i).text.lower()

    def _is(self, i: int, *classes: str) -> bool:
        return any(self._key(i) in _CLASSES[name] for name in classes)

    def _starts_sentence(self, i: int) -> bool:
        previous, gap = self._at(i - 1).text, self._gap(i - 1)
        initial = gap == ". " and len(previous) == 1 and previous.isupper() and previous != "I"
        abbreviated = gap.startswith(". ") and self._is(i - 1, "abbreviations")
        return bool(_SENTENCE_END.search(gap)) and not (initial or abbreviated)

    def _punctuation(self, i: int) -> None:
        gap = self._gap(i - 1) if i else ""
        closes = self.quoted and _CLOSING_QUOTE.search(gap)
        self.quoted = bool(_OPENING_QUOTE.search(gap)) or (self.quoted and not closes)
        if i and self._starts_sentence(i):
            self.local, self.subject = self.main, None
        elif self._is(i, "bringing") and self._key(i - 1) != "as":
            self.subject = None  # a subordinate clause brings its own

    def _begins_clause(self, start: int) -> bool:
        """Whether a noun phrase that begins at word `start` is a subject."""
        if self._starts_sentence(start):
            return True
        gap, previous = self._gap(start - 1), self._key(start - 1)
        reports = self._is(start - 1, "reporting")
        if reports and start >= 2 and re.search(r"[,\"”?!]", self._gap(start - 2)):
            return True  # "…," said his father
        if self._is(start - 1, "subordinators"):
            return previous != "than" and not (previous == "as" and self._is(start, "articles"))
        if self._is(start - 1, "coordinators") and gap.isspace():
            return self.last[0] != start - 2 or not self._gap(start - 2).isspace()
        if previous in ("is", "was") and self._key(start - 2) == "there":
            return True
        if re.search("[,;:]", gap):
            return self.last[0] != start - 1
        return bool(_OPENING_QUOTE.search(gap)) or (reports and gap.isspace())

    def _new_person(self, of_side: bool) -> Person:
        person = 1 + max(*self.persons.values(), *self.of_side)
        if of_side:
            self.of_side.add(person)
            self.newest = person
        return person

    def _mention(self, start: int, end: int, person: Person, kin: bool = False) -> None:
        """A noun phrase from word `start` to `end` names `person`."""
        if self._begins_clause(start):
            if self._is(start - 1, "reporting") or self._is(end + 1, "reporting"):
                self.speaker = person
            self.subject = person
            if person in self.of_side:
                self.local = person
                if not self._is(start - 1, "subordinators") or self._starts_sentence(start):
                    self.main = person
        self.last = (end, person, kin)

    def _phrase_start(self, i: int) -> int:
        """The first word of the noun phrase whose head stands at `i`."""
        k = i
        while k > 0 and i - k < 5 and self._gap(k - 1) in (" ", "-", "' ", "’ "):
            if self._is(k - 1, "articles", "definite", "possessives"):
                return k - 1
            if (owner := self._genitive(k - 1)) is not None:
                return owner  # "Ivan's family"
            if self._is(k - 1, "being", "subordinators", "coordinators", "not_names", "reporting"):
                return k
            k -= 1
        return k

    def _genitive(self, i: int) -> int | None:
        """Index of the owner, if word `i` ends a genitive: the s of "Ivan's", or "Jones'"."""
        if self._key(i) == "s" and i and self._gap(i - 1) in ("'", "’"):
            return i - 1
        return i if self._gap(i) in ("' ", "’ ") else None

    def _word(self, i: int) -> None:
        word, key = self.words[i], self._key(i)
        if word.kind in ("pronoun", "other pronoun"):
            self._pronoun(i)
        elif word.kind == "name" or key in self.persons:
            self._name(i)
        elif word.kind == "title" or key in _TITLES:
            self._title(i)
        elif word.kind == "noun" and word.side is not None:
            self._noun(i)
        elif self._is(i, "other_subjects") and self._begins_clause(i):
            self.subject = None
        elif self._stranger(i):
            person = self._new_person(of_side=True)
            self.persons[key] = person
            self._mention(i, i, person)

    def _stranger(self, i: int) -> bool:
        """Whether a capitalised word is a name, by the words after it."""
        if not self.words[i].capitalised or self._is(i, "not_names"):
            return False
        end = i
        while end < len(self.words) and self._gap(end) == " " and self._at(end + 1).capitalised:
            end += 1
        for last in (end, end + 1):
            if last < len(self.words) and self._genitive(last) == end:
                return self._is(last + 1, "owned_by_people")
        return self._is(end + 1, "reporting") or self._key(end + 1) == "who"

    def _name(self, i: int) -> None:
        word, key = self.words[i], self._key(i)
        after, previous, previous_is_kin = self.last
        is_surname = after == i - 1 and self._gap(i - 1) == " " and word.text != self.name
        if is_surname and previous is not None:  # "Henry James"
            self.persons.setdefault(key, previous)
            self.last = (i, previous, previous_is_kin)
            return
        # "his father, David"
        before = self._at(i - 1)
        apposed = after == i - 1 and before.kind == "noun" and before.gap in (" ", ", ")
        if key not in self.persons:
            antecedent = previous if apposed else None
            of_side = apposed or word.side in (0, None)
            self.persons[key] = self._new_person(of_side) if antecedent is None else antecedent
        person = self.persons[key]
        if person == PROTAGONIST and word.kind == "name":
            self.about.append(i)
        if not apposed:
            self._mention(i, i, person)
        kin = previous_is_kin and apposed
        self.last = (i, person, kin)
        surname = self._key(i + 1)
        is_name = self._at(i + 1).capitalised and not self._is(i + 1, "not_names")
        if word.gap == " " and is_name and surname not in _TITLES | {self.name.lower()}:
            self.persons[surname] = PROTAGONIST if kin else person  # a father's is his child's

    def _title(self, i: int) -> None:
        word, name = self.words[i], self._key(i + 1)
        is_joined = word.gap in (" ", ". ") and self._at(i + 1).text[:1].isupper()
        if not (word.capitalised and is_joined) or name in _TITLES:
            return  # "Miss you", but not "Miss Smith"
        if name not in self.persons and self._at(i + 1).kind != "name":
            self.persons[name] = self._new_person(word.side in (0, None))
        if self.persons.get(name) == PROTAGONIST and word.side == 0:
            self.about.append(i)
        self._mention(i, i, self.persons.get(name, PROTAGONIST))
        if name in self.persons:
            self.last = (-9, None, False)

    def _noun(self, i: int) -> None:
        key = self._key(i)
        ours = self.words[i].side == 0
        if _PLURALS.search(key) and not self._is(i, "singular_in_s"):
            return
        start = self._phrase_start(i)
        owner = self._owner(start, i)
        if self._is_predicate(start, i, owner):
            self.predicates.add(i)
            if ours and self._subject_is_protagonist(start):
                self.about.append(i)
            return
        if ours and owner is None:
            after, previous, _ = self.last
            named = self._gap(i) == " " and self.persons.get(self._key(i + 1)) == PROTAGONIST
            apposed = after == start - 1 and "," in self._gap(start - 1)
            if named or (apposed and previous == PROTAGONIST):
                self.about.append(i)  # "the man John", "John, a tall man,"
                return
        if self._is(i, "modifiers"):
            return
        if ours and self._is(start, "definite"):
            if self.newest != PROTAGONIST:
                self._mention(start, i, self.newest)
                return
            is_mentioned = self._is(i, "person") or key in {self._key(j) for j in self.about}
            if is_mentioned and self._key(start - 1) != "of":
                self.about.append(i)  # "the man", where nobody else was mentioned
                self._mention(start, i, PROTAGONIST)
                return
        self._mention(start, i, self._new_person(ours), kin=owner == PROTAGONIST)

    def _owner(self, start: int, i: int) -> Person | None:
        """The owner of the noun: a person, or -1 for somebody; None without an owner."""
        first = self._key(start)
        if start == i or self._is(start, "articles", "definite"):
            return None
        if self._is(start, "possessives"):
            is_ours = self.words[start].side is not None and start in self.about
            return PROTAGONIST if is_ours else -1
        return self.persons.get(first, -1) if re.match(r"['’]", self._gap(start)) else None

    def _is_predicate(self, start: int, i: int, owner: Person | None) -> bool:
        """Whether the noun is predicative: "is a good man", "as a father"."""
        if owner is not None:
            return False
        if self._is(start, "not_names") and not self._is(start, "articles", "definite"):
            return False
        k = start - 1
        while k >= 0 and self._is(k, "between"):
            k -= 1
        linked = self._is(k, "being") or (self._key(k) == "s" and self._gap(k - 1) in ("'", "’"))
        if self._key(k) in ("and", "or") and self._is(start, "articles"):
            linked = any(j in self.predicates for j in range(max(0, k - 5), k))
        there = self._key(k - 1) in ("there", "it") or self._key(k) == "like"
        return linked and not there

    def _subject_is_protagonist(self, start: int) -> bool:
        if self._key(start - 1) == "as":
            return self.local == PROTAGONIST
        if self.subject is not None or self.local != PROTAGONIST:
            return self.subject == PROTAGONIST
        return any(j in self.about for j in range(max(0, start - 6), start))

    def _pronoun(self, i: int) -> None:
        word, key = self.words[i], self._key(i)
        if word.side != 0:
            if key in ("she", "he") and self._begins_clause(i):
                self.subject = None
            return
        is_object = key == self.forms["object"] != self.forms["determiner"]
        if is_object and self.subject is not None and self.subject == self.local:
            # Not the subject of its own clause: that would be "himself".
            person = PROTAGONIST if self.subject != PROTAGONIST else self.newest
        elif key == self.forms["reflexive"] and self.last[0] == i - 2 and self.last[1] is not None:
            person = self.last[1]  # "saw David hurt himself"
        elif self.quoted and self.local == self.speaker and self.local != PROTAGONIST:
            person = PROTAGONIST  # a speaker is "I" in the speaker's own words
        else:
            person = self.local
        if person == PROTAGONIST:
            self.about.append(i)
        if key == self.forms["subject"]:
            self.subject = self.local = person
            self.last = (i, person, False)


def words_about(words: Sequence[Word], name: str, subject: str) -> list[int]:
    """Indices of the words that show the group of a person, given the person's name and pronoun.

    The words are marked by a `Substitution` whose first group is that of the person.
    """
    return _Reader(words, name, pronouns_of(_ENGLISH)[subject]).read()
