"""A language model as a judge of texts, and the agreement of judges.

A judge is a `ScoreDifference`: it scores a text. Several judges of the same texts agree as far as
Krippendorff's α of their scores says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int
from scipy.special import expit
from scipy.stats import rankdata

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.fairpair.phi import ScoreDifference
from countergen_edit.metrics.statistics import Estimate, estimate, resample
from countergen_edit.models import load, text_log_probs

Scores = Mapping[str, Sequence[Float64[np.ndarray, " _"]]]
"""Judge or rater → scores of the texts of each prompt."""
PARTS = 10
"""Equal parts of a judge's order in which its scores are compared with another's."""
ANSWERS = "Yes", "No"


class Rubric(ScoreDifference):
    """S(u) = P(Yes) / (P(Yes) + P(No)) after a question about a text, by a language model.

        metric.fairpair.phi={praise:{kind:rubric,model:DIR,question:"Is this praise?"}}

    A model with a chat template is asked in it.

    Args:
        model: Hub id, directory or GGUF file of a language model.
        question: A yes-or-no question about the text, which follows it.
        device: As for the model under audit.

    Raises:
        UserError: the model cannot be loaded, the question is empty, or a text is too long.
    """

    def __init__(self, model: str, question: str, device: str = "auto") -> None:
        if not question.strip():
            raise UserError("a rubric needs a question, such as 'Does this praise the person?'")
        self.model, self.question = str(model), question
        self._judge = load(model, device=device, template="auto")
        self._known: dict[str, float] = {}

    def get_params(self, deep: bool = False) -> dict[str, str]:
        """The settings that a score depends on, by which a run knows its judge."""
        return {"model": self.model, "question": self.question}

    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            yes, no = self._log_p(new).T
            self._known |= zip(new, expit(yes - no).tolist(), strict=True)
        return np.array([self._known[text] for text in texts], dtype=np.float64)

    def _log_p(self, texts: Sequence[str]) -> Float64[np.ndarray, "text answer"]:
        judge = self._judge
        asked = judge.chat.is_on
        cue, space = ("", "") if asked else ("\nAnswer:", " ")
        prompts = [f"{self.question} Answer Yes or No.\n\n{text}{cue}" for text in texts]
        pairs = [(prompt, f"{space}{answer}") for prompt in prompts for answer in ANSWERS]
        scored = text_log_probs(judge, *zip(*pairs, strict=True), chat=asked, progress="Judging")
        return scored.log_p.reshape(-1, len(ANSWERS))


def judge_agreement(scores: Scores, seed: int) -> Estimate:
    """The agreement of judges: Krippendorff's ordinal α, with an interval over prompts.

    Scores of different judges have different scales. Each judge's are ranked and cut into tenths,
    whose order is compared. `seed` is of the interval. NaN where all texts have one score.
    """
    tenths = {name: _parts(np.concatenate(own)) for name, own in scores.items()}
    return ordinal_alpha(
        [*tenths.values()], [len(own) for own in next(iter(scores.values()))], seed
    )


def ordinal_alpha(
    ranks: Sequence[Int[np.ndarray, " text"]], sizes: Sequence[int], seed: int
) -> Estimate:
    """Krippendorff's ordinal α (Krippendorff 2004, chapter 11), with an interval over prompts.

    Args:
        ranks: of each judge, the texts of all prompts on a scale from 0.
        sizes: the number of texts of each prompt.
        seed: of the interval.

    Returns:
        NaN where all texts have one rank.
    """
    from krippendorff import alpha

    scale = int(np.max(ranks)) + 1
    # Of each text, how many judges put it at each rank.
    counts = sum(np.eye(scale, dtype=int)[own] for own in ranks)
    prompt = np.repeat(np.arange(len(sizes)), sizes)
    draws = resample(len(sizes), seed, "fairpair", "judges")
    values = np.full(len(draws), math.nan)
    for i, weights in enumerate(draws):
        own = np.repeat(counts, weights[prompt].astype(int), axis=0)
        if np.count_nonzero(own.sum(axis=0)) > 1:
            values[i] = alpha(
                value_counts=own, value_domain=range(scale), level_of_measurement="ordinal"
            )
    return estimate(values, draws, within=(-1, 1))


def _parts(scores: Float64[np.ndarray, " text"]) -> Int[np.ndarray, " text"]:
    """The tenth of each score, equal scores in the same."""
    return np.asarray(np.ceil(PARTS * rankdata(scores) / len(scores)).astype(int) - 1)
