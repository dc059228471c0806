"""What erasers are fitted on: activations of the fitting prompts, with all that is known of each.

Comes in: sets to erase and sets to keep. Goes out: `FitData`, every candidate layer from one pass.
`positions` says which tokens become rows:

- `outputs`: wherever a token of an output is predicted, which is where a bias is expressed: the
  last token of the prompt and, for outputs of several tokens, the ones before their last;
- `last`: the last token of the prompt alone;
- `onward`: every token from the one that first shows the group. The tokens before it are the same
  for all groups and would be labelled with each of them.

`sinks` says what becomes of attention sinks, tokens whose norm is several times the median: `leave`
fits on the others and gives edits the limit above which a token is left as it is; `edit` fits on
all and edits every position, as published. Where no token of the fitting texts is above, there is
nothing to leave alone, and no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float32

from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.erasers import BaseEraser, Certificate, Objective, certify, fit_eraser
from countergen_edit.erasers.base import fit_metadata
from countergen_edit.models import LanguageModel, Scratch, capture, encode
from countergen_edit.models.capture import has_layers

Positions = Literal["outputs", "last", "onward"]
POSITIONS: tuple[Positions, ...] = ("outputs", "last", "onward")
Sinks = Literal["leave", "edit"]
SINKS: tuple[Sinks, ...] = ("leave", "edit")
SINK_RANGE = (3.0, 5.0)
"""Medians between which the limit of a sink's norm lies, where norms leave the widest gap. In a
model of 135 million parameters (SmolLM2) others reach 1.3 medians, sinks 4 to 170; in the blocks
before and after those that use them sinks have 4 to 10, so that a fixed ten would part them."""


@dataclass(frozen=True)
class FitData:
    """Rows of activations and, for each row, its group, name, context and pair."""

    values: Float[np.ndarray, "layer row d"]
    layers: tuple[int | None, ...]
    group: np.ndarray
    name: np.ndarray
    """The name in the prompt. Where none is known, an id of its counterfactual pair: folds that
    parted the pair would leave a context with one group."""
    context: np.ndarray
    """The template, with the beginning of the output where there is one."""
    pair: np.ndarray
    """The counterfactual pair: variations of a context at the same place in their groups."""
    family: np.ndarray
    """The set that the row comes from: templates that ask the same kind of thing."""
    keep: Bool[np.ndarray, " row"]
    """Whether the row comes from a set that is to be kept."""
    background: Float[np.ndarray, "layer other d"]
    """Every token of neutral text, for erasers that weigh what they change."""
    limits: tuple[float | None, ...]
    """Of each layer, the norm above which a token is a sink; None where no token of the fitting
    texts is one, or where sinks are edited like other tokens."""
    objective: Callable[[int | None], Objective] | None = field(default=None, compare=False)
    """Of each layer, what maps are refined on; made for erasers that ask for it."""

    def limit(self, layer: int | None) -> float | None:
        """The norm above which an edit at a layer leaves a token as it is, if there is one."""
        return self.limits[self.layers.index(layer)]

    def at(self, layer: int | None) -> Float[np.ndarray, "row d"]:
        """All rows of one layer."""
        rows: Float[np.ndarray, "row d"] = self.values[self.layers.index(layer)]
        return rows

    def used(
        self, eraser: BaseEraser, layer: int | None
    ) -> tuple[Bool[np.ndarray, " row"], dict[str, Any]]:
        """The rows an eraser is fitted on, and what else its `fit` takes.

        An eraser that does not know what to keep never sees what is to be kept, and none sees a
        sink that its edit leaves alone.
        """
        every, background = self.at(layer), self.background[self.layers.index(layer)]
        limit = self.limit(layer)
        rows = within(every, limit)
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
        if self.objective is not None and fit_metadata(eraser, {"objective": None}):
            offered["objective"] = self.objective(layer)
        return rows, fit_metadata(eraser, offered)

    def fit(self, eraser: BaseEraser, layer: int | None) -> BaseEraser:
        """A clone of the eraser, fitted at a layer."""
        rows, ids = self.used(eraser, layer)
        return fit_eraser(eraser, self.at(layer)[rows], self.group[rows], **ids)

    def certify(self, fitted: BaseEraser, layer: int | None, random_state: int) -> Certificate:
        """What a fitted eraser leaves of the group in the rows that were to be erased.

        Folds never share a name.
        """
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
class Place:
    """A text whose activations are wanted, and what is known of it."""

    text: str
    context: str
    pair: str
    person: str
    family: str
    variation: Variation
    keep: bool


def places_by_context(model: LanguageModel, data: CounterfactualSet) -> dict[str, list[Place]]:
    """Context → its texts, for every token of an output that is predicted somewhere."""
    contexts: dict[str, list[Place]] = {}
    for sample in data.samples:
        for place in _places(model, data, sample, "outputs", keep=False):
            contexts.setdefault(place.context, []).append(place)
    return contexts


def capture_sites(
    model: LanguageModel,
    erase: Sequence[CounterfactualSet],
    keep: Sequence[CounterfactualSet],
    neutral: Sequence[str],
    *,
    sites: Sequence[str],
    layers: Sequence[int] | None,
    positions: Positions,
    sinks: Sinks = "leave",
    scratch: Scratch | None = None,
) -> dict[str, FitData]:
    """The fit data of several sites from one pass; `scratch` takes what memory should not."""
    places = [
        place
        for sets, kept in ((erase, False), (keep, True))
        for data in sets
        for sample in data.samples
        for place in _places(model, data, sample, positions, kept)
    ]
    chosen = None if layers is None else [layer for layer in layers if layer is not None]
    activations = capture(
        model,
        [place.text for place in places],
        sites=sites,
        layers=chosen,
        starts=[place.variation.start for place in places],
        positions="onward" if positions == "onward" else "last",
        scratch=scratch,
        progress="Capturing activations",
    )
    background = capture(
        model,
        neutral,
        sites=sites,
        layers=chosen,
        starts=[0] * len(neutral),
        positions="onward",
        scratch=scratch,
    )
    of_row = [places[i] for i in activations.row_text]
    by_site = {}
    for site in sites:
        require_difference(activations.values[site], of_row, site, positions)
        site_layers: tuple[int | None, ...] = (None,)
        if has_layers(site):
            site_layers = tuple(range(model.n_layers) if chosen is None else chosen)
        by_site[site] = FitData(
            activations.values[site],
            site_layers,
            np.array([p.variation.group for p in of_row]),
            np.array([p.person for p in of_row]),
            np.array([p.context for p in of_row]),
            np.array([p.pair for p in of_row]),
            np.array([p.family for p in of_row]),
            np.array([p.keep for p in of_row]),
            background.values[site],
            _limits(activations.norms[site], background.norms[site], sinks),
        )
    return by_site


def _limits(
    of_prompts: Float32[np.ndarray, "layer token"],
    of_background: Float32[np.ndarray, "layer other"],
    sinks: Sinks,
) -> tuple[float | None, ...]:
    """Of each layer, the norm that parts sinks from other tokens, where there are any."""
    norms = np.concatenate([of_prompts, of_background], axis=1)
    return tuple(_limit(of_layer) if sinks == "leave" else None for of_layer in norms)


def _limit(norms: Float32[np.ndarray, " token"]) -> float | None:
    """The middle, in ratio, of the widest gap of the norms within `SINK_RANGE` medians."""
    low, high = (medians * float(np.median(norms)) for medians in SINK_RANGE)
    if low == 0:
        return None
    edges = np.sort([low, *norms[(norms > low) & (norms < high)], high])
    widest = np.argmax(np.diff(np.log(edges)))
    limit = float(np.sqrt(edges[widest] * edges[widest + 1]))
    return limit if norms.max() > limit else None


def within(values: Float[np.ndarray, "token d"], limit: float | None) -> Bool[np.ndarray, " token"]:
    """The tokens whose norm is at most the limit."""
    if limit is None:
        return np.ones(len(values), dtype=bool)
    small: Bool[np.ndarray, " token"] = np.linalg.norm(values, axis=1) <= limit
    return small


def require_difference(
    values: Float[np.ndarray, "layer row d"],
    of_row: Sequence[Place],
    site: str,
    positions: Positions,
) -> None:
    """Refuse rows in which no layer knows the groups apart.

    Raises:
        UserError: every pair of rows is the same: the embedding of a last token, say.
    """
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
) -> list[Place]:
    variations = [(i, v) for group in data.groups for i, v in enumerate(sample.of(group))]
    beginnings = [[""]] * len(variations)
    if positions == "outputs":
        beginnings = _beginnings(model, [v.text for _, v in variations], sample.outputs)
    people = [v.name or f"{sample.template} {i}" for i, v in variations]
    if len(people) == len(data.groups):  # no fold may hold one side alone of what has one person
        people = [" / ".join(dict.fromkeys(people))] * len(people)
    return [
        Place(v.text + beginning, context, f"{context} {i}", person, data.name, v, keep)
        for (i, v), own, person in zip(variations, beginnings, people, strict=True)
        for beginning in own
        for context in [f"{sample.template}{beginning}"]
    ]


def _beginnings(
    model: LanguageModel, prompts: Sequence[str], outputs: Sequence[str]
) -> list[list[str]]:
    """Of each prompt, what stands of an output before each of its tokens; first, nothing."""
    encodings = iter(encode(model, [prompt + output for prompt in prompts for output in outputs]))
    by_prompt = []
    for prompt in prompts:
        beginnings = dict.fromkeys([""])
        for output in outputs:
            text, encoding = prompt + output, next(encodings)
            for token in encoding.after(len(prompt))[1:]:
                beginnings[text[len(prompt) : encoding.offsets[token][0]]] = None
        by_prompt.append(list(beginnings))
    return by_prompt
