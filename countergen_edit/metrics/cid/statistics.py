"""Figures of CID's continuations, and how sure of them one can be.

Comes in: continuations of an audit; for a share, who called which biased: people or a lexicon. Goes
out: means with the draws behind their intervals, and rows of shares by group and λ. What is drawn
is templates and names, never single continuations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.metrics.cid.contrasts import (
    DATASET,
    LAMBDA,
    Continuation,
    groups_of,
    strengths_of,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Weights, estimate, resample


class Resampling:
    """Bootstrap weights of continuations: templates and the names of both sides are drawn.

    Names can be drawn only where every template was asked of the same names. Two lists of
    continuations of one audit meet the same draws, which pairs them.

    Args:
        items: All continuations of an audit.
        seed: The run's seed.
    """

    def __init__(self, items: Sequence[Continuation], seed: int) -> None:
        self.groups = groups_of(items)
        templates = {t: i for i, t in enumerate(dict.fromkeys(item.template for item in items))}
        self._templates = templates, resample(len(templates), seed, "cid", "templates")
        self._names = []
        for group in self.groups:
            names_of: dict[str, dict[str, int]] = {}
            for item in items:
                if item.group == group:
                    of_template = names_of.setdefault(item.template, {})
                    of_template.setdefault(item.own, len(of_template))
            names = next(iter(names_of.values()))
            weights = resample(len(names), seed, "cid", "names", group)
            if any(list(other) != list(names) for other in names_of.values()):
                names = {name: 0 for other in names_of.values() for name in other}
                weights = np.ones((1, 1))
            self._names.append((names, weights))

    @property
    def drawn(self) -> list[Weights]:
        """The weights of each kind of cluster: templates, then the names of either side."""
        return [self._templates[1], *(weights for _, weights in self._names)]

    def weights(self, items: Sequence[Continuation]) -> Float64[np.ndarray, "resample item"]:
        """How often each continuation counts in each resample; the first row is the data itself."""
        places, weights = self._templates
        product = weights[:, [places[item.template] for item in items]]
        for group, (index, weights) in zip(self.groups, self._names, strict=True):
            of_side = [index[i.own if i.group == group else i.other] for i in items]
            product = product * weights[:, of_side]
        return product

    def means(
        self, items: Sequence[Continuation], values: Sequence[float]
    ) -> Float64[np.ndarray, " resample"]:
        """The mean of the values under every resample; NaN where nothing was drawn."""
        weights = self.weights(items)
        with np.errstate(divide="ignore", invalid="ignore"):
            means: Float64[np.ndarray, " resample"] = weights @ np.array(values) / weights.sum(1)
        return means


def fraction_rows(
    items: Sequence[Continuation],
    biased: Mapping[tuple[str, str], bool],
    metric: str,
    seed: int,
    *,
    axis: str,
    rated_by: Mapping[str, Any],
) -> list[Row]:
    """The share of biased continuations by group and λ, a facet (Figures 2, 6 and 7).

    Args:
        items: All continuations of an audit.
        biased: (template, plain text) → whether it is biased.
        metric: `cid_biased_fraction` where people rated, `…_automatic` where a lexicon did.
        seed: The run's seed.
        axis: Column of every row.
        rated_by: Who rated, for the detail of every row.
    """
    draws, rows = Resampling(items, seed), []
    for strength, group in product(strengths_of(items), draws.groups):
        own = [i for i in items if i.strength == strength and i.group == group]
        marks = [float(biased[i.template, i.plain]) for i in own]
        rows.append(
            Row(
                metric=metric,
                **estimate(draws.means(own, marks), *draws.drawn, within=(0, 1)).columns,
                dataset=DATASET,
                group_a=group,
                facets={LAMBDA: strength},
                n=len(own),
                seed=seed,
                axis=axis,
                detail=dict(rated_by),
            )
        )
    return rows
