"""R of single texts: every output after every prompt, without and with each shown edit.

Comes in: what `R` keeps of single texts in a run's store. Goes out: the tab Examples.
"""

from __future__ import annotations

from typing import Any

from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, dataset_label
from countergen_edit.metrics.scored_texts import SCORED_BY, read
from countergen_edit.reports.blocks import Cell, Number, Section, Table

MOST = 1200
"""Lines of a table of texts; the store holds them all."""


def examples(results: Results) -> list[Section]:
    """R of every output after every template, without and with each shown edit."""
    edits = [UNEDITED, *(edit.id for edit in results.shown)]
    by_edit: dict[str, dict[tuple[str, ...], float]] = {}
    z: dict[tuple[str, ...], float] = {}
    about: dict[tuple[str, ...], dict[str, Any]] = {}
    for edit, path in results.stored(SCORED_BY):
        if edit not in edits:
            continue
        by_text = by_edit.setdefault(edit, {})
        for line in read(path):
            for i, output in enumerate(line["outputs"]):
                key = line["dataset"], line["template"], output, *line["groups"]
                by_text[key] = line["r"][i]
                about.setdefault(key, line)
                if edit == UNEDITED and line["z"] is not None:
                    z[key] = line["z"][i]
    kept = [edit for edit in edits if edit in by_edit]
    if not about:
        return []
    pairs = list(dict.fromkeys(tuple(line["groups"]) for line in about.values()))
    groups = pairs[0] if len(pairs) == 1 else ("the first of two groups", "the second")
    lines: list[tuple[Cell, ...]] = []
    for key, line in list(about.items())[:MOST]:
        dataset, _, output, *_ = key
        label = dataset_label(dataset) + (" (fitted)" if line["split"] == "fit" else "")
        cells = [Number(by_edit[edit].get(key), signed=True) for edit in kept]
        own_z = Number(z.get(key), digits=1, signed=True)
        lines.append((label, *(side[0] for side in line["texts"]), output.strip(), own_z, *cells))
    note = (
        f"R is above 0 where the output is likelier after the prompt about {groups[0]}. Of a "
        "prompt's names the first is shown; R averages over all of them. z is the difference of "
        f"the groups' mean log-probabilities, {results.label(UNEDITED)}, in standard errors over "
        "names."
    )
    if len(about) > MOST:
        note += f" The first of {len(about)}; the run's store holds all."
    table = Table(
        "scored_texts",
        "Prompts and outputs",
        ("set", *groups, "output", "z", *(f"R, {results.label(edit)}" for edit in kept)),
        tuple(lines),
        note,
        searchable=True,
    )
    return [Section("examples", "Examples", (table,))]
