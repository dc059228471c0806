"""Edits with an identity: what a run keeps of each, from the moment it is fitted.

Comes in: a fitted edit with the eraser and parameters that made it. Goes out: a folder with its
tensors and its record, and the edit again, bit for bit. A label is made for people and never
parsed. Refused: a folder that holds no such edit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from countergen_edit.edits.edit import Edit
from countergen_edit.edits.files import load_edit, save_edit
from countergen_edit.errors import UserError
from countergen_edit.writing import as_json, digest, whole_folder

RECORD = "record.json"
COMBINED = "combination"
"""The eraser of an edit whose parts differ in eraser, parameters, site or task."""
ASKING, TEMPLATE = "asking", "template"
"""Kinds of what stands beside edits: a request, and the chat template it goes through, alone."""
_LONGEST_STEM = 40
"""Characters of an eraser's name in an id: the name may be a path."""


@dataclass(frozen=True)
class Place:
    """Where an erasure acts, and how many dimensions it takes."""

    site: str
    layer: int | None
    rank: int
    limit: float | None = field(default=None, compare=False)
    """Norm above which a token is left as it is. It follows from the data, so that edits made in
    the same way on other data act at the same place."""

    def __str__(self) -> str:
        return self.site if self.layer is None else f"{self.site}.{self.layer}"


@dataclass(frozen=True)
class EditRecord:
    """What is known of an edit besides its tensors."""

    id: str
    """Follows from all that the edit depends on, and is the same in every process."""
    eraser: str
    """The eraser's name in the run; `COMBINED` for an edit of several parts."""
    params: Mapping[str, Any]
    """The eraser's parameters that are not its defaults."""
    places: tuple[Place, ...]
    parts: tuple[EditRecord, ...] = ()
    """What it is composed of; empty for an edit fitted as one."""
    baseline: bool = False
    task: str = ""
    """The task that it was fitted on; those of its parts joined by `+`."""
    beside: str = ""
    """What kind of other way to the same end it is, which stands beside edits in tables; empty for
    an edit and for its control. Such a way is a `baseline`: no choice falls on it."""
    variant: str = ""
    """What tells edits of one eraser and place apart in labels: a request, a strength."""
    after: tuple[Place, ...] = ()
    """Places of the edits under which it was fitted; empty for one fitted on the unedited model."""

    @property
    def rank(self) -> int:
        """Dimensions removed, summed over places."""
        return sum(place.rank for place in self.places)

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(place.layer for place in self.places if place.layer is not None)

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.site for place in self.places))

    @property
    def label(self) -> str:
        """What people read in tables.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).label
        'rlace-1@resid_post.3'
        >>> parts = [EditRecord("a", "leace", {}, (Place("resid_post", i, 1),)) for i in (2, 3)]
        >>> EditRecord("1f", COMBINED, {}, parts[0].places + parts[1].places, (*parts,)).label
        'leace-1@resid_post.2 + .3'
        >>> EditRecord("1f", "asking", {}, (), variant="alike").label
        'asking (alike)'
        >>> EditRecord("1f", "leace", {}, parts[1].places, after=parts[0].places).label
        'leace-1@resid_post.3 (after resid_post.2)'
        """
        if self.eraser != COMBINED:
            rank = f"-{self.rank}" if self.rank else ""
            place = f"@{_joined(self.places)}" if self.places else ""
            after = f"after {_joined(self.after)}" if self.after else ""
            told = ", ".join(filter(None, (self.variant, after)))
            return f"{self.eraser}{rank}{place}" + (f" ({told})" if told else "")
        labels: list[str] = []
        before: EditRecord | None = None
        for part in (replace(part, after=()) for part in self.parts):
            label = (
                f".{part.layers[0]}" if before and before._differs_by_layer(part) else part.label
            )
            labels.append(label if part.task == self.task else f"{label} ({part.task})")
            before = part
        return " + ".join(labels)

    def _differs_by_layer(self, other: EditRecord) -> bool:
        """Whether nothing else that a label tells is different, at one layer each."""
        mine, its = (
            (r.eraser, r.rank, r.sites, len(r.layers), len(r.places), r.task) for r in (self, other)
        )
        return mine == its and len(self.layers) == len(self.places) == 1

    @property
    def called(self) -> str:
        """What a sentence calls it: its places are told only where it has several.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).called
        'rlace (rank 1)'
        """
        return self.label if len(self.places) > 1 else f"{self.eraser} (rank {self.rank})"

    @property
    def columns(self) -> dict[str, Any]:
        """Its columns in a result row."""
        return {
            "edit": self.id,
            "eraser": self.eraser,
            "site": "+".join(self.sites),
            "layers": self.layers,
            "rank": self.rank,
            "baseline": self.baseline,
        }

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> EditRecord:
        """Read a record back."""
        own: dict[str, Any] = {
            key: tuple(Place(**place) for place in places)
            for key, places in (("places", content["places"]), ("after", content.get("after", ())))
        }
        own["parts"] = tuple(cls.from_dict(part) for part in content["parts"])
        return cls(**{**content, **own})


