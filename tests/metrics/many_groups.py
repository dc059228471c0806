"""Scores of several groups whose true means are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from countergen_edit.data.axis import Axis, Group
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.metrics.scores import SetScores

Array = np.ndarray


def scores_of(
    groups: Mapping[str, Array],
    paraphrases: int = 1,
    names: Mapping[str, Sequence[str]] | None = None,
) -> SetScores:
    """Scores of `[person, item]` log-probabilities of each group, template after template."""
    every = [*groups.values()]
    per = every[0].shape[1] // paraphrases
    outputs = tuple(f" {i}" for i in range(per))
    samples = tuple(
        Sample(
            f"w{w}",
            outputs,
            tuple(
                Variation(group, f"{group} {i} w{w}", names[group][i] if names else f"{group}{i}")
                for group, side in groups.items()
                for i in range(len(side))
            ),
        )
        for w in range(paraphrases)
    )
    data = CounterfactualSet("set_test", "axis", tuple(groups), samples)
    log_p = np.stack([side.T for side in every], axis=1)
    template = np.repeat(np.arange(paraphrases), per)
    return SetScores(data, log_p, np.ones(log_p.shape, bool), template, outputs * paraphrases)


def planted(
    rng: np.random.Generator, means: Mapping[str, Array], people: int, spread: float
) -> dict[str, Array]:
    """People of each group about its true means."""
    return {
        group: mean + spread * rng.standard_normal((people, len(mean)))
        for group, mean in means.items()
    }


def table(first: Sequence[str], second: Sequence[str]) -> Axis:
    """An axis that crosses two, whose cells are all of their groups."""
    cells = {f"{a}_{b}": Group(f"{a}_{b}", {}, {}, {"x": a, "y": b}) for a in first for b in second}
    return Axis("x_y", cells, ("x", "y"))
