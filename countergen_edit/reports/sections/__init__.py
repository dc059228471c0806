"""What a report shows: one function for each part, in the order of the page.

A section takes a `Run` and hands back its blocks, or None where the run has none of its rows. A new
metric gets its place in every report by one file here and one entry in `SECTIONS`. A section never
meets two axes: it is asked for each apart, and what it says of them stands below each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from countergen_edit.reports.blocks import Block, Section, Words
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
OF_THE_RUN = (facts,)
"""Those about the run as a whole, whatever its axes."""


def sections(run: Run) -> list[Section]:
    """The sections that a run has something for."""
    axes = run.by_axis()
    made = [
        make(run) if len(axes) == 1 or make in OF_THE_RUN else _axis_by_axis(make, axes)
        for make in SECTIONS
    ]
    return [section for section in made if section is not None]


def _axis_by_axis(make: Callable[[Run], Section | None], axes: Mapping[str, Run]) -> Section | None:
    """One section of what is said of each axis, under names that tell them apart."""
    made = {axis: found for axis, run in axes.items() if (found := make(run)) is not None}
    if not made:
        return None
    blocks: list[Block] = []
    for axis, section in made.items():
        blocks.append(Words((f"Axis: {axis}",)))
        for block in section.blocks:
            if not isinstance(block, Words) and not block.name.endswith(f"_{axis}"):
                title = f"{block.title}, {axis}"
                block = replace(block, name=f"{block.name}_{axis}", title=title)
            blocks.append(block)
    return replace(next(iter(made.values())), blocks=tuple(blocks))
