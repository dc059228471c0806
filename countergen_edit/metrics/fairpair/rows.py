"""The rows of FairPair's figures, from the results of each Φ.

Comes in: a `PhiResult` of each Φ, or of two edits. Goes out: a row for each quantity, with every
prompt's figures and tests in its detail; for each wording; and for what an edit changed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.metrics.base import Subject
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
from countergen_edit.metrics.wordings import ALPHA, flip_counts


@dataclass(frozen=True)
class FairPairRows:
    """Makes the rows of one audit, which share their columns and the draws of their intervals."""

    subject: Subject
    dataset: str
    groups: tuple[str, str]
    """Source and target."""
    wordings: tuple[str, ...]
    """Each meets every occupation; the prompts of a wording follow each other."""
    samples: int
    """Continuations of each prompt and side."""
    permutations: int
    folds: tuple[int, ...]
    sample_sizes: tuple[int, ...]

    def row(self, metric: str, dataset: str, of: Estimate, n: int, **detail: Any) -> Row:
        """A row about the audit's groups."""
        a, b = self.subject.groups
        return Row(
            metric=metric,
            **of.columns,
            dataset=dataset,
            axis=self.subject.axis.name,
            group_a=a,
            group_b=b,
            n=n,
            seed=self.subject.seed,
            detail=detail,
        )

    def mean(self, values: Float64[np.ndarray, " prompt"]) -> Estimate:
        """Over the prompts where the quantity is defined; the draws are the same for all edits.

        What is drawn is occupations, and with several wordings these as well.
        """
        known = np.isfinite(values)
        if not known.any():
            return Estimate(*[float("nan")] * 4)
        kinds = max(1, len(self.wordings))
        each = len(values) // kinds
        of_wordings, of_occupations = (
            resample(count, self.subject.seed, "fairpair", self.dataset, kind)
            for kind, count in (("wordings", kinds), ("occupations", each))
        )
        drawn = (of_wordings[:, :, None] * of_occupations[:, None, :]).reshape(-1, len(values))
        with np.errstate(invalid="ignore"):  # a draw may hold no defined prompt
            means = drawn[:, known] @ values[known] / drawn[:, known].sum(axis=1)
        return estimate(means, of_wordings, of_occupations)

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
            name: What the audit calls Φ.
            phi: Φ itself, for the ablations.
            result: Of Φ.
            sampled: The texts.
            pooled_p: The pooled p-value, adjusted over all Φ; unused where there is no test.
            model: Its name, for the detail of F.
        """
        dataset = f"{self.dataset}/{name}"
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
                    dataset,
                    self.mean(values),
                    int(np.isfinite(values).sum()),
                    **detail,
                )
            )
        return rows

    def _ablations(self, phi: Phi, sampled: Sequence[Sampled]) -> dict[str, Any]:
        """Means of B, both V and F over prompts, by number of folds and of samples."""
        out: dict[str, Any] = {}
        for key, sizes, quantities_of in (
            ("by_folds", self.folds, between_folds),
            ("by_samples", self.sample_sizes, of_first_texts),
        ):
            for size in sizes:
                found = quantities_of(phi, sampled, size)
                means = [
                    _known(self.mean(np.array([getattr(p, q) for p in found])).value)
                    for q in ("bias", "v_gp", "v_pg", "f")
                ]
                out.setdefault(key, []).append([size, *means])
        return out

    def of_wordings(self, name: str, result: PhiResult) -> list[Row]:
        """`fairpair_f_of_wording` of each, and how F and its significance spread over them."""
        if len(self.wordings) < 2:
            return []
        dataset, parts = f"{self.dataset}/{name}", self._by_wording(len(result.prompts))
        p = [result.pooled_over(part) for part in parts]
        p_adjusted = adjusted([1.0 if math.isnan(value) else value for value in p])
        rows, means = [], []
        for k, part in enumerate(parts):
            values = result.values("f")[part]
            known = values[np.isfinite(values)]
            e = bootstrap_mean(known, self.subject.seed, "fairpair", name) if known.size else None
            means.append(e.value if e else float("nan"))
            rows.append(
                self.row(
                    "fairpair_f_of_wording",
                    dataset,
                    e or Estimate(*[float("nan")] * 4),
                    known.size,
                    wording=self.wordings[k],
                    p=_known(p[k]),
                    p_adjusted=_known(p_adjusted[k]) if math.isfinite(p[k]) else None,
                )
            )
        found = np.array([mean for mean in means if math.isfinite(mean)])
        differs = (p_adjusted < ALPHA).astype(np.int64)
        flips, pairs = flip_counts(differs[:, None])
        nan = float("nan")
        rows.append(
            self.row(
                "fairpair_f_over_wordings",
                dataset,
                Estimate(float(found.mean()) if found.size else nan, nan, nan, nan),
                len(parts),
                sd=float(found.std(ddof=1)) if found.size > 1 else None,
                range=[float(found.min()), float(found.max())] if found.size else None,
                differ=int(differs.sum()),
                flip_rate=flips / pairs,
            )
        )
        return rows

    def _by_wording(self, prompts: int) -> list[slice]:
        each = prompts // max(1, len(self.wordings))
        return [slice(k * each, (k + 1) * each) for k in range(len(self.wordings))]

    def of_change(self, name: str, before: PhiResult, after: PhiResult) -> list[Row]:
        """What an edit changed of F and of the energy distance, paired over prompts."""
        rows = []
        for quantity in ("f", "energy"):
            difference = after.values(quantity) - before.values(quantity)
            rows.append(
                self.row(
                    f"fairpair_{quantity}_change",
                    f"{self.dataset}/{name}",
                    self.mean(difference),
                    int(np.isfinite(difference).sum()),
                    **({} if np.isfinite(difference).any() else {"reason": "F is undefined"}),
                )
            )
        return rows


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
