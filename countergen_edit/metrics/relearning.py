"""Relearning: the group effect after ordinary fine-tuning on neutral text.

An edit may hide a bias instead of removing it, so that a little training brings it back (Lo, Cohen
and Barez 2024, arXiv 2401.01814, of pruned concepts). All weights are trained on the neutral text
of the fit split with the edit in place, then every test set is measured as by `r`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, ClassVar

import torch
from annotated_types import Gt

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.edits import UNCHANGED, NamedEdit, applied
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import group_effect_rows
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel, encode, first_read

RELEARNED = "relearned_effect"
_TEXTS = 4
"""Texts of a step."""
_LONGEST = 64
"""Tokens of a text."""


class Relearning(Metric):
    """The group effect after fine-tuning on neutral text.

    Args:
        steps: of AdamW.
        learning_rate: constant.
    """

    title = "Group effect after fine-tuning on neutral text"
    unit = "group effect, nats"
    measures = (RELEARNED,)
    better: ClassVar[Mapping[str, Way]] = {RELEARNED: "lower"}
    is_slow = True
    reads_logits = True

    def __init__(
        self, steps: Annotated[int, Gt(0)] = 50, learning_rate: Annotated[float, Gt(0)] = 1e-5
    ) -> None:
        self.steps = steps
        self.learning_rate = learning_rate

    def prepare(self) -> None:
        if not self.task.weighed:
            raise UserError("metric=relearning needs neutral text of the fit split: texts.neutral")

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `relearned_effect` of every test set."""
        chosen, own = UNCHANGED if edit is None else edit.edit, context.model
        texts, seed = self.task.weighed, context.seed
        # A model that skips blocks keeps outputs of former weights.
        plain = LanguageModel(own.name, own.bridge, own.tokenizer, own.preface, own.chat)
        with (
            applied(plain, chosen) as model,
            fine_tuned(model, texts, self.steps, self.learning_rate, seed),
        ):
            effects = [
                GroupEffect(pair, seed)
                for data in self.task.test
                for pair in score(model, data, data.name).pairs
            ]
        return group_effect_rows(effects, RELEARNED)


@contextmanager
def fine_tuned(
    model: LanguageModel, texts: Sequence[str], steps: int, learning_rate: float, seed: int
) -> Iterator[None]:
    """Run a block with all weights trained on texts; they are put back bit for bit."""
    weights = [*model.bridge.original_model.parameters()]
    before = [weight.detach().clone() for weight in weights]
    ids = [torch.tensor(e.ids[: first_read(model) + _LONGEST]) for e in encode(model, texts)]
    try:
        for weight in weights:
            weight.requires_grad_(True)
        adam = torch.optim.AdamW(weights, lr=learning_rate)
        for step in range(steps):
            rng = generator(seed, "relearning", step)
            drawn = [ids[i] for i in rng.choice(len(ids), min(_TEXTS, len(ids)), replace=False)]
            adam.zero_grad()
            torch.autograd.backward(_loss(model, drawn))
            adam.step()
        for weight in weights:
            weight.requires_grad_(False)
            weight.grad = None
        yield
    finally:
        with torch.no_grad():
            for weight, own in zip(weights, before, strict=True):
                weight.requires_grad_(False)
                weight.grad = None
                weight.copy_(own)


def _loss(model: LanguageModel, rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mean negative log-likelihood per token, nats."""
    ids = torch.nn.utils.rnn.pad_sequence([*rows], batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    row, column = mask[:, 1:].nonzero(as_tuple=True)
    logits = model.differentiable_logits(ids, mask, (row, column)).float()
    targets = ids[row, column + 1].to(logits.device)
    return torch.nn.functional.cross_entropy(logits, targets)
