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
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from annotated_types import Ge, Gt
from jaxtyping import Float64
from scipy.stats import norm, ttest_ind

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import DoesNotFitError, Group
from countergen_edit.data.fairpair import (
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
    word_list,
)
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import (
    Sampled,
    Sampling,
    joined,
    make_perturber,
    sample,
)
from countergen_edit.metrics.fairpair.judges import agreement
from countergen_edit.metrics.fairpair.phi import (
    PHIS,
    QUANTITIES,
    Phi,
    PhiResult,
    ScoreDifference,
    evaluate,
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
TOP_P, TEMPERATURE = 0.9, 1.0
"""Of nucleus sampling, as in the paper."""
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
UNKNOWN = (math.nan,) * 3
"""The interval and standard error of a value that has none."""


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
        perturber: `rules`; a mapping with `kind` and its settings; or a `Perturber`.
        compared: Unit of the third filter: neutral words, all words or, as published, characters.
        phi: Name → settings of each Φ, or a `Phi`.
        permutations: Of each permutation test.
        ngrams: Longest phrase to compare (Figure 6); 0 compares none.
        batch_size: Continuations sampled together.

    Raises:
        UserError: a setting is out of range, or a Φ cannot be made.
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
        permutations: Annotated[int, Gt(0)] = 1000,
        ngrams: int = 4,
        batch_size: Annotated[int, Gt(0)] = 128,
    ) -> None:
        if prompts is not None and paraphrases is not None:
            raise UserError("fairpair takes prompts or templates of the occupations, not both")
        self.sampling = Sampling(n, max_new_tokens, TOP_P, TEMPERATURE, batch_size, asked)
        self.occupations = choose(occupations)
        self.paraphrases = tuple(paraphrases or ())
        self.own = prompts
        self.names = dict(names or {})
        self._perturber = perturber
        self.compared = compared
        self.phis: dict[str, Phi] = {
            name: settings if isinstance(settings, Phi) else PHIS.make(name, settings)
            for name, settings in (phi or {"sentiment": None, "jaccard": None}).items()
        }
        self.permutations = permutations
        self.ngrams = ngrams

    def prepare(self) -> None:
        """Make the prompts of the task, the perturber and the filters."""
        axis, substitution = self.task.axis, self.task.substitution
        self.groups = self.task.pair[::-1]
        a, b = (axis.groups[group] for group in self.groups)
        names = self._name(a), self._name(b)
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
            self.prompts = common_sents(a, b, names, self._few(self.occupations), person)
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
        """Check that prompts and continuations fit the model."""
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
        return sample(context, edit, self.prompts, self.sampling, self.perturber, self.passes)

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
        for (name, result), p in zip(
            results.items(), _holm(result.pooled_p() for result in results.values()), strict=True
        ):
            rows += make.of_phi(name, result, after, p, context.model.name)
            rows += make.of_paraphrases(name, result)
            if edit is not None:
                unedited = evaluate(self.phis[name], before, self.permutations, context.seed)
                rows += make.of_change(name, unedited, result)
        judges = {n: phi for n, phi in self.phis.items() if isinstance(phi, ScoreDifference)}
        if len(judges) > 1:
            rows.append(make.judges(judges, after))
        return [*rows, *make.phrases(after)]


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
        self, metric: str, of: Estimate | float, n: int, facets: dict[str, Any], **detail: Any
    ) -> Row:
        """A row about the task's groups."""
        task = self.about.task
        return Row(
            metric=f"fairpair_{metric}",
            **(of if isinstance(of, Estimate) else Estimate(of, *UNKNOWN)).columns,
            dataset=self.about.dataset,
            axis=task.axis.name,
            group_a=task.pair[0],
            group_b=task.pair[1],
            facets=facets,
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
            return Estimate(math.nan, *UNKNOWN)
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
        result: PhiResult,
        sampled: Sequence[Sampled],
        p_adjusted: float | None,
        model: str,
    ) -> list[Row]:
        """A row for each of `QUANTITIES`; P is adjusted over all Φ."""
        reasons = Counter(p.reason for p in result.prompts if p.reason)
        p = result.prompt_p
        tests = {
            "p": _known(result.pooled_p()),
            "p_adjusted": p_adjusted,
            "significant_prompts": int((p < ALPHA).sum()),
            "tested_prompts": int(np.isfinite(p).sum()),
            "permutations": self.about.permutations,
        } | result.t_p
        prompts = [
            [s.prompt.label, *map(_known, (q.bias, q.v_gp, q.v_pg, q.f, p[k]))]
            for k, (s, q) in enumerate(zip(sampled, result.prompts, strict=True))
        ]
        undefined = {"reason": reasons.most_common(1)[0][0]} if reasons else {}
        f = {"undefined": dict(reasons), "model": model, **undefined, "prompts": prompts}
        source, target = self.about.groups
        of_all = {"samples": self.about.sampling.n, "source": source, "target": target}
        of_each: dict[str, dict[str, Any]] = {"f": tests | f, "energy": tests}
        return [
            self._of_prompts(q, name, result.values(q), **of_all, **of_each.get(q, {}))
            for q in QUANTITIES
        ]

    def _of_prompts(
        self, quantity: str, phi: str, values: Float64[np.ndarray, " prompt"], **detail: Any
    ) -> Row:
        known = int(np.isfinite(values).sum())
        return self.row(quantity, self.mean(values), known, {"phi": phi}, **detail)

    def of_paraphrases(self, name: str, result: PhiResult) -> list[Row]:
        """F of each template, and the spread of F and its significance over templates."""
        count = len(self.paraphrases)
        if count < 2:
            return []
        each = len(result.prompts) // count
        parts = [slice(k * each, (k + 1) * each) for k in range(count)]
        p = [result.pooled_p(part) for part in parts]
        p_adjusted = _holm(p)
        rows = []
        for k, part in enumerate(parts):
            values = result.values("f")[part]
            f = values[np.isfinite(values)]
            mean = bootstrap_mean(f, self.seed, "fairpair", name) if f.size else math.nan
            facets = {"phi": name, "paraphrase": self.paraphrases[k]}
            tests = {"p": _known(p[k]), "p_adjusted": p_adjusted[k]}
            rows.append(self.row("f_of_paraphrase", mean, f.size, facets, **tests))
        known = np.array([row.value for row in rows if row.value is not None])
        differs = np.array([p is not None and p < ALPHA for p in p_adjusted], dtype=np.int64)
        flips, pairs = flip_counts(differs[:, None])
        spread = self.row(
            "f_over_paraphrases",
            float(known.mean()) if known.size else math.nan,
            count,
            {"phi": name},
            sd=float(known.std(ddof=1)) if known.size > 1 else None,
            range=[float(known.min()), float(known.max())] if known.size else None,
            differ=int(differs.sum()),
            flip_rate=flips / pairs,
        )
        return [*rows, spread]

    def of_change(self, name: str, before: PhiResult, after: PhiResult) -> list[Row]:
        """The change of F and of the energy distance under an edit, paired over prompts."""
        rows = []
        for quantity in ("f", "energy"):
            difference = after.values(quantity) - before.values(quantity)
            reason = {} if np.isfinite(difference).any() else {"reason": "F is undefined"}
            rows.append(self._of_prompts(f"{quantity}_change", name, difference, **reason))
        return rows

    def judges(self, judges: Mapping[str, ScoreDifference], sampled: Sequence[Sampled]) -> Row:
        """The agreement of the Φ that score texts."""
        scores = {name: [phi.scores(s.texts) for s in sampled] for name, phi in judges.items()}
        alpha = agreement(scores, self.seed)
        reason = {} if math.isfinite(alpha.value) else {"reason": "all texts have one score"}
        texts = sum(len(s.texts) for s in sampled)
        return self.row("judge_agreement", alpha, texts, {}, judges=[*judges], **reason)

    def perturbed(self, sampled: Sequence[Sampled]) -> Row:
        """The share of perturbations that pass (Table 1), with examples (Table 2)."""
        filters = {unit: self.about.passes.by(unit) for unit in UNITS}
        failed = Counter(r for s in sampled for r in s.reasons if r is not None)
        passed = np.array([[r is None for r in s.reasons] for s in sampled], dtype=np.float64)
        every = [
            (joined(s.prompt.source, text), p_x, s.prompt)
            for s in sampled
            for text, p_x in zip(s.g_x, s.p_x, strict=True)
        ]
        shares = {
            unit: float(np.mean([by.reason(*of) is None for of in every]))
            for unit, by in filters.items()
        }
        counts: Counter[str] = Counter()
        examples = []
        for s in sampled:  # the first of each kind, one of a prompt
            for original, text, reason in zip(s.g_x, s.p_x, s.reasons, strict=True):
                kind = reason or "passed"
                if not original.strip() or counts[kind] >= EXAMPLES:
                    continue
                counts[kind] += 1
                whole = joined(s.prompt.source, original)
                apart = {u: f.dissimilarity(whole, text, s.prompt) for u, f in filters.items()}
                about = {"original": whole, "perturbed": text, "left_out": reason}
                examples.append(about | {"dissimilarity": apart})
                break
        return self.row(
            "perturbed",
            self.mean(passed.mean(axis=1), within=(0, 1)),
            passed.size,
            {},
            left_out={reason: failed[reason] for reason in REASONS},
            empty_continuations=sum(not t.strip() for s in sampled for t in (*s.g_x, *s.g_px)),
            compared=self.about.passes.compared,
            asked=self.about.sampling.asked,
            shares=shares,
            examples=examples,
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
        rows, means, every = [], [], []
        for side, of_prompts in sides.items():
            means.append(np.array([own.mean() if own.size else math.nan for own in of_prompts]))
            every.append(np.concatenate(of_prompts))
            rows.append(self.row("length", self.mean(means[-1]), every[-1].size, {"side": side}))
        by_prompt = means[1] - means[0]
        known = by_prompt[np.isfinite(by_prompt)]
        tests = {
            OVER_PROMPTS: (
                self.mean(by_prompt),
                float(paired_p(known)) if known.size > 1 else None,
                known.size,
            ),
            OVER_ALL: (*welch(every[1], every[0]), every[0].size + every[1].size),
        }
        name = "length_difference"
        return rows + [self.row(name, e, n, {"test": t}, p=p) for t, (e, p, n) in tests.items()]

    def phrases(self, sampled: Sequence[Sampled]) -> list[Row]:
        """The n-grams that one side uses more (Figure 6)."""
        if not self.about.ngrams:
            return []
        pg = [text for s in sampled for text in s.p_g_x]
        gp = [text for s in sampled for text in s.g_px]
        terms = compare(pg, gp, self.about.ngrams)
        telling = terms[terms.p < ALPHA]
        strongest = pd.concat(
            [telling[telling.log_odds > 0].head(TERMS), telling[telling.log_odds < 0].tail(TERMS)]
        )
        source, target = self.about.groups
        detail = {"terms": strongest.to_dict("records"), "source": source, "target": target}
        return [self.row("ngrams", float(len(telling)), len(terms), {}, **detail)]


def _holm(p: Iterable[float]) -> list[float | None]:
    """P adjusted over all; None for NaN, which counts as 1."""
    values = np.array([*p])
    corrected = adjusted(np.where(np.isnan(values), 1.0, values))
    return [*map(_known, np.where(np.isnan(values), math.nan, corrected))]


def _words(texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
    return np.array([len(word_list(text)) for text in texts], dtype=np.float64)


def welch(
    a: Float64[np.ndarray, " m"], b: Float64[np.ndarray, " n"]
) -> tuple[Estimate, float | None]:
    """Mean of a minus mean of b, with the interval and p of Welch's t-test where it is defined.

    >>> welch(np.array([1.0, 2.0, 3.0]), np.array([2.0]))[1] is None
    True
    """
    difference = float(a.mean() - b.mean()) if a.size and b.size else math.nan
    if min(a.size, b.size) < 2 or np.ptp(a) == np.ptp(b) == 0:
        return Estimate(difference, *UNKNOWN), None
    test = ttest_ind(a, b, equal_var=False)
    ends = test.confidence_interval()
    return Estimate(difference, float(ends.low), float(ends.high), math.nan), float(test.pvalue)


def terms_of(text: str, longest: int) -> set[str]:
    """The 1- to `longest`-grams of a text's words.

    >>> sorted(terms_of("She sings well.", 2))
    ['she', 'she sings', 'sings', 'sings well', 'well']
    """
    words = word_list(text)
    return {
        " ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)
    }


def compare(pg: Sequence[str], gp: Sequence[str], longest: int = 4) -> pd.DataFrame:
    """Every phrase in at least `MIN_TEXTS` texts, those of g(p(x)) first.

    A phrase counts once a text. Log odds are smoothed by half a text in each cell (Haldane and
    Anscombe), and p comes from their quotient with the standard error.

    Returns:
        `text`; `share_pg` and `share_gp` of the texts of each side; `log_odds`, positive where
        g(p(x)) has it more; `p`, two-sided and adjusted (Benjamini–Hochberg).
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


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
