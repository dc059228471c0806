"""The context of an evaluation: a model under edits, each text scored once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import NamedEdit, applied
from countergen_edit.metrics.costs.neutral import NeutralCost, neutral_cost
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.metrics.scores import SetScores, StoredScores, score
from countergen_edit.metrics.statistics import RESAMPLES
from countergen_edit.models import LanguageModel, TextScores, announce_memory, text_log_probs
from countergen_edit.models.language_model import OverflowedError


class EvaluationContext:
    """A model to measure on; scores are kept by the content of texts and edit.

    `store` is the folder of metrics' own files, `stored` are unedited scores on disk.
    """

    def __init__(
        self, model: LanguageModel, store: Path, seed: int = 0, stored: StoredScores | None = None
    ) -> None:
        self.model = model
        self.seed = seed
        self._store = store
        self._stored = stored
        self._scores: dict[tuple[CounterfactualSet, str], SetScores] = {}
        self._texts: dict[tuple[tuple[tuple[str, str], ...], str, bool], TextScores] = {}
        self._neutral: dict[tuple[tuple[str, ...], str], NeutralCost] = {}

    def place(self, metric: str, edit: NamedEdit | None) -> Path:
        """The file of a metric and an edit; `with_suffix("")` where it keeps several."""
        return self._store / metric / f"{id_of(edit)}.jsonl"

    @contextmanager
    def under(self, edit: NamedEdit | None) -> Iterator[LanguageModel]:
        """The model under the edit; None is the unedited model."""
        if edit is None:
            yield self.model
            return
        try:
            with applied(self.model, edit.edit) as model:
                yield model
        except OverflowedError as error:
            raise OverflowedError(f"under {edit.label}, {error}") from error

    def scores(self, data: CounterfactualSet, edit: NamedEdit | None) -> SetScores:
        """Likelihoods of a set's outputs under an edit, summed by prompt if the set says so."""
        key = data, _content(edit)
        if key not in self._scores:
            texts = sum(len(sample.variations) * len(sample.outputs) for sample in data.samples)
            numbers = 2 * RESAMPLES * len(data.templates) + 12 * texts  # in tables of both
            progress = f"Scoring {data.name}"
            announce_memory(progress, 8 * numbers / 2**30)
            score_set = self._stored.score if self._stored and edit is None else score
            with self.under(edit) as model:
                scores = score_set(model, data, progress)
            self._scores[key] = scores.summed if data.sum_outputs else scores
        return self._scores[key]

    def texts(
        self,
        pairs: Sequence[tuple[str, str]],
        edit: NamedEdit | None,
        progress: str | None = None,
        asked: bool = False,
    ) -> TextScores:
        """Likelihoods of texts after prompts; `asked`, a prompt is a user's message."""
        key = tuple(pairs), _content(edit), asked
        if key not in self._texts:
            prompts, texts = ([pair[side] for pair in pairs] for side in (0, 1))
            with self.under(edit) as model:
                scores = text_log_probs(model, prompts, texts, chat=asked, progress=progress)
            self._texts[key] = scores
        return self._texts[key]

    def neutral(self, texts: Sequence[str], edit: NamedEdit | None) -> NeutralCost:
        """Likelihoods and KL divergence of running text under an edit."""
        key = tuple(texts), _content(edit)
        if key not in self._neutral:
            self._neutral[key] = neutral_cost(self.model, edit.edit if edit else None, texts)
        return self._neutral[key]


def id_of(edit: NamedEdit | None) -> str:
    """An edit's id in rows and stores."""
    return UNEDITED if edit is None else edit.id


def _content(edit: NamedEdit | None) -> str:
    return UNEDITED if edit is None else edit.edit.digest
