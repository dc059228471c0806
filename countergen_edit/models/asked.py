"""What is going to be asked of a model, told before it is asked.

In: prompts with their continuations, and prompts to be continued. Out: a value from which a model
that costs money tells its price (`LanguageModel.estimate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from countergen_edit.data.counterfactual import CounterfactualSet


@dataclass(frozen=True)
class Asked:
    """Texts that are going to be scored, and prompts that are going to be continued."""

    scored: tuple[tuple[str, str], ...] = ()
    """A prompt and its continuation each; in any number, and as often as they occur."""
    continued: tuple[str, ...] = ()
    """Prompts, each as often as it is continued."""
    max_new_tokens: int = 0
    """Most tokens of a continuation."""
    do_sample: bool = False
    top_p: float = 1.0
    temperature: float = 1.0
    sentence: bool = False
    """Whether a continuation ends with its sentence."""

    @classmethod
    def scoring(cls, sets: Sequence[CounterfactualSet]) -> Asked:
        """Every output after every prompt of some sets."""
        samples = [sample for data in sets for sample in data.samples]
        return cls(tuple((v.text, o) for s in samples for v in s.variations for o in s.outputs))
