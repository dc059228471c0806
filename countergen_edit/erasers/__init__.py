"""Linear concept erasers on plain arrays, with one result and one certificate.

In come rows of activations `[row, d]` and a class for each; out goes an `AffineErasure`. The room
knows nothing of language models, and refuses rows with NaN or infinity, a single class, and a rank
that would erase everything.
"""

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import ERASERS, BaseEraser, fit_eraser, make_eraser
from countergen_edit.erasers.certificate import Certificate, certify
from countergen_edit.erasers.gate import Gate
from countergen_edit.erasers.methods.gated import Gated
from countergen_edit.erasers.methods.inlp import INLP
from countergen_edit.erasers.methods.leace import LEACE
from countergen_edit.erasers.methods.mean_difference import MeanDifference
from countergen_edit.erasers.methods.preserving import PreservingEraser
from countergen_edit.erasers.methods.random_directions import RandomDirections
from countergen_edit.erasers.methods.refined import Refined
from countergen_edit.erasers.methods.rlace import RLACE
from countergen_edit.erasers.methods.sal import SAL
from countergen_edit.erasers.methods.sentence_debias import SentenceDebias
from countergen_edit.erasers.methods.splince import SPLINCE
from countergen_edit.erasers.objective import TERMS, Change, Objective
from countergen_edit.erasers.routing import fit_metadata
from countergen_edit.erasers.solvers.cvxpy_reference import (
    fantope_projection_cvxpy,
    fit_probe_cvxpy,
    preserving_cvxpy,
)
from countergen_edit.erasers.solvers.fantope import fantope_projection
from countergen_edit.erasers.threads import fitting_threads, side_by_side

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
    "fantope_projection",
    "fantope_projection_cvxpy",
    "fit_eraser",
    "fit_metadata",
    "fit_probe_cvxpy",
    "fitting_threads",
    "make_eraser",
    "preserving_cvxpy",
    "side_by_side",
]
