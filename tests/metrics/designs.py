"""Simulated sets of natural prompts, with variance components as SmolLM2-135M shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.metrics.scores import SetScores

NAMES = 60
"""Names on record for each group."""
GROUPS = ("female", "male")


@dataclass(frozen=True)
class World:
    """Differences d of contents c and outputs o, and the noise of names.

    d = effect · s · (√along · α_o + √(1 - along) · γ_co), with log-normal s of mean square 1,
    so that the true group effect is `effect`. Names have noise of variance `noise`, of which the
    part `shared` is the same after every content; it lies in few dimensions.
    """

    effect: float
    scale: float
    along: float
    noise: float
    shared: float
    outputs: int = 14


WORLDS = {
    "occupations": World(0.91, 0.36, 0.75, 0.39, 0.38),
    "traits": World(0.36, 0.50, 0.40, 0.23, 0.20),
    "sentiment": World(0.16, 0.45, 0.45, 0.046, 0.17, 12),
    "equal": World(0.0, 0.0, 0.5, 0.39, 0.38),
}
DIMENSIONS = 5


def simulated(
    world: World,
    contents: int,
    people: int,
    rng: np.random.Generator,
    crossed: bool = False,
    frames: bool = True,
) -> SetScores:
    """Scores of one cell for each content, each with people of its own, or all with the same.

    Without `frames`, cells are templates without contents.
    """
    outputs = world.outputs
    alpha = np.linspace(-1, 1, outputs)
    alpha /= np.sqrt((alpha**2).mean())
    s = np.exp(rng.normal(-(world.scale**2), world.scale, contents))
    free = rng.standard_normal((contents, outputs))
    delta = np.sqrt(world.along) * alpha + np.sqrt(1 - world.along) * free
    delta *= world.effect * s[:, None]
    loadings = rng.standard_normal((DIMENSIONS, outputs)) / np.sqrt(DIMENSIONS)
    places = np.array([(7 * c + 11 * np.arange(people)) % NAMES for c in range(contents)])
    if crossed:
        places[:] = np.arange(people)
    log_p = np.empty((contents, outputs, 2, people))
    for side in (0, 1):
        of_names = rng.standard_normal((NAMES, DIMENSIONS))
        anew = rng.standard_normal((contents, people, DIMENSIONS))
        mixed = np.sqrt(world.shared) * of_names[places] + np.sqrt(1 - world.shared) * anew
        noise = np.sqrt(world.noise) * mixed @ loadings
        log_p[:, :, side] = (noise + (0.5 - side) * delta[:, None]).transpose(0, 2, 1)
    names = tuple(f" {o}" for o in range(outputs))
    samples = tuple(
        Sample(
            f"template {c}",
            names,
            tuple(Variation(g, f"{g} {i} {c}", f"{g}{i}") for g in GROUPS for i in places[c]),
            f"content {c}",
            f"frame {c}" if frames else None,
        )
        for c in range(contents)
    )
    data = CounterfactualSet("drawn_test", "gender", GROUPS, samples)
    return SetScores.of(data, log_p.ravel())
