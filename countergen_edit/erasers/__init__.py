"""Linear concept erasers on plain arrays; every fit gives an `AffineErasure`."""

from countergen_edit.erasers.affine import AffineErasure as AffineErasure
from countergen_edit.erasers.affine import Gate as Gate
from countergen_edit.erasers.base import ERASERS as ERASERS
from countergen_edit.erasers.base import BaseEraser as BaseEraser
from countergen_edit.erasers.base import fit_eraser as fit_eraser
from countergen_edit.erasers.base import make_eraser as make_eraser
from countergen_edit.erasers.certificate import Certificate as Certificate
from countergen_edit.erasers.certificate import certify as certify
from countergen_edit.erasers.distilled import Distilled as Distilled
from countergen_edit.erasers.gated import Gated as Gated
from countergen_edit.erasers.inlp import INLP as INLP
from countergen_edit.erasers.leace import LEACE as LEACE
from countergen_edit.erasers.leace import SPLINCE as SPLINCE
from countergen_edit.erasers.numerics import fitting_threads as fitting_threads
from countergen_edit.erasers.numerics import run_parallel as run_parallel
from countergen_edit.erasers.orthogonal import SAL as SAL
from countergen_edit.erasers.orthogonal import MeanDifference as MeanDifference
from countergen_edit.erasers.orthogonal import RandomDirections as RandomDirections
from countergen_edit.erasers.orthogonal import SentenceDebias as SentenceDebias
from countergen_edit.erasers.preserving import PreservingEraser as PreservingEraser
from countergen_edit.erasers.rlace import RLACE as RLACE
