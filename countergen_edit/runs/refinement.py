"""The objective of refined maps: a model's output in contexts to erase, to keep, and neutral text.

In a context to erase the wanted distribution of a name is the unedited one less the group's part:
half the difference of the groups' mean log-probabilities, token by token, except for the forms that
agree with the name (she, her, …). Contexts are drawn in proportion to their outputs, since the
group effect is a mean over outputs. The blocks below the edit are computed once per text.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from countergen_edit.core.seeds import generator
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.subsets import few_texts, round_robin
from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, Edit, applied
from countergen_edit.erasers import TERMS, Change
from countergen_edit.models import LanguageModel, encode, first_read, hook_name
from countergen_edit.runs.fit_data import places_by_context

PEOPLE = 16
"""Names per group in a context to erase; the differences of few would pass for the group's."""
KEPT_PEOPLE = 2
"""Names per group in a context to keep, whose templates differ more than its names."""
DRAWN = {"erase": 3, "keep": 2, "neutral": 1}
"""Portions of each kind in a step."""
ROWS = 12
"""Texts of a portion of contexts to keep."""
TEXTS = 2
"""Texts of a portion of running text."""
LONGEST = 64
"""Tokens of a running text."""
HELD_OUT_PEOPLE, HELD_OUT_TEXTS = 8, 12
_ALONE = threading.Lock()
"""Hooks are the model's: two threads that refine at once would see each other's."""


@dataclass(frozen=True, eq=False)
class Portion:
    """Texts that are run together, and where their output is read."""

    kind: str
    ids: Int[Tensor, "row time"]
    mask: Int[Tensor, "row time"]
    at: tuple[Int[Tensor, " read"], Int[Tensor, " read"]]
    is_first: Bool[Tensor, " read"] | None = None
    """Of a context to erase: whether the text is about the first group."""
    outputs: Int[Tensor, " output"] | None = None
    """The next token of each of its outputs."""


