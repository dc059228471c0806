"""Right-padded batches: which rows to run, and where to read them.

Equal sequences, and prefixes of others, run once, as a position of a causal model depends on
earlier ones only; where the model allows it, sequences with a common beginning are one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from countergen_edit.models.language_model import LanguageModel, Mask
from countergen_edit.models.trees import Ids, Tree, trees

LOGIT_BYTES = 256 * 2**20  # most memory the logits of one batch may take
CPU_TOKENS, ACCELERATOR_TOKENS = 4096, 16384
"""Tokens of a batch where none are asked for. Measured once and not at each start: sizes differ in
the last bits of a score, and a run that is killed and resumed must end with the same bytes. On a
CPU, 1,024 to 4,096 are equally fast for a model of 135 million weights, and for one of a million
16,384 take 1.4 times as long a token as 4,096."""
BUSY = 512
"""Tokens that keep a processor busy: from here on a batch takes no row that is mostly padding."""
FULL = 0.75
"""What a row must fill of a busy batch's width."""


@dataclass(frozen=True)
class Batch:
    """Rows to run together, and the values to read off them.

    Attributes
    ----------
    ids
        Token ids, padded on the right.
    mask
        1 where a token is real; in a tree, what each token attends to.
    row, position
        Where each value is read.
    slot
        Place of each value in the result, over all sequences in order.
    """

    ids: Int[Tensor, "row time"]
    mask: Mask
    row: Int[Tensor, " read"]
    position: Int[Tensor, " read"]
    slot: Int[np.ndarray, " read"]


T = TypeVar("T")


def batch_tokens(lm: LanguageModel, asked: int | None) -> int:
    """Most tokens in a batch: as asked, or what suits the device."""
    if asked is not None:
        return asked
    return CPU_TOKENS if lm.device.type == "cpu" else ACCELERATOR_TOKENS


def within_memory(batch: Batch, run: Callable[[Batch], T]) -> list[tuple[Batch, T]]:
    """Run a batch, in halves where the device's memory is too small for the whole."""
    try:
        return [(batch, run(batch))]
    except torch.OutOfMemoryError:
        if len(batch.ids) == 1:
            raise
    # Outside of the handler, where nothing holds the tensors of the failed run any more.
    return [result for half in _halves(batch) for result in within_memory(half, run)]


def _halves(batch: Batch) -> Iterator[Batch]:
    middle = len(batch.ids) // 2
    for first, last in ((0, middle), (middle, len(batch.ids))):
        inside = (batch.row >= first) & (batch.row < last)
        yield Batch(
            batch.ids[first:last],
            batch.mask[first:last],
            batch.row[inside] - first,
            batch.position[inside],
            batch.slot[inside.numpy()],
        )


def plan(
    sequences: Sequence[Ids],
    positions: Sequence[Sequence[int]],
    *,
    max_batch_tokens: int,
    bytes_per_position: int = 0,
    share: bool = True,
    branch: bool = False,
) -> list[Batch]:
    """Batch sequences, longest first, so that padding is small and memory runs out early.

    Parameters
    ----------
    sequences, positions
        Token ids and the positions to read; one without positions is not run.
    max_batch_tokens : int
        Padding included; a longer row runs alone.
    bytes_per_position : int
        Memory of a position's logits, limited to `LOGIT_BYTES` per batch; 0 if none is kept.
    share, branch : bool
        Run equal sequences and prefixes once; run sequences with a common beginning as one row.
    """
    slots = np.cumsum([0, *map(len, positions)])
    active = [i for i, reads in enumerate(positions) if len(reads)]
    most = max_batch_tokens
    if bytes_per_position:
        most = min(most, LOGIT_BYTES // bytes_per_position)
    rows = []
    if share:
        host = _hosts({sequences[i] for i in active})
        guests: dict[Ids, list[int]] = {}
        for i in active:
            guests.setdefault(host[sequences[i]], []).append(i)
        for tree in trees(list(guests), most if branch else 0):
            reads = [(i, at) for text, at in tree.columns.items() for i in guests[text]]
            rows.append(_Row(tree, reads))
    else:
        for i in active:
            (tree,) = trees([sequences[i]], 0)
            rows.append(_Row(tree, [(i, tree.columns[sequences[i]])]))

    batches: list[list[_Row]] = []
    total = 0
    for row in sorted(rows, key=lambda row: (-len(row.tree.ids), row.tree.ids)):
        cells = len({columns[p] for i, columns in row.reads for p in positions[i]})
        if batches:
            height, width = len(batches[-1]) + 1, len(batches[-1][0].tree.ids)
            fits = len(row.tree.ids) >= FULL * width or height * width <= BUSY
            room = fits and height * width <= max_batch_tokens
            if room and (total + cells) * bytes_per_position <= LOGIT_BYTES:
                batches[-1].append(row)
                total += cells
                continue
        batches.append([row])
        total = cells
    return [_batch(members, positions, slots) for members in batches]


@dataclass(frozen=True)
class _Row:
    """A row to run, and the columns of each sequence that is read off it."""

    tree: Tree
    reads: list[tuple[int, list[int]]]


def _hosts(sequences: set[Ids]) -> dict[Ids, Ids]:
    """For each sequence the longest that begins with it; in sorted order, the next one tells."""
    host: dict[Ids, Ids] = {}
    following: Ids = ()
    for sequence in sorted(sequences, reverse=True):
        extended = following[: len(sequence)] == sequence
        host[sequence] = host[following] if extended else sequence
        following = sequence
    return host


def _batch(
    rows: list[_Row],
    positions: Sequence[Sequence[int]],
    slots: Int[np.ndarray, " sequence_plus_one"],
) -> Batch:
    width = len(rows[0].tree.ids)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    reads = []
    for number, row in enumerate(rows):
        length = len(row.tree.ids)
        ids[number, :length] = torch.tensor(row.tree.ids)
        mask[number, :length] = 1
        for i, columns in row.reads:
            own = enumerate(positions[i])
            reads += [(number, columns[p], int(slots[i]) + k) for k, p in own]
    if any(row.tree.branches for row in rows):
        mask = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1)
        for number, row in enumerate(rows):
            length = len(row.tree.ids)
            mask[number, :length, :length] = row.tree.sees
    row_, column, slot = np.array(reads, dtype=np.int64).T
    return Batch(ids, mask, torch.from_numpy(row_), torch.from_numpy(column), slot)
