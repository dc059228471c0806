"""The four tasks of Seshadri et al. 2022: what a template says, and what its rewordings say."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.template_tables import OVER_WORDINGS, category_name, measure_name


def templates(run: Run) -> Section | None:
    """What a template task measured; nothing where the run is none."""
    results = run.results
    flips = results.of("category_flips", split="")
    measures = [row for row in results.rows if row.metric.endswith(OVER_WORDINGS)]
    if not flips and not measures:
        return None
    blocks: list[Block] = []
    if flips:
        blocks.append(_categories(flips))
    for row in results.of("names_in_lexicon", split=""):
        names = ", ".join(f"{name} {v:+.1f}" for name, v in row.detail["valence"].items())
        blocks.append(Words((f"A confound: in VADER's lexicon by themselves, {names or 'none'}.",)))
    if measures:
        blocks.append(_measures(measures))
    blocks += _wordings(results)
    return Section("templates", "Templates", tuple(blocks))


def _categories(rows: Sequence[Row]) -> Table:
    """Table 2: the original's category, and how many rewordings fall in each."""
    names = [category_name(rows[0], category) for category in (-1, 1, 0)]
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        original = row.detail["original"]
        lines.append(
            (
                row.dataset,
                "" if original is None else category_name(row, original),
                *map(str, row.detail["counts"]),
                Number(row.value, percent=True),
                str(row.detail["flips_holm"]),
            )
        )
    return Table(
        "template_categories",
        "What a template says, and how many of its rewordings say what",
        ("template", "original", *names, "flips", "flips after Holm"),
        tuple(lines),
        "By paired t-tests; a flip is a rewording that says something else than its original.",
    )


def _measures(rows: Sequence[Row]) -> Table:
    """Tables 3 and 4: the original's measure, its rewordings' mean, change and SD."""
    lines: list[tuple[Cell, ...]] = [
        (
            measure_name(row),
            Number(row.detail["original"]),
            Number.of(row),
            Number(row.detail["change"], percent=True, signed=True),
            Number(row.detail["sd"]),
            str(row.n or ""),
        )
        for row in rows
    ]
    return Table(
        "template_measures",
        "The measure of a template, and of its rewordings",
        ("measure", "original", "mean of rewordings", "change", "SD", "rewordings"),
        tuple(lines),
    )


def _wordings(results: Results) -> list[Block]:
    """Every wording, drawn and listed."""
    rows = [row for row in results.rows if not row.split and row.detail.get("wording")]
    blocks: list[Block] = []
    for metric in dict.fromkeys(row.metric for row in rows):
        mine = [row for row in rows if row.metric == metric and row.value is not None]
        title = metric.replace("_", " ")
        series = []
        for template in dict.fromkeys(row.dataset for row in mine):
            own = [row for row in mine if row.dataset == template]
            values = tuple(row.value or 0.0 for row in own)
            tips = tuple(
                f"{row.detail['wording']}: {value:.3f}"
                for row, value in zip(own, values, strict=True)
            )
            at = (template,) * len(own)
            series.append(Series(template, at, values, kind="spread", tips=tips))
        if series:
            panel = Panel(title, title, "", tuple(series), downwards=True)
            words = "Every dot is one wording of a template; boxes are quartiles."
            blocks.append(Figure(f"template_{metric}", f"{title}, by wording", (panel,), words))
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        category = row.detail.get("category")
        said = "" if category is None else category_name(row, category)
        first = "original" if row.detail.get("original") else ""
        about = (row.dataset, row.detail["wording"], first, row.metric.replace("_", " "))
        lines.append((*about, Number.of(row), said))
    if lines:
        blocks.append(
            Table(
                "template_wordings",
                "Wording by wording",
                ("template", "wording", "", "measure", "value", "says"),
                tuple(lines),
                searchable=True,
                grouped=True,
            )
        )
    return blocks
