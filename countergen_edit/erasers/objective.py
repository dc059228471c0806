"""What a map is refined on: how far a model under it is from what is wanted.

The room knows nothing of language models. Whoever has one implements `Objective`; the refined
eraser asks it for losses, and differentiates them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

Change = Callable[[Float[Tensor, "*batch d"]], Float[Tensor, "*batch d"]]
"""What a map does to activations, differentiable in its parameters."""
TERMS = ("bias", "people", "keep", "neutral")
"""The terms of a loss, in nats or their squares; 0 where all is as wanted:

- `bias`: in contexts to erase, the squared difference of the groups' mean log-probabilities;
- `people`: there too, KL(wanted ‖ edited); wanted is the unedited distribution of each person less
  what the group contributes to it;
- `keep`: in contexts to keep, KL(unedited ‖ edited);
- `neutral`: the same at every token of text about nobody."""


@runtime_checkable
class Objective(Protocol):
    """Losses of a model under a change of its activations at one place."""

    def losses(self, change: Change, seed: int, step: int) -> Mapping[str, Tensor]:
        """The `TERMS` on a few texts that seed and step draw, with gradients."""

    def held_out(self, change: Change) -> Mapping[str, float] | None:
        """The `TERMS` on texts that are never drawn; None where there are none.

        The squared difference is unbiased, so that it may fall below 0.
        """
