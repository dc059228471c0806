"""A task in one line: what is fitted on, kept, chosen by and tested on.

Comes in: a task. Goes out: a sentence, in which sets go by the names that tables give them.
"""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.task import Task

MOST = 3
"""Sets of a part that are named; of more it is said how many there are."""


def account(task: Task, fits: bool = True) -> str:
    """What a task is made of.

    Args:
        task: what is asked.
        fits: whether anything is fitted; the model is only measured otherwise.
    """
    tested = f"tests on {_listed(task.test)}."
    if not fits:
        return f"Nothing is fitted; {tested}"
    parts = {"fits on": task.fit, "keeps": task.keep, "chooses by": task.validation}
    does = [f"{verb} {_listed(sets)}" for verb, sets in parts.items()]
    return f"The run {'; '.join([*does, tested])}"


def _listed(sets: Sequence[CounterfactualSet]) -> str:
    if not sets:
        return "nothing"
    names = [data.name for data in sets[:MOST]]
    if more := len(sets) - len(names):
        names.append(f"{more} more")
    count = sum(len(data.samples) for data in sets)
    return f"{', '.join(names)} ({count} prompt{'' if count == 1 else 's'})"