@dataclass(frozen=True, eq=False)
class NamedEdit:
    """An edit and its record."""

    record: EditRecord
    edit: Edit = field(repr=False)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def label(self) -> str:
        return self.record.label

    @classmethod
    def of(
        cls,
        edit: Edit,
        eraser: str,
        params: Mapping[str, Any] | None = None,
        *,
        basis: object = None,
        baseline: bool = False,
        task: str = "",
        beside: str = "",
        variant: str = "",
        after: Sequence[Place] = (),
    ) -> NamedEdit:
        """Name an edit that was fitted as one.

        Args:
            edit: what was fitted.
            eraser: the eraser's name in the run.
            params: its parameters, those that are not defaults.
            basis: all that the fit depends on, from which the id is made; without it the id is made
                from the tensors.
            baseline: whether it is a control.
            task: the task that it was fitted on.
            beside: the kind of other way that it is; it is then a baseline.
            variant: what tells it apart in labels.
            after: places of the edits under which it was fitted.
        """
        key = edit_id(eraser, basis) if basis is not None else edit_id(eraser, edit.digest)
        about = as_json(params or {}), _places(edit), (), baseline or bool(beside), task
        return cls(EditRecord(key, eraser, *about, beside, variant, tuple(after)), edit)

    @classmethod
    def combined(cls, parts: Sequence[NamedEdit]) -> NamedEdit:
        """Several edits as one; a single one is itself.

        Parts of one eraser at one site are one edit of that eraser, as if it were fitted as one.
        A combination that is itself a part stands for its own parts.

        Raises:
            UserError: two of them act at the same place.
        """
        if len(parts) == 1:
            return parts[0]
        records = tuple(leaf for part in parts for leaf in part.record.parts or (part.record,))
        first = records[0]
        # A control's parameters are its seeds, of which no two places have the same.
        kinds = {
            (r.eraser, r.sites, r.task, "" if r.baseline else digest(r.params)) for r in records
        }
        eraser = first.eraser if len(kinds) == 1 else COMBINED
        record = EditRecord(
            id=edit_id(eraser, [leaf.id for leaf in records]),
            eraser=eraser,
            params=first.params if len(kinds) == 1 else {},
            places=tuple(place for leaf in records for place in leaf.places),
            parts=records,
            baseline=all(leaf.baseline for leaf in records),
            task="+".join(dict.fromkeys(leaf.task for leaf in records)),
        )
        return cls(record, sum((part.edit for part in parts[1:]), parts[0].edit))

    def save(self, directory: Path, made_for: str | None = None) -> None:
        """Write the edit as a folder, which appears by one rename when it is whole.

        Args:
            directory: the folder; what it held is replaced.
            made_for: `LanguageModel.fingerprint` of the model whose activations it was fitted on.

        Raises:
            UserError: the disk is full, or the folder cannot be written.
        """
        with whole_folder(directory) as folder:
            save_edit(self.edit, folder, made_for=made_for)
            text = json.dumps(self.record.to_dict(), indent=2, ensure_ascii=False) + "\n"
            (folder / RECORD).write_text(text, "utf-8")

    @classmethod
    def load(cls, directory: Path) -> NamedEdit:
        """Read an edit that `save` wrote.

        Raises:
            UserError: the folder holds none, or its files do not belong together.
        """
        record, edit = read_record(directory), load_edit(directory)
        if record.places != _places(edit):
            raise UserError(f"{directory} is damaged: {RECORD} tells of other places than the edit")
        return cls(record, edit)


def read_record(directory: Path) -> EditRecord:
    """The record of a saved edit, without its tensors.

    Raises:
        UserError: the folder holds none.
    """
    path = directory / RECORD
    try:
        return EditRecord.from_dict(json.loads(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise UserError(f"{directory} holds no edit: {RECORD} is missing") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def edit_id(eraser: str, basis: object) -> str:
    """An edit's id: short, the same in every process, and fit to name a folder.

    >>> edit_id("my eraser", {"rank": 1})
    'my-eraser-c017912045'
    """
    stem = "".join(c if c.isalnum() else "-" for c in eraser)
    return f"{stem[-_LONGEST_STEM:]}-{digest([eraser, basis])[:10]}"


def _places(edit: Edit) -> tuple[Place, ...]:
    return tuple(Place(p.site, p.layer, p.erasure.rank, p.limit) for p in edit.placements)


def _joined(places: Sequence[Place]) -> str:
    """Places in a label: a site is told once for all of its layers that follow each other.

    >>> _joined([Place("resid_post", 2, 1), Place("resid_post", 3, 1), Place("mlp_out", 3, 1)])
    'resid_post.2+3+mlp_out.3'
    """
    sites = ["", *(place.site for place in places)]
    return "+".join(
        str(place.layer) if place.site == before else str(place)
        for before, place in zip(sites, places, strict=False)
    )
