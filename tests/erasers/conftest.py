"""One table of all erasers, and the data they are tried on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jaxtyping
import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import (
    INLP,
    LEACE,
    RLACE,
    SAL,
    SPLINCE,
    AffineErasure,
    BaseEraser,
    Gated,
    MeanDifference,
    PreservingEraser,
    RandomDirections,
    SentenceDebias,
)


@dataclass(frozen=True)
class Row:
    """An eraser and its properties."""

    eraser: BaseEraser
    rank: int = 0  # 0: one less than there are classes
    orthogonal: bool = True
    guaranteed: bool = False
    fixed: str = "balanced"  # the mean it leaves where it is

    def rank_of(self, classes: int) -> int:
        return self.rank or classes - 1


OBLIQUE: dict[str, Any] = {"orthogonal": False, "guaranteed": True}
TABLE = {
    "inlp": Row(INLP(rank=4), 4),
    "rlace": Row(RLACE(rank=3), 3, guaranteed=True),
    "rlace padded": Row(RLACE(rank=5), 5, guaranteed=True),
    "rlace minimax": Row(RLACE(rank=1, solver="minimax"), 1),
    "leace": Row(LEACE(), fixed="overall", **OBLIQUE),
    "leace sample": Row(LEACE(shrinkage=0.0), fixed="overall", **OBLIQUE),
    "splince": Row(SPLINCE(), fixed="overall", **OBLIQUE),
    "sal": Row(SAL(), guaranteed=True),
    "mean_difference": Row(MeanDifference(), guaranteed=True),
    "sentence_debias": Row(SentenceDebias(rank=1), 1),
    "random": Row(RandomDirections(rank=3), 3),
    "preserving": Row(PreservingEraser(), **OBLIQUE),
    # With nothing to close its gate at it is the closed form that it starts from.
    "gated": Row(Gated("leace"), fixed="overall", **OBLIQUE),
}


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Without the type checks that the tests run under, as in a user's process."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(params=list(TABLE))
def row(request) -> Row:
    return TABLE[request.param]


def concept(n: int = 240, d: int = 12, c: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated rows, unbalanced classes whose means differ, and a mean that is not zero."""
    rng = np.random.default_rng(seed)
    z = rng.choice(c, size=n, p=np.arange(1, c + 1) / np.arange(1, c + 1).sum())
    mix = rng.normal(size=(d, d)) / np.sqrt(d)
    return rng.normal(size=(n, d)) @ mix + 1.5 * rng.normal(size=(c, d))[z] + 3.0, z


def refusal(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The one line by which a call refuses its input."""
    with pytest.raises(UserError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def identity(d: int) -> AffineErasure:
    """The erasure of rank 0."""
    return AffineErasure(np.zeros((d, 0)), np.zeros((0, d)), np.zeros(d))


def is_orthogonal(erasure: AffineErasure) -> bool:
    """Whether `left · right` is symmetric and idempotent."""
    product = erasure.left @ erasure.right
    return np.allclose([product.T, product @ product], product, atol=1e-8)
