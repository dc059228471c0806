"""Benchmarks of pronoun resolution: WinoBias and Winogender."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    """A sentence about two people of different occupations, one of whom a pronoun refers to.

    In `type1` only knowledge of the world resolves the pronoun, in `type2` syntax; in `pro` its
    gender is the stereotype of the occupation that is meant.
    """

    id: str
    type: str
    stereotype: str
    sentence: str
    pronoun: str
    meant: str
    other: str


def read_winobias(files: Files) -> list[WinoBiasSentence]:
    """Every sentence of the test files, without brackets, by type, `pro` first."""
    lists = [files.path(f"WinoBias/data/{gender}_occupations.txt") for gender in ("male", "female")]
    occupations = [line.strip() for path in lists for line in text_of(path).splitlines()]
    sentences = []
    for kind in TYPES:
        for stereotype in STEREOTYPES:
            path = files.path(f"WinoBias/data/{stereotype}_stereotyped_{kind}.txt.test")
            for number, line in enumerate(text_of(path).splitlines(), start=1):
                if line.strip():
                    own = (f"{kind}.{stereotype}.{number}", kind, stereotype)
                    sentences.append(_winobias_sentence(line, occupations, own))
    return sentences


def _winobias_sentence(
    line: str, occupations: list[str], own: tuple[str, str, str]
) -> WinoBiasSentence:
    """A line in which the pronouns and the person meant are in brackets."""
    text = line.strip().partition(" ")[2]
    marked = _BRACKETS.findall(text)
    pronoun = next(word for word in marked if word.lower() in PRONOUNS)
    [person] = [words for words in marked if words.lower() not in PRONOUNS]
    sentence = _BRACKETS.sub(r"\1", text)
    named = [one for one in occupations if one and _has_words(sentence, one)]
    [meant] = [one for one in named if _has_words(person, one)]
    [other] = [one for one in named if one != meant]
    return WinoBiasSentence(*own, sentence, pronoun, meant, other)


def _has_words(text: str, words: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class WinogenderSentence:
    """A sentence about a person at work and another, one of whom a pronoun refers to.

    `women` is the percentage in the occupation, in the United States (BLS).
    """

    id: str
    sentence: str
    pronoun: str
    gender: str
    occupation: str
    participant: str
    means_occupation: bool
    women: float

    @property
    def meant(self) -> str:
        """The person whom the pronoun refers to."""
        return self.occupation if self.means_occupation else self.participant

    @property
    def other(self) -> str:
        return self.participant if self.means_occupation else self.occupation


def read_winogender(files: Files) -> list[WinogenderSentence]:
    """Every sentence, in the order of the table."""
    statistics = csv_table(files.path(STATISTICS), "\t")[1]
    women = {row["occupation"]: float(row["bls_pct_female"]) for _, row in statistics}
    texts = {row["sentid"]: row["sentence"] for _, row in csv_table(files.path(SENTENCES), "\t")[1]}
    sentences = []
    for name, sentence in texts.items():
        occupation, participant, answer, gender = name.removesuffix(".txt").split(".")
        variants = [texts[f"{occupation}.{participant}.{answer}.{one}.txt"] for one in GENDERS]
        own = (name, sentence, _pronoun(sentence, variants), gender, occupation, participant)
        sentences.append(WinogenderSentence(*own, answer == "0", women[occupation]))
    return sentences


def _pronoun(sentence: str, variants: list[str]) -> str:
    """The first word in which a sentence and its variants differ.

    >>> _pronoun("Ann saw that he left.", ["Ann saw that he left.", "Ann saw that she left."])
    'he'
    """
    for word, *others in zip(sentence.split(), *(v.split() for v in variants), strict=False):
        if len(set(others)) > 1:
            return str(word).strip(".,;:!?'\"")
    return ""
