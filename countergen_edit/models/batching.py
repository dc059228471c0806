"""Which rows to run, and where in them to read.

In: token sequences, each with the positions wanted of it. Out: right-padded `Batch`es of few rows.
In a causal model a position depends on what precedes it only. So a sequence that is a prefix of
another is read off the longer one, and equal sequences are run once: sixty one-token outputs after
one prompt are one row. (A hook must be causal too, as any that treats positions alike is.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

Ids = tuple[int, ...]
LOGIT_BYTES = 512 * 2**20  # most memory the logits of one batch may take
BUSY = 512
"""Tokens that keep a processor busy: from here on a batch takes no row that is mostly padding."""
FULL = 0.75
"""What a row must fill of a busy batch's width."""


@dataclass(frozen=True)
class Batch:
    """Rows to run together, and the values to read off them.

    Attributes:
        ids: Token ids, padded on the right.
        mask: 1 where a token is real.
        row: Row of each value.
        position: Position of each value in its row.
        slot: Place of each value in the result, counted over all sequences in their order.
    """

    ids: Int[Tensor, "row time"]
    mask: Int[Tensor, "row time"]
    row: Int[Tensor, " read"]
    position: Int[Tensor, " read"]
    slot: Int[np.ndarray, " read"]


def plan(
    sequences: Sequence[Ids],
    positions: Sequence[Sequence[int]],
    *,
    max_batch_tokens: int,
    bytes_per_position: int = 0,
    share: bool = True,
) -> list[Batch]:
    """Batch the sequences, longest first, so that padding is small and memory runs out early.

    Args:
        sequences: Token ids; one without positions is not run.
        positions: For each sequence, the positions to read.
        max_batch_tokens: Most tokens in one batch, padding included. A longer row runs alone.
        bytes_per_position: Memory of one position's result (its logits), limiting a batch to
            `LOGIT_BYTES`; 0 where none is kept.
        share: Run a sequence that equals or begins another only once.
    """
    slots = np.cumsum([0, *map(len, positions)])
    active = [i for i, reads in enumerate(positions) if len(reads)]
    host = _hosts({sequences[i] for i in active})
    guests: dict[tuple[Ids, int], list[int]] = {}
    for i in active:
        key = (host[sequences[i]], 0) if share else (sequences[i], i)
        guests.setdefault(key, []).append(i)

    batches: list[list[tuple[Ids, int]]] = []
    total = 0
    for key in sorted(guests, key=lambda key: (-len(key[0]), key)):
        reads = len({p for i in guests[key] for p in positions[i]})
        if batches:
            rows, width = len(batches[-1]) + 1, len(batches[-1][0][0])
            fits = len(key[0]) >= FULL * width or rows * width <= BUSY
            room = fits and rows * width <= max_batch_tokens
            if room and (total + reads) * bytes_per_position <= LOGIT_BYTES:
                batches[-1].append(key)
                total += reads
                continue
        batches.append([key])
        total = reads
    return [_batch(keys, guests, positions, slots) for keys in batches]


def _hosts(sequences: set[Ids]) -> dict[Ids, Ids]:
    """For each sequence the longest one that begins with it.

    In sorted order everything that begins with a sequence follows it directly, so that looking at
    the next one is enough.
    """
    host: dict[Ids, Ids] = {}
    following: Ids = ()
    for sequence in sorted(sequences, reverse=True):
        extended = following[: len(sequence)] == sequence
        host[sequence] = host[following] if extended else sequence
        following = sequence
    return host


def _batch(
    keys: list[tuple[Ids, int]],
    guests: dict[tuple[Ids, int], list[int]],
    positions: Sequence[Sequence[int]],
    slots: Int[np.ndarray, " sequence_plus_one"],
) -> Batch:
    ids = torch.zeros(len(keys), len(keys[0][0]), dtype=torch.long)
    mask = torch.zeros_like(ids)
    reads = []
    for row, key in enumerate(keys):
        ids[row, : len(key[0])] = torch.tensor(key[0])
        mask[row, : len(key[0])] = 1
        for i in guests[key]:
            reads += [(row, p, int(slots[i]) + k) for k, p in enumerate(positions[i])]
    row_, position, slot = np.array(reads, dtype=np.int64).T
    return Batch(ids, mask, torch.from_numpy(row_), torch.from_numpy(position), slot)
