"""The omnibus test: whether any of several groups differs from the others.

The statistic is the mean squared distance of the groups' mean log-probabilities from each other,
over items (one output after one template). Under the hypothesis of no difference people who stand
at the same place of the groups' lists could as well be of each other's group: their groups are
permuted, in all of their prompts alike.
"""

from __future__ import annotations

import numpy as np

from countergen_edit.core.seeds import generator
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.scores import SetScores


def omnibus_p(scores: SetScores, seed: int, permutations: int) -> float | None:
    """P of so large a difference between any groups; None with one person of a group in a prompt.

    `permutations` are drawn at random. P is at least 1 in one more than these.
    """
    counts = scores.present.sum(axis=2, keepdims=True)
    if counts.min() < 2:
        return None
    shares = np.where(scores.present, scores.log_p, 0.0) / counts
    shares -= shares.mean(axis=1, keepdims=True)  # the mean of all groups is always the same
    people = [
        tuple(v.person for v in at) if all(v.person for v in at) else (sample, place)
        for sample, own in enumerate(scores.data.samples)
        for place, at in enumerate(zip(*map(own.of, scores.data.groups), strict=True))
    ]
    places = np.zeros((len(scores.data.samples), shares.shape[2]), dtype=int)
    places[scores.present[scores.first, 0]] = numbered(people)
    owner = places[scores.sample]
    rng = generator(seed, scores.data.name, "permutations", "omnibus")
    groups = np.tile(np.arange(shares.shape[1]), (int(owner.max()) + 1, 1))
    totals = [(shares.sum(axis=2) ** 2).sum()]
    for _ in range(permutations):
        taken = rng.permuted(groups, axis=1)[owner].swapaxes(1, 2)
        totals.append((np.take_along_axis(shares, taken, axis=1).sum(axis=2) ** 2).sum())
    # Equal permutations may differ in their last digits.
    return float((np.array(totals) >= totals[0] * (1 - 1e-12)).mean())
