"""Template audit by contrastive input decoding (CID; Yona et al. 2023, section 4 and appendix C).

Every pair of names of the two groups is decoded in both directions at every λ. Rows: the commonest
continuations; the divergence of the next-token distributions of the two sides (Jensen–Shannon, in
nats a token); and the share of continuations that name a protected criterion, by a lexicon.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import json_lines, shipped_yaml
from countergen_edit.core.typed import built
from countergen_edit.core.writing import whole
from countergen_edit.data.axis import SPLITS, Axis, DoesNotFitError, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.splits import check_leakage
from countergen_edit.data.subsets import few_prompts
from countergen_edit.data.templates import Template, crossed, slot_names
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample
from countergen_edit.models import LanguageModel, check_contrasts, contrastive_generate

DATASET = "cid"
"""The data set of every row."""
LAMBDA, TEMPLATE = "lambda", "template"
"""Facets of rows."""
AUTOMATIC = "cid_biased_fraction_automatic"
LEXICON = Path(__file__).with_name("protected_criteria.yaml")
RATED_BY_LEXICON = {"rated_by": "lexicon, automatically; no person has rated"}
NATS = "nats a token"
MOST = 12
"""Commonest continuations in a row, as many as the longest cell of the paper's appendix C."""
Names = int | Mapping[Split, int] | None
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

    Raises:
        DoesNotFitError: the axis can fill none of them, or none distinguishes the groups.
    """
    pair = axis.pair(groups)
    fillable = {*pair[0].forms, *({"name"} if any(pair[0].names.values()) else ())}
    samples = []
    for template in templates:
        if not (own := slot_names(template)) or not own <= fillable:
            continue
        parts = [
            crossed(Template(template), axis, split, pair)
            for split in (splits if "name" in own else splits[:1])
        ]
        a, b = (_first([part.of(g.name) for part in parts], splits, names) for g in pair)
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
    most = names.get("test") if isinstance(names, Mapping) else names
    samples = {
        tuple(v.text for v in sample.variations): replace(
            sample,
            outputs=(),
            variations=tuple(v for group in pair for v in sample.of(group)[:most]),
        )
        for data in sets
        for sample in data.samples
    }
    return CounterfactualSet(DATASET, axis, pair, tuple(samples.values()))


def _first(
    by_split: Sequence[Sequence[Variation]], splits: Sequence[Split], names: Names
) -> list[Variation]:
    if isinstance(names, Mapping):
        by_split = [own[: names.get(s)] for s, own in zip(splits, by_split, strict=False)]
        names = None
    return [variation for own in by_split for variation in own][:names]


class Contrast(NamedTuple):
    """A prompt and the prompt that it is contrasted with."""

    prompt: str
    contrast: str
    strength: float
    about: Continuation


def contrasts_of(data: CounterfactualSet, strengths: Sequence[float]) -> list[Contrast]:
    """Every pair of variations of every sample, in both directions, at every λ."""

    def about(template: str, own: Variation, other: Variation, at: float) -> Continuation:
        names = (own.name or own.text, other.name or other.text)
        return Continuation(template, own.group, *names, float(at), "", math.nan)

    return [
        Contrast(own.text, other.text, strength, about(sample.template, own, other, strength))
        for sample in data.samples
        for group, opposite in (data.groups, data.groups[::-1])
        for own, other in product(sample.of(group), sample.of(opposite))
        for strength in strengths
    ]


def continuations(
    model: LanguageModel,
    data: CounterfactualSet,
    strengths: Sequence[float],
    *,
    max_new_tokens: int,
    top_k: int,
) -> list[Continuation]:
    """Decode all contrasts of a set, each up to the end of its sentence."""
    *contrasts, about = map(list, zip(*contrasts_of(data, strengths), strict=True))
    texts = contrastive_generate(
        model,
        *contrasts,
        max_new_tokens=max_new_tokens,
        top_k=top_k,
        sentence=True,
        batch_size=128,
        progress="Contrastive decoding",
    )
    return [
        replace(c, text=text.text, divergence=float(np.mean(text.divergence)))
        for c, text in zip(about, texts, strict=True)
    ]


def write_continuations(path: Path, items: Sequence[Continuation]) -> None:
    """Write continuations as JSON lines, whole or not at all."""
    lines = (json.dumps(asdict(item), ensure_ascii=False) for item in items)
    with whole(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_continuations(path: Path) -> list[Continuation]:
    """Read what `write_continuations` wrote.

    Raises:
        UserError: there is no such file, or a line holds something else.
    """
    return [built(Continuation, content, where) for where, content in json_lines(path)]


class Resampling:
    """Bootstrap weights of continuations, from draws of templates and of the names of both sides.

    Names are drawn only where every template has the same names. Two lists of continuations of one
    audit share the draws, which pairs them.
    """

    def __init__(self, items: Sequence[Continuation], seed: int) -> None:
        self.groups = tuple(dict.fromkeys(item.group for item in items))
        templates = {t: i for i, t in enumerate(dict.fromkeys(item.template for item in items))}
        self._templates = templates, resample(len(templates), seed, "cid", "templates")
        self._names = []
        for group in self.groups:
            names_of: dict[str, dict[str, int]] = {}
            for item in items:
                if item.group == group:
                    of_template = names_of.setdefault(item.template, {})
                    of_template.setdefault(item.own, len(of_template))
            names = next(iter(names_of.values()))
            weights = resample(len(names), seed, "cid", "names", group)
            if any(list(other) != list(names) for other in names_of.values()):
                names = {name: 0 for other in names_of.values() for name in other}
                weights = np.ones((1, 1))
            self._names.append((names, weights))

    @property
    def drawn(self) -> list[Weights]:
        """The weights of templates, then of the names of each side."""
        return [self._templates[1], *(weights for _, weights in self._names)]

    def weights(self, items: Sequence[Continuation]) -> Float64[np.ndarray, "resample item"]:
        """The weight of each continuation in each resample; the first row is all ones."""
        places, weights = self._templates
        product = weights[:, [places[item.template] for item in items]]
        for group, (index, weights) in zip(self.groups, self._names, strict=True):
            of_side = [index[i.own if i.group == group else i.other] for i in items]
            product = product * weights[:, of_side]
        return product

    def means(
        self, items: Sequence[Continuation], values: Sequence[float]
    ) -> Float64[np.ndarray, " resample"]:
        """The mean of the values in every resample; NaN in an empty one."""
        weights = self.weights(items)
        with np.errstate(divide="ignore", invalid="ignore"):
            means: Float64[np.ndarray, " resample"] = weights @ np.array(values) / weights.sum(1)
        return means


def fraction_rows(
    items: Sequence[Continuation],
    biased: Mapping[tuple[str, str], bool],
    metric: str,
    seed: int,
    *,
    axis: str,
    rated_by: Mapping[str, Any],
) -> list[Row]:
    """The share of biased continuations by group and λ (Figures 2, 6 and 7).

    Args:
        items: All continuations of an audit.
        biased: (template, plain text) → whether it is biased.
        metric: `cid_biased_fraction` by raters, `cid_biased_fraction_automatic` by the lexicon.
        seed: The run's seed.
        axis: Of every row.
        rated_by: Detail of every row.
    """
    draws, rows = Resampling(items, seed), []
    strengths = dict.fromkeys(item.strength for item in items)
    for strength, group in product(strengths, draws.groups):
        own = [i for i in items if i.strength == strength and i.group == group]
        marks = [float(biased[i.template, i.plain]) for i in own]
        rows.append(
            Row(
                metric=metric,
                **estimate(draws.means(own, marks), *draws.drawn, within=(0, 1)).columns,
                dataset=DATASET,
                group_a=group,
                facets={LAMBDA: strength},
                n=len(own),
                seed=seed,
                axis=axis,
                detail=dict(rated_by),
            )
        )
    return rows


@cache
def _lexicon() -> Mapping[str, re.Pattern[str]]:
    criteria: dict[str, list[str]] = shipped_yaml(LEXICON)
    patterns = {
        criterion: "|".join(re.escape(word).replace(r"\*", r"\w*") for word in words)
        for criterion, words in criteria.items()
    }
    return {c: re.compile(rf"\b(?:{p})\b", re.IGNORECASE) for c, p in patterns.items()}


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
        strengths: Values of λ.
        names: Most names of each group, or a mapping by split; None for all.
        splits: Splits of the names; no edit is fitted on `test` names.
        max_new_tokens: Longest continuation, unless its sentence ends before.
        top_k: Number of the likeliest tokens that CID chooses from.

    Raises:
        UserError: a setting is out of range.
    """

    title = "Contrastive input decoding (CID)"
    is_slow: ClassVar[bool] = True
    is_generating: bool = True

    def __init__(
        self,
        *,
        templates: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        strengths: Sequence[float] = (0.0, 10.0, 50.0),
        names: int | Mapping[str, int] | None = 4,
        splits: Sequence[str] = ("test",),
        max_new_tokens: int = 16,
        top_k: int = 50,
    ) -> None:
        if not strengths:
            raise UserError("metric.cid.strengths names no lambda: give some, such as [0,10,50]")
        counts = names.values() if isinstance(names, Mapping) else [1 if names is None else names]
        if any(
            isinstance(count, bool) or not isinstance(count, int) or count < 1 for count in counts
        ):
            raise UserError(f"metric.cid.names={names}: at least 1, or null for all")
        for split in (*splits, *(names if isinstance(names, Mapping) else ())):
            if split not in SPLITS:
                raise unknown("split of metric.cid.splits", split, SPLITS)
        self.templates = templates
        self.is_own_list = not (templates is None or isinstance(templates, Mapping))
        self.strengths = tuple(dict.fromkeys(map(float, strengths)))
        self.names = names
        self.splits = tuple(splits)
        self.max_new_tokens = max_new_tokens
        self.top_k = top_k

    def prepare(self) -> None:
        """Cross the templates with names of the task's groups.

        Raises:
            UserError: the axis can fill no template, or an edit is fitted on one.
        """
        templates = self.templates
        if templates is None:
            templates = read_config("metric", "cid")["cid"]["templates"]
        if isinstance(templates, Mapping):
            templates = templates.get(self.task.axis.name, templates.get("others", ()))
        if self.task.own and not self.is_own_list:
            names = cast(Any, self.names)
            self.data = own_set(self.task.own, self.task.axis.name, self.task.pair, names)
        else:
            self.data = template_set(
                self.task.axis,
                templates,
                self.task.pair,
                splits=cast(Any, self.splits),
                names=cast(Any, self.names),
            )
        if self.task.limit is not None:
            self.data = few_prompts(self.data, self.task.limit, 0)
        check_leakage(self.task.fit, [self.data])

    def check(self, model: LanguageModel) -> None:
        """Check the lengths of prompts, λ and K.

        Raises:
            UserError: one of them does not fit the model.
        """
        *contrasts, _ = map(list, zip(*contrasts_of(self.data, self.strengths), strict=True))
        check_contrasts(model, *contrasts, max_new_tokens=self.max_new_tokens, top_k=self.top_k)

    def continuations(
        self, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[Continuation]:
        """The continuations under an edit, read from the store if they are there."""
        path = context.place(DATASET, edit)
        if not path.is_file():
            with context.under(edit) as model:
                items = continuations(
                    model,
                    self.data,
                    self.strengths,
                    max_new_tokens=self.max_new_tokens,
                    top_k=self.top_k,
                )
            write_continuations(path, items)
        return read_continuations(path)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `cid_divergence`, `cid_continuations` and `cid_biased_fraction_automatic`.

        Under an edit also `cid_divergence_reduction`, the share of the divergence that is removed.
        There are none on validation data.
        """
        if split == "validation":
            return []
        seed = context.seed
        items = self.continuations(context, edit)
        before = self.continuations(context, None)
        draws = Resampling(items, seed)
        rows = []
        for strength in self.strengths:
            now, then = ([i for i in x if i.strength == strength] for x in (items, before))
            if all(math.isnan(i.divergence) for i in now):
                continue  # servers do not return it
            after = draws.means(now, [i.divergence for i in now])
            values: dict[str, Estimate] = {
                "cid_divergence": estimate(after, *draws.drawn, within=(0, math.log(2)))
            }
            if edit is not None:
                was = draws.means(then, [i.divergence for i in then])
                with np.errstate(divide="ignore", invalid="ignore"):
                    values["cid_divergence_reduction"] = estimate(
                        1 - after / was, *draws.drawn, within=(-math.inf, 1)
                    )
            for metric, value in values.items():
                rows.append(
                    Row.of_set(
                        self.data,
                        metric,
                        value,
                        facets={LAMBDA: strength},
                        n=len(now),
                        seed=seed,
                        detail={"unit": NATS},
                    )
                )
        marks = {(i.template, i.plain): bool(automatic_criteria(i.plain)) for i in items}
        rows += fraction_rows(
            items, marks, AUTOMATIC, seed, axis=self.data.axis, rated_by=RATED_BY_LEXICON
        )
        return rows + self._texts(items, seed)

    def _texts(self, items: Sequence[Continuation], seed: int) -> list[Row]:
        rows = []
        for template, strength, group in product(
            self.data.templates, self.strengths, self.data.groups
        ):
            own = [
                i for i in items if (i.template, i.strength, i.group) == (template, strength, group)
            ]
            counts = Counter(item.plain for item in own).most_common()
            criteria = {text: list(automatic_criteria(text)) for text, _ in counts[:MOST]}
            rows.append(
                Row.of_set(
                    self.data,
                    "cid_continuations",
                    len(counts),
                    group_a=group,
                    group_b="",
                    facets={LAMBDA: strength, TEMPLATE: template},
                    n=len(own),
                    seed=seed,
                    detail={
                        "counts": [list(pair) for pair in counts[:MOST]],
                        "automatic": {text: names for text, names in criteria.items() if names},
                    },
                )
            )
        return rows
