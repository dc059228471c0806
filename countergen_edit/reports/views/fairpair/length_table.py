"""FairPair's table of lengths: words a continuation of either side, and two tests of them.

Comes in: the rows of a run. Goes out: a plain table, none where lengths were not measured.
"""

from __future__ import annotations

from countergen_edit.metrics.fairpair.lengths import PLAIN, RECOMMENDED, SOURCE, TARGET
from countergen_edit.metrics.results import Results
from countergen_edit.reports.blocks import Cell, Number, Table


def length_table(results: Results) -> Table | None:
    """How long the continuations of the two sides are, and whether they differ in that."""
    rows = results.of("fairpair_length_difference")
    by_test = {
        test: [row for row in rows if row.facets["test"] == test] for test in (RECOMMENDED, PLAIN)
    }
    lines: list[tuple[Cell, ...]] = []
    for own, pooled in zip(*by_test.values(), strict=True):
        means = {row.facets["side"]: row for row in results.of("fairpair_length", edit=own.edit)}
        sides = [Number.of(means[side], 1) for side in (SOURCE, TARGET)]
        cells: list[Cell] = []
        for test in (own, pooled):
            cells += [
                Number.of(test, 2, signed=True),
                Number(test.detail["p"], digits=4, bounded=True),
            ]
        lines.append((results.label(own.edit), *sides, *cells))
    titles = ("difference by prompt", "p, over prompts", "difference of all", "p, over all")
    if not lines:
        return None
    return Table(
        "fairpair_lengths",
        "Words a continuation",
        ("edit", SOURCE, TARGET, *titles),
        tuple(lines),
        "The paper found no significant difference of lengths, and names neither unit nor "
        "test: over all continuations is Welch's t-test. Recommended is the paired test over "
        "prompts, which differ in how long an answer they get. A continuation is cut at "
        "max_new_tokens.",
    )
