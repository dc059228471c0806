"""Counterfactual self-distillation into a low-rank update of weights; see `runs.distillation`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt

from countergen_edit.core.errors import UserError
from countergen_edit.erasers.base import BaseEraser

RATE_TIMES_WIDTH = 0.576


@dataclass(eq=False, repr=False)
class Distilled(BaseEraser):
    """Settings of a low-rank update (LoRA), fitted by `audit` and `search`, not by `fit`.

    Parameters
    ----------
    rank : rank of the update of each matrix
    target_modules : ends of names of the linear modules that are updated, as in `peft.LoraConfig`;
        by default all but those of queries, keys and gates. Joint matrices of queries, keys and
        values are updated.
    first_layer : share of the blocks below the first that is updated, where no layers are named
    steps : steps of training; fewer take less time and remove less
    learning_rate : of Adam; it warms up and decays as a cosine. By default 0.576 over the width of
        the model, as the best rate of matrices falls with it (Yang et al. 2022, arXiv 2203.03466).
    contexts : continuations that the model writes itself, from which contexts are cut
    check_every : steps between two evaluations of held-out terms
    scale : factor of the trained update. `debias` lowers it for an update over a budget.
    random_state : int
    """

    trains_weights = True
    no_guarantee_because: ClassVar[str | None] = (
        "the model's outputs are made equal, not its activations"
    )
    refit_in_folds = False

    rank: Annotated[int, Gt(0)] = 16
    _: KW_ONLY
    target_modules: Sequence[str] | None = None
    first_layer: Annotated[float, Ge(0)] = 0.27
    steps: Annotated[int, Gt(0)] = 90
    learning_rate: Annotated[float, Gt(0)] | None = None
    contexts: Annotated[int, Gt(0)] = 400
    check_every: Annotated[int, Gt(0)] = 20
    scale: Annotated[float, Gt(0)] = 1.0
    random_state: int = 0

    def rate(self, width: int) -> float:
        """The learning rate for a model of a width."""
        return RATE_TIMES_WIDTH / width if self.learning_rate is None else self.learning_rate

    def first_block(self, n_layers: int) -> int:
        """The first block of so many that is updated, where no layers are named."""
        return min(round(self.first_layer * n_layers), n_layers - 1)

    def fit(self, X: Any, y: Any) -> BaseEraser:
        """Raise a `UserError`: rows of activations are not enough."""
        raise UserError(
            "eraser=distilled updates weights and is trained through a model: use it in audit, "
            "edit, sweep or debias; rows of activations fit eraser=preserving"
        )
