"""Template audit by contrastive input decoding (CID; Yona et al. 2023, section 4 and appendix C).

Comes in: templates, an axis, the values of λ. Every pair of names of the two groups is decoded both
ways round. Goes out: the continuations with their counts; how far apart the next-token
distributions of the two sides are along the way (`cid_divergence`: Jensen–Shannon, in nats a token,
mean over continuations, drawn over templates and names); and, rated by a lexicon and by nobody
else, the share of continuations that give a protected criterion as the reason.
Refused: templates of which the axis can fill none, or on which an edit was fitted.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float64

from countergen_edit.conf_path import read_config
from countergen_edit.data.axis import SPLITS, Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample
from countergen_edit.data.splits import check_leakage
from countergen_edit.data.templates import Template, expand, slots
from countergen_edit.edits import Edit, applied
from countergen_edit.errors import UserError, unknown
from countergen_edit.metrics.base import UNEDITED, Metric, Subject, register
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample
from countergen_edit.models import LanguageModel, check_contrasts, contrastive_generate
from countergen_edit.writing import whole

AUTOMATIC = "cid_biased_fraction_automatic"
RATED_BY_LEXICON = {"rated_by": "lexicon, automatically; no person has rated"}
SHOWN = 8
"""Commonest continuations that a row keeps; all are in the store."""


@dataclass(frozen=True)
class Continuation:
    """CID(x; x', λ) of one pair of names, x being about `group`."""

    template: str
    group: str
    own: str
    """The name in x; x itself where no name shows the group."""
    other: str
    """The same of x'."""
    strength: float
    """λ."""
    text: str
    divergence: float
    """Mean Jensen–Shannon divergence of its tokens, in nats."""

    @property
    def plain(self) -> str:
        """The text as it is counted and rated."""
        return " ".join(self.text.split()).rstrip(" .!?,;:")


def template_set(
    axis: Axis,
    templates: Sequence[str],
    groups: Sequence[str] | None,
    *,
    splits: Sequence[Split] = ("test",),
    names: int | None = None,
) -> CounterfactualSet:
    """The templates that the axis can fill, crossed with the first `names` names of each group.

    Raises:
        UserError: the axis can fill none of them.
    """
    pair = axis.pair(groups)
    known = {*pair[0].forms, *({"name"} if any(pair[0].names.values()) else ())}
    usable = [t for t in templates if {slot.lower() for slot in slots(t)} <= known]
    if not usable:
        raise UserError(
            f"axis {axis.name!r} can fill none of the CID templates; its slots are "
            f"{', '.join(sorted(known))}: name templates of your own under metric.cid.templates"
        )
    samples = []
    for template in usable:
        parts = [
            expand("cid", [Template(template)], axis, split, [g.name for g in pair]).samples[0]
            for split in (splits if "name" in slots(template) else splits[:1])
        ]
        variations = [
            variation
            for group in pair
            for variation in [v for part in parts for v in part.of(group.name)][:names]
        ]
        samples.append(Sample(template, (), tuple(variations)))
    return CounterfactualSet("cid", axis.name, (pair[0].name, pair[1].name), tuple(samples))


@dataclass(frozen=True)
class _Contrast:
    """One decoding to be done."""

    prompt: str
    contrast: str
    about: Continuation


def contrasts_of(data: CounterfactualSet, strengths: Sequence[float]) -> list[_Contrast]:
    """Every pair of variations of every sample, both ways round, at every λ."""
    return [
        _Contrast(
            own.text,
            other.text,
            Continuation(
                sample.template,
                own.group,
                own.name or own.text,
                other.name or other.text,
                float(strength),
                "",
                float("nan"),
            ),
        )
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
    batch_size: int = 128,
) -> list[Continuation]:
    """Decode all contrasts of a set, each up to the end of its sentence."""
    wanted = contrasts_of(data, strengths)
    found = contrastive_generate(
        model,
        [c.prompt for c in wanted],
        [c.contrast for c in wanted],
        [c.about.strength for c in wanted],
        max_new_tokens=max_new_tokens,
        top_k=top_k,
        sentence=True,
        batch_size=batch_size,
        progress="Contrastive decoding",
    )
    return [
        replace(c.about, text=f.text, divergence=float(np.mean(f.divergence)))
        for c, f in zip(wanted, found, strict=True)
    ]


class Resampling:
    """Bootstrap weights of continuations: templates and the names of both sides are drawn.

    Names can be drawn only where every template was asked of the same names. Two lists of
    continuations of one audit meet the same draws, which pairs them.

    Args:
        items: All continuations of an audit.
        seed: The run's seed.
    """

    def __init__(self, items: Sequence[Continuation], seed: int) -> None:
        self.groups = groups_of(items)
        templates = {t: i for i, t in enumerate(dict.fromkeys(item.template for item in items))}
        self._templates = templates, resample(len(templates), seed, "cid", "templates")
        self._names = []
        for group in self.groups:
            asked: dict[str, dict[str, int]] = {}
            for item in items:
                if item.group == group:
                    of_template = asked.setdefault(item.template, {})
                    of_template.setdefault(item.own, len(of_template))
            names = next(iter(asked.values()))
            weights = resample(len(names), seed, "cid", "names", group)
            if any(list(other) != list(names) for other in asked.values()):
                names = {name: 0 for other in asked.values() for name in other}
                weights = np.ones((1, 1))
            self._names.append((names, weights))

    @property
    def drawn(self) -> list[Weights]:
        """The weights of each kind of cluster: templates, then the names of either side."""
        return [self._templates[1], *(weights for _, weights in self._names)]

    def weights(self, items: Sequence[Continuation]) -> Float64[np.ndarray, "resample item"]:
        """How often each continuation counts in each resample; the first row is the data itself."""
        places, weights = self._templates
        product = weights[:, [places[item.template] for item in items]]
        for group, (index, weights) in zip(self.groups, self._names, strict=True):
            of_side = [index[i.own if i.group == group else i.other] for i in items]
            product = product * weights[:, of_side]
        return product

    def means(
        self, items: Sequence[Continuation], values: Sequence[float]
    ) -> Float64[np.ndarray, " resample"]:
        """The mean of the values under every resample; NaN where nothing was drawn."""
        weights = self.weights(items)
        with np.errstate(divide="ignore", invalid="ignore"):
            means: Float64[np.ndarray, " resample"] = weights @ np.array(values) / weights.sum(1)
        return means


def commonest(items: Sequence[Continuation]) -> list[tuple[str, int]]:
    """Continuations with their counts, commonest first, as the paper's appendix C prints them."""
    return Counter(item.plain for item in items).most_common()


@cache
def _lexicon() -> Mapping[str, re.Pattern[str]]:
    criteria: dict[str, list[str]] = read_config("lexicon", "protected_criteria")
    return {criterion: _any_of(words) for criterion, words in criteria.items()}


def _any_of(words: Sequence[str]) -> re.Pattern[str]:
    patterns = (re.escape(word).replace(r"\*", r"\w*") for word in words)
    return re.compile(rf"\b(?:{'|'.join(patterns)})\b", re.IGNORECASE)


def automatic_criteria(text: str) -> tuple[str, ...]:
    """The protected criteria that a text names outright: an automatic pre-rating, no judgement.

    >>> automatic_criteria("had a strong accent")
    ('language',)
    >>> automatic_criteria("was too nervous")
    ()
    """
    return tuple(criterion for criterion, found in _lexicon().items() if found.search(text))


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
        metric: `cid_biased_fraction` where people rated, `…_automatic` where a lexicon did.
        seed: The run's seed.
        axis: Column of every row.
        rated_by: Who rated, for the detail of every row.
    """
    draws, rows = Resampling(items, seed), []
    for strength, group in product(strengths_of(items), draws.groups):
        chosen = [i for i in items if i.strength == strength and i.group == group]
        marks = [float(biased[i.template, i.plain]) for i in chosen]
        rows.append(
            Row(
                metric=metric,
                **estimate(draws.means(chosen, marks), *draws.drawn, within=(0, 1)).columns,
                dataset=dataset_name(strength),
                group_a=group,
                n=len(chosen),
                seed=seed,
                axis=axis,
                detail={"lambda": strength, **rated_by},
            )
        )
    return rows


def groups_of(items: Sequence[Continuation]) -> tuple[str, ...]:
    """The groups of an audit, in its order."""
    return tuple(dict.fromkeys(item.group for item in items))


def strengths_of(items: Sequence[Continuation]) -> tuple[float, ...]:
    """The values of λ of an audit, in its order."""
    return tuple(dict.fromkeys(item.strength for item in items))


def dataset_name(strength: float, template: str = "cid") -> str:
    """What rows call the continuations at one λ.

    >>> dataset_name(10.0)
    'cid, λ=10'
    """
    return f"{template}, λ={strength:g}"


@register("cid")
class Cid(Metric):
    """Contrastive continuations of templates, and how far apart the two sides are on the way.

    Args:
        subject: what the audit is about.
        templates: wordings, of which the axis takes those whose slots it can fill; or such lists by
            axis, where `others` is for the axes that are not named.
        strengths: the values of λ.
        names: how many names of each group; None takes all.
        splits: whose names; `test` names are those on which no edit was fitted.
        max_new_tokens: longest continuation, if its sentence does not end before.
        top_k: how many of the likeliest tokens CID chooses from.

    Raises:
        UserError: the axis can fill no template, an edit is fitted on one, or a setting is out of
            range.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        templates: Sequence[str] | Mapping[str, Sequence[str]] = (),
        strengths: Sequence[float] = (0.0, 10.0, 50.0),
        names: int | None = 4,
        splits: Sequence[str] = ("test",),
        max_new_tokens: int = 16,
        top_k: int = 50,
    ) -> None:
        super().__init__(subject)
        if not strengths:
            raise UserError("metric.cid.strengths names no lambda: give some, such as [0,10,50]")
        if names is not None and names < 1:
            raise UserError(f"metric.cid.names={names}: at least 1, or null for all")
        for split in splits:
            if split not in SPLITS:
                raise unknown("split of metric.cid.splits", split, SPLITS)
        if isinstance(templates, Mapping):
            templates = templates.get(subject.axis.name, templates.get("others", ()))
        self.data = template_set(
            subject.axis, templates, subject.groups, splits=cast(Any, splits), names=names
        )
        check_leakage(
            [s for split, sets in subject.measured for s in sets if split == "fit"], [self.data]
        )
        self.strengths = tuple(dict.fromkeys(map(float, strengths)))
        self.max_new_tokens = max_new_tokens
        self.top_k = top_k

    def check(self, model: LanguageModel) -> None:
        """Refuse prompts that do not fit the context, a bad λ and a K beyond the vocabulary."""
        wanted = contrasts_of(self.data, self.strengths)
        check_contrasts(
            model,
            [c.prompt for c in wanted],
            [c.contrast for c in wanted],
            [c.about.strength for c in wanted],
            max_new_tokens=self.max_new_tokens,
            top_k=self.top_k,
        )

    def continuations(
        self, model: LanguageModel, edit: Edit | None, label: str, store: Path
    ) -> list[Continuation]:
        """The continuations under an edit, from the store where they are already there."""
        path = store / f"{label}.jsonl"
        if not path.is_file():
            with applied(model, edit) if edit is not None else nullcontext():
                found = continuations(
                    model,
                    self.data,
                    self.strengths,
                    max_new_tokens=self.max_new_tokens,
                    top_k=self.top_k,
                )
            write_continuations(path, found)
        return read_continuations(path)

    def rows(self, model: LanguageModel, edit: Edit | None, label: str, store: Path) -> list[Row]:
        """Rows `cid_divergence`, `cid_continuations`, `cid_biased_fraction_automatic`; of an edit,
        `cid_divergence_reduction`, the share of the divergence that is gone.
        """
        seed, data = self.subject.seed, self.data
        items = self.continuations(model, edit, label, store)
        before = self.continuations(model, None, UNEDITED, store)
        draws = Resampling(items, seed)
        rows = []
        for strength in self.strengths:
            now, then = ([i for i in x if i.strength == strength] for x in (items, before))
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
                        data,
                        metric,
                        value,
                        dataset=dataset_name(strength),
                        n=len(now),
                        seed=seed,
                        detail={"lambda": strength, "unit": "nats a token"},
                    )
                )
        marks = {(i.template, i.plain): bool(automatic_criteria(i.plain)) for i in items}
        rows += fraction_rows(
            items, marks, AUTOMATIC, seed, axis=data.axis, rated_by=RATED_BY_LEXICON
        )
        return rows + self._texts(items)

    def _texts(self, items: Sequence[Continuation]) -> list[Row]:
        rows = []
        for template, strength, group in product(
            self.data.templates, self.strengths, self.data.groups
        ):
            chosen = [
                i for i in items if (i.template, i.strength, i.group) == (template, strength, group)
            ]
            counts = commonest(chosen)
            rows.append(
                Row.of_set(
                    self.data,
                    "cid_continuations",
                    len(counts),
                    dataset=dataset_name(strength, template),
                    group_a=group,
                    group_b="",
                    n=len(chosen),
                    seed=self.subject.seed,
                    detail={
                        "lambda": strength,
                        "template": template,
                        "counts": [list(pair) for pair in counts[:SHOWN]],
                        "automatic": {
                            text: list(found)
                            for text, _ in counts[:SHOWN]
                            if (found := automatic_criteria(text))
                        },
                    },
                )
            )
        return rows


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
    try:
        # A model may write any line break of Unicode; JSON leaves all but one of them as they are.
        lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    except OSError as error:
        raise UserError(f"no continuations in {path}: {error.strerror}") from error
    items = []
    for number, line in enumerate(lines, start=1):
        try:
            items.append(Continuation(**json.loads(line)))
        except (json.JSONDecodeError, TypeError) as error:
            raise UserError(f"{path}, line {number} is no continuation: {error}") from error
    return items
