"""Linear concept erasers on plain arrays: every fit gives an `AffineErasure` and a certificate."""

from countergen_edit.erasers.affine import AffineErasure, Gate
from countergen_edit.erasers.base import ERASERS, BaseEraser, fit_eraser, make_eraser
from countergen_edit.erasers.certificate import Certificate, certify
from countergen_edit.erasers.methods.gated import Gated
from countergen_edit.erasers.methods.inlp import INLP
from countergen_edit.erasers.methods.leace import LEACE, SAL
from countergen_edit.erasers.methods.mean_difference import MeanDifference
from countergen_edit.erasers.methods.preserving import PreservingEraser
from countergen_edit.erasers.methods.random_directions import RandomDirections
from countergen_edit.erasers.methods.refined import TERMS, Change, Objective, Refined
from countergen_edit.erasers.methods.rlace import RLACE
from countergen_edit.erasers.methods.sentence_debias import SentenceDebias
from countergen_edit.erasers.methods.splince import SPLINCE
from countergen_edit.erasers.threads import fitting_threads, run_parallel

__all__ = [
    "ERASERS",
    "INLP",
    "LEACE",
    "RLACE",
    "SAL",
    "SPLINCE",
    "TERMS",
    "AffineErasure",
    "BaseEraser",
    "Certificate",
    "Change",
    "Gate",
    "Gated",
    "MeanDifference",
    "Objective",
    "PreservingEraser",
    "RandomDirections",
    "Refined",
    "SentenceDebias",
    "certify",
    "fit_eraser",
    "fitting_threads",
    "make_eraser",
    "run_parallel",
]
