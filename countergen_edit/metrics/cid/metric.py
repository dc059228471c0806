"""Template audit by contrastive input decoding (CID; Yona et al. 2023, section 4 and appendix C).

Comes in: templates, the values of λ, and a task for its axis and groups. Every pair of names of the
two groups is decoded both ways round. Goes out: the continuations with their counts; how far apart
the next-token distributions of the two sides are along the way (`cid_divergence`: Jensen–Shannon,
in nats a token, mean over continuations, drawn over templates and names); and, rated by a lexicon
and by nobody else, the share of continuations that give a protected criterion as the reason.
Refused: templates of which the axis can fill none, or on which an edit was fitted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, cast

import numpy as np

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.splits import check_leakage, check_texts
from countergen_edit.data.subsets import few_prompts
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.cid.contrasts import (
    DATASET,
    LAMBDA,
    TEMPLATE,
    Continuation,
    continuations,
    contrasts_of,
    own_set,
    read_continuations,
    template_set,
    write_continuations,
)
from countergen_edit.metrics.cid.criteria import automatic_criteria
from countergen_edit.metrics.cid.statistics import Resampling, fraction_rows
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, estimate
from countergen_edit.models import LanguageModel, Workload, check_contrasts

AUTOMATIC = "cid_biased_fraction_automatic"
RATED_BY_LEXICON = {"rated_by": "lexicon, automatically; no person has rated"}
NATS = "nats a token"
MOST = 12
"""Commonest continuations that a row keeps, as many as the longest cell of the paper's appendix C
has; all are in the store."""


def commonest(items: Sequence[Continuation]) -> list[tuple[str, int]]:
    """Continuations with their counts, commonest first, as the paper's appendix C prints them."""
    return Counter(item.plain for item in items).most_common()


class Cid(Metric):
    """Contrastive continuations of templates, and how far apart the two sides are on the way.

    Args:
        templates: templates, of which the axis takes those whose slots it can fill; or such lists
            by axis, where `others` is for the axes that are not named. None takes those of
            `conf/metric/cid.yaml`. Prompts of the user's own stand for both but for such a list.
        strengths: the values of λ.
        names: how many names of each group, from the front of its lists; by split where it is a
            mapping; None takes all.
        splits: whose names; `test` names are those on which no edit was fitted.
        max_new_tokens: longest continuation, if its sentence does not end before.
        top_k: how many of the likeliest tokens CID chooses from.

    Raises:
        UserError: a setting is out of range.
    """

    title = "Contrastive input decoding (CID)"
    is_slow: ClassVar[bool] = True
    is_generating: bool = True

    def __init__(
        self,
        *,
        templates: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        strengths: Sequence[float] = (0.0, 10.0, 50.0),
        names: int | Mapping[str, int] | None = 4,
        splits: Sequence[str] = ("test",),
        max_new_tokens: int = 16,
        top_k: int = 50,
    ) -> None:
        if not strengths:
            raise UserError("metric.cid.strengths names no lambda: give some, such as [0,10,50]")
        counts = names.values() if isinstance(names, Mapping) else [1 if names is None else names]
        if any(
            isinstance(count, bool) or not isinstance(count, int) or count < 1 for count in counts
        ):
            raise UserError(f"metric.cid.names={names}: at least 1, or null for all")
        for split in (*splits, *(names if isinstance(names, Mapping) else ())):
            if split not in SPLITS:
                raise unknown("split of metric.cid.splits", split, SPLITS)
        self.templates = templates
        self.is_own_list = not (templates is None or isinstance(templates, Mapping))
        self.strengths = tuple(dict.fromkeys(map(float, strengths)))
        self.names = names
        self.splits = tuple(splits)
        self.max_new_tokens = max_new_tokens
        self.top_k = top_k

    def prepare(self) -> None:
        """Cross the templates with names of the task's groups.

        Raises:
            UserError: the axis can fill no template, or an edit is fitted on one.
        """
        templates = self.templates
        if templates is None:
            templates = read_config("metric", "cid")["cid"]["templates"]
        if isinstance(templates, Mapping):
            templates = templates.get(self.task.axis.name, templates.get("others", ()))
        if self.task.own and not self.is_own_list:
            names = cast(Any, self.names)
            self.data = own_set(self.task.own, self.task.axis.name, self.task.pair, names)
        else:
            self.data = template_set(
                self.task.axis,
                templates,
                self.task.pair,
                splits=cast(Any, self.splits),
                names=cast(Any, self.names),
            )
        if self.task.limit is not None:
            self.data = few_prompts(self.data, self.task.limit, 0)
        check_leakage(self.task.fit, [self.data])
        check_texts(self.task.background, [self.data])

    def check(self, model: LanguageModel) -> None:
        """Refuse prompts that do not fit the context, a bad λ and a K beyond the vocabulary."""
        contrasts = contrasts_of(self.data, self.strengths)
        check_contrasts(
            model,
            [c.prompt for c in contrasts],
            [c.contrast for c in contrasts],
            [c.about.strength for c in contrasts],
            max_new_tokens=self.max_new_tokens,
            top_k=self.top_k,
        )

    def workload(self) -> Workload:
        """Every prompt of every contrast, up to the end of its sentence."""
        return Workload(
            continued=tuple(c.prompt for c in contrasts_of(self.data, self.strengths)),
            max_new_tokens=self.max_new_tokens,
        )

    def continuations(
        self, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[Continuation]:
        """The continuations under an edit, from the store where they are already there."""
        path = context.place(DATASET, edit)
        if not path.is_file():
            with context.under(edit) as model:
                items = continuations(
                    model,
                    self.data,
                    self.strengths,
                    max_new_tokens=self.max_new_tokens,
                    top_k=self.top_k,
                )
            write_continuations(path, items)
        return read_continuations(path)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `cid_divergence`, `cid_continuations`, `cid_biased_fraction_automatic`; of an edit,
        `cid_divergence_reduction`, the share of the divergence that is gone. None on validation.
        """
        if split == "validation":
            return []
        seed = context.seed
        items = self.continuations(context, edit)
        before = self.continuations(context, None)
        draws = Resampling(items, seed)
        rows = []
        for strength in self.strengths:
            now, then = ([i for i in x if i.strength == strength] for x in (items, before))
            if all(math.isnan(i.divergence) for i in now):
                continue  # a model on a server does not say it
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
                        self.data,
                        metric,
                        value,
                        facets={LAMBDA: strength},
                        n=len(now),
                        seed=seed,
                        detail={"unit": NATS},
                    )
                )
        marks = {(i.template, i.plain): bool(automatic_criteria(i.plain)) for i in items}
        rows += fraction_rows(
            items, marks, AUTOMATIC, seed, axis=self.data.axis, rated_by=RATED_BY_LEXICON
        )
        return rows + self._texts(items, seed)

    def _texts(self, items: Sequence[Continuation], seed: int) -> list[Row]:
        rows = []
        for template, strength, group in product(
            self.data.templates, self.strengths, self.data.groups
        ):
            own = [
                i for i in items if (i.template, i.strength, i.group) == (template, strength, group)
            ]
            counts = commonest(own)
            criteria = {text: list(automatic_criteria(text)) for text, _ in counts[:MOST]}
            rows.append(
                Row.of_set(
                    self.data,
                    "cid_continuations",
                    len(counts),
                    group_a=group,
                    group_b="",
                    facets={LAMBDA: strength, TEMPLATE: template},
                    n=len(own),
                    seed=seed,
                    detail={
                        "counts": [list(pair) for pair in counts[:MOST]],
                        "automatic": {text: names for text, names in criteria.items() if names},
                    },
                )
            )
        return rows
