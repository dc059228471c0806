"""What rows are called where people read them, and which edits of a run are shown at length."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.figures.panels import Series, dataset_label
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import baseline_of, edits_shown, short

UNEDITED, NO_EDIT, RANDOM = "none", "no edit", "random directions"
MOST_EDITS = 6
"""Edits shown at length; a sweep has hundreds, which its own figures show."""
COVERED = {"agreement": (0.5, 1.0), "perplexity_ratio": (1.0, 1.01), "kl": (0.0, 0.05)}
"""What an axis of a cost covers at least: up to where one would begin to mind it."""


def shown(results: Results) -> list[Row]:
    """The edits that are shown at length: of a sweep those that no other beats."""
    edits = edits_shown(results)
    ahead = [r.edit for r in results.of("cost", "validation") if r.detail["chosen"]]
    ahead += [
        r.edit
        for r in results.of("cost", "validation")
        if r.detail["front"] and r.edit not in ahead
    ]
    # An audit that follows a search names the edit anew, and has no other.
    kept = sorted((e for e in edits if e.edit in ahead), key=lambda e: ahead.index(e.edit))
    return (kept or edits)[:MOST_EDITS]


def baselines(results: Results) -> list[str]:
    """The random directions that the shown edits are held against."""
    found = [baseline_of(results, e) for e in shown(results) if not e.is_baseline]
    return list(dict.fromkeys(row.edit for row in found if row is not None))


def compared(results: Results) -> list[str]:
    """Edits in the order in which they are listed: none, random directions, and those shown."""
    return [UNEDITED, *baselines(results), *(row.edit for row in shown(results))]


def edit_label(edit: str) -> str:
    """An edit's name where people read it.

    >>> edit_label("none"), edit_label("rlace-1@resid_post.2")
    ('no edit', 'rlace-1@resid_post.2')
    >>> edit_label("leace-1@resid_post.2 + leace-1@resid_post.3")
    'leace-1@resid_post.2 + .3'
    """
    return NO_EDIT if edit == UNEDITED else short(edit)


def set_label(row: Row) -> str:
    """A set's name as a title."""
    return dataset_label(row.dataset) + (" (fitted)" if row.split == "fit" else "")


def listed(results: Results, row: Row, metric: str | None = None) -> list[Series]:
    """One dot for each compared edit, about the data of a row."""
    series = []
    for edit in compared(results):
        found = results.under(row, edit, metric)
        if found is not None and found.value is not None:
            of_baseline = results.is_reference(edit)
            series.append(dots(edit_label(edit), [edit_label(edit)], [found], of_baseline))
    return series


def dots(
    name: str, x: Sequence[float | str], rows: Sequence[Row], baseline: bool = False
) -> Series:
    """Rows as dots with their intervals."""
    return _series("dots", name, x, rows, baseline)


def line(
    name: str, x: Sequence[float | str], rows: Sequence[Row], baseline: bool = False
) -> Series:
    """Rows as a line with its band."""
    return _series("line", name, x, rows, baseline)


def _series(
    kind: str, name: str, x: Sequence[float | str], rows: Sequence[Row], baseline: bool
) -> Series:
    pairs = [(at, row) for at, row in zip(x, rows, strict=True) if row.value is not None]
    known = all(row.lo is not None and row.hi is not None for _, row in pairs)
    y = tuple(row.value or 0.0 for _, row in pairs)
    lo = tuple(row.lo or 0.0 for _, row in pairs) if known else ()
    hi = tuple(row.hi or 0.0 for _, row in pairs) if known else ()
    tips = tuple(
        f"{name}, {at}: {value:.3f}" + (f" [{lo[i]:.3f}, {hi[i]:.3f}]" if known else "")
        if str(at) != name
        else f"{name}: {value:.3f}" + (f" [{lo[i]:.3f}, {hi[i]:.3f}]" if known else "")
        for i, ((at, _), value) in enumerate(zip(pairs, y, strict=True))
    )
    drawn = "line" if kind == "line" else "dots"
    return Series(name, tuple(at for at, _ in pairs), y, lo, hi, drawn, baseline, tips)  # type: ignore[arg-type]


def level(row: Row, name: str = NO_EDIT) -> Series:
    """A row as a line across the panel."""
    return Series(name, (), (row.value or 0.0,), kind="level", baseline=True)
