"""Linear concept erasers on plain arrays: every fit gives an `AffineErasure` and a certificate."""

from countergen_edit.erasers.affine import AffineErasure, Gate
from countergen_edit.erasers.base import ERASERS, BaseEraser, fit_eraser, make_eraser
from countergen_edit.erasers.certificate import Certificate, certify
from countergen_edit.erasers.distilled import Distilled
from countergen_edit.erasers.gated import Gated
from countergen_edit.erasers.inlp import INLP
from countergen_edit.erasers.leace import LEACE, SPLINCE
from countergen_edit.erasers.numerics import fitting_threads, run_parallel
from countergen_edit.erasers.orthogonal import (
    SAL,
    MeanDifference,
    RandomDirections,
    SentenceDebias,
)
from countergen_edit.erasers.preserving import PreservingEraser
from countergen_edit.erasers.rlace import RLACE

__all__ = [
    "ERASERS",
    "INLP",
    "LEACE",
    "RLACE",
    "SAL",
    "SPLINCE",
    "AffineErasure",
    "BaseEraser",
    "Certificate",
    "Distilled",
    "Gate",
    "Gated",
    "MeanDifference",
    "PreservingEraser",
    "RandomDirections",
    "SentenceDebias",
    "certify",
    "fit_eraser",
    "fitting_threads",
    "make_eraser",
    "run_parallel",
]
