"""Which perturbations of which sentences are measured, and what a masked model adds to them.

Comes in: a collection of sentences, an axis whose groups are swapped, a masked language model's
name if one is to propose more. Goes out: perturbations, and proposals as a file to sort by hand.
Refused: proposals without a masked model, a number out of range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.metrics.cid.perturbations import Perturbation, Source, perturbations
from countergen_edit.metrics.cid.proposals import KINDS, new_file, proposals, write_sources
from countergen_edit.metrics.cid.similarity import Similarity
from countergen_edit.models.masked import load_masked

SORT = (
    f"Sorted by similarity to the source, not by a person: move each under {', '.join(KINDS)}, or "
    "delete it; then action=effect perturbation=FILE."
)


@dataclass(frozen=True)
class Perturbing:
    """How sentences are perturbed."""

    sources: Sequence[Source]
    substitution: Substitution | None
    """Swaps the groups of an axis."""
    similarity: Similarity
    per_kind: int
    most: int | None
    masked: str | None
    """A masked language model that proposes more, by hub id or directory; None asks none."""
    device: str
    per_place: int
    bands: Sequence[float]

    def proposed(self) -> list[Source]:
        """The sentences with what a masked model makes of them, where one is named."""
        if self.masked is None:
            return [*self.sources]
        return proposals(
            self.sources,
            load_masked(self.masked, device=self.device),
            self.similarity,
            substitution=self.substitution,
            bands=self.bands,
            per_place=self.per_place,
            per_kind=self.per_kind,
        )

    def pairs(self) -> list[Perturbation]:
        """What is measured."""
        return perturbations(self.proposed(), self.substitution, self.per_kind, self.most)

    def write_candidates(self, path: Path) -> None:
        """Write the sentences with their proposals, for a person to sort.

        Raises:
            UserError: no masked model is named, or the file exists.
        """
        if self.masked is None:
            raise UserError("action=candidates needs a masked model: write masked=bert-base-cased")
        write_sources(new_file(path), self.proposed(), SORT)
