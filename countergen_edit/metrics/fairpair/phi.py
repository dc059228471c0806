"""Φ: how far two texts differ, and the registry in which such measures are found by name.

Comes in: texts. Goes out: the matrix of Φ over all pairs of them, for single texts or for folds.
The paper's two are here, sentiment (VADER) and Jaccard on words, and the difference in the score of
any sequence classifier (regard, toxicity, politeness). Refused: a Φ or a setting that is unknown.

One of your own is a `Phi`, or a `ScoreDifference` with its `scores`, in a file of your own:

    metric.fairpair.phi={mine:{kind:mine.py:Mine}}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from countergen_edit.core.registry import Registry
from countergen_edit.data.fairpair import words_of
from countergen_edit.models.classifiers import analyzer

Distances = Float64[np.ndarray, "text text"]


class Phi(ABC):
    """A dissimilarity of texts, symmetric and 0 between equal texts."""

    @property
    def name(self) -> str:
        """What the kind of Φ is called, whatever a run calls this one; it seeds permutations.

        >>> Jaccard().name
        'jaccard'
        """
        return PHIS.name_of(self).rpartition(":")[2]

    def prepare(self, texts: Sequence[str]) -> None:  # noqa: B027 (nothing by default)
        """Do at once for many texts what is dear for few; `represent` is then quick."""

    @abstractmethod
    def represent(self, texts: Sequence[str]) -> Any:
        """What is compared instead of the texts: scores, or sets of words."""

    @abstractmethod
    def pool(self, represented: Any, fold: Int[np.ndarray, " text"]) -> Any:
        """One representation a fold, of the texts whose `fold` it is (FairPair, section 2)."""

    @abstractmethod
    def distances(self, represented: Any) -> Distances:
        """Φ of every pair."""


PHIS: Registry[type[Phi]] = Registry(
    "phi",
    "countergen_edit.phis",
    {
        "sentiment": "countergen_edit.metrics.fairpair.phi:Sentiment",
        "jaccard": "countergen_edit.metrics.fairpair.phi:Jaccard",
        "classifier": "countergen_edit.metrics.fairpair.phi:ClassifierScore",
    },
    Phi,
)
"""Every Φ by its name in config; a user's own enters with `@PHIS.register("mine")`."""


class ScoreDifference(Phi):
    """Φ(u, v) = |S(u) - S(v)| for a scorer S; a fold's value is the mean of its scores."""

    @abstractmethod
    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        """S of each text."""

    def prepare(self, texts: Sequence[str]) -> None:
        self.scores(texts)

    def represent(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        return self.scores(texts)

    def pool(
        self, represented: Float64[np.ndarray, " text"], fold: Int[np.ndarray, " text"]
    ) -> Float64[np.ndarray, " fold"]:
        means: Float64[np.ndarray, " fold"] = np.bincount(fold, represented) / np.bincount(fold)
        return means

    def distances(self, represented: Float64[np.ndarray, " text"]) -> Distances:
        apart: Distances = np.abs(represented[:, None] - represented[None, :])
        return apart


class Sentiment(ScoreDifference):
    """VADER's compound sentiment (Hutto and Gilbert 2014), in [-1, 1].

    About a millisecond a text: each text is scored once, and many at a time on all cores.

    Args:
        processes: At most so many; None takes the cores there are.
    """

    _POOL_FROM = 2000  # texts below this are scored sooner than processes start

    def __init__(self, processes: int | None = None) -> None:
        self.processes = processes
        self._known: dict[str, float] = {}

    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= zip(new, self._compounds(new), strict=True)
        return np.array([self._known[text] for text in texts], dtype=np.float64)

    def _compounds(self, texts: list[str]) -> list[float]:
        from joblib import Parallel, cpu_count, delayed  # late: slow to import

        analyser = analyzer()
        processes = self.processes or cpu_count()
        scored = None
        if len(texts) >= self._POOL_FROM and processes > 1:
            # VADER's own method is what the workers get: they need nothing of this package.
            share = 1 + len(texts) // (4 * processes)
            run = Parallel(n_jobs=processes, batch_size=share)
            with suppress(BrokenExecutor):  # the system killed a worker, for want of memory say
                scored = run(delayed(analyser.polarity_scores)(text) for text in texts)
        if scored is None:
            scored = [analyser.polarity_scores(text) for text in texts]
        return [float(score["compound"]) for score in scored]


class Jaccard(Phi):
    """Φ(u, v) = 1 - |u ∩ v| / |u ∪ v| on sets of words; a fold's set is the union of its texts'.

    Two texts without words are alike: Φ is 0.
    """

    def represent(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """A row a text, a column a word; ones where the text has the word."""
        vocabulary: dict[str, int] = {}
        sets = [words_of(text) for text in texts]
        columns = [
            vocabulary.setdefault(word, len(vocabulary)) for words in sets for word in sorted(words)
        ]
        ends = np.cumsum([0, *map(len, sets)])
        shape = (len(texts), max(1, len(vocabulary)))
        return sparse.csr_matrix((np.ones(len(columns)), columns, ends), shape=shape)

    def pool(
        self, represented: sparse.csr_matrix, fold: Int[np.ndarray, " text"]
    ) -> sparse.csr_matrix:
        ones = np.ones(len(fold))
        member = sparse.csr_matrix((ones, (fold, np.arange(len(fold)))))
        union: sparse.csr_matrix = member @ represented
        union.data[:] = 1.0
        return union

    def distances(self, represented: sparse.csr_matrix) -> Distances:
        both = (represented @ represented.T).toarray()
        size = both.diagonal()
        either = size[:, None] + size[None, :] - both
        return np.where(either > 0, 1 - both / np.maximum(either, 1), 0.0)


class ClassifierScore(ScoreDifference):
    """S(u) = P(label | u) of any sequence classifier, such as one of regard or toxicity.

        metric.fairpair.phi={toxicity:{kind:classifier,model:unitary/toxic-bert,label:toxic}}

    A text longer than the classifier's context is scored by its beginning.

    Args:
        model: Hub id or directory of a sequence classifier with its tokenizer.
        label: The class whose probability is the score, by its name in the model's config.
        multi_label: Classes are independent (a sigmoid each); None asks the model's config.
        device: As for the model under audit.

    Raises:
        UserError: the model cannot be loaded, is no classifier or has no such label.
    """

    def __init__(
        self, model: str, label: str, multi_label: bool | None = None, device: str = "auto"
    ) -> None:
        from countergen_edit.models.classifiers import load_classifier_of_label

        self._label = label
        self._classifier = load_classifier_of_label(
            model, label, multi_label=multi_label, device=device
        )
        self._known: dict[str, float] = {}

    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        p = self._classifier.probabilities(new, cut=True)[self._label]
        self._known |= zip(new, p.tolist(), strict=True)
        return np.array([self._known[text] for text in texts], dtype=np.float64)
