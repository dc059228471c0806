"""CID over several models: its Figures 2, 6 and 7 with the models side by side, and its others.

Comes in: runs that are held against each other. Goes out: the tab `cid`. Published shares stand
beside the same models' where groups, template and names are the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from countergen_edit.metrics.cid.contrasts import LAMBDA, TEMPLATE
from countergen_edit.metrics.cid.published import published_shares
from countergen_edit.metrics.cid.rated_rows import with_ratings
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, line
from countergen_edit.reports.views.base import Quantity, alike
from countergen_edit.reports.views.cid.effect_blocks import effect_blocks
from countergen_edit.reports.views.cid.sections import NATS, NATS_A_TOKEN, RATED, ends, strength
from countergen_edit.reports.views.cid.text_blocks import side_by_side
from countergen_edit.reports.views.stacked import by_facet, each, stacked

AUTOMATIC = "cid_biased_fraction_automatic"
PUBLISHED = ", published"


def compared(results: Results) -> list[Quantity]:
    """Divergence at the smallest and the largest λ, and there what a lexicon calls biased."""
    divergence = ends(results.unedited("cid_divergence"))
    quantities = [
        Quantity(f"divergence, λ={strength(row):g}", alike(results, row), "other", 4, main=False)
        for row in divergence
    ]
    largest = {strength(row) for row in divergence[-1:]}
    for row in results.unedited(AUTOMATIC):
        if strength(row) in largest:
            title = f"biased by a lexicon, {row.group_a}, λ={strength(row):g}"
            quantities.append(Quantity(title, alike(results, row), "other", 2, main=False))
    return quantities


def over_runs(sides: Sequence[Side]) -> list[Section]:
    """The tab of CID; none where no run measured it."""
    sides = [Side(side.name, with_ratings(side.results), side.model) for side in sides]
    blocks: list[Block] = []
    for metric, title in RATED.items():
        blocks += _shares(sides, metric, title)
    panels = (
        by_facet(sides, "cid_divergence", LAMBDA, "divergence of the two sides", NATS_A_TOKEN, "λ"),
        by_facet(sides, "cid_similarity", LAMBDA, "similarity of the two sides", "cosine", "λ"),
    )
    if shown := tuple(panel for panel in panels if panel is not None):
        note = "λ is how strongly the other prompt counts; 0 is ordinary greedy decoding."
        blocks.append(Figure("cid", "Contrast by λ", shown, note))
    tables = (_divergence(sides), stacked(sides, _effects), stacked(sides, _continuations))
    blocks += [table for table in tables if table is not None]
    return [Section("cid", "CID", tuple(blocks))] if blocks else []


def _shares(sides: Sequence[Side], metric: str, title: str) -> list[Block]:
    """The share of biased continuations by λ: of every group, the models side by side."""
    found = [
        (side, edit, rows)
        for side, edit in each(sides)
        if (
            rows := {
                (row.group_a, strength(row)): row for row in side.results.of(metric, edit=edit)
            }
        )
    ]
    if not found:
        return []
    groups = list(dict.fromkeys(group for _, _, rows in found for group, _ in rows))
    strengths = sorted({at for _, _, rows in found for _, at in rows})
    columns: list[tuple[str, Mapping[tuple[str, float], Cell]]] = []
    for group in groups:
        for side, edit, rows in found:
            of_group = {key: Number.of(row, 2) for key, row in rows.items() if key[0] == group}
            if of_group:
                columns.append((f"{group}, {side.label(edit)}", of_group))
            if paper := {k: v for k, v in _published(side, rows).items() if k[0] == group}:
                cells = {key: Number(share, digits=2) for key, share in paper.items()}
                columns.append((f"{group}, {side.name}{PUBLISHED}", cells))
    lines: list[tuple[Cell, ...]] = []
    for at in strengths:
        by_column = ({key[1]: cell for key, cell in cells.items()} for _, cells in columns)
        lines.append((f"{at:g}", *(cells.get(at, "") for cells in by_column)))
    panels = [
        Panel(
            group,
            "λ",
            "share",
            tuple(
                line(side.label(edit), [key[1] for key in own], [*own.values()])
                for side, edit, rows in found
                if (own := {key: row for key, row in rows.items() if key[0] == group})
            ),
            limits=(0, 1),
        )
        for group in groups
    ]
    rated = "; ".join(
        dict.fromkeys(str(r.detail["rated_by"]) for _, _, rows in found for r in rows.values())
    )
    note = f"The share of a group's continuations. Rated by: {rated}."
    if any(name.endswith(PUBLISHED) for name, _ in columns):
        note += " What was published, raters agreed on."
    titles = ("λ", *(name for name, _ in columns))
    return [
        Table(f"{metric}_shares", title, titles, tuple(lines), note, brief=True),
        Figure(metric, title, tuple(panels), f"{note} With 95 % intervals."),
    ]


def _published(side: Side, rows: Mapping[tuple[str, float], Row]) -> dict[tuple[str, float], float]:
    templates = {str(row.facets[TEMPLATE]) for row in side.results.of("cid_continuations")}
    groups = frozenset(group for group, _ in rows)
    pairs = max(row.n for row in rows.values())
    return published_shares(side.model, groups, templates, pairs)


def _divergence(sides: Sequence[Side]) -> Table | None:
    """A λ a line, a column for each run and edit."""
    found = {
        side.label(edit): {strength(row): row for row in rows}
        for side, edit in each(sides)
        if (rows := side.results.of("cid_divergence", edit=edit))
    }
    strengths = sorted({at for rows in found.values() for at in rows})
    lines: list[tuple[Cell, ...]] = [
        (f"{at:g}", *(Number.of(rows.get(at), 4) for rows in found.values())) for at in strengths
    ]
    if not found:
        return None
    title, columns = "Divergence along the CID path", ("λ", *found)
    return Table("cid_divergence", title, columns, tuple(lines), NATS, brief=True)


def _effects(results: Results) -> Table | None:
    """λ* by kind of perturbation."""
    blocks = effect_blocks(results)
    return next((b for b in blocks if isinstance(b, Table) and b.name == "cid_effects"), None)


def _continuations(results: Results) -> Table | None:
    return side_by_side(results) if results.of("cid_continuations") else None
