"""The metric FairPair: bias of continuations against their sampling variability.

For every prompt and every Φ: B, V_gp, V_pg, F and 2 B - V_gp - V_pg (see `phi`), their means over
prompts with bootstrap intervals, the paper's paired t-test, and a permutation test per prompt and
pooled. Under an edit also the change, paired over prompts; with several templates, also the spread
of F over them. Holm's method adjusts p-values of prompts and of templates within one Φ, and pooled
p-values over the Φ of one model and edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import DoesNotFitError, Group
from countergen_edit.data.fairpair import (
    Filter,
    PairedPrompt,
    Perturber,
    RulePerturber,
    chosen_occupations,
    common_sents,
    own_prompts,
    paired_samples,
    paraphrased,
    require_perturbable,
)
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import (
    FairPairSampling,
    Sampled,
    make_perturber,
    require_room,
    sample,
)
from countergen_edit.metrics.fairpair.phi import PHIS, Phi, evaluate, in_folds
from countergen_edit.metrics.fairpair.rows import FairPairRows, holm
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, encode_replies, lengths

COMMON_SENTS, PARAPHRASED, _OWN = "common_sents", "reworded_sents", "own_prompts"
_TOP_P, TEMPERATURE = 0.9, 1.0
"""Of nucleus sampling, as in the paper."""


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
        self.sampling = FairPairSampling(n, max_new_tokens, _TOP_P, TEMPERATURE, batch_size, asked)
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
        if self.own is not None:
            self.dataset = _OWN
            self.prompts = own_prompts(self._few(self.own), axis, self.groups, names, substitution)
        elif self.task.own:
            self.dataset = _OWN
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
        require_room(model, "fairpair", longest, self.sampling.max_new_tokens)

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
        make = FairPairRows(
            self.dataset,
            self.task.axis.name,
            self.task.pair,
            self.paraphrases if self.dataset == PARAPHRASED else (),
            self.sampling.n,
            self.permutations,
            context.seed,
        )
        rows = [make.perturbed(after, self.passes, self.sampling.asked), *make.lengths(after)]
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
