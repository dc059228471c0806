"""The rows of FairPair's figures, from the results of each Φ.

Comes in: a `PhiResult` of each Φ, or of two edits. Goes out: a row for each quantity, with every
prompt's figures and tests in its detail; for each template; and for what an edit changed. The facet
`phi` is what the run calls Φ, `template` a template of the prompts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.task import Task
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.phi import Phi
from countergen_edit.metrics.fairpair.phi_result import (
    QUANTITIES,
    PhiResult,
    between_folds,
    of_first_texts,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import (
    Estimate,
    adjusted,
    bootstrap_mean,
    estimate,
    resample,
)
from countergen_edit.metrics.template_tests import ALPHA, flip_counts


def without_interval(value: float) -> Estimate:
    """A figure of which nothing is drawn."""
    return Estimate(value, math.nan, math.nan, math.nan)


UNKNOWN = without_interval(math.nan)


@dataclass(frozen=True)
class FairPairRows:
    """Makes the rows of one task, which share their columns and the draws of their intervals."""

    task: Task
    seed: int
    dataset: str
    groups: tuple[str, str]
    """Source and target."""
    paraphrases: tuple[str, ...]
    """Each meets every occupation; the prompts of a template follow each other."""
    samples: int
    """Continuations of each prompt and side."""
    permutations: int
    folds: tuple[int, ...]
    sample_sizes: tuple[int, ...]

    def row(
        self,
        metric: str,
        of: Estimate,
        n: int,
        facets: Mapping[str, str] | None = None,
        **detail: Any,
    ) -> Row:
        """A row about the task's groups."""
        a, b = self.task.pair
        return Row(
            metric=metric,
            **of.columns,
            dataset=self.dataset,
            axis=self.task.axis.name,
            group_a=a,
            group_b=b,
            facets=dict(facets or {}),
            n=n,
            seed=self.seed,
            detail=detail,
        )

    def mean(
        self,
        values: Float64[np.ndarray, " prompt"],
        within: tuple[float, float] = (-math.inf, math.inf),
    ) -> Estimate:
        """Over the prompts where the quantity is defined; the draws are the same for all edits.

        What is drawn is occupations, and with several templates these as well; `within` is what
        the quantity can be.
        """
        known = np.isfinite(values)
        if not known.any():
            return UNKNOWN
        kinds = max(1, len(self.paraphrases))
        each = len(values) // kinds
        of_paraphrases, of_occupations = (
            resample(count, self.seed, "fairpair", self.dataset, kind)
            for kind, count in (("paraphrases", kinds), ("occupations", each))
        )
        drawn = (of_paraphrases[:, :, None] * of_occupations[:, None, :]).reshape(-1, len(values))
        with np.errstate(invalid="ignore"):  # a draw may hold no defined prompt
            means = drawn[:, known] @ values[known] / drawn[:, known].sum(axis=1)
        return estimate(means, of_paraphrases, of_occupations, within=within)

    def of_phi(
        self,
        name: str,
        phi: Phi,
        result: PhiResult,
        sampled: Sequence[Sampled],
        pooled_p: float,
        model: str,
    ) -> list[Row]:
        """A row for each of `QUANTITIES`, with every prompt's figures and the tests.

        Args:
            name: What the run calls Φ.
            phi: Φ itself, for the ablations.
            result: Of Φ.
            sampled: The texts.
            pooled_p: The pooled p-value, adjusted over all Φ; unused where there is no test.
            model: Its name, for the detail of F.
        """
        rows = []
        reasons = Counter(p.reason for p in result.prompts if p.reason)
        p = result.prompt_p
        tests = {
            "p": None if math.isnan(result.pooled_p) else result.pooled_p,
            "p_adjusted": None if math.isnan(result.pooled_p) else pooled_p,
            "significant_prompts": int((p < 0.05).sum()),
            "tested_prompts": int(np.isfinite(p).sum()),
            "permutations": self.permutations,
        } | result.t_p
        for quantity in QUANTITIES:
            values = result.values(quantity)
            detail: dict[str, Any] = {
                "samples": self.samples,
                "source": self.groups[0],
                "target": self.groups[1],
            }
            if quantity == "f":
                detail |= tests | {"undefined": dict(reasons), "model": model}
                if reasons:
                    detail["reason"] = reasons.most_common(1)[0][0]
                detail["prompts"] = [
                    [s.prompt.label, *map(_known, (q.bias, q.v_gp, q.v_pg, q.f, p[k]))]
                    for k, (s, q) in enumerate(zip(sampled, result.prompts, strict=True))
                ]
            if quantity == "energy":
                detail |= tests
            if quantity == "bias":
                detail |= self._ablations(phi, sampled)
            rows.append(
                self.row(
                    f"fairpair_{quantity}",
                    self.mean(values),
                    int(np.isfinite(values).sum()),
                    {"phi": name},
                    **detail,
                )
            )
        return rows

    def _ablations(self, phi: Phi, sampled: Sequence[Sampled]) -> dict[str, Any]:
        """Means of B, both V and F over prompts, by number of folds and of samples."""
        by_size: dict[str, Any] = {}
        for key, sizes, quantities_of in (
            ("by_folds", self.folds, between_folds),
            ("by_samples", self.sample_sizes, of_first_texts),
        ):
            for size in sizes:
                prompts = quantities_of(phi, sampled, size)
                means = [
                    _known(self.mean(np.array([getattr(p, q) for p in prompts])).value)
                    for q in ("bias", "v_gp", "v_pg", "f")
                ]
                by_size.setdefault(key, []).append([size, *means])
        return by_size

    def of_paraphrases(self, name: str, result: PhiResult) -> list[Row]:
        """`fairpair_f_of_template` of each, and how F and its significance spread over them."""
        if len(self.paraphrases) < 2:
            return []
        parts = self._by_paraphrase(len(result.prompts))
        p = [result.pooled_over(part) for part in parts]
        p_adjusted = adjusted([1.0 if math.isnan(value) else value for value in p])
        rows, means = [], []
        for k, part in enumerate(parts):
            values = result.values("f")[part]
            defined = values[np.isfinite(values)]
            mean = bootstrap_mean(defined, self.seed, "fairpair", name) if defined.size else UNKNOWN
            means.append(mean.value)
            rows.append(
                self.row(
                    "fairpair_f_of_paraphrase",
                    mean,
                    defined.size,
                    {"phi": name, "paraphrase": self.paraphrases[k]},
                    p=_known(p[k]),
                    p_adjusted=_known(p_adjusted[k]) if math.isfinite(p[k]) else None,
                )
            )
        known = np.array([mean for mean in means if math.isfinite(mean)])
        differs = (p_adjusted < ALPHA).astype(np.int64)
        flips, pairs = flip_counts(differs[:, None])
        rows.append(
            self.row(
                "fairpair_f_over_paraphrases",
                without_interval(float(known.mean()) if known.size else math.nan),
                len(parts),
                {"phi": name},
                sd=float(known.std(ddof=1)) if known.size > 1 else None,
                range=[float(known.min()), float(known.max())] if known.size else None,
                differ=int(differs.sum()),
                flip_rate=flips / pairs,
            )
        )
        return rows

    def _by_paraphrase(self, prompts: int) -> list[slice]:
        each = prompts // max(1, len(self.paraphrases))
        return [slice(k * each, (k + 1) * each) for k in range(len(self.paraphrases))]

    def of_change(self, name: str, before: PhiResult, after: PhiResult) -> list[Row]:
        """What an edit changed of F and of the energy distance, paired over prompts."""
        rows = []
        for quantity in ("f", "energy"):
            difference = after.values(quantity) - before.values(quantity)
            rows.append(
                self.row(
                    f"fairpair_{quantity}_change",
                    self.mean(difference),
                    int(np.isfinite(difference).sum()),
                    {"phi": name},
                    **({} if np.isfinite(difference).any() else {"reason": "F is undefined"}),
                )
            )
        return rows


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
