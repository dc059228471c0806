"""Means over the people that each prompt is asked of, in every draw of the people.

Comes in: who every prompt is asked of, and a value for each. Goes out: how often each person is
drawn, and the mean of each prompt in every draw. Prompts may be asked of different people. Who has
no name is part of the prompt and is not drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from countergen_edit.metrics.statistics import Weights, resample


def by_prompt(
    asked: Sequence[Sequence[str | None]],
    values: Float64[np.ndarray, "prompt variation"],
    seed: int,
    *unit: object,
) -> tuple[Weights, Float64[np.ndarray, "#resample prompt"]]:
    """How often each person is drawn, and the mean of each prompt in every draw.

    Args:
        asked: the names of each prompt's people, at least one a prompt.
        values: of each prompt and person; what is beyond a prompt's people does not count.
        seed: the run's seed.
        unit: what the draw is of.
    """
    place = {name: i for i, name in enumerate(dict.fromkeys(n for own in asked for n in own if n))}
    total, count = np.zeros((2, len(asked), len(place) + 1))  # the last one is nobody
    for i, own in enumerate(asked):
        for j, name in enumerate(own):
            person = place[name] if name else -1
            total[i, person] += values[i, j]
            count[i, person] += 1
    weights = resample(max(len(place), 1), seed, *unit)
    people = np.ones((len(weights), len(place) + 1))
    people[:, : len(place)] = weights[:, : len(place)]
    drawn = people @ count.T
    # A resample may hold none of the few people of a prompt, which then stands as it is.
    own_mean = total.sum(axis=1) / count.sum(axis=1)
    means = np.divide(people @ total.T, drawn, out=own_mean[None] + 0 * drawn, where=drawn > 0)
    return weights, means
