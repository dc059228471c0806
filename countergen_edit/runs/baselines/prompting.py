"""Prompting: the model is told to treat the groups alike before every text, and nothing is edited.

Where the model has a chat template, the request is a user's message, with the model's neutral
instruction to write, and the text is the beginning of its reply; beside it stands the template with
the instruction alone, since a template changes a model by itself, unless all texts stand in it
anyway. Where there is none, the request is a line before the text. Comes in: requests with slots
for the people of both groups. Goes out: one edit for each, which puts words before a text. Refused:
a slot that is unknown, a request that leaves no room for the texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import Formatter

from countergen_edit.core.conf_path import read_config
from countergen_edit.data.axis import Group
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.edits.record import PROMPTING, TEMPLATE
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.runs.baselines.base import Baseline, kept
from countergen_edit.runs.study import Study
from countergen_edit.models import LanguageModel, encode, preface_ids
from countergen_edit.models.tokens import before_reply, has_chat_template

ALONE = "template alone"
SLOTS = ("a", "b")


class Prompting(Baseline):
    """What prompting does.

    Args:
        requests: what is asked, by its name in tables; {a} and {b} stand for the people of the
            first and the second group; of more groups, of all but the last and of the last. Those
            of the configuration unless given.
        people: the groups in the plural; None takes the axis's form `people`, else their names.

    Raises:
        UserError: there is no request, or one has an unknown slot.
    """

    def __init__(
        self,
        requests: Mapping[str, str] | None = None,
        people: Sequence[str] | None = None,
    ) -> None:
        ours = read_config("baseline", PROMPTING)[PROMPTING]
        self.requests = dict(ours["requests"] if requests is None else requests)
        self.people = None if people is None else tuple(people)
        if not self.requests:
            raise UserError(
                "baseline.prompting.requests is empty: write one, such as {mine: Be fair.}"
            )
        if self.people is not None and len(self.people) != len(SLOTS):
            raise UserError(
                f"baseline.prompting.people={[*self.people]}: name the people of two groups"
            )
        for name, words in self.requests.items():
            for slot in _slots(name, words):
                if slot not in SLOTS:
                    raise unknown(f"slot of request {name!r}", slot, SLOTS)

    def check(self, model: LanguageModel, task: Task) -> None:
        """Refuse a request that leaves no room in the context for the task's texts."""
        texts = [
            v.text + output
            for data in task.every_set
            for sample in data.samples
            for v in sample.variations
            for output in sample.outputs
        ]
        running = [text for of_split in task.neutral.values() for text in of_split]
        for words in self._messages(task).values():
            asked = model.with_preface(preface_ids(model, self.preface(model, words)), words)
            encode(asked, [*texts, *running])

    def groups(self, study: Study, name: str, tested: Sequence[NamedEdit]) -> list[list[NamedEdit]]:
        """Each request by itself, none of which is chosen; first, the template alone."""
        return [
            [self._edit(study, name, request, words)]
            for request, words in self.told(study.model, study.task).items()
        ]

    def _messages(self, task: Task) -> dict[str, str]:
        """Each request with the people of the task in it."""
        a, b = self._people(task)
        return {name: words.format(a=a, b=b) for name, words in self.requests.items()}

    def told(self, model: LanguageModel, task: Task) -> dict[str, str]:
        """What the model is told, by what it is called; nothing is asked in the template alone."""
        alone = {"": ""} if has_chat_template(model) and not model.chat.is_on else {}
        return alone | self._messages(task)

    def preface(self, model: LanguageModel, words: str) -> str:
        if has_chat_template(model):
            chat = replace(model.chat, request=words)
            return before_reply(model, chat.message(chat.instruction))
        return f"{words}\n"

    def _edit(self, study: Study, name: str, request: str, words: str) -> NamedEdit:
        model, template = study.model, getattr(study.model.tokenizer, "chat_template", None)
        basis = [model.fingerprint, model.adds_bos, template, study.task.name, words]
        return kept(
            study,
            name,
            [*basis, model.chat.instruction if template else "", model.chat.is_on],
            lambda: Edit((), self.preface(model, words), words),
            baseline_kind=PROMPTING if request else TEMPLATE,
            variant=request or ALONE,
            params={"words": words, "people": [*self._people(study.task)]},
        )

    def _people(self, task: Task) -> tuple[str, str]:
        """The groups in the plural."""
        if self.people is not None:
            return self.people[0], self.people[1]
        *others, last = (_plural(task.axis.groups[group]) for group in task.groups)
        return ", ".join(others), last


def _plural(group: Group) -> str:
    return group.forms.get("people", group.name.replace("_", " "))


def _slots(name: str, words: str) -> list[str]:
    """The slots of a request.

    Raises:
        UserError: its braces do not close.
    """
    try:
        return [slot for _, slot, _, _ in Formatter().parse(words) if slot is not None]
    except ValueError as error:
        raise UserError(f"request {name!r}, {words!r}: {error}") from error
