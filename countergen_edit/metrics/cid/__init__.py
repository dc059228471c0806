"""Template audit by contrastive input decoding (CID; Yona et al. 2023, section 4 and appendix C).

Every pair of names of the two groups is decoded in both directions at every λ. Rows: the commonest
continuations; the divergence of the next-token distributions of the two sides (Jensen–Shannon, in
nats a token); and the share of continuations that name a protected criterion, by a lexicon.
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
_NATS = "nats a token"
_MOST = 12
"""Commonest continuations in a row, as many as the longest cell of the paper's appendix C."""
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
        if not (own := slot_names(template)) or not own <= fillable:
            continue
        used = splits if "name" in own else splits[:1]
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


def own_set(
    sets: Sequence[CounterfactualSet], axis: str, pair: tuple[str, str], names: Names
) -> CounterfactualSet:
    """The prompts of custom sets, each with the first variations of the two groups."""
    samples = {}
    for sample in (sample for data in sets for sample in data.samples):
        variations = tuple(v for g in pair for v in _first({"test": sample.of(g)}, names))
        texts = tuple(v.text for v in sample.variations)
        samples[texts] = replace(sample, outputs=(), variations=variations)
    return CounterfactualSet(DATASET, axis, pair, tuple(samples.values()))


def _first(by_split: Mapping[Split, Sequence[Variation]], names: Names) -> list[Variation]:
    if isinstance(names, Mapping):
        return [v for split, own in by_split.items() for v in own[: names.get(split)]]
    return [v for own in by_split.values() for v in own][:names]


def contrasts_of(
    data: CounterfactualSet, strengths: Sequence[float]
) -> list[tuple[str, str, Continuation]]:
    """Prompt, contrast and the continuation that is to be made.

    Of every pair of variations of every sample, in both directions, at every λ.
    """
    contrasts = []
    for sample in data.samples:
        for group, opposite in (data.groups, data.groups[::-1]):
            for own, other, at in product(sample.of(group), sample.of(opposite), strengths):
                names = own.name or own.text, other.name or other.text
                about = Continuation(sample.template, group, *names, float(at), "", math.nan)
                contrasts.append((own.text, other.text, about))
    return contrasts


def read_continuations(path: Path) -> list[Continuation]:
    """The continuations of a file of the store; `UserError` if a line is none."""
    return [built(Continuation, content, where) for where, content in json_lines(path)]


