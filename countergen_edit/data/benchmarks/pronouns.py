"""Benchmarks of pronoun resolution: WinoBias and Winogender."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, text_of
from countergen_edit.data.benchmarks import Files

TYPES = ("type1", "type2")
STEREOTYPES = ("pro", "anti")
PRONOUNS = {
    **dict.fromkeys(("she", "her", "hers", "herself"), "female"),
    **dict.fromkeys(("he", "him", "his", "himself"), "male"),
}
_BRACKETS = re.compile(r"\[([^]]*)\]")

SENTENCES = "Winogender/data/all_sentences.tsv"
STATISTICS = "Winogender/data/occupations-stats.tsv"
GENDERS = ("male", "female", "neutral")


@dataclass(frozen=True)
class WinoBiasSentence:
    """A sentence about two people of different occupations, one of whom a pronoun refers to."""

    id: str
    """Type, stereotype and number in the file."""
    type: str
    """In `type1` only knowledge of the world resolves the pronoun, in `type2` syntax."""
    stereotype: str
    """`pro` where the pronoun's gender is the stereotype of the occupation, `anti` elsewhere."""
    sentence: str
    pronoun: str
    """The first, as in the sentence."""
    meant: str
    """The occupation of the person whom the pronoun refers to."""
    other: str


def winobias_file(stereotype: str, kind: str) -> str:
    """The path of one of the four test files."""
    return f"WinoBias/data/{stereotype}_stereotyped_{kind}.txt.test"


def read_winobias(files: Files) -> list[WinoBiasSentence]:
    """Every sentence of the test files, without brackets, by type, `pro` first.

    Raises:
        UserError: a file is absent or of another form.
    """
    lists = [files.path(f"WinoBias/data/{gender}_occupations.txt") for gender in ("male", "female")]
    occupations = [line.strip() for path in lists for line in text_of(path).splitlines()]
    sentences = []
    for kind in TYPES:
        for stereotype in STEREOTYPES:
            path = files.path(winobias_file(stereotype, kind))
            for number, line in enumerate(text_of(path).splitlines(), start=1):
                if line.strip():
                    where = f"{path}, line {number}: "
                    own = (f"{kind}.{stereotype}.{number}", kind, stereotype)
                    sentences.append(_winobias_sentence(line, occupations, own, where))
    return sentences


def _winobias_sentence(
    line: str, occupations: list[str], own: tuple[str, str, str], where: str
) -> WinoBiasSentence:
    """A line in which the pronouns and the person meant are in brackets."""
    text = line.strip().partition(" ")[2]
    marked = _BRACKETS.findall(text)
    pronouns = [word for word in marked if word.lower() in PRONOUNS]
    people = [words for words in marked if words.lower() not in PRONOUNS]
    sentence = _BRACKETS.sub(r"\1", text)
    named = [one for one in occupations if one and _has_words(sentence, one)]
    meant = [one for one in named if people and _has_words(people[0], one)]
    if not pronouns or len(people) != 1 or len(named) != 2 or len(meant) != 1:
        raise UserError(
            f"{where}one person and a pronoun in brackets and two occupations are needed"
        )
    [other] = [one for one in named if one != meant[0]]
    return WinoBiasSentence(*own, sentence, pronouns[0], meant[0], other)


def _has_words(text: str, words: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class WinogenderSentence:
    """A sentence about a person at work and another, one of whom a pronoun refers to."""

    id: str
    sentence: str
    pronoun: str
    gender: str
    """Of the pronoun: `male`, `female` or `neutral`."""
    occupation: str
    participant: str
    """The other person, who may be `someone`."""
    means_occupation: bool
    """Whether the pronoun refers to the person at work."""
    women: float
    """Percent of women in the occupation, in the United States (BLS)."""

    @property
    def meant(self) -> str:
        """The person whom the pronoun refers to."""
        return self.occupation if self.means_occupation else self.participant

    @property
    def other(self) -> str:
        return self.participant if self.means_occupation else self.occupation


def read_winogender(files: Files) -> list[WinogenderSentence]:
    """Every sentence, in the order of the table.

    Raises:
        UserError: a file is absent or of another form, or a sentence lacks its variants.
    """
    women = _women(files)
    path = files.path(SENTENCES)
    _, rows = csv_table(path, "\t")
    texts = {str(row["sentid"]): str(row["sentence"]) for _, row in rows}
    sentences = []
    for where, row in rows:
        parts = str(row["sentid"]).removesuffix(".txt").split(".")
        if len(parts) != 4 or parts[0] not in women:
            raise UserError(f"{where}{row['sentid']!r} names no known occupation")
        occupation, participant, answer, gender = parts
        variants = [f"{occupation}.{participant}.{answer}.{one}.txt" for one in GENDERS]
        if any(variant not in texts for variant in variants):
            raise UserError(f"{where}a sentence of {', '.join(GENDERS)} each is needed")
        pronoun = _pronoun(row["sentence"], [texts[variant] for variant in variants])
        own = (row["sentid"], row["sentence"], pronoun, gender, occupation, participant)
        sentences.append(WinogenderSentence(*own, answer == "0", women[occupation]))
    return sentences


def _women(files: Files) -> Mapping[str, float]:
    path = files.path(STATISTICS)
    _, rows = csv_table(path, "\t")
    found = {}
    for where, row in rows:
        try:
            found[str(row["occupation"])] = float(row["bls_pct_female"])
        except (KeyError, TypeError, ValueError):
            raise UserError(f"{where}an occupation and its bls_pct_female are needed") from None
    return found


def _pronoun(sentence: str, variants: list[str]) -> str:
    """The first word in which a sentence and its variants differ.

    >>> _pronoun("Ann saw that he left.", ["Ann saw that he left.", "Ann saw that she left."])
    'he'
    """
    for word, *others in zip(sentence.split(), *(v.split() for v in variants), strict=False):
        if len(set(others)) > 1:
            return str(word).strip(".,;:!?'\"")
    return ""
