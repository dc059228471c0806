"""FairPair as a metric: bias against sampling variability, with its significance.

For every prompt and every Φ: B, V_gp, V_pg, F and 2 B - V_gp - V_pg (see `pairwise`), their means
over prompts with bootstrap intervals, the paper's paired t-test, and a permutation test per prompt
and pooled. Under an edit, also what it changed, paired over prompts; with several templates, also
how the figures spread over them. Refused: n = 1, which leaves no variability to compare with;
prompts and new tokens beyond the model's context; prompts that are asked of a model whose texts do
not stand in its chat template.

Multiplicity: p-values of the prompts are adjusted over the prompts of one Φ, and pooled p-values
over the Φ of one model and edit, both by Holm's method; so are those of the templates of one Φ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.data.fairpair import (
    MAX_DISSIMILARITY,
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
)
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import (
    STORE,
    Sampled,
    Sampling,
    perturbed,
    sample,
)
from countergen_edit.metrics.fairpair.lengths import length_rows
from countergen_edit.metrics.fairpair.perturbers import make_perturber
from countergen_edit.metrics.fairpair.phi import PHIS, Phi
from countergen_edit.metrics.fairpair.phi_result import evaluate
from countergen_edit.metrics.fairpair.rows import FairPairRows
from countergen_edit.metrics.fairpair.texts import perturbed_row, phrase_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models import LanguageModel, Workload, encode_replies, lengths

COMMON_SENTS, PARAPHRASED, OWN = "common_sents", "paraphrased_sents", "own_prompts"


class FairPair(Metric):
    """Bias of a model's own continuations, held against their variability.

    The task's axis must name the people and their words.

    Args:
        n: Continuations of each prompt and side.
        max_new_tokens: Of a continuation.
        top_p: Of nucleus sampling.
        temperature: Divides the logits.
        occupations: Names, or how many of the paper's sixty.
        descriptors: Noun phrases for the prompts, such as `tall {person}`; None takes `{person}`
            where the axis has that word.
        templates: Templates with `{occupation}` instead of Common Sents; each meets every
            occupation, and their spread is reported.
        prompts: The user's own instead of Common Sents; unless given, those of the task's own
            files, where it has some.
        asked: Prompts are a user's messages in the chat template, and continuations the replies.
        names: Group → name of its person; the axis's first test names unless given.
        source: The group whose continuations are perturbed; the second unless given.
        perturber: `rules`; a mapping with `kind` and the settings of another; or one itself.
        max_dissimilarity: Of the third filter.
        compared: What the third filter compares: neutral words, all words or, as published,
            characters (see `Filter`).
        phi: Name → settings of each Φ, or one itself.
        permutations: Of each permutation test.
        folds: Numbers of folds to evaluate besides (Figure 4).
        sample_sizes: Numbers of continuations to evaluate besides (Figure 3).
        ngrams: Longest phrase to compare (Figure 6); 0 compares none.
        batch_size: Continuations sampled together.

    Raises:
        UserError: a setting is out of its range, or a Φ cannot be made.
    """

    title = "FairPair"
    is_slow: ClassVar[bool] = True
    is_generating: bool = True

    dataset: str
    """What the prompts are called in rows."""
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
        """Make the prompts of the task, what perturbs their continuations, and the filters.

        Raises:
            UserError: a group lacks a name or word for the prompts, or the rules their words.
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
        people = (first, second)
        if self.own is not None:
            self.dataset = OWN
            self.prompts = own_prompts(self._few(self.own), axis, self.groups, people, substitution)
        elif self.task.own:
            self.dataset = OWN
            every = [sample for data in self.task.own for sample in data.samples]
            self.prompts = paired_samples(every, self.groups)
        elif self.paraphrases:
            self.dataset = PARAPHRASED
            self.prompts = paraphrased(self.paraphrases, a, b, people, self._few(self.occupations))
        else:
            self.dataset = COMMON_SENTS
            person = ["{person}"] if "person" in a.forms else []
            descriptors = person if self.descriptors is None else self.descriptors
            occupations = self._few(self.occupations)
            self.prompts = common_sents(a, b, people, occupations, descriptors)
        if callable(self._perturber):
            self.perturber = self._perturber
        else:
            self.perturber = make_perturber(self._perturber, self.groups, substitution)
        if isinstance(self.perturber, RulePerturber):
            require_perturbable(self.prompts, self.perturber)
        self.passes = Filter(substitution, self.max_dissimilarity, self.compared)

    def _few(self, drawn: Sequence[str]) -> list[str]:
        """Of what is drawn as much as a quick try takes, or all."""
        most = len(drawn) if self.task.limit is None else self.task.limit
        return [drawn[i] for i in first_drawn(len(drawn), most, 0, "fairpair")]

    def check(self, model: LanguageModel) -> None:
        """Refuse prompts that leave no room for the continuation, or that cannot be asked.

        Raises:
            UserError: naming the longest prompt and the room it leaves.
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

    def workload(self) -> Workload:
        """Every prompt as often as it is sampled, on either side."""
        sampling = self.sampling
        return Workload(
            continued=tuple(t for p in self.prompts for t in (p.source, p.target) * sampling.n),
            max_new_tokens=sampling.max_new_tokens,
            do_sample=True,
            top_p=sampling.top_p,
            temperature=sampling.temperature,
        )

    def sampled(self, context: EvaluationContext, edit: NamedEdit | None) -> list[Sampled]:
        """The texts of every prompt under an edit, from the store where they are there."""
        folder = context.place(STORE, edit).with_suffix("")
        texts = sample(context, edit, self.prompts, self.sampling, folder)
        return perturbed(
            self.prompts, texts, self.perturber, self.passes, self.sampling, context.seed, folder
        )

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `fairpair_…` of every Φ, the success of perturbing, lengths, and telling phrases.

        Under an edit, `fairpair_f_change` and `fairpair_energy_change` are edited minus unedited.
        The prompts are about test names: there are none for validation.
        """
        if split != "test":
            return []
        after = self.sampled(context, edit)
        before = after if edit is None else self.sampled(context, None)
        results = {
            name: evaluate(phi, after, self.permutations, context.seed)
            for name, phi in self.phis.items()
        }
        make = FairPairRows(
            self.task,
            context.seed,
            self.dataset,
            self.groups,
            () if self.dataset == OWN else self.paraphrases,
            self.sampling.n,
            self.permutations,
            self.folds,
            self.sample_sizes,
        )
        rows = [perturbed_row(make, after, self.passes, self.sampling.asked)]
        rows += length_rows(make, after)
        p = adjusted([1.0 if math.isnan(r.pooled_p) else r.pooled_p for r in results.values()])
        for (name, result), pooled_p in zip(results.items(), p, strict=True):
            phi = self.phis[name]
            rows += make.of_phi(name, phi, result, after, float(pooled_p), context.model.name)
            rows += make.of_paraphrases(name, result)
            if edit is not None:
                unedited = evaluate(phi, before, self.permutations, context.seed)
                rows += make.of_change(name, unedited, result)
        return [*rows, *phrase_rows(make, after, self.ngrams)]
