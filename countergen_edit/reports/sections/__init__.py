"""What a report shows: one function for each part, in the order of the page.

A section takes a `Run` and hands back its blocks, or None where the run has none of its rows. A new
metric gets its place in every report by one file here and one entry in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable

from countergen_edit.reports.blocks import Section
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.bias import bias
from countergen_edit.reports.sections.cid import cid
from countergen_edit.reports.sections.costs import costs
from countergen_edit.reports.sections.examples import examples
from countergen_edit.reports.sections.facts import facts
from countergen_edit.reports.sections.fairpair import fairpair
from countergen_edit.reports.sections.layers import layers
from countergen_edit.reports.sections.overview import overview
from countergen_edit.reports.sections.sweep import sweep
from countergen_edit.reports.sections.templates import templates
from countergen_edit.reports.sections.wordings import wordings

SECTIONS: tuple[Callable[[Run], Section | None], ...] = (
    overview,
    sweep,
    bias,
    layers,
    costs,
    wordings,
    templates,
    fairpair,
    cid,
    examples,
    facts,
)
"""Every section, in the order of its tab."""


def sections(run: Run) -> list[Section]:
    """The sections that a run has something for."""
    return [found for make in SECTIONS if (found := make(run)) is not None]
