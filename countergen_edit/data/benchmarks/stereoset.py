"""StereoSet as its authors published it: a context, and three ways in which it may go on.

Comes in: `dev.json`, the part with labels that everybody measures on. Goes out: items. Refused: an
item that has not one sentence of each label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import built
from countergen_edit.data.benchmarks.files import Files

FILE = "StereoSet/data/dev.json"
PARTS = ("intrasentence", "intersentence")
BIAS_TYPES = ("gender", "profession", "race", "religion")
LABELS = ("stereotype", "anti-stereotype", "unrelated")
Part = Literal["intrasentence", "intersentence"]


@dataclass(frozen=True)
class StereoSetItem:
    """A context about a target, and one sentence of each label."""

    id: str
    part: str
    target: str
    """Whom it is about, such as `schoolgirl`."""
    bias_type: str
    context: str
    """Between sentences what stands before; within one the sentence with a gap, `BLANK`."""
    stereotype: str
    anti_stereotype: str
    unrelated: str

    @property
    def sentences(self) -> tuple[str, str, str]:
        """In the order of `LABELS`."""
        return self.stereotype, self.anti_stereotype, self.unrelated


@dataclass(frozen=True)
class _Sentence:
    sentence: str
    gold_label: str


@dataclass(frozen=True)
class _Entry:
    id: str
    target: str
    bias_type: str
    context: str
    sentences: list[_Sentence]


def read_stereoset(files: Files) -> list[StereoSetItem]:
    """Every item, those within a sentence first.

    Raises:
        UserError: a file is not there, or is not what it should be.
    """
    path = files.path(FILE)
    data: Any = json_mapping(path).get("data")
    items = []
    for part in PARTS:
        for number, content in enumerate(data[part]):
            where = f"{path}: {part} {number}: "
            entry = built(_Entry, content, where)
            by_label = {one.gold_label: one.sentence for one in entry.sentences}
            if sorted(one.gold_label for one in entry.sentences) != sorted(LABELS):
                raise UserError(f"{where}one sentence each of {', '.join(LABELS)} is needed")
            own = [by_label[label] for label in LABELS]
            about = (entry.id, part, entry.target, entry.bias_type, entry.context)
            items.append(StereoSetItem(*about, *own))
    return items
