"""Renderers of blocks, one file for each format; `export` writes figures and tables as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.writing import whole
from countergen_edit.reports.blocks import Section, slug
from countergen_edit.reports.render.figures import DATELESS, write
from countergen_edit.reports.render.tables import as_csv, as_latex

FIGURES = tuple(ending.removeprefix(".") for ending in DATELESS)
TABLES = {"csv": (".csv", as_csv), "latex": (".tex", as_latex)}
"""Forms of tables: the ending of the file and its writer."""


def export(sections: Sequence[Section], folder: Path, forms: Sequence[str]) -> list[Path]:
    """Write every figure and table of the sections; the paths, in order.

    `UserError` if a form is none of `FIGURES` and `TABLES`, or the folder cannot be written.
    """
    for form in forms:
        require_known("form", form, (*FIGURES, *TABLES))
    endings = [f".{form}" for form in forms if form in FIGURES]
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for figure in section.figures() if endings else ():
                written += write(figure, folder / slug(figure.name), endings)
            for table in section.tables():
                for ending, text in (TABLES[form] for form in TABLES if form in forms):
                    written.append(folder / f"{slug(table.name)}{ending}")
                    with whole(written[-1]) as temporary:
                        temporary.write_text(text(table), "utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    return written
