"""The metric FairPair: bias of continuations against their sampling variability.

For every prompt and every Φ: B, V_gp, V_pg, F and 2 B - V_gp - V_pg (see `phi`), their means over
prompts with bootstrap intervals, the paper's paired t-test, and a permutation test per prompt and
pooled. Under an edit also the change, paired over prompts; with several templates, also the spread
of F over them. Holm's method adjusts p-values of prompts and of templates within one Φ, and pooled
p-values over the Φ of one model and edit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from annotated_types import Ge, Gt
from jaxtyping import Float64
from scipy.stats import norm, ttest_ind

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import DoesNotFitError, Group
from countergen_edit.data.fairpair import (
    COMMON_SENTS,
    FILTER_UNITS,
    REASONS,
    Filter,
    PairedPrompt,
    Perturber,
    RulePerturber,
    chosen_occupations,
    paired_prompts,
    paired_samples,
    require_perturbable,
    with_occupations,
    word_list,
)
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import (
    Sampled,
    joined,
    make_perturber,
    require_room,
    sample,
)
from countergen_edit.metrics.fairpair.phi import (
    PHIS,
    QUANTITIES,
    Pairwise,
    Phi,
    PhiResult,
    evaluate,
    in_folds,
)
from countergen_edit.metrics.paraphrases import ALPHA, flip_counts, paired_p
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Clusters, Estimate, adjusted, bootstrap_mean, finite
from countergen_edit.models import LanguageModel, encode_replies, lengths

_NUCLEUS = {"top_p": 0.9, "temperature": 1.0}
"""As in the paper."""
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


class FairPair(Metric):
    """Bias of a model's continuations against their sampling variability (Dwivedi-Yu et al. 2024).

    Args:
        n: Continuations of each prompt and side.
        max_new_tokens: Longest continuation.
        occupations: Names, or the number of the paper's sixty.
        paraphrases: Templates with `{occupation}` instead of Common Sents; each is crossed with
            every occupation.
        prompts: Instead of Common Sents; by default the prompts of the task's own files, if any.
        asked: Whether prompts are user messages in the chat template, and continuations replies.
        names: Group → name; by default the axis's first test names.
        perturber: `rules`; a mapping with `kind` (rules, llm, FILE.py:Name) and its settings; or a
            `Perturber`.
        compared: Unit of the third filter: neutral words, all words or, as published, characters.
        phi: Each Φ by name, with its settings, or a `Phi`; None takes sentiment and jaccard.
        sample_sizes: Numbers of continuations, up to `n`, to measure by as well (Figure 3).
        folds: Numbers of folds of each side, up to `n`, to measure between as well (Figure 4).
        permutations: Of each permutation test.
        ngrams: Longest phrase to compare (Figure 6); 0 compares none.
        batch_size: Continuations sampled together.
    """

    title = "FairPair"
    better: ClassVar[Mapping[str, Way]] = dict.fromkeys(
        ("fairpair_f", "fairpair_bias", "fairpair_energy"), "lower"
    )
    is_slow: ClassVar[bool] = True
    is_generating: bool = True

    dataset: str
    """Of the rows."""
    prompts: tuple[PairedPrompt, ...]
    groups: tuple[str, str]
    """Source and target."""
    perturber: Perturber
    passes: Filter

    def __init__(
        self,
        n: Annotated[int, Ge(2)] = 100,
        max_new_tokens: Annotated[int, Gt(0)] = 128,
        occupations: int | Sequence[str] = 60,
        paraphrases: Sequence[str] | None = None,
        prompts: Sequence[str] | None = None,
        asked: bool = False,
        names: Mapping[str, str] | None = None,
        perturber: str | Mapping[str, Any] | Perturber = "rules",
        compared: str = "neutral",
        phi: Mapping[str, Mapping[str, Any] | Phi | None] | None = None,
        sample_sizes: Sequence[Annotated[int, Ge(2)]] = (),
        folds: Sequence[Annotated[int, Ge(2)]] = (),
        permutations: Annotated[int, Gt(0)] = 1000,
        ngrams: int = 4,
        batch_size: Annotated[int, Gt(0)] = 128,
    ) -> None:
        if prompts is not None and paraphrases is not None:
            raise UserError("fairpair takes prompts or templates of the occupations, not both")
        self.n, self.asked = n, asked
        self.sampling: dict[str, Any] = {"n": n, "max_new_tokens": max_new_tokens, **_NUCLEUS}
        self.sampling |= {"batch_size": batch_size, "chat": asked}
        self.occupations = chosen_occupations(occupations)
        self.paraphrases = tuple(paraphrases or ())
        self.own = prompts
        self.names = dict(names or {})
        self._perturber = perturber
        self.compared = compared
        self.phis: dict[str, Phi] = {
            name: settings if isinstance(settings, Phi) else PHIS.make(name, settings)
            for name, settings in (phi or {"sentiment": None, "jaccard": None}).items()
        }
        # Of each size the continuations that are taken, and their folds: of one each for Figure 3.
        self.sizes = [("samples", k, k) for k in sample_sizes if k <= n]
        self.sizes += [("folds", n, k) for k in folds if k <= n]
        self.permutations = permutations
        self.ngrams = ngrams

    def prepare(self) -> None:
        axis, substitution = self.task.axis, self.task.substitution
        self.groups = self.task.pair[::-1]
        a, b = (axis.groups[group] for group in self.groups)
        names = self._name(a), self._name(b)
        if self.own is None and self.task.own:
            self.dataset = "own_prompts"
            every = [sample for data in self.task.own for sample in data.samples]
            self.prompts = paired_samples(every, self.groups)
        elif self.own is not None:
            self.dataset = "own_prompts"
            self.prompts = paired_prompts([(t, t) for t in self._few(self.own)], a, b, names)
        else:
            self.dataset = "reworded_sents" if self.paraphrases else "common_sents"
            usual = (
                COMMON_SENTS if "person" in a.forms else COMMON_SENTS.replace("a/an {person}, ", "")
            )
            labelled = with_occupations(self.paraphrases or [usual], self._few(self.occupations))
            self.prompts = paired_prompts(labelled, a, b, names)
        made = self._perturber
        self.perturber = made if callable(made) else make_perturber(made, self.groups, substitution)
        if isinstance(self.perturber, RulePerturber):
            require_perturbable(self.prompts, self.perturber)
        self.passes = Filter(substitution, compared=self.compared)

    def _name(self, group: Group) -> str:
        name = self.names.get(group.name) or next(iter(group.names.get("test", ())), "")
        if not name:
            raise DoesNotFitError(
                f"fairpair needs a name for group {group.name!r}: give fairpair.names"
            )
        return name

    def _few(self, drawn: Sequence[str]) -> list[str]:
        most = len(drawn) if self.task.limit is None else self.task.limit
        return [drawn[i] for i in first_drawn(len(drawn), most, 0, "fairpair")]

    def check(self, model: LanguageModel) -> None:
        if self.asked and not model.chat.is_on:
            raise UserError(
                f"fairpair.asked=true: the texts of {model.name} stand in no chat template, in "
                "which a user would ask: set model.template=chat"
            )
        if model.is_encoder_decoder:
            return
        texts = [text for prompt in self.prompts for text in (prompt.source, prompt.target)]
        if self.asked:
            encodings = encode_replies(model, texts, [""] * len(texts))
            longest = max(len(encoding.ids) for encoding in encodings)
        else:
            longest = max(lengths(model, texts))
        require_room(model, "fairpair", longest, self.sampling["max_new_tokens"])

    def sampled(self, context: EvaluationContext, edit: NamedEdit | None) -> list[Sampled]:
        """The texts of every prompt under an edit, read from the store where it has them."""
        return sample(context, edit, self.prompts, self.sampling, self.perturber, self.passes)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        after = self.sampled(context, edit)
        before = after if edit is None else self.sampled(context, None)
        results = {
            name: evaluate(phi, after, self.permutations, context.seed)
            for name, phi in self.phis.items()
        }
        make = FairPairRows(self, context.seed)
        rows = [make.perturbed(after), *make.lengths(after)]
        for (name, result), p in zip(
            results.items(), holm(result.pooled_p() for result in results.values()), strict=True
        ):
            rows += make.of_phi(name, result, after, p, context.model.name)
            rows += make.of_paraphrases(name, result)
            for facet, samples, folds in self.sizes:
                each = [in_folds(self.phis[name], s.first(samples), folds) for s in after]
                rows += make.of_size(name, facet, folds, each)
            if edit is not None:
                unedited = evaluate(self.phis[name], before, self.permutations, context.seed)
                rows += make.of_change(name, unedited, result)
        return [*rows, make.phrases(after, self.ngrams)] if self.ngrams else rows


@dataclass(frozen=True)
class FairPairRows:
    """The rows of one task and seed; their intervals share the same draws."""

    fairpair: FairPair
    seed: int

    @property
    def paraphrases(self) -> tuple[str, ...]:
        """Templates crossed with every occupation; the prompts of one are adjacent."""
        is_crossed = self.fairpair.dataset == "reworded_sents"
        return self.fairpair.paraphrases if is_crossed else ()

    def row(
        self, metric: str, of: Estimate | float, n: int, facets: dict[str, Any], **detail: Any
    ) -> Row:
        task = self.fairpair.task
        about: dict[str, Any] = {"dataset": self.fairpair.dataset, "axis": task.axis.name}
        about |= dict(zip(("group_a", "group_b"), task.pair, strict=True))
        about |= {"facets": facets, "n": n, "seed": self.seed, "detail": detail}
        return Row.of(f"fairpair_{metric}", of, **about)

    def mean(self, values: Float64[np.ndarray, " prompt"], **how: Any) -> Estimate:
        """The mean over prompts with a finite value; occupations and templates are resampled."""
        known = np.flatnonzero(np.isfinite(values))
        if not known.size:
            return Estimate(math.nan)
        template, occupation = np.divmod(
            np.arange(len(values)), len(values) // max(1, len(self.paraphrases))
        )
        about = "fairpair", self.fairpair.dataset  # these words seed the draws
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
            "permutations": self.fairpair.permutations,
        } | result.t_p
        prompts = [
            [s.prompt.label, *map(finite, (q.bias, q.v_gp, q.v_pg, q.f, p[k]))]
            for k, (s, q) in enumerate(zip(sampled, result.prompts, strict=True))
        ]
        undefined = {"reason": reasons.most_common(1)[0][0]} if reasons else {}
        f = {"undefined": dict(reasons), "model": model, **undefined, "prompts": prompts}
        of_all = {"samples": self.fairpair.n, **self.sides}
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

    @property
    def sides(self) -> dict[str, str]:
        """The groups whose prompts are perturbed, and of the perturbed prompts."""
        return dict(zip(("source", "target"), self.fairpair.groups, strict=True))

    def perturbed(self, sampled: Sequence[Sampled]) -> Row:
        """The share of perturbations that pass (Table 1), with examples (Table 2)."""
        passes = self.fairpair.passes
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
            "asked": self.fairpair.asked,
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
        rows, means, every = list[Row](), [], []
        texts = {SOURCE: [s.p_g_x for s in sampled], TARGET: [s.g_px for s in sampled]}
        for side, of_prompts in texts.items():
            words = [np.array([float(len(word_list(t))) for t in own]) for own in of_prompts]
            means.append(np.array([own.mean() if own.size else math.nan for own in words]))
            every.append(np.concatenate(words))
            rows.append(self.row("length", self.mean(means[-1]), every[-1].size, {"side": side}))
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
        detail = {"terms": strongest.to_dict("records"), **self.sides}
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