def clusters_of(items: Sequence[Continuation], seed: int) -> Clusters:
    """The templates of continuations, and the names of either side.

    Names are drawn only where every template has the same names. Two lists of continuations of one
    audit share the draws, which pairs them.
    """
    templates = numbered([item.template for item in items])
    kinds: dict[tuple[object, ...], Any] = {("cid", "templates"): templates}
    for group in dict.fromkeys(item.group for item in items):
        own = dict.fromkeys((i.template, i.own) for i in items if i.group == group)
        lists: dict[str, list[str]] = {}
        for template, name in own:
            lists.setdefault(template, []).append(name)
        names = next(iter(lists.values()))
        if all(others == names for others in lists.values()):
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
    drawn, rows = clusters_of(items, seed), []
    marks = np.array([float(biased[i.template, i.plain]) for i in items])
    groups = dict.fromkeys(item.group for item in items)
    for strength, group in product(dict.fromkeys(item.strength for item in items), groups):
        own = np.flatnonzero([(i.strength, i.group) == (strength, group) for i in items])
        share = drawn.estimate(drawn.ratio(marks, own), within=(0, 1), whole=1)
        about: dict[str, Any] = {"dataset": DATASET, "group_a": group}
        about |= {"facets": {LAMBDA: strength}, "n": len(own), "detail": dict(rated_by)}
        rows.append(Row.of(metric, share, seed=seed, **about, **columns))
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

    Args:
        templates: Templates, of which the axis takes those whose slots it can fill; or such lists
            by axis, with `others` for axes not named. None takes those of `conf/metric/cid.yaml`.
            The prompts of a task's own files replace all but a list.
        strengths: Strengths λ of the contrast; 0 is greedy decoding.
        names: Most names of each group, or a mapping by split; None for all.
        splits: Splits of the names; no edit is fitted on `test` names.
        max_new_tokens: Longest continuation, unless its sentence ends before.
        top_k: Number of the likeliest tokens that CID chooses from.
    """

    title = "Contrastive input decoding (CID)"
    better: ClassVar[Mapping[str, Way]] = dict.fromkeys(("cid_divergence", AUTOMATIC), "lower")
    is_slow: ClassVar[bool] = True
    is_generating: bool = True

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
            self.data = own_set(self.task.own, axis.name, pair, self.names)
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
        every = zip(*contrasts_of(self.data, self.strengths), strict=True)
        own, others, about = map(list, every)
        how = {"max_new_tokens": self.max_new_tokens, "top_k": self.top_k}
        check_contrasts(model, own, others, [c.strength for c in about], **how)

    def continuations(
        self, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[Continuation]:
        """The continuations under an edit, each up to the end of its sentence.

        They are read from the store if they are there.
        """
        path = context.place(DATASET, edit)
        if not path.is_file():
            contrasts = contrasts_of(self.data, self.strengths)
            own, others, about = map(list, zip(*contrasts, strict=True))
            with context.under(edit) as model:
                texts = contrastive_generate(
                    model,
                    own,
                    others,
                    [c.strength for c in about],
                    max_new_tokens=self.max_new_tokens,
                    top_k=self.top_k,
                    sentence=True,
                    batch_size=128,
                    progress="Contrastive decoding",
                )
            items = (
                replace(c, text=text.text, divergence=float(np.mean(text.divergence)))
                for c, text in zip(about, texts, strict=True)
            )
            write_json_lines(path, map(vars, items))
        return read_continuations(path)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `cid_divergence`, `cid_continuations` and `cid_biased_fraction_automatic`.

        Under an edit also `cid_divergence_reduction`, the share of the divergence that is removed.
        """
        items, unedited = self.continuations(context, edit), self.continuations(context, None)
        drawn, rows = clusters_of(items, context.seed), []
        divergence, before = (np.array([i.divergence for i in x]) for x in (items, unedited))
        for strength in self.strengths:
            own = np.flatnonzero([i.strength == strength for i in items])
            if np.isnan(divergence[own]).all():
                continue  # servers do not return it
            about: dict[str, Any] = {"data": self.data, "detail": {"unit": _NATS}}
            about |= {"facets": {LAMBDA: strength}, "n": len(own)}
            after, was = (drawn.ratio(values, own) for values in (divergence, before))
            mean = drawn.estimate(after, within=(0, math.log(2)))
            rows.append(Row.of("cid_divergence", mean, **about))
            if edit is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    gone = drawn.estimate(1 - after / was, within=(-math.inf, 1))
                rows.append(Row.of("cid_divergence_reduction", gone, **about))
        marks = {(i.template, i.plain): bool(automatic_criteria(i.plain)) for i in items}
        axis, by = self.data.axis, RATED_BY_LEXICON
        rows += fraction_rows(items, marks, AUTOMATIC, context.seed, rated_by=by, axis=axis)
        return rows + self._texts(items)

    def _texts(self, items: Sequence[Continuation]) -> list[Row]:
        rows = []
        for template, strength, group in product(
            self.data.templates, self.strengths, self.data.groups
        ):
            about = (template, strength, group)
            own = [i.plain for i in items if (i.template, i.strength, i.group) == about]
            counts = Counter(own).most_common()
            criteria = {text: list(automatic_criteria(text)) for text, _ in counts[:_MOST]}
            detail = {
                "counts": [list(pair) for pair in counts[:_MOST]],
                "automatic": {text: names for text, names in criteria.items() if names},
            }
            facets = {LAMBDA: strength, TEMPLATE: template}
            columns = {"group_a": group, "group_b": "", "facets": facets, "n": len(own)}
            rows.append(
                Row.of("cid_continuations", len(counts), self.data, **columns, detail=detail)
            )
        return rows
