"""How far conclusions depend on how prompts are worded (Seshadri et al. 2022)."""

from __future__ import annotations

from itertools import zip_longest

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import compared, edit_label, set_label

SPREAD = "r_sd_over_wordings"
LEANS = {1: "alike", -1: "against", 0: "insignificant"}


def wordings(run: Run) -> Section | None:
    """Spread over wordings; nothing where the run did not measure it."""
    results = run.results
    rows = [r for split in ("test", "fit") for r in results.unedited(SPREAD, split)]
    rows = [row for row in rows if row.value is not None]
    if not rows:
        return None
    edits = [
        edit
        for edit in compared(results)
        if any(results.under(row, edit) is not None for row in rows)
    ]
    panels = []
    for row in rows:
        series = []
        for edit in edits:
            found = results.under(row, edit)
            by_wording = [] if found is None else found.detail.get("wordings", [])
            y = tuple(float(w["mean_abs_r"]) for w in by_wording)
            tips = tuple(
                f"{edit_label(edit)}, {w['wording']}: {w['mean_abs_r']:.3f}" for w in by_wording
            )
            series.append(
                Series(edit_label(edit), (), y, kind="spread", baseline=edit == "none", tips=tips)
            )
        title, label = set_label(row), "mean |R| of a wording"
        panels.append(Panel(title, label, "", tuple(series), limits=(0, 1)))
    words = "Every dot is one wording of the prompts; boxes are quartiles."
    figure = Figure("wordings", "Bias, wording by wording", tuple(panels), words)
    return Section(
        "wordings",
        "Wordings",
        (figure, _by_set(results, rows, edits), _by_wording(results, rows, edits)),
    )


def _by_set(results: Results, rows: list[Row], edits: list[str]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        for edit in edits:

            def of(metric: str, row: Row = row, edit: str = edit) -> Row | None:
                return results.under(row, edit, metric)

            holding, removed = of("wordings_holding"), of("reduction_holding")
            lines.append(
                (
                    set_label(row),
                    edit_label(edit),
                    Number.of(of(SPREAD)),
                    _count(holding),
                    Number.of(of("wording_flip_rate"), percent=True),
                    Number.of(of("wording_variance_share"), percent=True),
                    _count(removed),
                )
            )
    return Table(
        "wordings",
        "Over wordings",
        (
            "set",
            "edit",
            "SD of mean |R|",
            "wordings that lean alike",
            "conclusions that flip",
            "variance between wordings",
            "wordings where bias is surely removed",
        ),
        tuple(lines),
        grouped=True,
    )


def _count(row: Row | None) -> str:
    return "" if row is None or row.value is None else f"{row.value:.0f} of {row.n}"


def _by_wording(results: Results, rows: list[Row], edits: list[str]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        under = [(edit, results.under(row, edit)) for edit in edits]
        by_edit = [
            [(edit, w) for w in found.detail.get("wordings", [])]
            for edit, found in under
            if found is not None
        ]
        for of_wording in zip_longest(*by_edit):  # before and after below each other
            for edit, w in filter(None, of_wording):
                lines.append(
                    (
                        set_label(row),
                        str(w["wording"]),
                        edit_label(edit),
                        Number(w["r"], signed=True),
                        Number(w["mean_abs_r"]),
                        LEANS.get(w["leans"], ""),
                    )
                )
    columns = ("set", "wording", "edit", "mean R", "mean |R|", "leans")
    return Table(
        "wording_by_wording",
        "Wording by wording",
        columns,
        tuple(lines),
        searchable=True,
        grouped=True,
    )
