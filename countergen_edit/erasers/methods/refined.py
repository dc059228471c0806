"""A closed form refined by gradient through the model above it.

    π(x) = x - L R (x - m):   L, R, m start at a closed form and follow

    bias + people + keep + neutral, weighted  +  trust E‖Σ^(-1/2) (π(x) - π₀(x))‖²

A closed form makes activations equal; what a model says depends on them through all of its upper
blocks. The first four terms (`erasers.objective`) are read off its output, the last is a trust
region about the closed form, in the metric of Σ = cov(x). The parameters are whitened by Σ, so that
a step of Adam (Kingma and Ba 2015, https://arxiv.org/abs/1412.6980) is as large in every direction
in which activations vary. Of all maps that were checked, the one with the least held-out loss is
taken; the closed form is among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import read_features
from countergen_edit.erasers.objective import TERMS, Objective
from countergen_edit.erasers.starting import REQUESTED, closed_form, fit_start, kept
from countergen_edit.erasers.whitened import WhitenedMap
from countergen_edit.errors import UserError
from countergen_edit.registry import KIND

START: Mapping[str, Any] = {KIND: "preserving", "rank": "cv", "keep_strength": 10.0}
"""The closed form unless given; a soft one, since demands that conflict have no exact map."""
WARM_UP = 10
"""Steps over which the learning rate rises."""
LAST = 0.1
"""Share of the learning rate that is left at the last step."""


class Refined(BaseEraser):
    """Refine a closed form by gradient, on what a model says; mean: refined too.

    Without an objective, on plain rows, it is the closed form that it starts from.

    Args:
        start: the eraser whose map it starts from: its name, or a mapping with its `kind` and
            parameters. None takes `preserving` of the rank that serves contexts held out.
        extra: directions beyond those of the closed form; nothing is written along them at first.
        steps: of Adam.
        learning_rate: of whitened parameters, after the first ten steps; it falls as a cosine.
        bias: weight of the squared group difference, nats².
        people: weight of what the groups' people say otherwise.
        keep: weight of what is to be kept.
        neutral: weight of text about nobody.
        trust: weight of the squared distance to the closed form.
        check_every: steps between two looks at held-out losses.
        patience: looks without a better one after which it stops.
        seeds: runs with other extra directions and other draws of texts; the best is taken.
        random_state: of these.

    Attributes:
        start_: the closed form.
        curve_: one mapping for each look: `seed`, `step`, the terms, and `loss`, their weighted sum
            on held-out texts (on drawn ones, averaged since the last look, where there are none).
        spread_: standard deviation over seeds of the least loss of each; NaN with one.
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {**REQUESTED, "objective": True}
    no_guarantee_because = "what the model says is made equal, not its activations"
    is_refitted = False

    def __init__(
        self,
        start: str | Mapping[str, Any] | None = None,
        *,
        extra: int = 16,
        steps: int = 150,
        learning_rate: float = 5e-4,
        bias: float = 10.0,
        people: float = 5.0,
        keep: float = 10.0,
        neutral: float = 10.0,
        trust: float = 0.0,
        check_every: int = 25,
        patience: int = 6,
        seeds: int = 1,
        random_state: int = 0,
    ) -> None:
        self.start = start
        self.extra = extra
        self.steps = steps
        self.learning_rate = learning_rate
        self.bias = bias
        self.people = people
        self.keep = keep
        self.neutral = neutral
        self.trust = trust
        self.check_every = check_every
        self.patience = patience
        self.seeds = seeds
        self.random_state = random_state

    @property
    def n_steps(self) -> int:
        return self.steps * self.seeds

    @property
    def draft(self) -> BaseEraser:
        """The closed form that it starts from, not yet fitted."""
        return closed_form(START if self.start is None else self.start, "refined")

    def check(self) -> None:
        """Refuse counts, weights and rates that are none, and a start that names no eraser.

        Raises:
            UserError: naming the setting.
        """
        super().check()
        for name in ("steps", "check_every", "patience", "seeds", "extra"):
            count, least = getattr(self, name), 0 if name == "extra" else 1
            if not isinstance(count, int) or count < least:
                raise UserError(f"{name} = {count!r} of refined: write a whole number from {least}")
        for name in ("learning_rate", *TERMS, "trust"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and 0 <= value < np.inf
            if not number or (name == "learning_rate" and value == 0):
                above = "above 0" if name == "learning_rate" else "from 0"
                raise UserError(f"{name} = {value!r} of refined: write a number {above}")
        self.draft.check()

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        contexts: Any = None,
        keep: Any = None,
        background: Any = None,
        pairs: Any = None,
        people: Any = None,
        families: Any = None,
        objective: Objective | None = None,
    ) -> Refined:
        """Fit the closed form to rows `X` `[row, d]` of classes `y`, then refine it.

        Args:
            X: rows.
            y: their classes.
            contexts: an id per row, for closed forms that take it.
            keep: a boolean per row: those to be kept. A closed form that cannot keep does not see
                them; Σ is of all rows.
            background: rows `[other, d]` of whatever else the map meets.
            pairs: an id per row, for closed forms that take it.
            people: the same.
            families: the same.
            objective: what the map is refined on.

        Raises:
            UserError: what the closed form or `check` refuses; or losses that are not finite, with
                what to change.
        """
        self.check()
        rows = self._read(X, y)
        every, is_kept = rows.X, kept(rows, keep)
        of_row = {"contexts": contexts, "pairs": pairs, "people": people, "families": families}
        start = fit_start(self.draft, rows, is_kept, of_row, background)
        self.row_ids_ = start.row_ids_
        self.start_ = start.erasure_
        self.curve_: list[dict[str, float]] = []
        self.spread_ = float("nan")
        erasure = self.start_
        if objective is not None:
            if background is not None:
                every = np.vstack([every, read_features(self, background).astype(np.float64)])
            erasure = self._refined(every, objective)
        self._store(erasure, rows.classes)
        return self

    def _refined(self, X: Float[np.ndarray, "row d"], objective: Objective) -> AffineErasure:
        """The best map of all seeds."""
        best: list[tuple[float, AffineErasure]] = []
        for seed in range(self.random_state, self.random_state + self.seeds):
            best.append(min(self._run(X, objective, seed), key=lambda checked: checked[0]))
        losses = [loss for loss, _ in best]
        if len(losses) > 1:
            self.spread_ = float(np.std(losses, ddof=1))
        return best[int(np.argmin(losses))][1]

    def _run(
        self, X: Float[np.ndarray, "row d"], objective: Objective, seed: int
    ) -> Iterator[tuple[float, AffineErasure]]:
        """Maps that were checked, each with its loss; the closed form first where it can be."""
        thin = WhitenedMap.of(self.start_, X, self.extra, seed)
        adam = torch.optim.Adam(thin.parameters, betas=(0.9, 0.98))
        least, since = np.inf, 0
        drawn: list[dict[str, float]] = []
        for step in range(self.steps + 1):
            if step % self.check_every == 0 or step == self.steps:
                with torch.no_grad():
                    terms = objective.held_out(thin)
                if terms is None and drawn:
                    terms = {k: float(np.mean([d[k] for d in drawn])) for k in drawn[0]}
                if terms is not None:
                    loss = self._sum(terms) + self.trust * float(thin.distance.detach())
                    self._record(seed, step, terms, loss)
                    yield loss, thin.erasure
                    least, since = (loss, 0) if loss < least else (least, since + 1)
                    drawn = []
                if since >= self.patience or step == self.steps:
                    return
            for group in adam.param_groups:
                group["lr"] = self.learning_rate * _pace(step, self.steps)
            losses = objective.losses(thin, seed, step)
            drawn.append({k: float(v.detach()) for k, v in losses.items()})
            adam.zero_grad()
            (self._sum(losses) + self.trust * thin.distance).backward()
            adam.step()

    def _sum(self, terms: Mapping[str, Any]) -> Any:
        return sum(getattr(self, name) * value for name, value in terms.items())

    def _record(self, seed: int, step: int, terms: Mapping[str, float], loss: float) -> None:
        if not np.isfinite(loss):
            raise UserError(
                f"the loss is not finite after {step} steps: use a learning_rate below "
                f"{self.learning_rate:g}"
            )
        self.curve_.append({"seed": float(seed), "step": float(step), **terms, "loss": loss})


def _pace(step: int, steps: int) -> float:
    """Share of the learning rate at a step."""
    cosine = 0.5 * (1.0 + np.cos(np.pi * step / steps))
    return float(min(1.0, (step + 1) / WARM_UP) * (LAST + (1.0 - LAST) * cosine))
