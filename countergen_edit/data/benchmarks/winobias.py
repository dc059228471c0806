"""WinoBias as its authors published it: whom does a pronoun refer to, in two stereotypes?

Comes in: the four test files, in which the person meant and the pronouns stand in brackets, and the
lists of occupations. Goes out: sentences without brackets. The development files are not read.
Refused: a sentence in which no person, or not two occupations, are found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import text_of
from countergen_edit.data.benchmarks.files import Files

TYPES = ("type1", "type2")
STEREOTYPES = ("pro", "anti")
PRONOUNS = {
    **dict.fromkeys(("she", "her", "hers", "herself"), "female"),
    **dict.fromkeys(("he", "him", "his", "himself"), "male"),
}
_BRACKETS = re.compile(r"\[([^]]*)\]")


@dataclass(frozen=True)
class WinoBiasSentence:
    """A sentence about two people of different occupations, of whom a pronoun means one."""

    id: str
    """Type, stereotype and number in the file."""
    type: str
    """In `type1` only knowledge of the world tells whom the pronoun means, in `type2` syntax."""
    stereotype: str
    """Whether the pronoun's gender is that in which the occupation is stereotyped: `pro`, `anti`"""
    sentence: str
    pronoun: str
    """The first, as it stands there."""
    meant: str
    """The occupation of the person whom it refers to."""
    other: str


def file_of(stereotype: str, kind: str) -> str:
    """The path of one of the four files."""
    return f"WinoBias/data/{stereotype}_stereotyped_{kind}.txt.test"


def read_winobias(files: Files) -> list[WinoBiasSentence]:
    """Every sentence, by type, first those that follow the stereotype.

    Raises:
        UserError: a file is not there, or is not what it should be.
    """
    lists = [files.path(f"WinoBias/data/{gender}_occupations.txt") for gender in ("male", "female")]
    occupations = [line.strip() for path in lists for line in text_of(path).splitlines()]
    sentences = []
    for kind in TYPES:
        for stereotype in STEREOTYPES:
            path = files.path(file_of(stereotype, kind))
            for number, line in enumerate(text_of(path).splitlines(), start=1):
                if line.strip():
                    where = f"{path}, line {number}: "
                    about = (f"{kind}.{stereotype}.{number}", kind, stereotype)
                    sentences.append(_sentence(line, occupations, about, where))
    return sentences


def _sentence(
    line: str, occupations: list[str], about: tuple[str, str, str], where: str
) -> WinoBiasSentence:
    text = line.strip().partition(" ")[2]
    marked = _BRACKETS.findall(text)
    pronouns = [word for word in marked if word.lower() in PRONOUNS]
    people = [words for words in marked if words.lower() not in PRONOUNS]
    sentence = _BRACKETS.sub(r"\1", text)
    named = [one for one in occupations if one and _names(sentence, one)]
    meant = [one for one in named if people and _names(people[0], one)]
    if not pronouns or len(people) != 1 or len(named) != 2 or len(meant) != 1:
        raise UserError(
            f"{where}one person and a pronoun in brackets and two occupations are needed"
        )
    [other] = [one for one in named if one != meant[0]]
    return WinoBiasSentence(*about, sentence, pronouns[0], meant[0], other)


def _names(text: str, occupation: str) -> bool:
    return re.search(rf"\b{re.escape(occupation)}\b", text, re.IGNORECASE) is not None
