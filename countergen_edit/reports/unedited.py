"""Tables of a run that edited nothing: without the columns that say of which edit a row is.

Comes in: a section as a metric shows it. Goes out: the same section without empty columns.
"""

from __future__ import annotations

from dataclasses import replace

from countergen_edit.reports.blocks import Block, Cell, Fold, Number, Section, Table

EDIT = "edit"
"""What metrics call the column that names edits."""


def without_edits(section: Section) -> Section:
    """The section without columns of edits and of what was measured of none."""
    return replace(section, blocks=tuple(map(_block, section.blocks)))


def _block(block: Block) -> Block:
    if isinstance(block, Fold):
        tables = (_table(part) if isinstance(part, Table) else part for part in block.blocks)
        return replace(block, blocks=tuple(tables))
    return _table(block) if isinstance(block, Table) else block


def _table(block: Table) -> Table:
    kept = [
        i
        for i, column in enumerate(block.columns)
        if not all(_is_nothing(row[i]) for row in block.rows)
        # Where it tells what is measured from what was published, it stays, without a name.
        and not (column == EDIT and len({row[i] for row in block.rows} - {""}) == 1)
    ]
    rows = tuple(tuple(row[i] for i in kept) for row in block.rows)
    # A heading over a single row each is that row's name.
    several = len({row[0] for row in rows if isinstance(row[0], str)}) < len(rows)
    columns = tuple("" if block.columns[i] == EDIT else block.columns[i] for i in kept)
    return replace(block, columns=columns, rows=rows, grouped=block.grouped and several)


def _is_nothing(cell: Cell) -> bool:
    return cell == "" or (isinstance(cell, Number) and cell.value is None)
