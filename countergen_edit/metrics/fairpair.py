"""FairPair as a metric of the audit: bias against sampling variability, with its significance.

For every prompt and every Φ: B, V_gp, V_pg, F and 2 B - V_gp - V_pg (see `pairwise`), their means
over prompts with bootstrap intervals, the paper's paired t-test, and a permutation test per prompt
and pooled. Under an edit, also what it changed, paired over prompts; with several wordings, also
how the figures spread over them. Refused: n = 1, which leaves no variability to compare with;
prompts and new tokens beyond the model's context.

Multiplicity: p-values of the prompts are adjusted over the prompts of one Φ, and pooled p-values
over the Φ of one model and edit, both by Holm's method; so are those of the wordings of one Φ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.common_sents import choose, common_sents, own_prompts, reworded
from countergen_edit.data.perturbation import (
    MAX_DISSIMILARITY,
    REASONS,
    Filter,
    source_and_target,
)
from countergen_edit.edits import Edit
from countergen_edit.errors import UserError
from countergen_edit.metrics.base import UNEDITED, Metric, Subject, register
from countergen_edit.metrics.continuations import (
    Sampled,
    Sampling,
    folder_of,
    perturbed,
    sample,
)
from countergen_edit.metrics.ngrams import compare, strongest
from countergen_edit.metrics.pairwise import (
    Pairwise,
    in_folds,
    p_value,
    pairwise,
    permuted_energies,
)
from countergen_edit.metrics.perturbers import make_perturber
from countergen_edit.metrics.phi import Phi, make_phi
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import (
    Estimate,
    adjusted,
    bootstrap_mean,
    estimate,
    resample,
)
from countergen_edit.metrics.wordings import ALPHA, flip_counts
from countergen_edit.models import LanguageModel, encode

COMMON_SENTS, REWORDED, OWN = "common_sents", "reworded_sents", "own_prompts"
QUANTITIES = ("f", "bias", "v_gp", "v_pg", "energy")
EXAMPLES = 3
"""Perturbations of each kind that a run's rows quote."""


@dataclass(frozen=True)
class PhiResult:
    """One Φ of one model and edit."""

    prompts: tuple[Pairwise, ...]
    energies: Float64[np.ndarray, "prompt permutation_plus_one"]
    """2 B - V - V under permutations; rows of prompts without a test are NaN."""

    def values(self, quantity: str) -> Float64[np.ndarray, " prompt"]:
        """One of `QUANTITIES` for every prompt."""
        return np.array([getattr(p, quantity) for p in self.prompts], dtype=np.float64)

    @property
    def prompt_p(self) -> Float64[np.ndarray, " prompt"]:
        """Permutation p-values, adjusted over the prompts; NaN where there is no test."""
        tested = np.isfinite(self.energies[:, 0])
        p = np.full(len(tested), np.nan)
        p[tested] = adjusted([p_value(row) for row in self.energies[tested]])
        return p

    @property
    def pooled_p(self) -> float:
        """Of the mean of 2 B - V - V over all prompts; NaN where no prompt has a test."""
        return self.pooled_over(slice(None))

    def pooled_over(self, prompts: slice) -> float:
        """The same of some prompts."""
        energies = self.energies[prompts]
        tested = energies[np.isfinite(energies[:, 0])]
        return p_value(tested.mean(axis=0)) if len(tested) else float("nan")

    @property
    def t_p(self) -> dict[str, float | None]:
        """Paired t-tests over prompts of B against V_pg, as the paper's, and against V_gp."""
        from scipy.stats import ttest_rel

        out: dict[str, float | None] = {}
        for side in ("v_pg", "v_gp"):
            pairs = np.array([self.values("bias"), self.values(side)])
            pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
            # A difference that is the same everywhere has no spread to be tested against.
            spread = np.ptp(pairs[0] - pairs[1]) if pairs.size else 0.0
            out[f"t_p_{side}"] = float(ttest_rel(*pairs).pvalue) if spread > 0 else None
        return out


def evaluate(phi: Phi, sampled: Sequence[Sampled], permutations: int, seed: int) -> PhiResult:
    """All quantities of one Φ over sampled prompts."""
    phi.prepare([text for s in sampled for text in s.texts])
    found, energies = [], np.full((len(sampled), permutations + 1), np.nan)
    for k, s in enumerate(sampled):
        distances = phi.distances(phi.represent(s.texts))
        n = len(s.p_g_x)
        found.append(pairwise(distances, n))
        if n > 1 and len(distances) - n > 1:
            energies[k] = permuted_energies(
                distances, n, permutations, seed, phi.name, s.prompt.source
            )
    return PhiResult(tuple(found), energies)


