"""What contrastive input decoding is asked of templates, and what it answers (Yona et al. 2023, 4).

Comes in: templates and an axis. Goes out: every pair of names of the two groups, both ways round,
at every λ, with its continuation; kept as JSON lines, whole or not at all.
Refused: templates of which none distinguishes the groups; a file of something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from countergen_edit.core.reading import json_lines
from countergen_edit.core.typed import built
from countergen_edit.core.writing import whole
from countergen_edit.data.axis import Axis, DoesNotFitError, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.templates import Template, crossed, slot_names
from countergen_edit.models import LanguageModel, contrastive_generate

DATASET = "cid"
"""The data set of every row of CID."""
LAMBDA, TEMPLATE = "lambda", "template"
"""The facets of its rows."""


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
    names: int | Mapping[Split, int] | None = None,
) -> CounterfactualSet:
    """The templates that the axis can fill, crossed with the first `names` names of each group.

    A mapping says how many of each split.

    Raises:
        DoesNotFitError: the axis can fill none of them, or none tells the groups apart.
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
    sets: Sequence[CounterfactualSet],
    axis: str,
    pair: tuple[str, str],
    names: int | Mapping[Split, int] | None,
) -> CounterfactualSet:
    """Prompts of the user's own, each with the first `names` variations of the two groups."""
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
    by_split: Sequence[Sequence[Variation]],
    splits: Sequence[Split],
    names: int | Mapping[Split, int] | None,
) -> list[Variation]:
    """The first variations of every split, or of all splits together."""
    if isinstance(names, Mapping):
        by_split = [own[: names.get(s)] for s, own in zip(splits, by_split, strict=False)]
        names = None
    return [variation for own in by_split for variation in own][:names]


@dataclass(frozen=True)
class Contrast:
    """One decoding that is to be done."""

    prompt: str
    contrast: str
    about: Continuation


def contrasts_of(data: CounterfactualSet, strengths: Sequence[float]) -> list[Contrast]:
    """Every pair of variations of every sample, both ways round, at every λ."""
    return [
        Contrast(
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
    contrasts = contrasts_of(data, strengths)
    texts = contrastive_generate(
        model,
        [c.prompt for c in contrasts],
        [c.contrast for c in contrasts],
        [c.about.strength for c in contrasts],
        max_new_tokens=max_new_tokens,
        top_k=top_k,
        sentence=True,
        batch_size=batch_size,
        progress="Contrastive decoding",
    )
    return [
        replace(c.about, text=text.text, divergence=float(np.mean(text.divergence)))
        for c, text in zip(contrasts, texts, strict=True)
    ]


def groups_of(items: Sequence[Continuation]) -> tuple[str, ...]:
    """The groups of an audit, in its order."""
    return tuple(dict.fromkeys(item.group for item in items))


def strengths_of(items: Sequence[Continuation]) -> tuple[float, ...]:
    """The values of λ of an audit, in its order."""
    return tuple(dict.fromkeys(item.strength for item in items))


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
