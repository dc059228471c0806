"""The metric FairPair: its prompts, its tests and its rows.

For every Φ: B, V_gp, V_pg, F and 2 B - V_gp - V_pg (see `phi`) of every prompt, their means, the
paper's paired t-test, and a permutation test by prompt and pooled. Holm's method adjusts P of
prompts and of templates within one Φ, and pooled P over the Φ of one model and edit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
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
from countergen_edit.metrics.paraphrases import ALPHA, paired_p
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
"""The sides whose lengths are compared: perturbed continuations of x, and those of p(x)."""
OVER_PROMPTS, OVER_ALL = "prompts", "continuations"
"""The units of the two tests of lengths."""
_Values = Estimate | float | Float64[np.ndarray, " prompt"]


class FairPair(Metric):
    """Bias of a model's continuations against their sampling variability (Dwivedi-Yu et al. 2024).

    Parameters
    ----------
    n : Continuations of each prompt and side.
    max_new_tokens : Longest continuation.
    occupations : Names, or the number of the paper's sixty.
    paraphrases : Templates with `{occupation}` instead of Common Sents; each is crossed with every
        occupation.
    prompts : Instead of Common Sents; by default the prompts of the task's own files, if any.
    asked : Whether prompts are user messages in the chat template, and continuations replies.
    names : Group → name; by default the axis's first test names.
    perturber : `rules`; a mapping with `kind` (rules, llm, FILE.py:Name) and its settings; or a
        `Perturber`.
    compared : Unit of the third filter: neutral words, all words or, as published, characters.
    phi : Each Φ by name, with its settings, or a `Phi`; None takes sentiment and jaccard.
    sample_sizes : Numbers of continuations, up to `n`, to measure by as well (Figure 3).
    folds : Numbers of folds of each side, up to `n`, to measure between as well (Figure 4).
    permutations : Of each permutation test.
    ngrams : Longest phrase to compare (Figure 6); 0 compares none.
    batch_size : Continuations sampled together.
    """

    title = "FairPair"
    better: ClassVar[Mapping[str, Way]] = dict.fromkeys(
        ("fairpair_f", "fairpair_bias", "fairpair_energy"), "lower"
    )
    is_slow = True
    is_generating = True

    perturber: Perturber

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
        self.n = n
        self.asked = asked
        self.sampling: dict[str, Any] = {"n": n, "max_new_tokens": max_new_tokens, **_NUCLEUS}
        self.sampling |= {"batch_size": batch_size, "chat": asked}
        self.occupations = chosen_occupations(occupations)
        self.paraphrases = tuple(paraphrases or ())
        self.custom_prompts = prompts
        self.names = dict(names or {})
        self._perturber = perturber
        self.compared = compared
        self.phis: dict[str, Phi] = {
            name: settings if isinstance(settings, Phi) else PHIS.make(name, settings)
            for name, settings in (phi or {"sentiment": None, "jaccard": None}).items()
        }
        # Facet, continuations and their folds, which hold one continuation each for Figure 3.
        self.sizes = [("samples", k, k) for k in sample_sizes if k <= n]
        self.sizes += [("folds", n, k) for k in folds if k <= n]
        self.permutations = permutations
        self.ngrams = ngrams

    def prepare(self) -> None:
        axis, substitution = self.task.axis, self.task.substitution
        self.groups = self.task.pair[::-1]  # source and target
        a, b = (axis.groups[group] for group in self.groups)
        names = self._name(a), self._name(b)
        self.dataset = "own_prompts"
        if self.custom_prompts is not None:
            labelled = [(text, text) for text in self._few(self.custom_prompts)]
            self.prompts = paired_prompts(labelled, a, b, names)
        elif self.task.own:
            samples = [sample for data in self.task.own for sample in data.samples]
            self.prompts = paired_samples(samples, self.groups)
        else:
            self.dataset = "reworded_sents" if self.paraphrases else "common_sents"
            usual = COMMON_SENTS
            if "person" not in a.forms:
                usual = usual.replace("a/an {person}, ", "")
            labelled = with_occupations(self.paraphrases or [usual], self._few(self.occupations))
            self.prompts = paired_prompts(labelled, a, b, names)
        p = self._perturber
        self.perturber = p if callable(p) else make_perturber(p, self.groups, substitution)
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
            longest = max(len(e.ids) for e in encode_replies(model, texts, [""] * len(texts)))
        else:
            longest = max(lengths(model, texts))
        require_room(model, "fairpair", longest, self.sampling["max_new_tokens"])

    def sampled(self, context: EvaluationContext, edit: NamedEdit | None) -> list[Sampled]:
        """The texts of every prompt under an edit, from the store if they are there."""
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
        p_values = holm(result.pooled_p() for result in results.values())
        for (name, result), p in zip(results.items(), p_values, strict=True):
            rows += make.of_phi(name, result, after, p, context.model.name)
            rows += make.of_paraphrases(name, result)
            for facet, samples, folds in self.sizes:
                quantities = [in_folds(self.phis[name], s.first(samples), folds) for s in after]
                rows += make.of_size(name, facet, folds, quantities)
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
        return self.fairpair.paraphrases if self.fairpair.dataset == "reworded_sents" else ()

    def row(
        self, metric: str, of: _Values, facets: dict[str, Any], n: int = 0, /, **detail: Any
    ) -> Row:
        """A row of an estimate over `n` units, or of the mean of values by prompt."""
        if isinstance(of, np.ndarray):
            n, of = int(np.isfinite(of).sum()), self.mean(of)
        task = self.fairpair.task
        columns: dict[str, Any] = {"dataset": self.fairpair.dataset, "axis": task.axis.name}
        columns |= dict(zip(("group_a", "group_b"), task.pair, strict=True))
        columns |= {"facets": facets, "n": n, "seed": self.seed, "detail": detail}
        return Row.of(f"fairpair_{metric}", of, **columns)

    def mean(self, values: Float64[np.ndarray, " prompt"], **how: Any) -> Estimate:
        """The mean over prompts with a finite value; occupations and templates are resampled."""
        prompts = np.flatnonzero(np.isfinite(values))
        if not prompts.size:
            return Estimate(math.nan)
        occupations = len(values) // max(1, len(self.paraphrases))
        template, occupation = np.divmod(np.arange(len(values)), occupations)
        unit = "fairpair", self.fairpair.dataset  # these words seed the draws
        kinds = {(*unit, "wordings"): template, (*unit, "occupations"): occupation}
        drawn = Clusters(self.seed, kinds)
        return drawn.estimate(drawn.ratio(values, prompts), **how)

    def of_phi(
        self, name: str, result: PhiResult, sampled: Sequence[Sampled], p: float | None, model: str
    ) -> list[Row]:
        """A row for each of `QUANTITIES`; `p` is adjusted over all Φ."""
        reasons = Counter(q.reason for q in result.prompts if q.reason)
        by_prompt = result.prompt_p
        tests = {
            "p": finite(result.pooled_p()),
            "p_adjusted": p,
            "significant_prompts": int((by_prompt < ALPHA).sum()),
            "tested_prompts": int(np.isfinite(by_prompt).sum()),
            "permutations": self.fairpair.permutations,
        } | result.t_p
        prompts = [
            [s.prompt.label, *map(finite, (q.bias, q.v_gp, q.v_pg, q.f, prompt_p))]
            for s, q, prompt_p in zip(sampled, result.prompts, by_prompt, strict=True)
        ]
        undefined = {"reason": reasons.most_common(1)[0][0]} if reasons else {}
        f = {"undefined": dict(reasons), "model": model, **undefined, "prompts": prompts}
        of_all = {"samples": self.fairpair.n, **self.sides}
        of_each: dict[str, dict[str, Any]] = {"f": tests | f, "energy": tests}
        return [
            self.row(q, result.values(q), {"phi": name}, **of_all, **of_each.get(q, {}))
            for q in QUANTITIES
        ]

    def of_size(self, phi: str, facet: str, size: int, prompts: Sequence[Pairwise]) -> list[Row]:
        """B and V by so many continuations or folds (Figures 3 and 4)."""
        rows = []
        for letter, quantity in zip(("B", "V_gp", "V_pg"), QUANTITIES[1:4], strict=True):
            values = np.array([getattr(p, quantity) for p in prompts])
            facets = {"phi": phi, "quantity": letter, facet: size}
            rows.append(self.row(f"by_{facet}", values, facets))
        return rows

    def of_paraphrases(self, name: str, result: PhiResult) -> list[Row]:
        """F of each template, and its spread and significance over templates."""
        count = len(self.paraphrases)
        if count < 2:
            return []
        parts = np.split(np.arange(len(result.prompts)), count)
        p = [result.pooled_p(part) for part in parts]
        p_adjusted = holm(p)
        rows = []
        for k, part in enumerate(parts):
            f = result.values("f")[part]
            f = f[np.isfinite(f)]
            mean = bootstrap_mean(f, self.seed, "fairpair", name) if f.size else math.nan
            facets = {"phi": name, "paraphrase": self.paraphrases[k]}
            tests = {"p": finite(p[k]), "p_adjusted": p_adjusted[k]}
            rows.append(self.row("f_of_paraphrase", mean, facets, f.size, **tests))
        means = np.array([row.value for row in rows if row.value is not None])
        differ = sum(p is not None and p < ALPHA for p in p_adjusted)
        detail = {
            "sd": float(means.std(ddof=1)) if means.size > 1 else None,
            "range": [float(means.min()), float(means.max())] if means.size else None,
            "differ": differ,
            "flip_rate": differ * (count - differ) / math.comb(count, 2),
        }
        mean = float(means.mean()) if means.size else math.nan
        return [*rows, self.row("f_over_paraphrases", mean, {"phi": name}, count, **detail)]

    def of_change(self, name: str, before: PhiResult, after: PhiResult) -> list[Row]:
        """The change of F and of the energy distance under an edit, paired over prompts."""
        rows = []
        for quantity in ("f", "energy"):
            difference = after.values(quantity) - before.values(quantity)
            reason = {} if np.isfinite(difference).any() else {"reason": "F is undefined"}
            rows.append(self.row(f"{quantity}_change", difference, {"phi": name}, **reason))
        return rows

    @property
    def sides(self) -> dict[str, str]:
        """The groups whose prompts are perturbed, and of the perturbed prompts."""
        return dict(zip(("source", "target"), self.fairpair.groups, strict=True))

    def perturbed(self, sampled: Sequence[Sampled]) -> Row:
        """The share of perturbations that pass (Table 1), with examples (Table 2)."""
        passes = self.fairpair.passes
        filters = {unit: replace(passes, compared=unit) for unit in FILTER_UNITS}
        by_reason = {reason: list[tuple[str, str, PairedPrompt]]() for reason in (None, *REASONS)}
        for s in sampled:
            for g_x, p_x, reason in zip(s.g_x, s.p_x, s.reasons, strict=True):
                by_reason[reason].append((joined(s.prompt.source, g_x), p_x, s.prompt))
        shares = {
            unit: float(np.mean([f.reason(*texts) is None for texts in chain(*by_reason.values())]))
            for unit, f in filters.items()
        }
        examples = []
        for kind, perturbations in by_reason.items():  # some of each, spread over the prompts
            longer = [x for x in perturbations if len(x[0].strip()) > len(x[2].source)]
            for original, p_x, prompt in longer[:: max(1, len(longer) // _EXAMPLES)][:_EXAMPLES]:
                example = {"original": original, "perturbed": p_x, "left_out": kind}
                apart = {u: f.dissimilarity(original, p_x, prompt) for u, f in filters.items()}
                examples.append(example | {"dissimilarity": apart})
        detail = {
            "left_out": {reason: len(by_reason[reason]) for reason in REASONS},
            "empty_continuations": sum(not t.strip() for s in sampled for t in (*s.g_x, *s.g_px)),
            "compared": passes.compared,
            "asked": self.fairpair.asked,
            "shares": shares,
            "examples": examples,
        }
        passed = np.array([[r is None for r in s.reasons] for s in sampled], dtype=np.float64)
        share = self.mean(passed.mean(axis=1), within=(0, 1))
        return self.row("perturbed", share, {}, passed.size, **detail)

    def lengths(self, sampled: Sequence[Sampled]) -> list[Row]:
        """Words of each continuation by side, and their difference, g(p(x)) minus p(g(x)).

        Section 4.1 of the paper names no unit and no test; the test over prompts is recommended.
        """
        rows, words, means = list[Row](), [], []
        sides = {SOURCE: [s.p_g_x for s in sampled], TARGET: [s.g_px for s in sampled]}
        for side, of_prompts in sides.items():
            counts = [np.array([float(len(word_list(t))) for t in texts]) for texts in of_prompts]
            words.append(np.concatenate(counts))
            means.append(np.array([c.mean() if c.size else math.nan for c in counts]))
            rows.append(self.row("length", self.mean(means[-1]), {"side": side}, words[-1].size))
        difference = means[1] - means[0]
        paired = difference[np.isfinite(difference)]
        p = float(paired_p(paired)) if paired.size > 1 else None
        tests = {
            OVER_PROMPTS: (self.mean(difference), p, paired.size),
            OVER_ALL: (*welch(words[1], words[0]), words[0].size + words[1].size),
        }
        name = "length_difference"
        return rows + [self.row(name, e, {"test": t}, n, p=p) for t, (e, p, n) in tests.items()]

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
        return self.row("ngrams", float(len(telling)), {}, len(terms), **detail)


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


def compare_phrases(pg: Sequence[str], gp: Sequence[str], longest: int = 4) -> pd.DataFrame:
    """Every phrase in at least `MIN_TEXTS` texts, those of g(p(x)) first.

    A phrase counts once a text. `log_odds`, positive where g(p(x)) has it more, are smoothed by
    half a text in each cell (Haldane and Anscombe); `p` comes from their quotient with the standard
    error, two-sided and adjusted (Benjamini–Hochberg).
    """
    from sklearn.feature_extraction.text import CountVectorizer  # late: slow to import

    how = {"tokenizer": word_list, "token_pattern": None, "lowercase": False, "binary": True}
    counter = CountVectorizer(**how, ngram_range=(1, longest), min_df=MIN_TEXTS)
    sizes, has = np.array([[len(pg)], [len(gp)]]), np.zeros((2, 0))
    with suppress(ValueError):  # no phrase is in so many texts
        has = np.repeat(np.eye(2), sizes.ravel(), axis=1) @ counter.fit_transform([*pg, *gp])
    if not has.size or not sizes.all():
        return pd.DataFrame(columns=["text", "share_pg", "share_gp", "log_odds", "p"])
    lacks = sizes - has
    odds = np.log((has + 0.5) / (lacks + 0.5))
    difference = odds[1] - odds[0]
    error = np.sqrt((1 / (has + 0.5) + 1 / (lacks + 0.5)).sum(axis=0))
    p = adjusted(2 * norm.sf(np.abs(difference) / error), "fdr_bh")
    shares = has / sizes
    frame = {"text": counter.get_feature_names_out(), "share_pg": shares[0], "share_gp": shares[1]}
    order = np.argsort(-difference / error, kind="stable")
    return pd.DataFrame(frame | {"log_odds": difference, "p": p}).iloc[order]
