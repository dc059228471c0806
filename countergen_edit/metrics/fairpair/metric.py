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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.data.common_sents import choose, common_sents, own_prompts, reworded
from countergen_edit.data.text.perturbation import MAX_DISSIMILARITY, Filter, source_and_target
from countergen_edit.edits import Edit
from countergen_edit.errors import UserError
from countergen_edit.metrics.base import UNEDITED, Metric, Subject, register
from countergen_edit.metrics.fairpair.continuations import (
    Sampled,
    Sampling,
    folder_of,
    perturbed,
    sample,
)
from countergen_edit.metrics.fairpair.perturbers import make_perturber
from countergen_edit.metrics.fairpair.phi import Phi, make_phi
from countergen_edit.metrics.fairpair.phi_result import PhiResult, evaluate
from countergen_edit.metrics.fairpair.rows import FairPairRows
from countergen_edit.metrics.fairpair.texts import perturbed_row, phrase_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models import LanguageModel, encode

__all__ = ["FairPair", "PhiResult", "evaluate"]

COMMON_SENTS, REWORDED, OWN = "common_sents", "reworded_sents", "own_prompts"


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
        make = FairPairRows(
            self.subject,
            self.dataset,
            self.groups,
            self.wordings,
            self.sampling.n,
            self.permutations,
            self.folds,
            self.sample_sizes,
        )
        rows = [perturbed_row(make, after, self.passes)]
        p = adjusted([1.0 if math.isnan(r.pooled_p) else r.pooled_p for r in results.values()])
        for (name, result), pooled_p in zip(results.items(), p, strict=True):
            phi = self.phis[name]
            rows += make.of_phi(name, phi, result, after, float(pooled_p), model.name)
            rows += make.of_wordings(name, result)
            if edit is not None:
                rows += make.of_change(name, self._evaluate(phi, before), result)
        return [*rows, *phrase_rows(make, after, self.ngrams)]

    def _evaluate(self, phi: Phi, sampled: Sequence[Sampled]) -> PhiResult:
        return evaluate(phi, sampled, self.permutations, self.subject.seed)
