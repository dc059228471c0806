"""Template audit by contrastive input decoding (CID; Yona et al. 2023, section 4 and appendix C).

Comes in: templates, an axis, the values of λ. Every pair of names of the two groups is decoded both
ways round. Goes out: the continuations with their counts; how far apart the next-token
distributions of the two sides are along the way (`cid_divergence`: Jensen–Shannon, in nats a token,
mean over continuations, drawn over templates and names); and, rated by a lexicon and by nobody
else, the share of continuations that give a protected criterion as the reason.
Refused: templates of which the axis can fill none, or on which an edit was fitted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np

from countergen_edit.data.axis import SPLITS
from countergen_edit.data.splits import check_leakage
from countergen_edit.edits import Edit, applied
from countergen_edit.errors import UserError, unknown
from countergen_edit.metrics.base import UNEDITED, Metric, Subject, register
from countergen_edit.metrics.cid.contrasts import (
    Continuation,
    continuations,
    contrasts_of,
    dataset_name,
    read_continuations,
    template_set,
    write_continuations,
)
from countergen_edit.metrics.cid.criteria import automatic_criteria
from countergen_edit.metrics.cid.statistics import Resampling, fraction_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, estimate
from countergen_edit.models import LanguageModel, check_contrasts

__all__ = [
    "Cid",
    "Continuation",
    "Resampling",
    "automatic_criteria",
    "commonest",
    "continuations",
    "contrasts_of",
    "fraction_rows",
    "read_continuations",
    "template_set",
    "write_continuations",
]

AUTOMATIC = "cid_biased_fraction_automatic"
RATED_BY_LEXICON = {"rated_by": "lexicon, automatically; no person has rated"}
SHOWN = 8
"""Commonest continuations that a row keeps; all are in the store."""


def commonest(items: Sequence[Continuation]) -> list[tuple[str, int]]:
    """Continuations with their counts, commonest first, as the paper's appendix C prints them."""
    return Counter(item.plain for item in items).most_common()


@register("cid")
class Cid(Metric):
    """Contrastive continuations of templates, and how far apart the two sides are on the way.

    Args:
        subject: what the audit is about.
        templates: wordings, of which the axis takes those whose slots it can fill; or such lists by
            axis, where `others` is for the axes that are not named.
        strengths: the values of λ.
        names: how many names of each group; None takes all.
        splits: whose names; `test` names are those on which no edit was fitted.
        max_new_tokens: longest continuation, if its sentence does not end before.
        top_k: how many of the likeliest tokens CID chooses from.

    Raises:
        UserError: the axis can fill no template, an edit is fitted on one, or a setting is out of
            range.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        templates: Sequence[str] | Mapping[str, Sequence[str]] = (),
        strengths: Sequence[float] = (0.0, 10.0, 50.0),
        names: int | None = 4,
        splits: Sequence[str] = ("test",),
        max_new_tokens: int = 16,
        top_k: int = 50,
    ) -> None:
        super().__init__(subject)
        if not strengths:
            raise UserError("metric.cid.strengths names no lambda: give some, such as [0,10,50]")
        if names is not None and names < 1:
            raise UserError(f"metric.cid.names={names}: at least 1, or null for all")
        for split in splits:
            if split not in SPLITS:
                raise unknown("split of metric.cid.splits", split, SPLITS)
        if isinstance(templates, Mapping):
            templates = templates.get(subject.axis.name, templates.get("others", ()))
        self.data = template_set(
            subject.axis, templates, subject.groups, splits=cast(Any, splits), names=names
        )
        check_leakage(
            [s for split, sets in subject.measured for s in sets if split == "fit"], [self.data]
        )
        self.strengths = tuple(dict.fromkeys(map(float, strengths)))
        self.max_new_tokens = max_new_tokens
        self.top_k = top_k

    def check(self, model: LanguageModel) -> None:
        """Refuse prompts that do not fit the context, a bad λ and a K beyond the vocabulary."""
        wanted = contrasts_of(self.data, self.strengths)
        check_contrasts(
            model,
            [c.prompt for c in wanted],
            [c.contrast for c in wanted],
            [c.about.strength for c in wanted],
            max_new_tokens=self.max_new_tokens,
            top_k=self.top_k,
        )

    def continuations(
        self, model: LanguageModel, edit: Edit | None, label: str, store: Path
    ) -> list[Continuation]:
        """The continuations under an edit, from the store where they are already there."""
        path = store / f"{label}.jsonl"
        if not path.is_file():
            with applied(model, edit) if edit is not None else nullcontext():
                found = continuations(
                    model,
                    self.data,
                    self.strengths,
                    max_new_tokens=self.max_new_tokens,
                    top_k=self.top_k,
                )
            write_continuations(path, found)
        return read_continuations(path)

    def rows(self, model: LanguageModel, edit: Edit | None, label: str, store: Path) -> list[Row]:
        """Rows `cid_divergence`, `cid_continuations`, `cid_biased_fraction_automatic`; of an edit,
        `cid_divergence_reduction`, the share of the divergence that is gone.
        """
        seed, data = self.subject.seed, self.data
        items = self.continuations(model, edit, label, store)
        before = self.continuations(model, None, UNEDITED, store)
        draws = Resampling(items, seed)
        rows = []
        for strength in self.strengths:
            now, then = ([i for i in x if i.strength == strength] for x in (items, before))
            after = draws.means(now, [i.divergence for i in now])
            values: dict[str, Estimate] = {
                "cid_divergence": estimate(after, *draws.drawn, within=(0, math.log(2)))
            }
            if edit is not None:
                was = draws.means(then, [i.divergence for i in then])
                with np.errstate(divide="ignore", invalid="ignore"):
                    values["cid_divergence_reduction"] = estimate(
                        1 - after / was, *draws.drawn, within=(-math.inf, 1)
                    )
            for metric, value in values.items():
                rows.append(
                    Row.of_set(
                        data,
                        metric,
                        value,
                        dataset=dataset_name(strength),
                        n=len(now),
                        seed=seed,
                        detail={"lambda": strength, "unit": "nats a token"},
                    )
                )
        marks = {(i.template, i.plain): bool(automatic_criteria(i.plain)) for i in items}
        rows += fraction_rows(
            items, marks, AUTOMATIC, seed, axis=data.axis, rated_by=RATED_BY_LEXICON
        )
        return rows + self._texts(items)

    def _texts(self, items: Sequence[Continuation]) -> list[Row]:
        rows = []
        for template, strength, group in product(
            self.data.templates, self.strengths, self.data.groups
        ):
            chosen = [
                i for i in items if (i.template, i.strength, i.group) == (template, strength, group)
            ]
            counts = commonest(chosen)
            rows.append(
                Row.of_set(
                    self.data,
                    "cid_continuations",
                    len(counts),
                    dataset=dataset_name(strength, template),
                    group_a=group,
                    group_b="",
                    n=len(chosen),
                    seed=self.subject.seed,
                    detail={
                        "lambda": strength,
                        "template": template,
                        "counts": [list(pair) for pair in counts[:SHOWN]],
                        "automatic": {
                            text: list(found)
                            for text, _ in counts[:SHOWN]
                            if (found := automatic_criteria(text))
                        },
                    },
                )
            )
        return rows
