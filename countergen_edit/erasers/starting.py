"""The closed form that another eraser starts from, as its settings name it.

Comes in: a name, or a mapping with `kind` and parameters; then rows with all that is known of them.
Goes out: an eraser, and the same fitted on what it takes. Refused: a mapping without a kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from countergen_edit.erasers.base import BaseEraser, make_eraser
from countergen_edit.erasers.labelled import LabelledRows
from countergen_edit.erasers.routing import fit_metadata
from countergen_edit.errors import UserError
from countergen_edit.registry import KIND

REQUESTED: Mapping[str, bool] = dict.fromkeys(
    ("contexts", "keep", "background", "pairs", "people", "families"), True
)
"""What an eraser requests that passes on whatever its closed form may take."""


def closed_form(start: str | Mapping[str, Any], of: str) -> BaseEraser:
    """The eraser that `start` names, not yet fitted.

    Args:
        start: its name, or a mapping with its `kind` and parameters.
        of: the eraser that starts from it, for messages.

    Raises:
        UserError: the mapping has no kind, or there is no such eraser.
    """
    content = {KIND: start} if isinstance(start, str) else dict(start)
    if KIND not in content:
        raise UserError(f"start={start!r} of {of} names no eraser: give its {KIND}")
    return make_eraser(str(content.pop(KIND)), **content)


def kept(rows: LabelledRows, keep: Any) -> Bool[np.ndarray, " row"]:
    """Which rows are to be kept; none where nothing says so."""
    return np.zeros(len(rows.X), bool) if keep is None else np.asarray(keep, bool)


def fit_start(
    start: BaseEraser,
    rows: LabelledRows,
    is_kept: Bool[np.ndarray, " row"],
    of_row: Mapping[str, Any],
    background: Any,
) -> BaseEraser:
    """Fit a closed form on what it takes; one that cannot keep does not see what is to be kept.

    Args:
        start: not yet fitted.
        rows: all rows.
        is_kept: those to be kept.
        of_row: what else is known of each row, by name; None where it is not.
        background: rows `[other, d]` of whatever else the map meets, or None.
    """
    offered = {**of_row, "keep": is_kept, "background": background}
    given = fit_metadata(start, {k: v for k, v in offered.items() if v is not None})
    used = np.ones(len(rows.X), bool) if "keep" in given else ~is_kept
    given = {k: v if k == "background" else np.asarray(v)[used] for k, v in given.items()}
    return start.fit(rows.X[used], rows.classes[rows.codes][used], **given)
