"""Renderers of blocks, one file for each format; `export` writes figures and tables as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.writing import whole
from countergen_edit.reports.blocks import Section, slug
from countergen_edit.reports.render.csv import as_csv
from countergen_edit.reports.render.figures import DATELESS, write
from countergen_edit.reports.render.latex import as_latex

FIGURES = tuple(ending.removeprefix(".") for ending in DATELESS)
TABLES = {"csv": (".csv", as_csv), "latex": (".tex", as_latex)}
"""Forms of tables: the ending of the file and its writer."""


def export(
    sections: Sequence[Section], folder: Path, figures: Sequence[str], tables: Sequence[str]
) -> list[Path]:
    """Write every figure and table of the sections; the paths, in order.

    Parameters
    ----------
    sections : of one report
    folder : made if it is not there
    figures : of `svg`, `pdf`, `png`
    tables : of `csv`, `latex`

    Raises
    ------
    UserError
        A form is unknown, or the folder cannot be written.
    """
    for key, forms, known in (("figures", figures, FIGURES), ("tables", tables, tuple(TABLES))):
        for form in forms:
            if form not in known:
                raise unknown(key, form, known)
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for figure in section.figures() if figures else ():
                endings = [f".{form}" for form in figures]
                written += write(figure, folder / slug(figure.name), endings)
            for table in section.tables():
                for form in tables:
                    ending, text = TABLES[form]
                    written.append(folder / f"{slug(table.name)}{ending}")
                    with whole(written[-1]) as temporary:
                        temporary.write_text(text(table), "utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    return written


def search_figures(sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write the figures of a search as SVG and PNG; the paths, in order."""
    searched = [section for section in sections if section.name in ("search", "layers")]
    return export(searched, folder, ["svg", "png"], [])
