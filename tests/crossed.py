"""A set made by hand: every template of every person of two groups."""

from __future__ import annotations

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation


def crossed(paraphrases: int, people: int) -> CounterfactualSet:
    """Groups a and b, whose people are a0, a1, … and b0, b1, …; two forms as outputs."""
    samples = tuple(
        Sample(
            f"w{w}",
            (" her", " his"),
            tuple(Variation(g, f"{g}{i} w{w}", f"{g}{i}") for g in "ab" for i in range(people)),
        )
        for w in range(paraphrases)
    )
    return CounterfactualSet("set", "axis", ("a", "b"), samples)
