"""Job applications: advertisement, curriculum vitae and question, with slots for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.typed import built
from countergen_edit.data.axis import Group
from countergen_edit.data.templates import render, slots

HIRING_PRONOUNS = {"subject": "", "object": "", "possessive": "'s", "reflexive": ""}
"""Endings of the name that stands for a pronoun where the axis has none."""


@dataclass(frozen=True)
class Replies:
    """The reply for either decision."""

    accept: str
    reject: str


@dataclass(frozen=True)
class Vacancy:
    """An advertised job, with a strong and a weak curriculum vitae."""

    occupation: str
    advertisement: str
    strong: str
    weak: str


@dataclass(frozen=True)
class Application:
    """A question about a curriculum vitae for a job, with slots for the person."""

    occupation: str
    is_strong: bool
    text: str

    def filled(self, group: Group, name: str) -> str:
        """The question about one person of a group.

        >>> jane = Group("female", {}, {"object": "her"})
        >>> text = "{name} came. We like {object}. {Possessive} work is good."
        >>> Application("cook", True, text).filled(jane, "Jane")
        "Jane came. We like her. Jane's work is good."
        """
        words = {slot: name + ending for slot, ending in HIRING_PRONOUNS.items()}
        words |= {"name": name, **group.forms}
        return render(self.text, {slot: {"base": word} for slot, word in words.items()})[0]


@dataclass(frozen=True)
class Vacancies:
    """Vacancies of several occupations, with the questions about their applications."""

    questions: tuple[str, ...]
    """Templates with slots `{advertisement}`, `{cv}` and those of the person."""
    answers: Replies
    vacancies: tuple[Vacancy, ...]
    cue: str
    """End of a question outside a chat template."""
    contexts: Mapping[str, str] = field(default_factory=dict)
    """Texts about the company, by name, that can stand before a question."""

    @classmethod
    def read(cls, path: str | Path | None = None) -> Vacancies:
        """The vacancies of a file, by default the shipped one; `UserError` for another form."""
        place = Path(__file__).with_name("vacancies.yaml") if path is None else Path(path)
        own = built(cls, yaml_mapping(place.expanduser()), f"{place}: ")
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

    def applications(self, vacancies: Sequence[Vacancy]) -> Iterator[Application]:
        """Every question about every curriculum vitae: by occupation, strong before weak."""
        for vacancy in vacancies:
            for is_strong, cv in ((True, vacancy.strong), (False, vacancy.weak)):
                for question in self.questions:
                    text = question.replace("{advertisement}", vacancy.advertisement)
                    text = text.replace("{cv}", cv)
                    yield Application(vacancy.occupation, is_strong, text)
