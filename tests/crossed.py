"""A set made by hand: every template of every person of two groups."""

from __future__ import annotations

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation


def crossed(paraphrases: int, people: int) -> CounterfactualSet:
    """Groups a and b, whose people are a0, a1, … and b0, b1, …; two forms as outputs."""
    names = [(group, f"{group}{i}") for group in "ab" for i in range(people)]
    samples = tuple(
        Sample(f"w{w}", (" her", " his"), tuple(Variation(g, f"{n} w{w}", n) for g, n in names))
        for w in range(paraphrases)
    )
    return CounterfactualSet("set", "axis", ("a", "b"), samples)
