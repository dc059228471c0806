"""FairPair over several models: its Tables 1 to 3 with their average, and Figures 3 to 6.

Comes in: runs that are held against each other. Goes out: means over models as rows, and the tab
`fairpair`. Published figures stand beside measured ones where model and prompts are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.fairpair.published import AVERAGE, PUBLISHED, published_model
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Number, Section, Table
from countergen_edit.reports.views.fairpair import figures, perturbation_tables, tables
from countergen_edit.reports.views.fairpair.length_table import length_table
from countergen_edit.reports.views.fairpair.show import MEANING, f_rows
from countergen_edit.reports.views.fairpair.tables import FIGURES, phi_of
from countergen_edit.reports.views.stacked import AVERAGE as OF_RUNS
from countergen_edit.reports.views.stacked import RUN, each, means, stacked

ENDS = ("v_pg", "v_gp", "bias", "f")
"""What the paper averages over models."""


def pooled(sides: Sequence[Side]) -> list[Row]:
    """Table 3's average: means over models of both V, of B and of F, for every Φ."""
    return [row for end in ENDS for row in means(sides, f"fairpair_{end}")]


def over_runs(sides: Sequence[Side], averages: Sequence[Row]) -> list[Section]:
    """The tab of FairPair; none where no run measured it."""
    sides = [side for side in sides if f_rows(side.results)]
    if not sides:
        return []
    rows = [
        (side.label(edit), row)
        for side, edit in each(sides)
        for row in f_rows(side.results)
        if row.edit == edit
    ]
    rows.sort(key=lambda pair: _phis(sides).index(phi_of(pair[1])))
    sizes = [(side.label(row.edit), row) for side in sides for row in _shown(side, "fairpair_bias")]
    terms = [
        (side.label(row.edit), row) for side in sides for row in _shown(side, "fairpair_ngrams")
    ]
    blocks: list[Block | None] = [
        table_3(sides, averages),
        stacked(sides, perturbation_tables.perturbed),
        figures.distributions(rows),
        figures.sizes_over_runs(sizes),
        figures.phrases(terms),
        stacked(sides, tables.phrases),
        stacked(sides, length_table),
        stacked(sides, lambda results: tables.intervals(results, f_rows(results))),
        stacked(sides, lambda results: tables.over_paraphrases(results, f_rows(results))),
        stacked(sides, perturbation_tables.perturbations),
    ]
    return [Section("fairpair", "FairPair", tuple(block for block in blocks if block is not None))]


def table_3(sides: Sequence[Side], averages: Sequence[Row]) -> Table:
    """Variability, bias and F of every run, their average, and what was published of each."""
    lines: list[tuple[Cell, ...]] = []
    for phi in _phis(sides):
        names = []
        for side in sides:
            published = None
            for row in f_rows(side.results):
                if phi_of(row) != phi or row.edit not in side.edits:
                    continue
                figures_of = tables.figures_of(side.results, row)
                lines.append((phi, side.name, side.edit_label(row.edit), *figures_of))
                published = PUBLISHED.get(published_model(row), {}).get(phi)
                names += [published_model(row)] if published else []
            if published:
                paper = tables.published_figures(published)
                lines.append((phi, f"{side.name}, published", "", *paper))
        means_of = Results([row for row in averages if phi_of(row) == phi])
        for row in means_of.of("fairpair_f"):
            ends = (means_of.under(row, row.edit, f"fairpair_{end}") for end in ENDS[:-1])
            cells = (
                *(Number(None if end is None else end.value) for end in ends),
                Number.of(row, 2),
            )
            lines.append((phi, f"{OF_RUNS} of {row.n}", "", *cells, "", "", ""))
        if {*names} == {*PUBLISHED}:
            paper = tables.published_figures(AVERAGE[phi])
            lines.append((phi, f"{OF_RUNS}, published", "", *paper))
    note = f"{MEANING} The average is over runs, of the models as they came."
    columns = ("Φ", RUN, "edit", *FIGURES)
    title = "FairPair by model"
    return Table("fairpair", title, columns, tuple(lines), note, grouped=True, brief=True)


def _phis(sides: Sequence[Side]) -> list[str]:
    return list(dict.fromkeys(phi_of(row) for side in sides for row in f_rows(side.results)))


def _shown(side: Side, metric: str) -> list[Row]:
    return [row for row in side.results.of(metric) if row.edit in side.edits]
