"""Φ: how far two texts differ, and the shelf on which such measures are found by name.

Comes in: texts. Goes out: the matrix of Φ over all pairs of them, for single texts or for folds.
The paper's two are here, sentiment (VADER) and Jaccard on words, and, as the worked example of
another one, any `transformers` text classifier (regard, toxicity, politeness).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse

from countergen_edit.data.text.perturbation import words_of
from countergen_edit.errors import UserError, require_free, unknown
from countergen_edit.models.lexicon import analyzer

Distances = Float64[np.ndarray, "text text"]


class Phi(ABC):
    """A dissimilarity of texts, symmetric and 0 between equal texts."""

    name: ClassVar[str]

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


PHIS: dict[str, type[Phi]] = {}
"""Every registered Φ by its name in config; a user's own enters with `@register_phi("mine")`."""

Registered = TypeVar("Registered", bound=Phi)


def register_phi(name: str) -> Callable[[type[Registered]], type[Registered]]:
    """Put a Φ on the shelf under `name`.

    Raises:
        UserError: the name is taken by another class.
    """

    def enter(phi: type[Registered]) -> type[Registered]:
        require_free("phi", name, phi, PHIS)
        phi.name = name
        PHIS[name] = phi
        return phi

    return enter


def make_phi(name: str, settings: Mapping[str, Any] | None = None) -> Phi:
    """The Φ registered under `name`, or under the setting `kind` where one is used under a name.

    Raises:
        UserError: no such Φ, or no such setting.
    """
    params = dict(settings or {})
    kind = params.pop("kind", name)
    if kind not in PHIS:
        raise unknown("phi", kind, PHIS)
    valid = list(signature(PHIS[kind]).parameters)
    for setting in params:
        if setting not in valid:
            raise unknown(f"setting of phi {kind}", setting, [*valid, "kind"])
    missing = [
        p.name
        for p in signature(PHIS[kind]).parameters.values()
        if p.default is p.empty and p.name not in params
    ]
    if missing:
        raise UserError(f"phi {name} needs {', '.join(missing)}: give fairpair.phi.{name}.…")
    return PHIS[kind](**params)


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


@register_phi("sentiment")
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
        if len(texts) < self._POOL_FROM or processes < 2:
            scored = [analyser.polarity_scores(text) for text in texts]
        else:
            # VADER's own method is what the workers get: they need nothing of this package.
            share = 1 + len(texts) // (4 * processes)
            run = Parallel(n_jobs=processes, batch_size=share)
            scored = run(delayed(analyser.polarity_scores)(text) for text in texts)
        return [float(score["compound"]) for score in scored]


@register_phi("jaccard")
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


@register_phi("classifier")
class Classifier(ScoreDifference):
    """S(u) = P(label | u) of a `transformers` text classifier, such as one of regard or toxicity.

        metric.fairpair.phi.toxicity={kind:classifier,model:unitary/toxic-bert,label:toxic}

    Args:
        model: Hub id or directory of a sequence classifier with its tokenizer.
        label: The class whose probability is the score, by its name in the model's config.
        batch_size: Texts at a time.
        multi_label: Classes are independent (a sigmoid each); None asks the model's config.

    Raises:
        UserError: the classifier cannot be loaded or has no such label.
    """

    def __init__(
        self, model: str, label: str, batch_size: int = 32, multi_label: bool | None = None
    ) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from countergen_edit.models.locating import locate

        source = locate(model)
        try:
            where = {"local_files_only": source.local_files_only, "trust_remote_code": False}
            self._model: Any = AutoModelForSequenceClassification.from_pretrained(
                source.location, **where
            ).eval()
            self._tokenizer: Any = AutoTokenizer.from_pretrained(source.location, **where)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"cannot load the classifier {model}: {reason}") from error
        labels = self._model.config.label2id
        if label not in labels:
            raise unknown(f"label of {model}:", label, labels)
        self._label = int(labels[label])
        self._batch_size = batch_size
        kind = self._model.config.problem_type
        self._multi = kind == "multi_label_classification" if multi_label is None else multi_label
        self._known: dict[str, float] = {}

    def scores(self, texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
        import torch

        new = sorted({text for text in texts if text not in self._known}, key=len)
        for start in range(0, len(new), self._batch_size):
            part = new[start : start + self._batch_size]
            batch = self._tokenizer(part, padding=True, truncation=True, return_tensors="pt")
            with torch.inference_mode():
                logits = self._model(**batch).logits.double()
            p = logits.sigmoid() if self._multi else logits.softmax(-1)
            self._known |= zip(part, p[:, self._label].tolist(), strict=True)
        return np.array([self._known[text] for text in texts], dtype=np.float64)
