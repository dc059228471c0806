"""Judges of FairPair's texts, and their agreement.

A judge is a `ScoreDifference`: it scores a text. Several judges of the same texts agree as far as
Krippendorff's α of their scores says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int
from scipy.special import expit
from scipy.stats import rankdata

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.fairpair.phi import JudgeScores, KnownScores
from countergen_edit.metrics.statistics import Estimate, estimate, resample
from countergen_edit.models import load_model, text_log_probs

PARTS = 10
"""Equal parts of a judge's order in which its scores are compared with another's."""
ANSWERS = "Yes", "No"


class Rubric(KnownScores):
    """S(u) = P(Yes) / (P(Yes) + P(No)) after a question about a text, by a language model.

        metric.fairpair.phi={praise:{kind:rubric,model:DIR,question:"Is this praise?"}}

    A model with a chat template is asked in it.

    Args:
        model: Hub id, directory or GGUF file of a language model.
        question: A yes-or-no question about the text, which follows it.
        device: As for the model under audit.
    """

    def __init__(self, model: str, question: str, device: str = "auto") -> None:
        if not question.strip():
            raise UserError("a rubric needs a question, such as 'Does this praise the person?'")
        self.model, self.question = str(model), question
        self._judge = load_model(model, device=device, template="auto")
        super().__init__()

    def get_params(self, deep: bool = False) -> dict[str, str]:
        """The settings that a score depends on, by which a run knows its judge."""
        return {"model": self.model, "question": self.question}

    def new_scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        judge = self._judge
        asked = judge.chat.is_on
        cue, space = ("", "") if asked else ("\nAnswer:", " ")
        prompts = [f"{self.question} Answer Yes or No.\n\n{text}{cue}" for text in texts]
        pairs = [(prompt, f"{space}{answer}") for prompt in prompts for answer in ANSWERS]
        scored = text_log_probs(judge, *zip(*pairs, strict=True), chat=asked, progress="Judging")
        yes, no = scored.log_p.reshape(-1, len(ANSWERS)).T
        return np.asarray(expit(yes - no))


def judge_agreement(scores: JudgeScores, seed: int) -> Estimate:
    """The agreement of judges: Krippendorff's ordinal α (2004, chapter 11), resampled over prompts.

    Scores of different judges have different scales. Each judge's are ranked and cut into tenths,
    whose order is compared. `seed` is of the interval. NaN where all texts have one score.
    """
    from krippendorff import alpha

    tenths = [_tenths(np.concatenate(own)) for own in scores.values()]
    # Of each text, how many judges put it in each tenth.
    counts = sum(np.eye(PARTS, dtype=int)[own] for own in tenths)
    sizes = [len(own) for own in next(iter(scores.values()))]
    prompt = np.repeat(np.arange(len(sizes)), sizes)
    draws = resample(len(sizes), seed, "fairpair", "judges")
    values = np.full(len(draws), math.nan)
    for i, weights in enumerate(draws):
        own = np.repeat(counts, weights[prompt].astype(int), axis=0)
        if np.count_nonzero(own.sum(axis=0)) > 1:
            values[i] = alpha(
                value_counts=own, value_domain=range(PARTS), level_of_measurement="ordinal"
            )
    return estimate(values, draws, within=(-1, 1))


def _tenths(scores: Float64[np.ndarray, " text"]) -> Int[np.ndarray, " text"]:
    """The tenth of each score, equal scores in the same."""
    return np.asarray(np.ceil(PARTS * rankdata(scores) / len(scores)).astype(int) - 1)
