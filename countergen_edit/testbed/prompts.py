"""Prompts with known answers, planted or decided by grammar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import unknown
from countergen_edit.data.axis import Split


@dataclass(frozen=True)
class PlantedPrompt:
    """One prompt whose answers were planted."""

    family: str
    axis: str
    template: str
    split: Split | None
    """None for templates of later sentences, which are never prompts."""
    outputs: tuple[str, ...]
    probabilities: Mapping[str, Float64[np.ndarray, " output"]]
    """Group (gender) or country (nationality) → P(output | group) of a name that leans nowhere."""
    ending: str
    frequency: float
    content: str = ""
    """What it asks: prompts of one content are paraphrases of each other."""

    def probability(self, group: str) -> Float64[np.ndarray, " output"]:
        """P(output | group); a nationality group such as `egypt_male` is planted by its country."""
        if group in self.probabilities:
            return self.probabilities[group]
        country = group.split("_")[0]
        if country not in self.probabilities:
            raise unknown(f"planted group of {self.family!r}", group, self.probabilities)
        return self.probabilities[country]


@dataclass(frozen=True)
class AgreementPrompt:
    """One prompt after which the form that agrees with the person follows."""

    template: str
    split: Split | None
    form: str
    rest: tuple[str, ...]
    frequency: float
