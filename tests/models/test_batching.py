from __future__ import annotations

import io
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.models import progress
from countergen_edit.models.batching import LOGIT_BYTES, Batch, plan, within_memory

ROWS = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5).map(tuple), max_size=12)


@given(ROWS, st.integers(1, 40), st.booleans())
def test_every_wanted_token_is_read_once_with_its_own_past(rows, max_batch_tokens, share):
    positions = [list(range(len(row))) for row in rows]
    reads_of_all = [(row, p) for row, reads in zip(rows, positions, strict=True) for p in reads]
    slots = []
    for batch in plan(rows, positions, max_batch_tokens=max_batch_tokens, share=share):
        assert len(batch.ids) == 1 or batch.ids.numel() <= max_batch_tokens
        for row, position, slot in zip(batch.row, batch.position, batch.slot, strict=True):
            text, p = reads_of_all[slot]
            assert position == p
            assert batch.ids[row, : p + 1].tolist() == list(text[: p + 1])
            assert batch.mask[row, : p + 1].all()
            slots.append(slot)
    assert sorted(slots) == list(range(len(reads_of_all)))


@given(ROWS)
def test_only_rows_that_begin_no_other_are_run(rows):
    batches = plan(rows, [[0]] * len(rows), max_batch_tokens=1000)
    run = sum(len(batch.ids) for batch in batches)
    distinct = set(rows)
    maximal = [a for a in distinct if not any(a != b and b[: len(a)] == a for b in distinct)]
    assert run == len(maximal)


def test_the_memory_of_logits_limits_a_batch():
    rows = [(i, 5, 5) for i in range(10)]
    half = LOGIT_BYTES // 2  # two positions fill the budget
    batches = plan(rows, [[2]] * 10, max_batch_tokens=1000, bytes_per_position=half)
    assert [len(batch.ids) for batch in batches] == [2] * 5
    assert np.concatenate([batch.slot for batch in batches]).tolist() == list(range(10))


@given(ROWS, st.integers(1, 40))
def test_branches_read_the_tokens_of_their_own_text(rows, max_batch_tokens):
    positions = [list(range(len(row))) for row in rows]
    past = [row[: p + 1] for row in rows for p in range(len(row))]
    slots = []
    for batch in plan(rows, positions, max_batch_tokens=max_batch_tokens, branch=True):
        assert len(batch.ids) == 1 or batch.ids.numel() <= max_batch_tokens
        for row, position, slot in zip(batch.row, batch.position, batch.slot, strict=True):
            sees = (
                batch.mask[row, position].nonzero()[:, 0]
                if batch.mask.ndim == 3
                else torch.arange(position + 1)
            )
            assert batch.ids[row, sees].tolist() == list(past[slot])
            slots.append(slot)
    assert sorted(slots) == list(range(len(past)))


@given(ROWS, st.integers(1, 12), st.booleans())
def test_a_batch_too_large_for_memory_is_run_in_halves(rows, most, branch):
    def run(part: Batch) -> int:
        if len(part.ids) > most:
            raise torch.OutOfMemoryError
        return len(part.ids)

    slots = []
    for batch in plan(rows, [[0]] * len(rows), max_batch_tokens=1000, branch=branch):
        for part, height in within_memory(batch, run):
            assert height == len(part.ids) <= most
            tokens = part.ids[part.row, part.position].tolist()
            assert tokens == [rows[slot][0] for slot in part.slot]
            slots += part.slot.tolist()
    assert sorted(slots) == list(range(len(rows)))


def test_a_row_too_large_for_memory_is_an_error():
    def run(part: Batch) -> None:
        raise torch.OutOfMemoryError

    (batch,) = plan([(1, 2), (2, 1)], [[0], [0]], max_batch_tokens=1000)
    with pytest.raises(torch.OutOfMemoryError):
        within_memory(batch, run)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience", "shown"), [(0.0, True), (60.0, False)])
def test_a_bar_appears_only_when_the_work_is_long(monkeypatch, patience, shown):
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress.console.cache_clear()  # the console looks at its stream once, when it is made
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    assert list(progress.track([1, 2, 3], "scoring")) == [1, 2, 3]
    assert ("scoring" in sys.stderr.getvalue()) is shown
    progress.console.cache_clear()


def test_no_bar_where_nobody_watches(capsys):
    assert list(progress.track([1, 2], "scoring")) == [1, 2]
    assert capsys.readouterr().err == ""
