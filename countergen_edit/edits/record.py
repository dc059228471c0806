"""The record of an edit: its id, origin and label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import built
from countergen_edit.core.writing import digest
from countergen_edit.edits.edit import require_different_places

RECORD = "record.json"
WEIGHTS = "weights"
"""The site of an update of weight matrices."""
COMBINED = "combination"
"""The eraser of an edit whose parts differ in eraser, parameters, site or task."""
PROMPTING, TEMPLATE_KEY = "prompting", "template"
"""Kinds of baselines: a request in the prompt, and the chat template alone."""
MOST_PARTS, NAMED_PARTS = 6, 2
"""Parts up to which a label names each, and those that it names of more."""
_LONGEST_STEM = 40
"""Maximum length of an eraser's name in an id."""


@dataclass(frozen=True)
class Place:
    """Where an erasure acts, and its rank. The limit depends on the data and is not compared."""

    site: str
    layer: int | None
    rank: int
    limit: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """The site and layer; of a head its layer and number, as in `head.25.1`."""
        if self.layer is None:
            return self.site
        name, _, head = self.site.partition(".")
        return ".".join(filter(None, (name, str(self.layer), head)))


@dataclass(frozen=True)
class EditRecord:
    """The origin of an edit, without its tensors."""

    id: str
    """Digest of all that the edit depends on."""
    eraser: str
    """Its name in the run; `COMBINED` for several."""
    params: Mapping[str, Any]
    """Parameters of the eraser that are not defaults."""
    places: tuple[Place, ...]
    parts: tuple[EditRecord, ...] = ()
    """Empty for an edit that was fitted as one."""
    baseline: bool = False
    """Whether it is a control or another method, which is never selected."""
    task: str = ""
    """The tasks that it was fitted on, joined by `+`."""
    baseline_kind: str = ""
    """The method, if it is one that edits are compared with."""
    variant: str = ""
    """Distinguishes edits of one eraser and place in labels: a request, a strength."""
    after: tuple[Place, ...] = ()
    """Places of the edits under which it was fitted."""

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
    def is_stock(self) -> bool:
        """Whether weights hold such edits: none of one point of the stream, or of some tokens."""
        return all(p.site not in ("resid_post", "embed") and p.limit is None for p in self.places)

    @property
    def label(self) -> str:
        """The label in tables, which is never parsed.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).label
        'rlace-1@resid_post.3'
        >>> parts = [EditRecord("a", "leace", {}, (Place("resid_post", i, 1),)) for i in (2, 3)]
        >>> EditRecord("1f", COMBINED, {}, parts[0].places + parts[1].places, (*parts,)).label
        'leace-1@resid_post.2 + leace-1@resid_post.3'
        >>> EditRecord("1f", "prompting", {}, (), variant="alike").label
        'prompting (alike)'
        >>> EditRecord("1f", "leace", {}, parts[1].places, after=parts[0].places).label
        'leace-1@resid_post.3 (after resid_post.2)'
        """
        if self.eraser != COMBINED:
            rank = f"-{self.rank}" if self.rank else ""
            place = f"@{_join(self.places)}" if self.places else ""
            after = f"after {_join(self.after)}" if self.after else ""
            note = ", ".join(filter(None, (self.variant, after)))
            return f"{self.eraser}{rank}{place}" + (f" ({note})" if note else "")
        labels = []
        for part in (replace(part, after=()) for part in self.parts):
            labels.append(part.label + (f" ({part.task})" if part.task != self.task else ""))
        if len(labels) > MOST_PARTS:
            labels[NAMED_PARTS:] = [f"{len(labels) - NAMED_PARTS} more"]
        return " + ".join(labels)

    @property
    def name_in_text(self) -> str:
        """The name in sentences, with places only if there are several.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).name_in_text
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
        return asdict(self)

    @classmethod
    def from_dict(cls, content: object, where: str = "record of an edit: ") -> EditRecord:
        """Read the output of `to_dict`; messages of a `UserError` begin with `where`."""
        return built(cls, content, where)


def combined_record(parts: Sequence[EditRecord]) -> EditRecord:
    """The record of several edits as one, fitted or not; its id follows from theirs.

    Raises a `UserError` if two act at one place and the second was not fitted after the first.
    """
    if len(parts) == 1:
        return parts[0]
    records = tuple(leaf for part in parts for leaf in part.parts or (part,))
    for before, after in combinations(records, 2):
        known = {(place.site, place.layer) for place in after.after}
        for mine, its in product(before.places, after.places):
            if (mine.site, mine.layer) not in known:
                require_different_places((mine.site, mine.layer), (its.site, its.layer))
    first = records[0]
    # A control's parameters are its seeds, of which no two places have the same.
    kinds = {(r.eraser, r.sites, r.task, "" if r.baseline else digest(r.params)) for r in records}
    eraser = first.eraser if len(kinds) == 1 else COMBINED
    return EditRecord(
        id=edit_id(eraser, [leaf.id for leaf in records]),
        eraser=eraser,
        params=first.params if len(kinds) == 1 else {},
        places=tuple(place for leaf in records for place in leaf.places),
        parts=records,
        baseline=all(leaf.baseline for leaf in records),
        task="+".join(dict.fromkeys(leaf.task for leaf in records)),
    )


def read_record(directory: Path) -> EditRecord:
    """The record of a saved edit; raises a `UserError` if there is none."""
    path = directory / RECORD
    if not path.is_file():
        raise UserError(f"{directory} holds no edit: {RECORD} is missing")
    return EditRecord.from_dict(json_mapping(path), f"{path} is damaged: ")


def edit_id(eraser: str, basis: object) -> str:
    """A short id that is the same in every process and fits a folder name.

    >>> edit_id("my eraser", {"rank": 1})
    'my-eraser-c017912045'
    """
    stem = "".join(c if c.isalnum() else "-" for c in eraser)
    return f"{stem[-_LONGEST_STEM:]}-{digest([eraser, basis])[:10]}"


def _join(places: Sequence[Place]) -> str:
    """Places in a label; consecutive layers of one site share its name.

    >>> _join([Place("resid_post", 2, 1), Place("resid_post", 3, 1), Place("mlp_out", 3, 1)])
    'resid_post.2+3+mlp_out.3'
    """
    sites = ["", *(place.site for place in places)]
    pairs = zip(sites, places, strict=False)
    return "+".join(str(p).removeprefix(f"{s}." if s == p.site else "") for s, p in pairs)
