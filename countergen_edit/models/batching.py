"""Right-padded batches: which rows to run, and where to read them.

Equal sequences, and prefixes of others, run once, as a position of a causal model depends on
earlier ones only. Where the model supports it, sequences with a common beginning are one row, a
tree: a token attends to its own ancestors and has the position of its own text.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, takewhile
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from countergen_edit.models.language_model import LanguageModel, Mask, TokenIds
from countergen_edit.models.memory import reduced

CPU_TOKENS, ACCELERATOR_TOKENS = 4096, 16384
"""Most tokens of a batch, before it is halved where memory is short (`memory`)."""
CPU_LOGIT_BYTES, ACCELERATOR_LOGIT_BYTES = 256 * 2**20, 2 * 2**30
"""Most memory of the logits of a batch, likewise."""
BUSY = 512
"""Tokens from which on a batch takes no row that is mostly padding."""
FULL = 0.75
"""Least share of a busy batch's width that a row fills."""
BRANCHES = 256
"""Most tokens of a tree after its first text: attention grows with the square."""
SHARED = 0.5
"""Least share of a text in common with a tree that it joins."""
_AGREEMENT = 1e-4
"""Most that a log-probability may differ in a tree, in nats."""
HALF_AGREEMENT = 0.25
"""The same for 16-bit weights, whose rounding has this effect in any batch."""
_SHORTEST_TRIAL, _TRIAL_BRANCH, _TRIAL_READ = 32, 16, 32

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """Rows to run together, and the row and position of each value to read.

    `ids` are padded on the right; `mask` is 1 where a token is real or, in a tree, the columns each
    token attends to; `slot` is the index of each value over all sequences in order.
    """

    ids: TokenIds
    mask: Mask
    row: Int[Tensor, " read"]
    position: Int[Tensor, " read"]
    slot: Int[np.ndarray, " read"]


def batch_tokens(lm: LanguageModel, method: str) -> int:
    """Most tokens of a batch on the model's device."""
    most = CPU_TOKENS if lm.device.type == "cpu" else ACCELERATOR_TOKENS
    return reduced(lm, method, most)


def batch_reads(lm: LanguageModel, method: str, bytes_per_logit: int) -> int:
    """Most positions at which a batch reads logits."""
    most = CPU_LOGIT_BYTES if lm.device.type == "cpu" else ACCELERATOR_LOGIT_BYTES
    return reduced(lm, method, most) // (lm.vocab_size * bytes_per_logit)


def plan(
    sequences: Sequence[Ids],
    positions: Sequence[Sequence[int]],
    *,
    max_batch_tokens: int,
    max_batch_reads: int = sys.maxsize,
    share: bool = True,
    branch: bool = False,
) -> list[Batch]:
    """Batch sequences, longest first, so that padding is small and memory runs out early.

    A sequence without `positions` to read is not run, and a row of more than `max_batch_tokens`
    or one that is read at more than `max_batch_reads` positions, runs alone. `share` runs equal
    sequences and prefixes once, `branch` sequences with a common beginning as one row.
    """
    slots = np.cumsum([0, *map(len, positions)])
    active = [i for i, reads in enumerate(positions) if len(reads)]
    most = min(max_batch_tokens, max_batch_reads) if branch else 0
    rows: list[_Row] = []
    for group in [active] if share else [[i] for i in active]:
        repeats = defaultdict[Ids, list[int]](list)
        for i in group:
            repeats[sequences[i]].append(i)
        for tree in trees(repeats, most):
            reads = [
                (columns[p], int(slots[i]) + k)
                for text, columns in tree.columns.items()
                for i in repeats[text]
                for k, p in enumerate(positions[i])
            ]
            rows.append((tree, reads))

    batches: list[list[_Row]] = []
    width = total = 0
    for tree, reads in sorted(rows, key=lambda row: (-len(row[0].ids), row[0].ids)):
        cells = len({column for column, _ in reads})
        tokens = (len(batches[-1]) + 1) * width if batches else sys.maxsize
        is_full = tokens > max_batch_tokens or total + cells > max_batch_reads
        if is_full or (len(tree.ids) < FULL * width and tokens > BUSY):
            batches.append([])
            width, total = len(tree.ids), 0
        batches[-1].append((tree, reads))
        total += cells
    return [_batch(members) for members in batches]


_Row = tuple["Tree", list[tuple[int, int]]]
"""A tree, with the column and the slot of each value to read."""


def _batch(rows: Sequence[_Row]) -> Batch:
    members = [tree for tree, _ in rows]
    cells = [(number, *read) for number, (_, reads) in enumerate(rows) for read in reads]
    row, column, slot = np.array(cells, dtype=np.int64).T
    ids, mask = padded_trees(members, any(tree.branches for tree in members))
    return Batch(ids, mask, torch.from_numpy(row), torch.from_numpy(column), slot)


