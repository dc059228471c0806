"""Template audit by contrastive input decoding (CID; Yona et al. 2023, section 4 and appendix C).

Every pair of names of the two groups is decoded in both directions at every λ. A lexicon finds the
continuations that name a protected criterion.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt, MinLen

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.reading import json_lines, shipped_yaml
from countergen_edit.core.typed import built
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.axis import Axis, DoesNotFitError, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.subsets import check_leakage, few_prompts
from countergen_edit.data.templates import Template, crossed, slot_names
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Clusters
from countergen_edit.models import LanguageModel, check_contrasts, contrastive_generate

DATASET = "cid"
"""The data set of every row."""
LAMBDA, TEMPLATE = "lambda", "template"
"""Facets of rows."""
AUTOMATIC = "cid_biased_fraction_automatic"
LEXICON = Path(__file__).with_name("protected_criteria.yaml")
RATED_BY_LEXICON = {"rated_by": "lexicon, automatically; no person has rated"}

_MOST = 12
"""Commonest continuations in a row, as many as in the longest cell of appendix C."""
Count = Annotated[int, Gt(0)]
Names = Count | Mapping[Split, Count] | None
"""Most names of each group, or of each group and split; None for all."""


@dataclass(frozen=True)
class Continuation:
    """CID(x; x', λ) of one pair of names, where x is about `group`."""

    template: str
    group: str
    own: str
    """The name in x; x itself where it has no name."""
    other: str
    """The name in x', or x'."""
    strength: float
    """λ."""
    text: str
    divergence: float
    """Mean Jensen–Shannon divergence of its tokens, in nats."""

    @property
    def plain(self) -> str:
        """The text in counts and ratings."""
        return " ".join(self.text.split()).rstrip(" .!?,;:")


def template_set(
    axis: Axis,
    templates: Sequence[str],
    groups: Sequence[str] | None,
    *,
    splits: Sequence[Split] = ("test",),
    names: Names = None,
) -> CounterfactualSet:
    """The templates that the axis can fill, crossed with the first names of each group.

    `UserError` if the axis can fill none of them, or none distinguishes the groups.
    """
    pair = axis.pair(groups)
    fillable = {*pair[0].forms, *({"name"} if any(pair[0].names.values()) else ())}
    samples = []
    for template in templates:
        if not (slots := slot_names(template)) or not slots <= fillable:
            continue
        used = splits if "name" in slots else splits[:1]
        parts = {split: crossed(Template(template), axis, split, pair) for split in used}
        a, b = (_first({split: p.of(g.name) for split, p in parts.items()}, names) for g in pair)
        if {v.text for v in a}.isdisjoint(v.text for v in b):
            samples.append(Sample(template, (), (*a, *b)))
    if not samples:
        named = " and ".join(repr(group.name) for group in pair)
        raise DoesNotFitError(
            f"axis {axis.name!r} can fill no CID template that tells {named} apart; its slots are "
            f"{', '.join(sorted(fillable))}: name templates of your own under metric.cid.templates"
        )
    return CounterfactualSet(DATASET, axis.name, (pair[0].name, pair[1].name), tuple(samples))


def prompt_set(
    sets: Sequence[CounterfactualSet], axis: str, pair: tuple[str, str], names: Names
) -> CounterfactualSet:
    """The prompts of custom sets, each with the first variations of each group."""
    samples = {}
    for sample in (sample for data in sets for sample in data.samples):
        variations = tuple(v for g in pair for v in _first({"test": sample.of(g)}, names))
        texts = tuple(v.text for v in sample.variations)
        samples[texts] = replace(sample, outputs=(), variations=variations)
    return CounterfactualSet(DATASET, axis, pair, tuple(samples.values()))


def _first(by_split: Mapping[Split, Sequence[Variation]], names: Names) -> list[Variation]:
    if isinstance(names, Mapping):
        return [v for split, side in by_split.items() for v in side[: names.get(split)]]
    return [v for side in by_split.values() for v in side][:names]


def contrasts_of(
    data: CounterfactualSet, strengths: Sequence[float]
) -> list[tuple[str, str, Continuation]]:
    """Prompt, contrast and textless continuation of every pair, in both directions, at every λ."""
    contrasts = []
    for sample in data.samples:
        for group, opposite in (data.groups, data.groups[::-1]):
            for x, other, at in product(sample.of(group), sample.of(opposite), strengths):
                names = x.name or x.text, other.name or other.text
                empty = Continuation(sample.template, group, *names, float(at), "", math.nan)
                contrasts.append((x.text, other.text, empty))
    return contrasts


def read_continuations(path: Path) -> list[Continuation]:
    """The continuations of a file of the store; `UserError` if a line is not one."""
    return [built(Continuation, content, where) for where, content in json_lines(path)]


def clusters_of(items: Sequence[Continuation], seed: int) -> Clusters:
    """The templates of continuations, and the names of either side.

    Names are drawn only where every template has the same names. Two lists of continuations of one
    audit share the draws, which pairs them.
    """
    templates = numbered([item.template for item in items])
    kinds: dict[tuple[object, ...], Any] = {("cid", "templates"): templates}
    for group in dict.fromkeys(item.group for item in items):
        names_of: dict[str, list[str]] = {}
        for template, name in dict.fromkeys((i.template, i.own) for i in items if i.group == group):
            names_of.setdefault(template, []).append(name)
        names, *further = names_of.values()
        if further.count(names) == len(further):
            of_side = [i.own if i.group == group else i.other for i in items]
            kinds["cid", "names", group] = np.array([names.index(name) for name in of_side])
    return Clusters(seed, kinds)


def fraction_rows(
    items: Sequence[Continuation],
    biased: Mapping[tuple[str, str], bool],
    metric: str,
    seed: int,
    *,
    rated_by: Mapping[str, Any],
    **columns: Any,
) -> list[Row]:
    """The share of biased continuations by group and λ (Figures 2, 6 and 7).

    `biased` has every (template, plain text); `rated_by` is the detail of every row.
    """
    drawn = clusters_of(items, seed)
    marks = np.array([float(biased[i.template, i.plain]) for i in items])
    groups = dict.fromkeys(item.group for item in items)
    rows = []
    for strength, group in product(dict.fromkeys(item.strength for item in items), groups):
        units = np.flatnonzero([(i.strength, i.group) == (strength, group) for i in items])
        share = drawn.estimate(drawn.ratio(marks, units), within=(0, 1), whole=1)
        of_row: dict[str, Any] = {"dataset": DATASET, "group_a": group, "n": len(units)}
        of_row |= {"facets": {LAMBDA: strength}, "seed": seed, "detail": {**rated_by}}
        rows.append(Row.of(metric, share, **of_row, **columns))
    return rows


@cache
def _lexicon() -> Mapping[str, re.Pattern[str]]:
    patterns = {}
    for criterion, words in shipped_yaml(LEXICON).items():
        any_of = "|".join(re.escape(word).replace(r"\*", r"\w*") for word in words)
        patterns[criterion] = re.compile(rf"\b(?:{any_of})\b", re.IGNORECASE)
    return patterns


def automatic_criteria(text: str) -> tuple[str, ...]:
    """The protected criteria that a text names, by `protected_criteria.yaml`.

    >>> automatic_criteria("had a strong accent")
    ('language',)
    >>> automatic_criteria("was too nervous")
    ()
    """
    return tuple(criterion for criterion, words in _lexicon().items() if words.search(text))


class Cid(Metric):
    """Contrastive continuations of templates, and the divergence between the two sides.

    Parameters
    ----------
    templates : Templates, of which the axis takes those whose slots it can fill; or such lists by
        axis, with `others` for axes not named. None takes those of `conf/metric/cid.yaml`. The
        prompts of a task's own files replace all but a list.
    strengths : Strengths λ of the contrast; 0 is greedy decoding.
    names : Most names of each group, or a mapping by split; None for all.
    splits : Splits of the names; no edit is fitted on `test` names.
    max_new_tokens : Longest continuation, unless its sentence ends before.
    top_k : Number of the likeliest tokens that CID chooses from.
    """

    title = "Contrastive input decoding (CID)"
    better: ClassVar[Mapping[str, Way]] = dict.fromkeys(("cid_divergence", AUTOMATIC), "lower")
    is_slow = True
    is_generating = True

    def __init__(
        self,
        *,
        templates: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        strengths: Annotated[Sequence[float], MinLen(1)] = (0.0, 10.0, 50.0),
        names: Names = 4,
        splits: Sequence[Split] = ("test",),
        max_new_tokens: int = 16,
        top_k: int = 50,
    ) -> None:
        self.templates = templates
        self.strengths = tuple(dict.fromkeys(map(float, strengths)))
        self.names = names
        self.splits = tuple(splits)
        self.max_new_tokens = max_new_tokens
        self.top_k = top_k

    def prepare(self) -> None:
        axis, pair, templates = self.task.axis, self.task.pair, self.templates
        if self.task.own and (templates is None or isinstance(templates, Mapping)):
            self.data = prompt_set(self.task.own, axis.name, pair, self.names)
        else:
            if templates is None:
                templates = read_config("metric", "cid")["cid"]["templates"]
            if isinstance(templates, Mapping):
                templates = templates.get(axis.name, templates.get("others", ()))
            self.data = template_set(axis, templates, pair, splits=self.splits, names=self.names)
        if self.task.limit is not None:
            self.data = few_prompts(self.data, self.task.limit, 0)

    def check(self, model: LanguageModel) -> None:
        check_leakage(self.task.fit, [self.data])
        prompts, contrasts, items = zip(*contrasts_of(self.data, self.strengths), strict=True)
        strengths = [item.strength for item in items]
        how = {"max_new_tokens": self.max_new_tokens, "top_k": self.top_k}
        check_contrasts(model, prompts, contrasts, strengths, **how)

    def continuations(
        self, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[Continuation]:
        """The continuations under an edit, up to the end of a sentence, from the store if there."""
        path = context.place(DATASET, edit)
        if not path.is_file():
            prompts, contrasts, items = zip(*contrasts_of(self.data, self.strengths), strict=True)
            with context.under(edit) as model:
                texts = contrastive_generate(
                    model,
                    prompts,
                    contrasts,
                    [item.strength for item in items],
                    max_new_tokens=self.max_new_tokens,
                    top_k=self.top_k,
                    sentence=True,
                    batch_size=128,
                    progress="Contrastive decoding",
                )
            continuations = (
                replace(item, text=text.text, divergence=float(np.mean(text.divergence)))
                for item, text in zip(items, texts, strict=True)
            )
            write_json_lines(path, map(vars, continuations))
        return read_continuations(path)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `cid_divergence`, `cid_continuations` and `cid_biased_fraction_automatic`.

        Under an edit also `cid_divergence_reduction`, the share of the divergence that is removed.
        """
        items, unedited = self.continuations(context, edit), self.continuations(context, None)
        drawn = clusters_of(items, context.seed)
        divergence, before = (np.array([i.divergence for i in x]) for x in (items, unedited))
        rows = []
        for strength in self.strengths:
            units = np.flatnonzero([i.strength == strength for i in items])
            if np.isnan(divergence[units]).all():
                continue  # servers do not return it
            detail = {"unit": "nats a token"}
            columns = {"facets": {LAMBDA: strength}, "n": len(units), "detail": detail}
            after, was = (drawn.ratio(values, units) for values in (divergence, before))
            mean = drawn.estimate(after, within=(0, math.log(2)))
            rows.append(Row.of("cid_divergence", mean, self.data, **columns))
            if edit is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    gone = drawn.estimate(1 - after / was, within=(-math.inf, 1))
                rows.append(Row.of("cid_divergence_reduction", gone, self.data, **columns))
        marks = {(i.template, i.plain): bool(automatic_criteria(i.plain)) for i in items}
        rows += fraction_rows(
            items, marks, AUTOMATIC, context.seed, rated_by=RATED_BY_LEXICON, axis=self.data.axis
        )
        return rows + self._texts(items)

    def _texts(self, items: Sequence[Continuation]) -> list[Row]:
        rows = []
        for key in product(self.data.templates, self.strengths, self.data.groups):
            template, strength, group = key
            counts = Counter(i.plain for i in items if (i.template, i.strength, i.group) == key)
            commonest = counts.most_common(_MOST)
            criteria = {text: [*automatic_criteria(text)] for text, _ in commonest}
            detail = {
                "counts": [[*pair] for pair in commonest],
                "automatic": {text: names for text, names in criteria.items() if names},
            }
            facets = {LAMBDA: strength, TEMPLATE: template}
            columns = {"group_a": group, "group_b": "", "facets": facets, "detail": detail}
            rows.append(
                Row.of("cid_continuations", len(counts), self.data, n=counts.total(), **columns)
            )
        return rows