class ModelObjective:
    """An `Objective` on a task's fitting texts; its validation texts are held out.

    Tokens whose norm at the place is above `limit` are skipped. A map is refined under the edit
    `before` and accounts for both: the target is the output of the unedited model, or under an edit
    of other axes, `wanted_of`, that is part of `before`.
    """

    def __init__(
        self,
        model: LanguageModel,
        task: Task,
        site: str,
        layer: int | None,
        limit: float | None,
        seed: int = 0,
        before: Edit = UNCHANGED,
        wanted_of: Edit = UNCHANGED,
    ) -> None:
        self.model, self.limit, self._before = model, limit, before
        self._wanted_of = wanted_of
        self._hook_name = hook_name(model, site, layer)
        forms = [f for group in task.groups for f in task.axis.groups[group].forms.values()]
        first = [e.ids[-len(e.after(0)) :][0] for e in encode(model, [f" {f}" for f in forms])]
        self._forms = torch.tensor(sorted(set(first)), dtype=torch.long)
        self._portions = {
            "erase": [p for data in task.fit for p in self._to_erase(round_robin(data, PEOPLE))],
            "keep": [
                p for data in task.keep for p in self._to_keep(round_robin(data, KEPT_PEOPLE))
            ],
            "neutral": self._running(task.weighed),
        }
        self._odds = {kind: _odds(portions) for kind, portions in self._portions.items()}
        agreement = task.agreement.get("validation")
        held_texts = few_texts(task.neutral.get("validation", ()), HELD_OUT_TEXTS, seed)
        kept = [agreement] if agreement else []
        kept += task.legitimate_differences.get("validation", ())
        self._held_out = [
            *(p for d in task.validation for p in self._to_erase(round_robin(d, HELD_OUT_PEOPLE))),
            *(p for d in kept for p in self._to_keep(round_robin(d, 1))),
            *self._running(held_texts),
        ]
        self._wanted: dict[Portion, Float[Tensor, " vocab"]] = {}

    def losses(self, change: Change, seed: int, step: int) -> Mapping[str, Tensor]:
        """The terms on a few portions, drawn anew for every step."""
        rng = generator(seed, "refinement", step)
        drawn = [
            portions[i]
            for kind, portions in self._portions.items()
            for i in rng.choice(
                len(portions), min(DRAWN[kind], len(portions)), False, self._odds[kind]
            )
        ]
        return self._mean(drawn, [1.0] * len(drawn), change)

    def held_out(self, change: Change) -> Mapping[str, float] | None:
        """The terms on validation people, templates and texts."""
        if not any(portion.kind == "erase" for portion in self._held_out):
            return None
        weights = [float(len(p.outputs)) if p.outputs is not None else 1.0 for p in self._held_out]
        terms = self._mean(self._held_out, weights, change, unbiased=True)
        return {name: float(value) for name, value in terms.items()}

    def _mean(
        self,
        portions: Sequence[Portion],
        weights: Sequence[float],
        change: Change,
        *,
        unbiased: bool = False,
    ) -> dict[str, Tensor]:
        """The weighted mean of each term over the portions that have it."""
        sums = {name: torch.zeros((), device=self.model.device) for name in TERMS}
        mass = dict.fromkeys(TERMS, 0.0)
        for portion, weight in zip(portions, weights, strict=True):
            for name, value in self._terms(portion, change, unbiased).items():
                sums[name] = sums[name] + weight * value
                mass[name] += weight
        return {name: sums[name] / (mass[name] or 1.0) for name in TERMS}

    def _terms(self, portion: Portion, change: Change, unbiased: bool) -> dict[str, Tensor]:
        """The terms of one portion.

        `unbiased`, the within-group variance is taken off the squared difference; a map refined on
        that would learn to enlarge the variance.
        """
        with _ALONE:
            with applied(self.model, self._wanted_of) as model:
                unedited = model.logits(portion.ids, portion.mask, portion.at).clone()
            hooks = [(self._hook_name, self._hook(change))]
            with applied(self.model, self._before), self.model.bridge.hooks(fwd_hooks=hooks):
                edited = self.model.differentiable_logits(portion.ids, portion.mask, portion.at)
        before, after = (x.float().log_softmax(-1) for x in (unedited, edited))
        if portion.kind != "erase":
            return {portion.kind: _divergence(before, after)}
        assert portion.is_first is not None
        assert portion.outputs is not None
        sides = portion.is_first.to(before.device), ~portion.is_first.to(before.device)
        if portion not in self._wanted:
            half = (before[sides[0]].mean(0) - before[sides[1]].mean(0)) / 2
            half[self._forms.to(half.device)] = 0.0
            self._wanted[portion] = half
        half = self._wanted[portion]
        sign = torch.where(sides[0], 1.0, -1.0)[:, None]
        wanted = (before - sign * half).log_softmax(-1)
        a, b = (after[side][:, portion.outputs] for side in sides)
        squared = (a.mean(0) - b.mean(0)) ** 2
        if unbiased and len(a) > 1:
            squared = squared - a.var(0) / len(a) - b.var(0) / len(b)
        return {"bias": squared.mean(), "people": _divergence(wanted, after)}

    def _hook(self, change: Change) -> Any:
        limit = self.limit

        def edit(x: Float[Tensor, "*batch d"], hook: Any = None) -> Float[Tensor, "*batch d"]:
            wide = x.float()
            edited = change(wide).to(x.dtype)
            if limit is None:
                return edited
            size = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
            return torch.where(size > limit, x, edited)

        return edit

    def _to_erase(self, data: CounterfactualSet) -> list[Portion]:
        """A portion for each context: all of its people, of every two groups."""
        following, portions = _following(self.model, data), []
        for own in (data.between(*pair) for pair in data.pairs):
            for context, places in places_by_context(self.model, own).items():
                ids, mask, last = self._padded([place.text for place in places])
                is_first = torch.tensor([p.variation.group == own.groups[0] for p in places])
                outputs = torch.tensor(sorted(following[context]), device=self.model.device)
                at = torch.arange(len(places)), last
                portions.append(Portion("erase", ids, mask, at, is_first, outputs))
        return portions

    def _to_keep(self, data: CounterfactualSet) -> list[Portion]:
        """Portions of several contexts, read at their ends."""
        places = [p for group in places_by_context(self.model, data).values() for p in group]
        texts = list(dict.fromkeys(place.text for place in places))
        portions = []
        for begin in range(0, len(texts), ROWS):
            ids, mask, last = self._padded(texts[begin : begin + ROWS])
            portions.append(Portion("keep", ids, mask, (torch.arange(len(ids)), last)))
        return portions

    def _running(self, texts: Sequence[str]) -> list[Portion]:
        """Portions of running text, read at every token."""
        portions = []
        for begin in range(0, len(texts), TEXTS):
            first = first_read(self.model)
            ids, mask, _ = self._padded(texts[begin : begin + TEXTS], first + LONGEST)
            row, position = mask[:, first:].nonzero(as_tuple=True)
            portions.append(Portion("neutral", ids, mask, (row, position + first)))
        return portions

    def _padded(
        self, texts: Sequence[str], most: int | None = None
    ) -> tuple[Int[Tensor, "row time"], Int[Tensor, "row time"], Int[Tensor, " row"]]:
        rows = [torch.tensor(encoding.ids[:most]) for encoding in encode(self.model, texts)]
        ids, mask = (
            pad_sequence(own, batch_first=True) for own in (rows, [*map(torch.ones_like, rows)])
        )
        return ids, mask, mask.sum(1) - 1


def _divergence(
    p: Float[Tensor, "read vocab"], q: Float[Tensor, "read vocab"]
) -> Float[Tensor, ""]:
    """Mean KL(p ‖ q) of log-probabilities, nats."""
    return (p.exp() * (p - q)).sum(-1).mean()


def _odds(portions: Sequence[Portion]) -> Float[np.ndarray, " portion"] | None:
    """How often each is drawn; None where there are none."""
    outputs = [1.0 if p.outputs is None else float(len(p.outputs)) for p in portions]
    return np.array(outputs) / sum(outputs) if outputs else None


def _following(model: LanguageModel, data: CounterfactualSet) -> dict[str, set[int]]:
    """Context → the next tokens of its outputs, read after one name, as all split alike."""
    following: dict[str, set[int]] = {}
    for sample in data.samples:
        prompt = sample.variations[0].text
        for output in sample.outputs:
            text = prompt + output
            [encoding] = encode(model, [text])
            for number, token in enumerate(encoding.after(len(prompt))):
                said = text[len(prompt) : encoding.offsets[token][0]] if number else ""
                following.setdefault(f"{sample.template}{said}", set()).add(encoding.ids[token])
    return following