@register("fairpair")
class FairPair(Metric):
    """Bias of a model's own continuations, held against their variability.

    Args:
        subject: What the audit is about; its axis must name the people and their words.
        n: Continuations of each prompt and side.
        max_new_tokens: Of a continuation.
        top_p: Of nucleus sampling.
        temperature: Divides the logits.
        occupations: Names, or how many of the paper's sixty.
        descriptors: Noun phrases for the prompts, such as `tall {person}`; None takes `{person}`
            where the axis has that word.
        wordings: Templates with `{occupation}` instead of Common Sents; each meets every
            occupation, and their spread is reported.
        prompts: The user's own instead of Common Sents.
        names: Group → name of its person; the axis's first test names unless given.
        source: The group whose continuations are perturbed; the second unless given.
        perturber: `rules`, or a mapping with `kind` and the settings of another.
        max_dissimilarity: Of the third filter.
        all_words: Whether the third filter counts the words of either group too.
        phi: Name → settings of each Φ.
        permutations: Of each permutation test.
        folds: Numbers of folds to evaluate besides (Figure 4).
        sample_sizes: Numbers of continuations to evaluate besides (Figure 3).
        ngrams: Longest phrase to compare (Figure 6); 0 compares none.
        batch_size: Continuations sampled together.

    Raises:
        UserError: a setting is out of its range, or a group lacks a name or word for the prompts.
    """

    def __init__(
        self,
        subject: Subject,
        n: int = 100,
        max_new_tokens: int = 128,
        top_p: float = 0.9,
        temperature: float = 1.0,
        occupations: int | Sequence[str] = 60,
        descriptors: Sequence[str] | None = None,
        wordings: Sequence[str] | None = None,
        prompts: Sequence[str] | None = None,
        names: Mapping[str, str] | None = None,
        source: str | None = None,
        perturber: str | Mapping[str, Any] = "rules",
        max_dissimilarity: float = MAX_DISSIMILARITY,
        all_words: bool = False,
        phi: Mapping[str, Mapping[str, Any] | None] | None = None,
        permutations: int = 1000,
        folds: Sequence[int] = (),
        sample_sizes: Sequence[int] = (),
        ngrams: int = 4,
        batch_size: int = 128,
    ) -> None:
        super().__init__(subject)
        if n < 2:
            raise UserError(f"fairpair n={n}: sampling variability needs at least 2 continuations")
        if permutations < 1 or max_new_tokens < 1 or batch_size < 1:
            raise UserError(
                f"fairpair permutations={permutations}, max_new_tokens={max_new_tokens}, "
                f"batch_size={batch_size}: at least 1"
            )
        for setting, sizes, top in (("folds", folds, n), ("sample_sizes", sample_sizes, n)):
            for size in sizes:
                if not 2 <= size <= top:
                    raise UserError(f"fairpair {setting} has {size}: from 2 to n={top}")
        groups = source_and_target(subject.groups, source)
        axis = subject.axis
        a, b = (axis.groups[group] for group in groups)
        chosen = [
            (names or {}).get(g.name) or next(iter(g.names.get("test", ())), "") for g in (a, b)
        ]
        for group, name in zip(groups, chosen, strict=True):
            if not name:
                raise UserError(f"fairpair needs a name for group {group!r}: give fairpair.names")
        people = (chosen[0], chosen[1])
        if descriptors is None:
            descriptors = ["{person}"] if "person" in a.forms else []
        substitution = subject.substitution
        if prompts is not None and wordings is not None:
            raise UserError("fairpair takes prompts or wordings of the occupations, not both")
        self.wordings = tuple(wordings or ())
        if prompts is not None:
            self.dataset = OWN
            self.prompts = own_prompts(prompts, axis, groups, people, substitution)
        elif wordings:
            self.dataset = REWORDED
            self.prompts = reworded(wordings, a, b, people, choose(occupations))
        else:
            self.dataset = COMMON_SENTS
            self.prompts = common_sents(a, b, people, choose(occupations), descriptors)
        self.groups = groups
        self.perturber = make_perturber(perturber, substitution, groups)
        self.passes = Filter(substitution, max_dissimilarity, all_words)
        self.phis = {
            name: make_phi(name, settings)
            for name, settings in (phi or {"sentiment": None, "jaccard": None}).items()
        }
        self.sampling = Sampling(n, max_new_tokens, top_p, temperature, batch_size, subject.seed)
        self.permutations = permutations
        self.folds = tuple(folds)
        self.sample_sizes = tuple(sample_sizes)
        self.ngrams = ngrams

    def check(self, model: LanguageModel) -> None:
        """Refuse prompts that leave no room for the continuation.

        Raises:
            UserError: naming the longest prompt and the room it leaves.
        """
        if model.is_encoder_decoder:
            return
        texts = [text for prompt in self.prompts for text in (prompt.source, prompt.target)]
        longest = max(len(encoding.ids) for encoding in encode(model, texts))
        room = model.context_length - longest
        if self.sampling.max_new_tokens > room:
            raise UserError(
                f"fairpair.max_new_tokens={self.sampling.max_new_tokens}: {model.name} has room "
                f"for {max(room, 0)} after a prompt of {longest} tokens"
            )

    def sampled(
        self, model: LanguageModel, edit: Edit | None, label: str, store: Path
    ) -> list[Sampled]:
        """The texts of every prompt under an edit."""
        folder = folder_of(store, label)
        texts = sample(model, edit, self.prompts, self.sampling, folder)
        return perturbed(self.prompts, texts, self.perturber, self.passes, self.sampling, folder)

    def rows(self, model: LanguageModel, edit: Edit | None, label: str, store: Path) -> list[Row]:
        """Rows `fairpair_…` of every Φ, the success of perturbing, and telling phrases.

        Under an edit, `fairpair_f_change` and `fairpair_energy_change` are edited minus unedited.
        """
        after = self.sampled(model, edit, label, store)
        before = after if edit is None else self.sampled(model, None, UNEDITED, store)
        results = {name: self._evaluate(phi, after) for name, phi in self.phis.items()}
        rows = [self._success(after)]
        p = adjusted([1.0 if math.isnan(r.pooled_p) else r.pooled_p for r in results.values()])
        for (name, result), pooled in zip(results.items(), p, strict=True):
            rows += self._phi_rows(name, result, after, float(pooled), model.name)
            rows += self._wording_rows(name, result)
            if edit is not None:
                rows += self._changes(name, self._evaluate(self.phis[name], before), result)
        return [*rows, *self._phrases(after)]

    def _evaluate(self, phi: Phi, sampled: Sequence[Sampled]) -> PhiResult:
        return evaluate(phi, sampled, self.permutations, self.subject.seed)

    def _row(self, metric: str, dataset: str, of: Estimate, n: int, **detail: Any) -> Row:
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

    def _mean(self, values: Float64[np.ndarray, " prompt"]) -> Estimate:
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

    def _by_wording(self) -> list[slice]:
        each = len(self.prompts) // max(1, len(self.wordings))
        return [slice(k * each, (k + 1) * each) for k in range(len(self.wordings))]

    def _wording_rows(self, name: str, result: PhiResult) -> list[Row]:
        """`fairpair_f_of_wording` of each, and how F and its significance spread over them."""
        if len(self.wordings) < 2:
            return []
        dataset, parts = f"{self.dataset}/{name}", self._by_wording()
        p = [result.pooled_over(part) for part in parts]
        p_adjusted = adjusted([1.0 if math.isnan(value) else value for value in p])
        rows, means = [], []
        for k, part in enumerate(parts):
            values = result.values("f")[part]
            known = values[np.isfinite(values)]
            e = bootstrap_mean(known, self.subject.seed, "fairpair", name) if known.size else None
            means.append(e.value if e else float("nan"))
            rows.append(
                self._row(
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
            self._row(
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

    def _phi_rows(
        self,
        name: str,
        result: PhiResult,
        sampled: Sequence[Sampled],
        pooled: float,
        model: str,
    ) -> list[Row]:
        dataset = f"{self.dataset}/{name}"
        rows = []
        reasons = Counter(p.reason for p in result.prompts if p.reason)
        p = result.prompt_p
        tests = {
            "p": None if math.isnan(result.pooled_p) else result.pooled_p,
            "p_adjusted": None if math.isnan(result.pooled_p) else pooled,
            "significant_prompts": int((p < 0.05).sum()),
            "tested_prompts": int(np.isfinite(p).sum()),
            "permutations": self.permutations,
        } | result.t_p
        for quantity in QUANTITIES:
            values = result.values(quantity)
            detail: dict[str, Any] = {
                "samples": self.sampling.n,
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
                detail |= self._ablations(self.phis[name], sampled)
            rows.append(
                self._row(
                    f"fairpair_{quantity}",
                    dataset,
                    self._mean(values),
                    int(np.isfinite(values).sum()),
                    **detail,
                )
            )
        return rows

    def _ablations(self, phi: Phi, sampled: Sequence[Sampled]) -> dict[str, Any]:
        """Means of B, both V and F over prompts, by number of folds and of samples."""
        out: dict[str, Any] = {}
        for key, sizes in (("by_folds", self.folds), ("by_samples", self.sample_sizes)):
            for size in sizes:
                found = []
                for s in sampled:
                    n = len(s.p_g_x)
                    if key == "by_folds":
                        found.append(in_folds(phi, s.texts, n, size))
                    else:
                        texts = [*s.texts[:n][:size], *s.texts[n:][:size]]
                        represented = phi.represent(texts)
                        found.append(pairwise(phi.distances(represented), min(n, size)))
                means = [
                    _known(self._mean(np.array([getattr(p, q) for p in found])).value)
                    for q in ("bias", "v_gp", "v_pg", "f")
                ]
                out.setdefault(key, []).append([size, *means])
        return out

    def _changes(self, name: str, before: PhiResult, after: PhiResult) -> list[Row]:
        rows = []
        for quantity in ("f", "energy"):
            difference = after.values(quantity) - before.values(quantity)
            rows.append(
                self._row(
                    f"fairpair_{quantity}_change",
                    f"{self.dataset}/{name}",
                    self._mean(difference),
                    int(np.isfinite(difference).sum()),
                    **({} if np.isfinite(difference).any() else {"reason": "F is undefined"}),
                )
            )
        return rows

    def _success(self, sampled: Sequence[Sampled]) -> Row:
        """The share of perturbations that pass (Table 1), with examples (Table 2)."""
        passed = np.array([[r is None for r in s.reasons] for s in sampled], dtype=np.float64)
        failed = Counter(r for s in sampled for r in s.reasons if r is not None)
        empty = sum(not text.strip() for s in sampled for text in (*s.g_x, *s.g_px))
        return self._row(
            "fairpair_perturbed",
            self.dataset,
            self._mean(passed.mean(axis=1)),
            passed.size,
            left_out={reason: failed[reason] for reason in REASONS},
            empty_continuations=empty,
            examples=self._examples(sampled),
        )

    def _examples(self, sampled: Sequence[Sampled]) -> list[dict[str, Any]]:
        """A few perturbations that passed and a few that did not, the first of their kind."""
        taken: Counter[str] = Counter()
        examples = []
        for s in sampled:
            for original, text, reason in zip(s.g_x, s.p_x, s.reasons, strict=True):
                kind = reason or "passed"
                if not original.strip() or taken[kind] >= EXAMPLES:
                    continue
                taken[kind] += 1
                whole = f"{s.prompt.source}{original}"
                examples.append(
                    {
                        "original": whole,
                        "perturbed": text,
                        "dissimilarity": self.passes.dissimilarity(whole, text, s.prompt),
                        "left_out": reason,
                    }
                )
                break  # one a prompt, for variety
        return examples

    def _phrases(self, sampled: Sequence[Sampled]) -> list[Row]:
        """The 1- to 4-grams that one side uses more (Figure 6)."""
        if not self.ngrams:
            return []
        terms = compare(
            [text for s in sampled for text in s.p_g_x],
            [text for s in sampled for text in s.g_px],
            self.ngrams,
        )
        telling = strongest(terms, each=10)
        count = float(sum(term.p < 0.05 for term in terms))
        nan = float("nan")
        return [
            self._row(
                "fairpair_ngrams",
                self.dataset,
                Estimate(count, nan, nan, nan),
                len(terms),
                terms=[asdict(term) for term in telling],
                source=self.groups[0],
                target=self.groups[1],
            )
        ]


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
