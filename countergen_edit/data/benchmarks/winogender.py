"""Winogender as its authors published it: a sentence thrice, with he, she and they.

Comes in: the table of all sentences, and the statistics of occupations. Goes out: sentences, each
with its pronoun. Refused: a sentence without its two twins, or an occupation without statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table
from countergen_edit.data.benchmarks.files import Files

SENTENCES, STATISTICS = (
    "Winogender/data/all_sentences.tsv",
    "Winogender/data/occupations-stats.tsv",
)
GENDERS = ("male", "female", "neutral")


@dataclass(frozen=True)
class WinogenderSentence:
    """A sentence about someone at work and another person, of whom a pronoun means one."""

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
    """Percent of women among those who have the occupation, in the United States (BLS)."""

    @property
    def meant(self) -> str:
        """Whom the pronoun refers to."""
        return self.occupation if self.means_occupation else self.participant

    @property
    def other(self) -> str:
        """Whom it does not."""
        return self.participant if self.means_occupation else self.occupation


def read_winogender(files: Files) -> list[WinogenderSentence]:
    """Every sentence, in the order of the table.

    Raises:
        UserError: a file is not there, or is not what it should be.
    """
    women = _women(files)
    path = files.path(SENTENCES)
    _, rows = csv_table(path, "\t")
    texts = {str(row["sentid"]): str(row["sentence"]) for _, row in rows}
    sentences = []
    for where, row in rows:
        parts = str(row["sentid"]).removesuffix(".txt").split(".")
        if len(parts) != 4 or parts[0] not in women:
            raise UserError(f"{where}{row['sentid']!r} names no occupation that there is")
        occupation, participant, answer, gender = parts
        twins = [f"{occupation}.{participant}.{answer}.{one}.txt" for one in GENDERS]
        if any(twin not in texts for twin in twins):
            raise UserError(f"{where}a sentence of {', '.join(GENDERS)} each is needed")
        sentences.append(
            WinogenderSentence(
                row["sentid"],
                row["sentence"],
                _pronoun(row["sentence"], [texts[twin] for twin in twins]),
                gender,
                occupation,
                participant,
                answer == "0",
                women[occupation],
            )
        )
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


def _pronoun(sentence: str, twins: list[str]) -> str:
    """The first word in which a sentence and its twins differ.

    >>> _pronoun("Ann saw that he left.", ["Ann saw that he left.", "Ann saw that she left."])
    'he'
    """
    for word, *others in zip(sentence.split(), *(twin.split() for twin in twins), strict=False):
        if len(set(others)) > 1:
            return str(word).strip(".,;:!?'\"")
    return ""
