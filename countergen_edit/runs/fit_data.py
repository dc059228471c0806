"""Fitting data of erasers: activations of prompts with their groups, names and pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import unit_seed
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.task import Task
from countergen_edit.edits import Placement, Shift
from countergen_edit.erasers import AffineErasure, BaseEraser, Certificate, certify, fit_eraser
from countergen_edit.erasers.base import fit_metadata
from countergen_edit.metrics.fits import Opening, gate_texts
from countergen_edit.models import LanguageModel, Scratch, capture, encode
from countergen_edit.models.capture import EVERYWHERE, has_layers, sink_limit

Positions = Literal["outputs", "last", "onward"]
"""The tokens that become rows. `outputs`: every token from which a token of an output is predicted,
where a bias is expressed; `last`: the last token of the prompt; `onward`: every token from the
first that shows the group, since the tokens before it are the same for all groups."""
BEGINNINGS = 8
"""Most beginnings of outputs after a prompt that become rows: small vocabularies have many."""
SINK_SHARE = 0.999
"""Share of the squared norm of sinks, each scaled to norm 1, in the directions which an edit
everywhere does not read: 7 of 576 in SmolLM2, which halve its perplexity cost (median of 13)."""
SINK_TEXTS = 8
"""Prompts, and neutral texts, in which directions of sinks are read."""
NEAR_SINKS = 0.1
"""Least singular value of R L without the directions of sinks in R."""


@dataclass(frozen=True)
class FitData:
    """Rows of activations at a site with their groups, names, contexts and pairs."""

    site: str
    values: Float[np.ndarray, "layer row d"]
    layers: tuple[int | None, ...]
    group: np.ndarray
    name: np.ndarray
    """The name in the prompt, else an id of its pair, which folds must not split."""
    context: np.ndarray
    """The template, with the beginning of the output."""
    pair: np.ndarray
    """The counterfactual pair."""
    family: np.ndarray
    """The set of the row."""
    keep: Bool[np.ndarray, " row"]
    """Whether the row is of a set to keep."""
    background: Float[np.ndarray, "layer other d"]
    """Every token of neutral text, by which some erasers weigh changes."""
    limits: tuple[float | None, ...]
    """Norms above which tokens of a layer are sinks; None without sinks to skip."""
    sinks: Float[np.ndarray, "d sink"]
    """Orthonormal directions of the sinks of all layers, at `everywhere` only."""

    def limit(self, layer: int | None) -> float | None:
        """The norm above which a token of a layer is a sink, if any."""
        return self.limits[self.layers.index(layer)]

    def placement(self, layer: int | None, change: AffineErasure | Shift) -> Placement:
        """A map at the place of these data, under which attention sinks stay, or hardly change.

        An edit everywhere acts about the origin and can skip no token: with S the directions of
        sinks, its R is replaced by (R L) (R P L)⁻¹ R P, P = I - S Sᵀ, so that R S = 0.

        `UserError` if that is near singular.
        """
        if self.site != EVERYWHERE:
            return Placement(self.site, layer, change, self.limit(layer))
        if isinstance(change, AffineErasure):
            change = self._without_sinks(change.linear)
        return Placement(self.site, layer, change)

    def _without_sinks(self, erasure: AffineErasure) -> AffineErasure:
        left, right = erasure.left, erasure.right
        if not self.sinks.size or not erasure.rank:
            return erasure
        apart = right - (right @ self.sinks) @ self.sinks.T
        overlap = apart @ left
        least = np.linalg.svd(overlap, compute_uv=False).min()
        if least < NEAR_SINKS:
            raise UserError(
                f"the directions are within {least:.2g} of those of attention sinks, which an edit "
                "everywhere leaves alone: edit.skip_attention_sinks=false edits them"
            )
        return replace(erasure, right=right @ left @ np.linalg.solve(overlap, apart))

    def at(self, layer: int | None) -> Float[np.ndarray, "row d"]:
        """All rows of one layer."""
        rows: Float[np.ndarray, "row d"] = self.values[self.layers.index(layer)]
        return rows

    def used(
        self, eraser: BaseEraser, layer: int | None
    ) -> tuple[Bool[np.ndarray, " row"], dict[str, Any]]:
        """The rows of an eraser's fit, and its further arguments.

        Rows to keep are left to erasers that take `keep`; skipped sinks are left out.
        """
        background, limit = self.background[self.layers.index(layer)], self.limit(layer)
        rows = within(self.at(layer), limit)
        if "keep" not in fit_metadata(eraser, {"keep": self.keep}):
            rows &= ~self.keep
        offered = {
            "contexts": self.context[rows],
            "keep": self.keep[rows],
            "pairs": self.pair[rows],
            "background": background if limit is None else background[within(background, limit)],
            "people": self.name[rows],
            "families": self.family[rows],
        }
        return rows, fit_metadata(eraser, offered)

    def fit(self, eraser: BaseEraser, layer: int | None) -> BaseEraser:
        """A clone of the eraser, fitted at a layer."""
        rows, ids = self.used(eraser, layer)
        return fit_eraser(eraser, self.at(layer)[rows], self.group[rows], **ids)

    def certify(self, fitted: BaseEraser, layer: int | None, random_state: int) -> Certificate:
        """The certificate of a fitted eraser on rows to erase; folds never share a name."""
        rows, ids = self.used(fitted, layer)
        return certify(
            fitted,
            self.at(layer)[rows],
            self.group[rows],
            groups=self.name[rows],
            fit_params=ids,
            probed=~self.keep[rows],
            random_state=random_state,
        )


@dataclass(frozen=True)
class _Place:
    """A text whose last activations become a row."""

    text: str
    context: str
    pair: str
    person: str
    family: str
    variation: Variation
    keep: bool


def texts_by_context(model: LanguageModel, data: CounterfactualSet) -> list[str]:
    """The texts before every token of an output, context by context."""
    contexts: dict[str, list[str]] = {}
    for sample in data.samples:
        for place in _places(model, data, sample, "outputs", keep=False):
            contexts.setdefault(place.context, []).append(place.text)
    return [*dict.fromkeys(chain.from_iterable(contexts.values()))]


def capture_sites(
    model: LanguageModel,
    erase: Sequence[CounterfactualSet],
    keep: Sequence[CounterfactualSet],
    neutral: Sequence[str],
    *,
    sites: Sequence[str],
    layers: Sequence[int] | None,
    positions: Positions,
    skip_attention_sinks: bool = True,
    scratch: Scratch | None = None,
) -> dict[str, FitData]:
    """The fit data of several sites from one pass."""
    places = [
        place
        for sets, is_kept in ((erase, False), (keep, True))
        for data in sets
        for sample in data.samples
        for place in _places(model, data, sample, positions, is_kept)
    ]
    read = partial(capture, model, sites=sites, layers=layers, scratch=scratch)
    activations = read(
        [place.text for place in places],
        starts=[place.variation.start for place in places],
        positions="onward" if positions == "onward" else "last",
        progress="Capturing activations",
    )
    background = read(neutral, starts=[0] * len(neutral), positions="onward")
    of_row = [places[i] for i in activations.row_text]
    by_site = {}
    for site in sites:
        _require_difference(activations.values[site], of_row, site, positions)
        site_layers: tuple[int | None, ...] = (None,)
        if has_layers(site):
            site_layers = tuple(range(model.n_layers) if layers is None else layers)
        norms = np.concatenate([activations.norms[site], background.norms[site]], axis=1)
        limits = [sink_limit(of_layer) if skip_attention_sinks else None for of_layer in norms]
        sinks = np.zeros((activations.values[site].shape[-1], 0))
        if site == EVERYWHERE and skip_attention_sinks:
            texts = [*neutral[:SINK_TEXTS], *dict.fromkeys(p.text for p in places)]
            first = texts[: 2 * SINK_TEXTS]
            tokens = capture(model, first, sites=(site,), layers=layers, positions="all")
            sinks = sink_directions(tokens.values[site], limits)
        by_site[site] = FitData(
            site,
            activations.values[site],
            site_layers,
            np.array([p.variation.group for p in of_row]),
            np.array([p.person for p in of_row]),
            np.array([p.context for p in of_row]),
            np.array([p.pair for p in of_row]),
            np.array([p.family for p in of_row]),
            np.array([p.keep for p in of_row]),
            background.values[site],
            tuple(limits),
            sinks,
        )
    return by_site


def sink_directions(
    values: Float[np.ndarray, "layer token d"], limits: Sequence[float | None]
) -> Float[np.ndarray, "d sink"]:
    """Orthonormal directions that hold `SINK_SHARE` of the sinks of all layers."""
    sinks = [tokens[~within(tokens, limit)] for tokens, limit in zip(values, limits, strict=True)]
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in sinks]
    _, sizes, directions = np.linalg.svd(np.concatenate(units, dtype=float), full_matrices=False)
    energy = np.cumsum(sizes**2)
    count = np.searchsorted(energy, SINK_SHARE * energy[-1]) + 1 if energy.size else 0
    return np.asarray(directions[:count].T)


def within(values: Float[np.ndarray, "token d"], limit: float | None) -> Bool[np.ndarray, " token"]:
    """The tokens whose norm is at most the limit."""
    if limit is None:
        return np.ones(len(values), dtype=bool)
    return np.asarray(np.linalg.norm(values, axis=1) <= limit)


def _require_difference(
    values: Float[np.ndarray, "layer row d"], of_row: Sequence[_Place], site: str, positions: str
) -> None:
    """Refuse pairs of rows that are all equal, such as embeddings of a last token."""
    first: dict[str, int] = {}
    for i, place in enumerate(of_row):
        j = first.setdefault(place.pair, i)
        if not np.array_equal(values[:, i], values[:, j]):
            return
    raise UserError(
        f"at site {site!r} the rows of positions={positions} are the same for every group: "
        "there is nothing to erase; use edit.positions=onward"
    )


def _places(
    model: LanguageModel, data: CounterfactualSet, sample: Sample, positions: Positions, keep: bool
) -> list[_Place]:
    variations = [(i, v) for group in data.groups for i, v in enumerate(sample.of(group))]
    continuations = beginnings(sample, following(model, sample)) if positions == "outputs" else [""]
    people = [v.name or f"{sample.template} {i}" for i, v in variations]
    if len(people) == len(data.groups):  # a fold has both sides of one person
        people = [" / ".join(dict.fromkeys(people))] * len(people)
    return [
        _Place(v.text + beginning, context, f"{context} {i}", person, data.name, v, keep)
        for (i, v), person in zip(variations, people, strict=True)
        for beginning in continuations
        for context in [f"{sample.template}{beginning}"]
    ]


def following(model: LanguageModel, sample: Sample) -> dict[str, set[int]]:
    """Beginnings of outputs, first the empty one → their next tokens, the same after all people."""
    prompt = sample.variations[0].text
    texts = [prompt + output for output in sample.outputs]
    tokens: dict[str, set[int]] = {"": set()}
    for text, encoding in zip(texts, encode(model, texts), strict=True):
        for number, token in enumerate(encoding.after(len(prompt))):
            beginning = text[len(prompt) : encoding.offsets[token][0]] if number else ""
            tokens.setdefault(beginning, set()).add(encoding.ids[token])
    return tokens


def beginnings(sample: Sample, by_beginning: Iterable[str]) -> list[str]:
    """At most `BEGINNINGS` beginnings of a sample's outputs, with the empty one."""
    _, *others = by_beginning
    if len(others) >= BEGINNINGS:
        others.sort(key=lambda text: unit_seed(0, "beginnings", sample.template, text))
    return ["", *others[: BEGINNINGS - 1]]


def openings(
    model: LanguageModel, task: Task, place: Placement, scratch: Scratch | None = None
) -> list[Opening]:
    """The openings of the gate of a place on a task's validation data, by kind of text.

    The model is unedited from the place on; skipped attention sinks count as closed.
    """
    gate = place.erasure.gate
    if gate is None:
        return []
    by_kind: list[Opening] = []
    for texts in gate_texts(task):
        activations = capture(
            model,
            [*texts.table["text"]],
            sites=(place.site,),
            layers=[] if place.layer is None else [place.layer],
            starts=[0] * len(texts.table),
            positions="last" if texts.sets else "onward",
            scratch=scratch and replace(scratch),  # a copy, which it gives back
        )
        [rows] = activations.values[place.site]
        opened = np.where(within(rows, place.limit), gate(rows), 0.0).astype(np.float64)
        by_kind.append((texts, opened, activations.row_text))
    return by_kind
