"""A small FairPair about the shipped gender axis, for tests of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from countergen_edit.data.task import Task
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.metrics.rows import Row
from tests.gender import GENDER, SWAP

TASK = Task(GENDER, ("female", "male"), substitution=SWAP)
SMALL: dict[str, Any] = {"n": 4, "max_new_tokens": 6, "occupations": 3}
SMALL |= {"permutations": 20, "ngrams": 2}


def fairpair(task: Task = TASK, **settings: Any) -> FairPair:
    """A small one about a task, made as a run makes it."""
    return METRICS.make("fairpair", SMALL | settings).bound(task)


def row_of(rows: Sequence[Row], metric: str, phi: str | None = None) -> Row:
    """The one row of a metric, of a Φ where it has one."""
    facets = {} if phi is None else {"phi": phi}
    [row] = [r for r in rows if r.metric == metric and r.facets == facets]
    return row