@dataclass
class Tree:
    """One row: tokens, and the column that each follows (-1 at the beginning).

    `columns` maps each text, in the order they joined, to the columns of its tokens.
    """

    ids: list[int] = field(default_factory=list)
    follows: list[int] = field(default_factory=list)
    columns: dict[Ids, list[int]] = field(default_factory=dict)

    def add(self, text: Ids) -> None:
        """Add a text, which shares the beginning of the last one."""
        last = next(reversed(self.columns), ())
        shared = _shared(last, text)
        columns = self.columns[last][:shared] if shared else []
        for token in text[shared:]:
            self.follows.append(columns[-1] if columns else -1)
            columns.append(len(self.ids))
            self.ids.append(token)
        self.columns[text] = columns

    @classmethod
    def of(cls, texts: Iterable[Ids]) -> Tree:
        """All texts in one row, each common beginning once."""
        tree = cls()
        for text in sorted({*texts}):
            tree.add(text)
        return tree

    @property
    def branches(self) -> bool:
        """Whether a token follows another than the one before it."""
        return self.follows != [*range(-1, len(self.ids) - 1)]

    @property
    def sees(self) -> Bool[Tensor, "time time"]:
        """For each column the columns it attends to: its ancestors and itself."""
        sees = np.eye(len(self.ids), dtype=bool)
        for column, previous in enumerate(self.follows):
            if previous >= 0:
                sees[column] |= sees[previous]
        return torch.from_numpy(sees)


def padded_trees(rows: Sequence[Tree], in_trees: bool) -> tuple[TokenIds, Mask]:
    """Ids and mask of a batch; `in_trees`, of the columns that each token attends to."""
    width = max(len(tree.ids) for tree in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    if in_trees:
        mask = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
    for number, tree in enumerate(rows):
        real = slice(len(tree.ids))
        ids[number, real] = torch.tensor(tree.ids)
        if in_trees:
            mask[number, real, real] = tree.sees
        else:
            mask[number, real] = 1
    return ids, mask


def trees(texts: Iterable[Ids], most: int) -> list[Tree]:
    """Group distinct texts into rows of up to `most` tokens."""
    rows: list[Tree] = []
    last: Ids = ()
    waiting, room = list[Ids](), 0
    for text, following in pairwise([*sorted(texts), ()]):
        waiting.append(text)
        if following[: len(text)] == text:
            continue
        shared = _shared(last, text)
        width = len(rows[-1].ids) + len(text) - shared if rows else sys.maxsize
        if shared < SHARED * len(text) or width > min(room, most):
            rows.append(Tree())
            room = len(text) + BRANCHES
        for prefix in waiting:
            rows[-1].add(prefix)
        last, waiting = text, []
    return rows


def _shared(first: Ids, second: Ids) -> int:
    """The number of tokens that two texts begin with."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))])


_TRIALS: WeakKeyDictionary[Any, dict[int, bool]] = WeakKeyDictionary()


def runs_trees(lm: LanguageModel, length: int) -> bool:
    """Whether texts of up to `length` tokens get the same in a tree as alone, without hooks.

    Tried once for each power of two, as masks fail in some families: ALiBi counts columns,
    state-space models have no mask, and a sliding window ends within long texts.
    """
    trials = _TRIALS.setdefault(lm.bridge, {})
    size = min(max(_SHORTEST_TRIAL, 1 << (length - 1).bit_length()), lm.context_length)
    if size not in trials:
        points = lm.bridge.hook_dict.values()
        attached = {point: point._forward_hooks for point in points if point.has_hooks("fwd")}
        try:
            for point in attached:
                point._forward_hooks = OrderedDict()
            trials[size] = _trial(lm, size)
        finally:
            for point, hooks in attached.items():
                point._forward_hooks = hooks
    return trials[size]


def _trial(lm: LanguageModel, size: int) -> bool:
    """Compare three texts that differ in their last tokens, alone and in a tree.

    The last tokens are read, which attend to all others: logits of whole texts take gigabytes.
    """
    numbers = torch.randint(lm.vocab_size, (3, size), generator=torch.Generator().manual_seed(0))
    numbers[:, :-_TRIAL_BRANCH] = numbers[0, :-_TRIAL_BRANCH]
    texts = [tuple(text) for text in numbers.tolist()]
    (tree,) = trees(texts, 3 * size)
    last = torch.arange(size)[-_TRIAL_READ:]
    cells = torch.arange(3).repeat_interleave(len(last)), last.repeat(3)
    column = torch.tensor([tree.columns[text][-_TRIAL_READ:] for text in texts]).flatten()
    run = torch.inference_mode()(partial(LanguageModel.differentiable_logits, lm))
    alone = run(numbers, torch.ones_like(numbers), cells)
    try:
        cells = torch.zeros_like(column), column
        together = run(torch.tensor([tree.ids]), tree.sees[None], cells)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # of any type, from a model that was not written for such a mask
        return False
    allowed = _AGREEMENT if lm.dtype.itemsize > 2 else HALF_AGREEMENT
    difference = together.float().log_softmax(-1) - alone.float().log_softmax(-1)
    return bool(difference.abs().max() <= allowed)
