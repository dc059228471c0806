"""What erasers are fitted on: activations of the fitting prompts, with all that is known of each.

Comes in: sets to erase and sets to keep. Goes out: `FitData`, every candidate layer from one pass.
`positions` says which tokens become rows:

- `outputs`: wherever a token of an output is predicted, which is where a bias is expressed: the
  last token of the prompt and, for outputs of several tokens, the ones before their last;
- `last`: the last token of the prompt alone;
- `onward`: every token from the one that first shows the group. The tokens before it are the same
  for all groups and would be labelled with each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.erasers import BaseEraser
from countergen_edit.models import LanguageModel, capture, encode

Positions = Literal["outputs", "last", "onward"]
POSITIONS: tuple[Positions, ...] = ("outputs", "last", "onward")
SITES_WITHOUT_LAYERS = ("embed",)
SMALL = 2**21
"""Entries of a matrix of rows up to which one thread is faster than two."""


@dataclass(frozen=True)
class FitData:
    """Rows of activations and, for each row, its group, name, context and pair."""

    values: Float[np.ndarray, "layer row d"]
    layers: tuple[int | None, ...]
    group: np.ndarray
    name: np.ndarray
    """The name in the prompt, or the prompt itself where no name is known."""
    context: np.ndarray
    """The template, with the beginning of the output where there is one."""
    pair: np.ndarray
    """The counterfactual pair: variations of a context at the same place in their groups."""
    keep: Bool[np.ndarray, " row"]
    """Whether the row comes from a set that is to be kept."""

    def at(self, layer: int | None) -> Float[np.ndarray, "row d"]:
        """All rows of one layer."""
        rows: Float[np.ndarray, "row d"] = self.values[self.layers.index(layer)]
        return rows

    def fit(self, eraser: BaseEraser, layer: int | None) -> BaseEraser:
        """A clone of the eraser, fitted at a layer with the row ids it takes.

        An eraser that does not know what to keep never sees those rows.
        """
        columns = {"contexts": self.context, "keep": self.keep, "pairs": self.pair}
        used = np.ones_like(self.keep) if "keep" in eraser.row_ids else ~self.keep
        ids: dict[str, Any] = {name: columns[name][used] for name in eraser.row_ids}
        fitted: BaseEraser = clone(eraser).fit(self.at(layer)[used], self.group[used], **ids)
        return fitted


@contextmanager
def fitting_threads(rows: Float[np.ndarray, "row d"]) -> Iterator[None]:
    """One BLAS thread where the matrices are small.

    An eraser of a few hundred rows makes thousands of products of microseconds each; threads that
    meet after every one of them make it twenty times slower on a busy machine.
    """
    with threadpool_limits(1 if rows.size < SMALL else None, user_api="blas"):
        yield


@dataclass(frozen=True)
class _Place:
    """A text whose activations are wanted, and what is known of it."""

    text: str
    context: str
    pair: str
    variation: Variation
    keep: bool


def capture_fit_data(
    model: LanguageModel,
    erase: Sequence[CounterfactualSet],
    keep: Sequence[CounterfactualSet],
    *,
    site: str,
    layers: Sequence[int] | None,
    positions: Positions,
) -> FitData:
    """Capture the fitting prompts at a site; `layers` None takes all."""
    places = [
        place
        for sets, kept in ((erase, False), (keep, True))
        for data in sets
        for sample in data.samples
        for place in _places(model, data, sample, positions, kept)
    ]
    taken: tuple[int | None, ...] = (None,)
    if site not in SITES_WITHOUT_LAYERS:
        taken = tuple(range(model.n_layers) if layers is None else layers)
    activations = capture(
        model,
        [place.text for place in places],
        sites=(site,),
        layers=[layer for layer in taken if layer is not None] or None,
        starts=[place.variation.start for place in places],
        positions="onward" if positions == "onward" else "last",
        progress="Capturing activations",
    )
    of_row = [places[i] for i in activations.row_text]
    return FitData(
        activations.values[site],
        taken,
        np.array([p.variation.group for p in of_row]),
        np.array([p.variation.name or p.variation.text for p in of_row]),
        np.array([p.context for p in of_row]),
        np.array([p.pair for p in of_row]),
        np.array([p.keep for p in of_row]),
    )


def _places(
    model: LanguageModel, data: CounterfactualSet, sample: Sample, positions: Positions, keep: bool
) -> list[_Place]:
    places = []
    for group in data.groups:
        for i, variation in enumerate(sample.of(group)):
            beginnings = [""]
            if positions == "outputs":
                beginnings = _beginnings(model, variation.text, sample.outputs)
            for beginning in beginnings:
                context = f"{sample.template}{beginning}"
                places.append(
                    _Place(variation.text + beginning, context, f"{context} {i}", variation, keep)
                )
    return places


def _beginnings(model: LanguageModel, prompt: str, outputs: Sequence[str]) -> list[str]:
    """What stands of an output, before each of its tokens; nothing before the first."""
    texts = [prompt + output for output in outputs]
    found = dict.fromkeys([""])
    for text, encoding in zip(texts, encode(model, texts), strict=True):
        for token in encoding.after(len(prompt))[1:]:
            found[text[len(prompt) : encoding.offsets[token][0]]] = None
    return list(found)
