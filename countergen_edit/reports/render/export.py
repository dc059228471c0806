"""A report's figures and tables as files, for papers and for the run folder.

Comes in: sections. Goes out: SVG, PDF or PNG for every figure; CSV with every digit and LaTeX with
those that are shown for every table. Refused: a form that nothing is written in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.writing import whole
from countergen_edit.reports.blocks import Section, Table
from countergen_edit.reports.render.csv import as_csv
from countergen_edit.reports.render.drawing import DATELESS, write
from countergen_edit.reports.render.latex import as_latex
from countergen_edit.reports.render.styles import Styles

FIGURES = tuple(ending.removeprefix(".") for ending in DATELESS)
"""Forms of figures."""
TABLES: Mapping[str, tuple[str, Callable[[Table], str]]] = {
    "csv": (".csv", as_csv),
    "latex": (".tex", as_latex),
}
"""Forms of tables → how their files end, and what writes them."""
OF_SEARCH = ("search", "layers")
"""Tabs whose figures a search leaves in its folder."""


def export(
    sections: Sequence[Section],
    folder: Path,
    figures: Sequence[str],
    tables: Sequence[str],
    erasers: Sequence[str] = (),
) -> list[Path]:
    """Write every figure and table of the sections; the paths, in order.

    Args:
        sections: of one report.
        folder: made if it is not there.
        figures: forms, of `svg`, `pdf`, `png`.
        tables: forms, of `csv`, `latex`.
        erasers: of the report, a user's own among them; each has one style in every figure.

    Raises:
        UserError: a form is unknown, or the folder cannot be written.
    """
    for key, forms, known in (("figures", figures, FIGURES), ("tables", tables, tuple(TABLES))):
        for form in forms:
            if form not in known:
                raise unknown(key, form, known)
    written: list[Path] = []
    styles = Styles([figure.panels for s in sections for figure in s.figures()], erasers)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for figure in section.figures() if figures else ():
                endings = [f".{form}" for form in figures]
                place = folder / file_name(figure.name)
                written += write(figure.panels, figure.title, place, endings, styles)
            for table in section.tables():
                for form in tables:
                    ending, text = TABLES[form]
                    written.append(folder / f"{file_name(table.name)}{ending}")
                    with whole(written[-1]) as temporary:
                        temporary.write_text(text(table), "utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}") from error
    return written


def search_figures(
    sections: Sequence[Section], folder: Path, erasers: Sequence[str] = ()
) -> list[Path]:
    """Write the figures of a search's tabs as SVG and PNG; the paths, in order.

    Raises:
        UserError: the folder cannot be written.
    """
    searched = [section for section in sections if section.name in OF_SEARCH]
    return export(searched, folder, ["svg", "png"], [], erasers)


def file_name(name: str) -> str:
    """A block's name as that of a file, whatever a user's metric calls it.

    >>> file_name("my table/../x")
    'my-table-..-x'
    """
    return re.sub(r"[^\w.-]+", "-", name).lstrip(".") or "block"
