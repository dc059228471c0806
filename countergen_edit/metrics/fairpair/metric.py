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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64
from scipy.stats import norm, ttest_ind

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.data.fairpair import (
    MAX_DISSIMILARITY,
    REASONS,
    UNITS,
    Filter,
    PairedPrompt,
    Perturber,
    RulePerturber,
    choose,
    common_sents,
    own_prompts,
    paired_samples,
    paraphrased,
    require_perturbable,
    source_and_target,
    word_list,
)
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import (
    STORE,
    Sampled,
    Sampling,
    joined,
    make_perturber,
    perturbed,
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
from countergen_edit.metrics.template_tests import ALPHA, flip_counts, paired_p
from countergen_edit.models import LanguageModel, encode_replies, lengths

COMMON_SENTS, PARAPHRASED, OWN = "common_sents", "reworded_sents", "own_prompts"
EXAMPLES = 3
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
        top_p: Of nucleus sampling.
        temperature: Divides the logits.
        occupations: Names, or the number of the paper's sixty.
        descriptors: Noun phrases for the prompts, such as `tall {person}`; None takes `{person}`
            where the axis has that word.
        paraphrases: Templates with `{occupation}` instead of Common Sents; each is crossed with
            every occupation.
        prompts: Instead of Common Sents; by default the prompts of the task's own files, if any.
        asked: Whether prompts are user messages in the chat template, and continuations replies.
        names: Group → name; by default the axis's first test names.
        source: The group whose continuations are perturbed; by default the second.
        perturber: `rules`; a mapping with `kind` and its settings; or a `Perturber`.
        max_dissimilarity: Of the third filter.
        compared: Unit of the third filter: neutral words, all words or, as published, characters.
        phi: Name → settings of each Φ, or a `Phi`.
        permutations: Of each permutation test.
        folds: Further numbers of folds to evaluate (Figure 4).
        sample_sizes: Further numbers of continuations to evaluate (Figure 3).
        ngrams: Longest phrase to compare (Figure 6); 0 compares none.
        batch_size: Continuations sampled together.

    Raises:
        UserError: a setting is out of range, or a Φ cannot be made.
    """

    title = "FairPair"
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
        n: int = 100,
        max_new_tokens: int = 128,
        top_p: float = 0.9,
        temperature: float = 1.0,
        occupations: int | Sequence[str] = 60,
        descriptors: Sequence[str] | None = None,
        paraphrases: Sequence[str] | None = None,
        prompts: Sequence[str] | None = None,
        asked: bool = False,
        names: Mapping[str, str] | None = None,
        source: str | None = None,
        perturber: str | Mapping[str, Any] | Perturber = "rules",
        max_dissimilarity: float = MAX_DISSIMILARITY,
        compared: str = "neutral",
        phi: Mapping[str, Mapping[str, Any] | Phi | None] | None = None,
        permutations: int = 1000,
        folds: Sequence[int] = (),
        sample_sizes: Sequence[int] = (),
        ngrams: int = 4,
        batch_size: int = 128,
    ) -> None:
        if n < 2:
            raise UserError(f"fairpair n={n}: sampling variability needs at least 2 continuations")
        if permutations < 1 or max_new_tokens < 1 or batch_size < 1:
            raise UserError(
                f"fairpair permutations={permutations}, max_new_tokens={max_new_tokens}, "
                f"batch_size={batch_size}: at least 1"
            )
        for setting, sizes in (("folds", folds), ("sample_sizes", sample_sizes)):
            for size in sizes:
                if not 2 <= size <= n:
                    raise UserError(f"fairpair {setting} has {size}: from 2 to n={n}")
        if prompts is not None and paraphrases is not None:
            raise UserError("fairpair takes prompts or templates of the occupations, not both")
        self.sampling = Sampling(n, max_new_tokens, top_p, temperature, batch_size, asked)
        self.occupations = choose(occupations)
        self.descriptors = descriptors
        self.paraphrases = tuple(paraphrases or ())
        self.own = prompts
        self.names = dict(names or {})
        self.source = source
        self._perturber = perturber
        self.max_dissimilarity = max_dissimilarity
        self.compared = compared
        self.phis: dict[str, Phi] = {
            name: settings if isinstance(settings, Phi) else PHIS.make(name, settings)
            for name, settings in (phi or {"sentiment": None, "jaccard": None}).items()
        }
        self.permutations = permutations
        self.folds = tuple(folds)
        self.sample_sizes = tuple(sample_sizes)
        self.ngrams = ngrams

    def prepare(self) -> None:
        """Make the prompts of the task, the perturber and the filters.

        Raises:
            UserError: the axis lacks a name, a word or a substitution.
        """
        axis, substitution = self.task.axis, self.task.substitution
        self.groups = source_and_target(self.task.pair, self.source)
        a, b = (axis.groups[group] for group in self.groups)
        first, second = (
            self.names.get(group.name) or next(iter(group.names.get("test", ())), "")
            for group in (a, b)
        )
        for group, name in ((a, first), (b, second)):
            if not name:
                raise DoesNotFitError(
                    f"fairpair needs a name for group {group.name!r}: give fairpair.names"
                )
        names = (first, second)
        if self.own is not None:
            self.dataset = OWN
            self.prompts = own_prompts(self._few(self.own), axis, self.groups, names, substitution)
        elif self.task.own:
            self.dataset = OWN
            every = [sample for data in self.task.own for sample in data.samples]
            self.prompts = paired_samples(every, self.groups)
        elif self.paraphrases:
            self.dataset = PARAPHRASED
            self.prompts = paraphrased(self.paraphrases, a, b, names, self._few(self.occupations))
        else:
            self.dataset = COMMON_SENTS
            person = ["{person}"] if "person" in a.forms else []
            descriptors = person if self.descriptors is None else self.descriptors
            occupations = self._few(self.occupations)
            self.prompts = common_sents(a, b, names, occupations, descriptors)
        if callable(self._perturber):
            self.perturber = self._perturber
        else:
            self.perturber = make_perturber(self._perturber, self.groups, substitution)
        if isinstance(self.perturber, RulePerturber):
            require_perturbable(self.prompts, self.perturber)
        self.passes = Filter(substitution, self.max_dissimilarity, self.compared)

    def _few(self, drawn: Sequence[str]) -> list[str]:
        """The items within the task's limit."""
        most = len(drawn) if self.task.limit is None else self.task.limit
        return [drawn[i] for i in first_drawn(len(drawn), most, 0, "fairpair")]

    def check(self, model: LanguageModel) -> None:
        """Check that prompts and continuations fit the model.

        Raises:
            UserError: the context is too short, or `asked` needs a chat template.
        """
        if self.sampling.asked and not model.chat.is_on:
            raise UserError(
                f"fairpair.asked=true: the texts of {model.name} stand in no chat template, in "
                "which a user would ask: set model.template=chat"
            )
        if model.is_encoder_decoder:
            return
        texts = [text for prompt in self.prompts for text in (prompt.source, prompt.target)]
        if self.sampling.asked:
            encodings = encode_replies(model, texts, [""] * len(texts))
            longest = max(len(encoding.ids) for encoding in encodings)
        else:
            longest = max(lengths(model, texts))
        room = model.context_length - longest
        if self.sampling.max_new_tokens > room:
            raise UserError(
                f"fairpair.max_new_tokens={self.sampling.max_new_tokens}: {model.name} has room "
                f"for {max(room, 0)} after a prompt of {longest} tokens"
            )

    def sampled(self, context: EvaluationContext, edit: NamedEdit | None) -> list[Sampled]:
        """The texts of every prompt under an edit, read from the store where it has them."""
        folder = context.place(STORE, edit).with_suffix("")
        texts = sample(context, edit, self.prompts, self.sampling, folder)
        return perturbed(
            self.prompts, texts, self.perturber, self.passes, self.sampling, context.seed, folder
        )

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `fairpair_…` of every Φ, of perturbations, lengths and phrases.

        Under an edit, `fairpair_f_change` and `fairpair_energy_change` are edited minus unedited.
        The prompts have test names, so there are none for validation.
        """
        if split != "test":
            return []
        after = self.sampled(context, edit)
        before = after if edit is None else self.sampled(context, None)
        results = {
            name: evaluate(phi, after, self.permutations, context.seed)
            for name, phi in self.phis.items()
        }
        make = FairPairRows(self, context.seed)
        rows = [make.perturbed(after), *make.lengths(after)]
        pooled = [result.pooled_p() for result in results.values()]
        p = adjusted([1.0 if math.isnan(value) else value for value in pooled])
        for (name, result), pooled_p in zip(results.items(), p, strict=True):
            phi = self.phis[name]
            rows += make.of_phi(name, phi, result, after, float(pooled_p), context.model.name)
            rows += make.of_paraphrases(name, result)
            if edit is not None:
                unedited = evaluate(phi, before, self.permutations, context.seed)
                rows += make.of_change(name, unedited, result)
        return [*rows, *make.phrases(after)]


def without_interval(value: float) -> Estimate:
    """A value without an interval."""
    return Estimate(value, math.nan, math.nan, math.nan)


UNKNOWN = without_interval(math.nan)


@dataclass(frozen=True)
class FairPairRows:
    """The rows of one metric and seed; their intervals share the same draws."""

    about: FairPair
    seed: int

    @property
    def paraphrases(self) -> tuple[str, ...]:
        """Templates crossed with every occupation; the prompts of one are adjacent."""
        return self.about.paraphrases if self.about.dataset == PARAPHRASED else ()

    def row(
        self,
        metric: str,
        of: Estimate,
        n: int,
        facets: Mapping[str, str] | None = None,
        **detail: Any,
    ) -> Row:
        """A row about the task's groups."""
        task = self.about.task
        return Row(
            metric=metric,
            **of.columns,
            dataset=self.about.dataset,
            axis=task.axis.name,
            group_a=task.pair[0],
            group_b=task.pair[1],
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
        """The mean over prompts with a finite value; occupations and templates are resampled."""
        known = np.isfinite(values)
        if not known.any():
            return UNKNOWN
        kinds = max(1, len(self.paraphrases))
        # These words seed the draws.
        of_paraphrases, of_occupations = (
            resample(count, self.seed, "fairpair", self.about.dataset, kind)
            for kind, count in (("wordings", kinds), ("occupations", len(values) // kinds))
        )
        drawn = (of_paraphrases[:, :, None] * of_occupations[:, None, :]).reshape(-1, len(values))
        with np.errstate(invalid="ignore"):  # a draw may hold no finite value
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
        """A row for each of `QUANTITIES`; `pooled_p` is adjusted over all Φ."""
        reasons = Counter(p.reason for p in result.prompts if p.reason)
        p = result.prompt_p
        plain = result.pooled_p()
        tests = {
            "p": _known(plain),
            "p_adjusted": None if math.isnan(plain) else pooled_p,
            "significant_prompts": int((p < 0.05).sum()),
            "tested_prompts": int(np.isfinite(p).sum()),
            "permutations": self.about.permutations,
        } | result.t_p
        source, target = self.about.groups
        prompts = [
            [s.prompt.label, *map(_known, (q.bias, q.v_gp, q.v_pg, q.f, p[k]))]
            for k, (s, q) in enumerate(zip(sampled, result.prompts, strict=True))
        ]
        undefined = {"reason": reasons.most_common(1)[0][0]} if reasons else {}
        f = {"undefined": dict(reasons), "model": model, **undefined, "prompts": prompts}
        of_all = {"samples": self.about.sampling.n, "source": source, "target": target}
        of_each: dict[str, dict[str, Any]] = {
            "f": tests | f,
            "energy": tests,
            "bias": self._by_size(phi, sampled),
        }
        return [
            self._of_prompts(
                quantity, name, result.values(quantity), **of_all, **of_each.get(quantity, {})
            )
            for quantity in QUANTITIES
        ]

    def _of_prompts(
        self, quantity: str, phi: str, values: Float64[np.ndarray, " prompt"], **detail: Any
    ) -> Row:
        n = int(np.isfinite(values).sum())
        return self.row(f"fairpair_{quantity}", self.mean(values), n, {"phi": phi}, **detail)

    def _by_size(self, phi: Phi, sampled: Sequence[Sampled]) -> dict[str, Any]:
        """Means of B, both V and F over prompts, by number of folds and of continuations."""
        by_size: dict[str, Any] = {}
        for folds in self.about.folds:
            prompts = [in_folds(phi, s.texts, len(s.p_g_x), folds) for s in sampled]
            by_size.setdefault("by_folds", []).append([folds, *self._means(prompts)])
        for size in self.about.sample_sizes:
            prompts = of_first_texts(phi, sampled, size)
            by_size.setdefault("by_samples", []).append([size, *self._means(prompts)])
        return by_size

    def _means(self, prompts: Sequence[Pairwise]) -> list[float | None]:
        return [
            _known(self.mean(np.array([getattr(p, q) for p in prompts])).value)
            for q in ("bias", "v_gp", "v_pg", "f")
        ]

    def of_paraphrases(self, name: str, result: PhiResult) -> list[Row]:
        """F of each template, and the spread of F and its significance over templates."""
        if len(self.paraphrases) < 2:
            return []
        each = len(result.prompts) // len(self.paraphrases)
        parts = [slice(k * each, (k + 1) * each) for k in range(len(self.paraphrases))]
        p = [result.pooled_p(part) for part in parts]
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

    def of_change(self, name: str, before: PhiResult, after: PhiResult) -> list[Row]:
        """The change of F and of the energy distance under an edit, paired over prompts."""
        rows = []
        for quantity in ("f", "energy"):
            difference = after.values(quantity) - before.values(quantity)
            reason = {} if np.isfinite(difference).any() else {"reason": "F is undefined"}
            rows.append(self._of_prompts(f"{quantity}_change", name, difference, **reason))
        return rows

    def perturbed(self, sampled: Sequence[Sampled]) -> Row:
        """The share of perturbations that pass (Table 1), with examples (Table 2)."""
        passes = self.about.passes
        passed = np.array([[r is None for r in s.reasons] for s in sampled], dtype=np.float64)
        failed = Counter(r for s in sampled for r in s.reasons if r is not None)
        originals = [
            (joined(s.prompt.source, text), p_x, s.prompt)
            for s in sampled
            for text, p_x in zip(s.g_x, s.p_x, strict=True)
        ]
        shares = {
            unit: float(np.mean([passes.by(unit).reason(*of) is None for of in originals]))
            for unit in UNITS
        }
        return self.row(
            "fairpair_perturbed",
            self.mean(passed.mean(axis=1), within=(0, 1)),
            passed.size,
            left_out={reason: failed[reason] for reason in REASONS},
            empty_continuations=sum(not t.strip() for s in sampled for t in (*s.g_x, *s.g_px)),
            compared=passes.compared,
            asked=self.about.sampling.asked,
            shares=shares,
            examples=_examples(sampled, passes),
        )

    def lengths(self, sampled: Sequence[Sampled]) -> list[Row]:
        """Words of each continuation by side, and their difference, g(p(x)) minus p(g(x)).

        Section 4.1 of the paper reports no significant difference, without unit or test. Here
        Welch's test is over all continuations, and the recommended paired t-test over prompts.
        """
        sides = {
            SOURCE: [_words(s.p_g_x) for s in sampled],
            TARGET: [_words(s.g_px) for s in sampled],
        }
        means = {
            side: np.array([own.mean() if own.size else math.nan for own in of_prompts])
            for side, of_prompts in sides.items()
        }
        counts = {side: sum(own.size for own in of_prompts) for side, of_prompts in sides.items()}
        by_prompt = means[TARGET] - means[SOURCE]
        known = by_prompt[np.isfinite(by_prompt)]
        p = float(paired_p(known)) if known.size > 1 else None
        pooled, p_pooled = welch(np.concatenate(sides[TARGET]), np.concatenate(sides[SOURCE]))
        name = "fairpair_length_difference"
        return [
            *(
                self.row("fairpair_length", self.mean(means[side]), counts[side], {"side": side})
                for side in sides
            ),
            self.row(name, self.mean(by_prompt), known.size, {"test": OVER_PROMPTS}, p=p),
            self.row(name, pooled, sum(counts.values()), {"test": OVER_ALL}, p=p_pooled),
        ]

    def phrases(self, sampled: Sequence[Sampled]) -> list[Row]:
        """The n-grams that one side uses more (Figure 6)."""
        if not self.about.ngrams:
            return []
        terms = compare(
            [text for s in sampled for text in s.p_g_x],
            [text for s in sampled for text in s.g_px],
            self.about.ngrams,
        )
        source, target = self.about.groups
        return [
            self.row(
                "fairpair_ngrams",
                without_interval(float(sum(term.p < 0.05 for term in terms))),
                len(terms),
                terms=[asdict(term) for term in strongest(terms, TERMS)],
                source=source,
                target=target,
            )
        ]


def _examples(sampled: Sequence[Sampled], passes: Filter) -> list[dict[str, Any]]:
    """The first perturbations that passed and that each filter left out, one of a prompt."""
    counts: Counter[str] = Counter()
    examples = []
    for s in sampled:
        for original, text, reason in zip(s.g_x, s.p_x, s.reasons, strict=True):
            kind = reason or "passed"
            if not original.strip() or counts[kind] >= EXAMPLES:
                continue
            counts[kind] += 1
            example: dict[str, Any] = {"original": joined(s.prompt.source, original)}
            example |= {"perturbed": text, "left_out": reason}
            example["dissimilarity"] = {
                unit: passes.by(unit).dissimilarity(example["original"], text, s.prompt)
                for unit in UNITS
            }
            examples.append(example)
            break
    return examples


def _words(texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
    return np.array([len(word_list(text)) for text in texts], dtype=np.float64)


def welch(a: Float64[np.ndarray, _], b: Float64[np.ndarray, _]) -> tuple[Estimate, float | None]:
    """Mean of a minus mean of b, with the interval and p of Welch's t-test where it is defined.

    >>> welch(np.array([1.0, 2.0, 3.0]), np.array([2.0]))[1] is None
    True
    """
    nan = math.nan
    difference = float(a.mean() - b.mean()) if a.size and b.size else nan
    if min(a.size, b.size) < 2 or np.ptp(a) == np.ptp(b) == 0:
        return Estimate(difference, nan, nan, nan), None
    test = ttest_ind(a, b, equal_var=False)
    ends = test.confidence_interval()
    error = difference / float(test.statistic) if test.statistic else nan
    return Estimate(difference, float(ends.low), float(ends.high), error), float(test.pvalue)


@dataclass(frozen=True)
class Term:
    """A phrase, the share of each side's texts that has it, and whether that differs."""

    text: str
    share_pg: float
    share_gp: float
    log_odds: float
    """Positive where g(p(x)) has it more."""
    p: float
    """Two-sided, adjusted (Benjamini–Hochberg)."""


def terms_of(text: str, longest: int) -> set[str]:
    """The 1- to `longest`-grams of a text's words.

    >>> sorted(terms_of("She sings well.", 2))
    ['she', 'she sings', 'sings', 'sings well', 'well']
    """
    words = word_list(text)
    return {
        " ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)
    }


def compare(pg: Sequence[str], gp: Sequence[str], longest: int = 4) -> list[Term]:
    """Every phrase in at least `MIN_TEXTS` texts, those of g(p(x)) first.

    A phrase counts once a text. Log odds are smoothed by half a text in each cell (Haldane and
    Anscombe), and p comes from their quotient with the standard error.
    """
    sizes = [len(texts) for texts in (pg, gp)]
    counts = [Counter(t for text in texts for t in terms_of(text, longest)) for texts in (pg, gp)]
    terms = sorted(t for t in counts[0] | counts[1] if counts[0][t] + counts[1][t] >= MIN_TEXTS)
    if not terms or not all(sizes):
        return []
    has = np.array([[counter[t] for t in terms] for counter in counts], dtype=np.float64)
    lacks = np.array(sizes)[:, None] - has
    odds = np.log((has + 0.5) / (lacks + 0.5))
    difference = odds[1] - odds[0]
    error = np.sqrt((1 / (has + 0.5) + 1 / (lacks + 0.5)).sum(axis=0))
    p = adjusted(2 * norm.sf(np.abs(difference) / error), "fdr_bh")
    order = np.argsort(-difference / error, kind="stable")
    shares = has / np.array(sizes)[:, None]
    return [
        Term(terms[k], *map(float, (shares[0, k], shares[1, k], difference[k], p[k])))
        for k in order
    ]


def strongest(terms: Sequence[Term], each: int, level: float = 0.05) -> list[Term]:
    """The most significant phrases, at most `each` of one side."""
    telling = [term for term in terms if term.p < level]
    more_gp = [term for term in telling if term.log_odds > 0][:each]
    more_pg = [term for term in telling if term.log_odds < 0][::-1][:each]
    return [*more_gp, *more_pg[::-1]]


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
