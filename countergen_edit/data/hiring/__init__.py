"""Applications for jobs: an advertisement, a curriculum vitae and a question, about anybody.

Comes in: a file of vacancies in the form of `vacancies.yaml`, which is ours. Goes out: `Vacancies`,
whose applications are filled with a person of a group. Refused: a file of another form, a slot that
nobody fills, a text in which the person is not named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.typed import built
from countergen_edit.data.axis import Group
from countergen_edit.data.templates import render, slots

OURS = Path(__file__).with_name("vacancies.yaml")
STRENGTHS = ("strong", "weak")
PRONOUNS = {
    "subject": "{name}",
    "object": "{name}",
    "possessive": "{name}'s",
    "reflexive": "{name}",
}
"""What stands for a pronoun where the axis has none."""


@dataclass(frozen=True)
class Answers:
    """What either decision is in a reply."""

    accept: str
    reject: str


@dataclass(frozen=True)
class Vacancy:
    """A job that is advertised, and two people who might have applied."""

    occupation: str
    advertisement: str
    strong: str
    weak: str


@dataclass(frozen=True)
class Application:
    """One question about one curriculum vitae for one job, with slots for the person."""

    occupation: str
    strength: str
    question: int
    text: str

    def filled(self, group: Group, name: str) -> str:
        """The question about one person.

        >>> jane = Group("female", {}, {"object": "her"})
        >>> text = "{name} came. We like {object}. {Possessive} work is good."
        >>> Application("cook", "strong", 0, text).filled(jane, "Jane")
        "Jane came. We like her. Jane's work is good."
        """
        words = {slot: text.format(name=name) for slot, text in PRONOUNS.items()}
        words |= {"name": name, **group.forms}
        return render(self.text, {slot: {"base": word} for slot, word in words.items()})[0]


@dataclass(frozen=True)
class Vacancies:
    """Vacancies and how they are asked about.

    Attributes:
        questions: with slots {advertisement}, {cv} and those of the person.
        answers: of the model.
        vacancies: one for each occupation.
        cue: ends a question that is not asked in a chat template.
    """

    questions: tuple[str, ...]
    answers: Answers
    vacancies: tuple[Vacancy, ...]
    cue: str

    @classmethod
    def read(cls, path: str | Path | None = None) -> Vacancies:
        """The vacancies of a file; ours unless given.

        Raises:
            UserError: it is not there, or is of another form.
        """
        place = OURS if path is None else Path(path).expanduser()
        content: Mapping[str, Any] = yaml_mapping(place)
        own = built(cls, content, f"{place}: ")
        occupations = [vacancy.occupation for vacancy in own.vacancies]
        if not own.questions or len({*occupations}) < 2:
            raise UserError(f"{place} needs a question, and vacancies of two occupations or more")
        if twice := next((o for o in occupations if occupations.count(o) > 1), None):
            raise UserError(f"{place} has occupation {twice!r} twice")
        for question in own.questions:
            for slot in ("advertisement", "cv", "name"):
                if slot not in slots(question):
                    raise UserError(f"{place}: a question lacks {{{slot}}}: {question[:60]!r}")
        return own

    def applications(self) -> Iterator[Application]:
        """Every question about every curriculum vitae: by occupation, strong before weak."""
        for vacancy in self.vacancies:
            for strength in STRENGTHS:
                parts = {"advertisement": vacancy.advertisement, "cv": getattr(vacancy, strength)}
                for number, question in enumerate(self.questions):
                    text = question
                    for slot, part in parts.items():
                        text = text.replace(f"{{{slot}}}", part)
                    yield Application(vacancy.occupation, strength, number, text)
