"""Rows in which texts share a common beginning (trees), computed once.

A token attends to its own ancestors and has the position of its own text, so that each text gets
what it would get alone. Whether a model supports such masks is tried: ALiBi counts columns,
state-space models have no mask, a sliding window looks past a short text only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool
from torch import Tensor

from countergen_edit.models.language_model import LanguageModel

Ids = tuple[int, ...]
BRANCHES = 256
"""Most tokens that a tree has beside its first text: attention grows with the square of a row."""
SHARED = 0.5
"""What a text must have in common with a tree to join it, of its own length."""
AGREEMENT = 1e-4
"""Most that a log-probability may differ in a tree, in nats."""
HALF_AGREEMENT = 0.25
"""The same for 16-bit weights, whose log-probabilities are this uncertain in any batch."""
_SHORTEST_TRIAL, _TRIAL_BRANCH = 32, 16


@dataclass
class Tree:
    """One row: tokens, and the column that each follows (-1 at the beginning).

    `columns` maps each text, in the order they joined, to where its tokens stand.
    """

    ids: list[int] = field(default_factory=list)
    follows: list[int] = field(default_factory=list)
    columns: dict[Ids, list[int]] = field(default_factory=dict)

    def add(self, text: Ids, shared: int) -> None:
        """Add a text that has its first `shared` tokens in common with the last one."""
        columns = next(reversed(self.columns.values()))[:shared] if self.columns else []
        for token in text[shared:]:
            self.follows.append(columns[-1] if columns else -1)
            columns.append(len(self.ids))
            self.ids.append(token)
        self.columns[text] = columns

    @property
    def branches(self) -> bool:
        return len(self.columns) > 1

    @property
    def sees(self) -> Bool[Tensor, "time time"]:
        """For each column the columns it attends to: its ancestors and itself."""
        sees = torch.eye(len(self.ids), dtype=torch.bool)
        for column, previous in enumerate(self.follows):
            if previous >= 0:
                sees[column] |= sees[previous]
        return sees


def trees(texts: Sequence[Ids], most: int) -> list[Tree]:
    """Group distinct texts, none a prefix of another, into rows of up to `most` tokens.

    In sorted order a text has most in common with its neighbour.
    """
    rows: list[Tree] = []
    previous: Ids = ()
    for text in sorted(texts):
        shared = _common(previous, text)
        if rows and shared >= SHARED * len(text):
            width, room = len(rows[-1].ids), len(next(iter(rows[-1].columns))) + BRANCHES
            if width + len(text) - shared <= min(room, most):
                rows[-1].add(text, shared)
                previous = text
                continue
        rows.append(Tree())
        rows[-1].add(text, 0)
        previous = text
    return rows


def _common(a: Ids, b: Ids) -> int:
    for k, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return k
    return min(len(a), len(b))


_TRIALS: WeakKeyDictionary[Any, dict[int, bool]] = WeakKeyDictionary()


def runs_trees(lm: LanguageModel, length: int) -> bool:
    """Whether texts of up to `length` tokens get the same in a tree as alone, without hooks.

    Tried once for each power of two and remembered for the model.
    """
    trials = _TRIALS.setdefault(lm.bridge, {})
    size = _SHORTEST_TRIAL
    while size < length:
        size *= 2
    size = min(size, lm.context_length)
    if size not in trials:
        with _unhooked(lm.bridge):
            trials[size] = _trial(lm, size)
    return trials[size]


def _trial(lm: LanguageModel, size: int) -> bool:
    """Three texts that differ in their last tokens, alone and in a tree."""
    numbers = torch.randint(lm.vocab_size, (3, size), generator=torch.Generator().manual_seed(0))
    numbers[:, :-_TRIAL_BRANCH] = numbers[0, :-_TRIAL_BRANCH]
    (tree,) = trees([tuple(text) for text in numbers.tolist()], 3 * size)
    run = torch.inference_mode()(partial(LanguageModel.differentiable_logits, lm))
    alone = run(numbers, torch.ones_like(numbers))
    try:
        together = run(torch.tensor([tree.ids]), tree.sees[None])[0]
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever a model raises that was not written for such a mask
        return False
    allowed = AGREEMENT if lm.dtype.itemsize > 2 else HALF_AGREEMENT
    for text, logits in zip(numbers.tolist(), alone, strict=True):
        inside = together[tree.columns[tuple(text)]]
        difference = inside.float().log_softmax(-1) - logits.float().log_softmax(-1)
        if not difference.abs().max() <= allowed:
            return False
    return True


@contextmanager
def _unhooked(bridge: Any) -> Iterator[None]:
    points = [point for point in bridge.hook_dict.values() if point.has_hooks("fwd")]
    attached = [point._forward_hooks for point in points]
    try:
        for point in points:
            point._forward_hooks = OrderedDict()
        yield
    finally:
        for point, hooks in zip(points, attached, strict=True):
            point._forward_hooks = hooks
