"""The rows of FairPair: of each Φ, and of perturbations, lengths and phrases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from scipy.stats import norm, ttest_ind

from countergen_edit.data.fairpair import FILTER_UNITS, REASONS, Filter, word_list
from countergen_edit.metrics.fairpair.continuations import Sampled, joined
from countergen_edit.metrics.fairpair.phi import QUANTITIES, Pairwise, PhiResult
from countergen_edit.metrics.paraphrases import ALPHA, flip_counts, paired_p
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Clusters, Estimate, adjusted, bootstrap_mean, finite

_EXAMPLES = 3
"""Perturbations of each kind that rows quote."""
TERMS = 10
"""Phrases of each side that rows quote."""
MIN_TEXTS = 5
"""Phrases in fewer texts cannot differ significantly and are not tested."""
SOURCE, TARGET = "p(g(x))", "g(p(x))"
"""The sides whose lengths are compared: perturbed continuations of x, and continuations of p(x)."""
OVER_PROMPTS, OVER_ALL = "prompts", "continuations"
"""The units of the two tests of lengths."""


@dataclass(frozen=True)
class FairPairRows:
    """The rows of one task and seed; their intervals share the same draws."""

    dataset: str
    axis: str
    pair: tuple[str, str]
    """The task's two groups: target and source."""
    paraphrases: tuple[str, ...]
    """Templates crossed with every occupation; the prompts of one are adjacent."""
    samples: int
    permutations: int
    seed: int

    def row(
        self, metric: str, of: Estimate | float, n: int, facets: dict[str, Any], **detail: Any
    ) -> Row:
        about: dict[str, Any] = {"dataset": self.dataset, "axis": self.axis, "seed": self.seed}
        about |= dict(zip(("group_a", "group_b"), self.pair, strict=True))
        return Row.of(f"fairpair_{metric}", of, **about, facets=facets, n=n, detail=detail)

    def mean(self, values: Float64[np.ndarray, " prompt"], **how: Any) -> Estimate:
        """The mean over prompts with a finite value; occupations and templates are resampled."""
        known = np.flatnonzero(np.isfinite(values))
        if not known.size:
            return Estimate(math.nan)
        template, occupation = np.divmod(
            np.arange(len(values)), len(values) // max(1, len(self.paraphrases))
        )
        about = "fairpair", self.dataset  # these words seed the draws
        kinds = {(*about, "wordings"): template, (*about, "occupations"): occupation}
        drawn = Clusters(self.seed, kinds)
        return drawn.estimate(drawn.ratio(values, known), **how)

    def of_phi(
        self,
        name: str,
        result: PhiResult,
        sampled: Sequence[Sampled],
        p_adjusted: float | None,
        model: str,
    ) -> list[Row]:
        """A row for each of `QUANTITIES`; P is adjusted over all Φ."""
        reasons = Counter(p.reason for p in result.prompts if p.reason)
        p = result.prompt_p
        tests = {
            "p": finite(result.pooled_p()),
            "p_adjusted": p_adjusted,
            "significant_prompts": int((p < ALPHA).sum()),
            "tested_prompts": int(np.isfinite(p).sum()),
            "permutations": self.permutations,
        } | result.t_p
        prompts = [
            [s.prompt.label, *map(finite, (q.bias, q.v_gp, q.v_pg, q.f, p[k]))]
            for k, (s, q) in enumerate(zip(sampled, result.prompts, strict=True))
        ]
        undefined = {"reason": reasons.most_common(1)[0][0]} if reasons else {}
        f = {"undefined": dict(reasons), "model": model, **undefined, "prompts": prompts}
        target, source = self.pair
        of_all = {"samples": self.samples, "source": source, "target": target}
        of_each: dict[str, dict[str, Any]] = {"f": tests | f, "energy": tests}
        return [
            self._of_prompts(q, {"phi": name}, result.values(q), **of_all, **of_each.get(q, {}))
            for q in QUANTITIES
        ]

    def _of_prompts(
        self,
        metric: str,
        facets: dict[str, Any],
        values: Float64[np.ndarray, " prompt"],
        **detail: Any,
    ) -> Row:
        known = int(np.isfinite(values).sum())
        return self.row(metric, self.mean(values), known, facets, **detail)

    def of_size(self, phi: str, facet: str, size: int, prompts: Sequence[Pairwise]) -> list[Row]:
        """B and V by so many continuations or folds (Figures 3 and 4)."""
        rows = []
        for letter, quantity in zip(("B", "V_gp", "V_pg"), QUANTITIES[1:4], strict=True):
            values = np.array([getattr(p, quantity) for p in prompts])
            facets = {"phi": phi, "quantity": letter, facet: size}
            rows.append(self._of_prompts(f"by_{facet}", facets, values))
        return rows

    def of_paraphrases(self, name: str, result: PhiResult) -> list[Row]:
        """F of each template, and the spread of F and its significance over templates."""
        count, rows = len(self.paraphrases), []
        if count < 2:
            return []
        parts = np.split(np.arange(len(result.prompts)), count)
        p = [result.pooled_p(part) for part in parts]
        p_adjusted = holm(p)
        for k, part in enumerate(parts):
            f = result.values("f")[part]
            f = f[np.isfinite(f)]
            mean = bootstrap_mean(f, self.seed, "fairpair", name) if f.size else math.nan
            facets = {"phi": name, "paraphrase": self.paraphrases[k]}
            tests = {"p": finite(p[k]), "p_adjusted": p_adjusted[k]}
            rows.append(self.row("f_of_paraphrase", mean, f.size, facets, **tests))
        known = np.array([row.value for row in rows if row.value is not None])
        differs = np.array([p is not None and p < ALPHA for p in p_adjusted], dtype=np.int64)
        [flips] = flip_counts(differs[:, None]).tolist()
        detail = {
            "sd": float(known.std(ddof=1)) if known.size > 1 else None,
            "range": [float(known.min()), float(known.max())] if known.size else None,
            "differ": int(differs.sum()),
            "flip_rate": flips / math.comb(count, 2),
        }
        mean = float(known.mean()) if known.size else math.nan
        return [*rows, self.row("f_over_paraphrases", mean, count, {"phi": name}, **detail)]

    def of_change(self, name: str, before: PhiResult, after: PhiResult) -> list[Row]:
        """The change of F and of the energy distance under an edit, paired over prompts."""
        rows = []
        for quantity in ("f", "energy"):
            difference = after.values(quantity) - before.values(quantity)
            reason = {} if np.isfinite(difference).any() else {"reason": "F is undefined"}
            rows.append(self._of_prompts(f"{quantity}_change", {"phi": name}, difference, **reason))
        return rows

    def perturbed(self, sampled: Sequence[Sampled], passes: Filter, asked: bool) -> Row:
        """The share of perturbations that pass (Table 1), with examples (Table 2)."""
        filters = {unit: replace(passes, compared=unit) for unit in FILTER_UNITS}
        every = [
            ((joined(s.prompt.source, text), p_x, s.prompt), reason)
            for s in sampled
            for text, p_x, reason in zip(s.g_x, s.p_x, s.reasons, strict=True)
        ]
        failed = Counter(reason for _, reason in every)
        passed = np.array([[r is None for r in s.reasons] for s in sampled], dtype=np.float64)
        shares = {
            unit: float(np.mean([by.reason(*of) is None for of, _ in every]))
            for unit, by in filters.items()
        }
        examples = []
        for kind in (None, *REASONS):  # some of each, spread over the prompts
            own = [of for of, r in every if r == kind and len(of[0].strip()) > len(of[2].source)]
            for of in own[:: max(1, len(own) // _EXAMPLES)][:_EXAMPLES]:
                apart = {unit: by.dissimilarity(*of) for unit, by in filters.items()}
                about = {"original": of[0], "perturbed": of[1], "left_out": kind}
                examples.append(about | {"dissimilarity": apart})
        detail = {
            "left_out": {reason: failed[reason] for reason in REASONS},
            "empty_continuations": sum(not t.strip() for s in sampled for t in (*s.g_x, *s.g_px)),
            "compared": passes.compared,
            "asked": asked,
            "shares": shares,
            "examples": examples,
        }
        share = self.mean(passed.mean(axis=1), within=(0, 1))
        return self.row("perturbed", share, passed.size, {}, **detail)

    def lengths(self, sampled: Sequence[Sampled]) -> list[Row]:
        """Words of each continuation by side, and their difference, g(p(x)) minus p(g(x)).

        Section 4.1 of the paper reports no significant difference, without unit or test. Here
        Welch's test is over all continuations, and the recommended paired t-test over prompts.
        """
        sides = {
            side: [np.array([float(len(word_list(text))) for text in texts]) for texts in every]
            for side, every in (
                (SOURCE, [s.p_g_x for s in sampled]),
                (TARGET, [s.g_px for s in sampled]),
            )
        }
        means = [
            np.array([own.mean() if own.size else math.nan for own in of_prompts])
            for of_prompts in sides.values()
        ]
        every = [np.concatenate(of_prompts) for of_prompts in sides.values()]
        rows = [
            self.row("length", self.mean(mean), words.size, {"side": side})
            for side, mean, words in zip(sides, means, every, strict=True)
        ]
        difference = means[1] - means[0]
        known = difference[np.isfinite(difference)]
        paired = float(paired_p(known)) if known.size > 1 else None
        tests = {
            OVER_PROMPTS: (self.mean(difference), paired, known.size),
            OVER_ALL: (*welch(every[1], every[0]), every[0].size + every[1].size),
        }
        name = "length_difference"
        return rows + [self.row(name, e, n, {"test": t}, p=p) for t, (e, p, n) in tests.items()]

    def phrases(self, sampled: Sequence[Sampled], longest: int) -> Row:
        """The phrases that one side uses more (Figure 6)."""
        pg = [text for s in sampled for text in s.p_g_x]
        gp = [text for s in sampled for text in s.g_px]
        terms = compare_phrases(pg, gp, longest)
        telling = terms[terms.p < ALPHA]
        strongest = pd.concat(
            [telling[telling.log_odds > 0].head(TERMS), telling[telling.log_odds < 0].tail(TERMS)]
        )
        target, source = self.pair
        detail = {"terms": strongest.to_dict("records"), "source": source, "target": target}
        return self.row("ngrams", float(len(telling)), len(terms), {}, **detail)


def holm(p: Iterable[float]) -> list[float | None]:
    """P adjusted over all; None for NaN, which counts as 1."""
    values = np.array([*p])
    corrected = adjusted(np.where(np.isnan(values), 1.0, values))
    return [*map(finite, np.where(np.isnan(values), math.nan, corrected))]


def welch(
    a: Float64[np.ndarray, " m"], b: Float64[np.ndarray, " n"]
) -> tuple[Estimate, float | None]:
    """Mean of a minus mean of b, with the interval and p of Welch's t-test where it is defined.

    >>> welch(np.array([1.0, 2.0, 3.0]), np.array([2.0]))[1] is None
    True
    """
    difference = float(a.mean() - b.mean()) if a.size and b.size else math.nan
    if min(a.size, b.size) < 2 or np.ptp(a) == np.ptp(b) == 0:
        return Estimate(difference), None
    test = ttest_ind(a, b, equal_var=False)
    ends = test.confidence_interval()
    return Estimate(difference, float(ends.low), float(ends.high)), float(test.pvalue)


def terms_of(text: str, longest: int) -> set[str]:
    """The 1- to `longest`-grams of a text's words.

    >>> sorted(terms_of("She sings well.", 2))
    ['she', 'she sings', 'sings', 'sings well', 'well']
    """
    words = word_list(text)
    return {
        " ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)
    }


def compare_phrases(pg: Sequence[str], gp: Sequence[str], longest: int = 4) -> pd.DataFrame:
    """Every phrase in at least `MIN_TEXTS` texts, those of g(p(x)) first.

    A phrase counts once a text. `log_odds`, positive where g(p(x)) has it more, are smoothed by
    half a text in each cell (Haldane and Anscombe); `p` comes from their quotient with the standard
    error, two-sided and adjusted (Benjamini–Hochberg).
    """
    counts = [Counter(t for text in texts for t in terms_of(text, longest)) for texts in (pg, gp)]
    terms = sorted(t for t in counts[0] | counts[1] if counts[0][t] + counts[1][t] >= MIN_TEXTS)
    sizes = np.array([[len(pg)], [len(gp)]])
    has = np.array([[counter[t] for t in terms] for counter in counts], dtype=np.float64)
    if not has.size or not sizes.all():
        return pd.DataFrame(columns=["text", "share_pg", "share_gp", "log_odds", "p"])
    lacks = sizes - has
    odds = np.log((has + 0.5) / (lacks + 0.5))
    difference = odds[1] - odds[0]
    error = np.sqrt((1 / (has + 0.5) + 1 / (lacks + 0.5)).sum(axis=0))
    p = adjusted(2 * norm.sf(np.abs(difference) / error), "fdr_bh")
    shares = has / sizes
    frame = {"text": terms, "share_pg": shares[0], "share_gp": shares[1]}
    order = np.argsort(-difference / error, kind="stable")
    return pd.DataFrame(frame | {"log_odds": difference, "p": p}).iloc[order]
