"""Figure 5 of contrastive input decoding, drawn from its formula."""

from __future__ import annotations

import numpy as np
from guide.entries import DOCS
from jaxtyping import Float64

from countergen_edit.core.writing import whole
from countergen_edit.reports.render.figures import DATELESS, SETTINGS

STRENGTHS = (0.0, 0.5, 1.0, 2.0)
"""λ of each curve; the paper's text does not say which it draws."""
DELTAS = np.linspace(-1, 1, 41)


def scaling(strength: float) -> Float64[np.ndarray, " delta"]:
    """The factor α(Δ) = exp(λ Δ) of a token's probability."""
    return np.exp(strength * DELTAS)


def write_scaling() -> None:
    """Draw the curves beside the page."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS), whole(DOCS / "cid_figure_5.svg") as temporary:
        drawing = Figure(figsize=(3.6, 2.6), layout="constrained")
        ax = drawing.subplots()
        for strength in STRENGTHS:
            ax.plot(DELTAS, scaling(strength), label=f"λ={strength:g}")
        ax.set(xlabel="Δ", ylabel="exp(λΔ)", ylim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        drawing.savefig(temporary, format="svg", metadata=DATELESS[".svg"])
