"""Scores whose true means are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from countergen_edit.data.axis import Axis, Group
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.metrics.scores import SetScores

Array = np.ndarray


def scores_of(
    groups: Mapping[str, Array],
    paraphrases: int = 1,
    names: Mapping[str, Sequence[str]] | None = None,
    *,
    named: bool = True,
    axis: str = "axis",
    content: str | None = None,
) -> SetScores:
    """Scores of `[person, item]` log-probabilities of each group, template after template."""
    table = np.stack([*groups.values()])
    per = table.shape[2] // paraphrases
    called = names or {g: [f"{g}{i}" for i in range(table.shape[1])] for g in groups}
    samples = tuple(
        Sample(
            f"w{w}",
            tuple(f" {i}" for i in range(per)),
            tuple(
                Variation(group, f"{group} {i} w{w}", name if named else None)
                for group in groups
                for i, name in enumerate(called[group])
            ),
            content,
        )
        for w in range(paraphrases)
    )
    data = CounterfactualSet(f"{axis}_test", axis, tuple(groups), samples)
    return SetScores.of(data, table.transpose(2, 0, 1).ravel())


def two_groups(a: Array, b: Array, paraphrases: int = 1, **settings: Any) -> SetScores:
    return scores_of({"a": a, "b": b}, paraphrases, **settings)


def planted(
    rng: np.random.Generator, means: Mapping[str, Array], people: int, spread: float
) -> dict[str, Array]:
    """People of each group about its true means."""
    return {
        group: mean + spread * rng.standard_normal((people, len(mean)))
        for group, mean in means.items()
    }


def crossing(first: Sequence[str], second: Sequence[str]) -> Axis:
    """An axis that crosses two, whose cells are all of their groups."""
    cells = {f"{a}_{b}": Group(f"{a}_{b}", {}, {}, {"x": a, "y": b}) for a in first for b in second}
    return Axis("x_y", cells, ("x", "y"))
