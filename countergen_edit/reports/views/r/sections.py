"""The tables and figures of R (CounterGen, Figures 1 to 3 and Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from countergen_edit.decisions.changes import change_of
from countergen_edit.decisions.significance import class_of, is_tested
from countergen_edit.metrics.r.largest_gap import LARGEST
from countergen_edit.metrics.r.paired import HALF
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import GROUPS, UNEDITED, Row, dataset_label, set_label
from countergen_edit.metrics.scored_texts import SCORED_BY, read
from countergen_edit.reports.blocks import Block, Cell, Figure, Fold, Number, Section, Table
from countergen_edit.reports.panels import Panel, edit_dots
from countergen_edit.reports.views.by_layer import layer_figures
from countergen_edit.reports.views.r.sentences import definition

NATS, COVERED = "group effect, nats", (0.0, 0.1)
"""The label of an axis of group effects, and its least range."""
FEW = 3
"""Templates up to which 95 % intervals cover too little: see `statistics`."""
MOST = 1200
"""Lines of the table of texts."""


def bias(results: Results) -> list[Section]:
    """Bias set by set; the sets that erasers were fitted on are folded away."""
    blocks: list[Block] = [*_of_sets(results, "test")]
    if fitted := _of_sets(results, "fit"):
        blocks.append(Fold("Sets that erasers were fitted on", tuple(fitted)))
    return [Section("bias", "Bias", tuple(blocks))] if blocks else []


def _of_sets(results: Results, split: str) -> list[Figure | Table]:
    rows = results.unedited("group_effect", split)
    if not rows:
        return []
    gaps = results.unedited(LARGEST, split)
    edited = not results.is_unedited
    panels = [
        Panel(set_label(row), NATS, "", tuple(edit_dots(results, row)), True, covers=COVERED)
        for row in gaps or rows
    ]
    note = (
        f"Dots are group effects with 95 % intervals. {definition(rows)}"
        + (" The largest of all pairs of groups is shown." if gaps else "")
        + (" Hollow dots are the unedited model and the controls." if edited else "")
    )
    title = f"Bias{' under every edit' if edited else ''}, set by set"
    effect_note = f"{definition(rows)} n counts prompt-output pairs."
    blocks: list[Figure | Table] = [
        Figure("bias_by_set", title, tuple(panels), note),
        *([_largest(results, gaps)] if gaps else []),
        _by_edit(results, rows, "bias", "group_effect", "Group effect, set by set", effect_note),
        *_removed(results, rows),
        _tests(results, rows),
        _sizes(results, rows),
        *_directions(results, split),
    ]
    if split == "test":
        return blocks
    return [replace(b, name=f"{b.name}_{split}", title=f"{b.title} (fitted)") for b in blocks]


def _largest(results: Results, gaps: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in gaps:
        pair = " and ".join(row.detail["pair"]).replace("_", " ")
        p = Number(row.detail.get("p_adjusted"), bounded=True)
        after = [Number.of(results.under(row, edit)) for edit in results.compared]
        lines.append((set_label(row), str(row.detail["pairs"]), pair, p, *after))
    note = (
        "Nats between the two groups with the largest difference, which may be others under an "
        "edit. Intervals hold for all pairs at once. P is corrected over all pairs and sets (Holm)."
    )
    titles = ("set", "pairs", "largest gap", "P (Holm)", *map(results.label, results.compared))
    heading = "Largest gap between groups"
    return Table("largest_gap", heading, titles, tuple(lines), note, brief=True)


def _sizes(results: Results, rows: Sequence[Row]) -> Table:
    note = (
        "The mean of CounterGen's |R|. The within-group null is the mean |R| between names of one "
        "group: only the excess over it is bias."
    )
    counts = {
        set_label(row): row.detail.get("templates", FEW + 1)
        for row in results.unedited("mean_abs_r", rows[0].split)
    }
    if few := [f"{label} ({count})" for label, count in counts.items() if count <= FEW]:
        note += (
            f" Intervals over {FEW} templates or fewer cover the truth in about 9 cases of 10 "
            f"instead of 95 of 100: {', '.join(few)}."
        )
    null, title = {"null_abs_r": "within-group null"}, "Mean |R|, set by set"
    return _by_edit(results, rows, "mean_abs_r", "mean_abs_r", title, note, null)


def _by_edit(
    results: Results,
    rows: Sequence[Row],
    name: str,
    metric: str,
    title: str,
    note: str,
    references: Mapping[str, str] | None = None,
) -> Table:
    """A line for each set, a column for each edit, after the planted truth and references."""
    columns = {
        m: label
        for m, label in {f"planted_{metric}": "planted truth", **(references or {})}.items()
        if any(results.under(row, UNEDITED, m) for row in rows)
    }
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        before = [Number.of(results.under(row, UNEDITED, m)) for m in columns]
        after = [Number.of(results.under(row, edit, metric)) for edit in results.compared]
        lines.append((set_label(row), str(row.n), *before, *after))
    titles = ("set", "n", *columns.values(), *map(results.label, results.compared))
    return Table(name, title, titles, tuple(lines), note, brief=_is_brief(rows))


def _is_brief(rows: Sequence[Row]) -> bool:
    """Whether the rows are of one pair of groups, and so are few."""
    return not any(GROUPS in row.facets for row in rows)


def _removed(results: Results, rows: Sequence[Row]) -> list[Table]:
    edits = results.shown
    if not edits:
        return []
    shares: list[tuple[Cell, ...]] = []
    classes: list[tuple[Cell, ...]] = []
    for row in rows:
        found = [results.under(row, edit.id, "group_effect_removed") for edit in edits]
        changes = [change_of(results, row, edit.id) or class_of(row.detail) for edit in edits]
        shares.append((set_label(row), *(Number.of(share, percent=True) for share in found)))
        classes.append((set_label(row), *changes))
    titles = ("set", *(edit.label for edit in edits))
    note = "Share of the group effect that is removed; below 0 where it increased."
    meaning = (
        f"Removed: the interval lies above {HALF:.0%}. Partly removed: it lies above 0 and above "
        "the share that random directions remove. Not removed: it does not. Not significant: no "
        "significant bias before, and no increase."
    )
    return [
        Table("removed", "Bias removed", titles, tuple(shares), note, brief=_is_brief(rows)),
        Table("changes", "Change of each set's bias", titles, tuple(classes), meaning),
    ]


def _tests(results: Results, rows: Sequence[Row]) -> Table:
    """The test of every set of the unedited model, and the names it needs."""
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        p, least = (
            Number(row.detail.get(key), bounded=True) for key in ("p_adjusted", "least_p_adjusted")
        )
        share = Number.of(results.under(row, UNEDITED, "group_share"), percent=True)
        names = str(row.detail["people"]) if is_tested(row) else "–"
        needed = max(row.detail.get(key) or 0 for key in ("people_needed", "names_to_test"))
        status = class_of(row.detail)
        lines.append((set_label(row), status, p, least, share, names, str(needed or "–")))
    columns = (
        "set",
        "result",
        "P (Holm)",
        "smallest possible P",
        "share of group",
        "names per group",
        "names needed",
    )
    note = (
        "P: probability of an effect as large if names were assigned to groups at random. Share: "
        "the group's part of the squared difference between two names of the two groups. Needed: "
        "names per group with which P can be 0.05 and this effect is significant 4 times in 5."
    )
    title = f"Test of each set, {results.label(UNEDITED)}"
    return Table("tests", title, columns, tuple(lines), note)


def _directions(results: Results, split: str) -> list[Table]:
    rows = results.unedited("r", split)
    if not rows:
        return []
    known = any(row.detail.get("published") for row in rows)
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = [
            Number.of(after, signed=True, starred=bool(after and after.detail.get("starred")))
            for after in (results.under(row, edit) for edit in results.compared)
        ]
        if known:
            paper = row.detail.get("published") or {"r": None, "starred": False}
            cells.append(Number(paper["r"], digits=2, signed=True, starred=paper["starred"]))
        lines.append((set_label(row), *cells))
    pair = rows[0].group_a, rows[0].group_b
    first, second = pair if _is_brief(rows) else ("the first of the two groups", "the second")
    note = (
        f"Above 0, outputs are likelier after {first}; below 0, after {second}. Opposite biases "
        "cancel. * is two standard errors from 0."
    )
    columns = ("set", *map(results.label, results.compared), *(["published"] if known else []))
    heading = "Mean R: direction"
    return [Table("direction", heading, columns, tuple(lines), note, brief=_is_brief(rows))]


def layers(results: Results) -> list[Section]:
    """Bias under an edit at each layer; none without edits at several layers."""
    figures = layer_figures(
        results,
        "group_effect",
        name="layers",
        heading="Bias under an edit at each layer",
        y_label=NATS,
        title=set_label,
        limits=None,
    )
    return [Section("layers", "Layers and erasers", tuple(figures))] if figures else []


def main_row(results: Results, split: str = "test") -> Row | None:
    """The set that figures show: the first test set, or the validation set of its name."""
    main = next(iter(results.unedited("group_effect")), None)
    if split == "test":
        return main
    rows = results.unedited("group_effect", split)
    name = dataset_label(main.dataset) if main else None
    same = (row for row in rows if dataset_label(row.dataset) == name)
    return next(same, rows[0] if rows else None)


def examples(results: Results) -> list[Section]:
    """R of every output after every prompt, without and with each shown edit."""
    edits = [UNEDITED, *(edit.id for edit in results.shown)]
    by_edit: dict[str, dict[tuple[str, ...], float]] = {}
    z: dict[tuple[str, ...], float] = {}
    about: dict[tuple[str, ...], dict[str, Any]] = {}
    for edit, path in results.stored(SCORED_BY):
        for line in read(path) if edit in edits else ():
            for i, output in enumerate(line["outputs"]):
                key = line["dataset"], line["template"], output, *line["groups"]
                by_edit.setdefault(edit, {})[key] = line["r"][i]
                about.setdefault(key, line)
                if edit == UNEDITED and line["z"] is not None:
                    z[key] = line["z"][i]
    if not about:
        return []
    kept = [edit for edit in edits if edit in by_edit]
    pairs = list(dict.fromkeys(tuple(line["groups"]) for line in about.values()))
    groups = pairs[0] if len(pairs) == 1 else ("the first of two groups", "the second")
    lines: list[tuple[Cell, ...]] = []
    for key, line in list(about.items())[:MOST]:
        label = dataset_label(line["dataset"]) + (" (fitted)" if line["split"] == "fit" else "")
        cells = [Number(by_edit[edit].get(key), signed=True) for edit in kept]
        own_z, output = Number(z.get(key), digits=1, signed=True), key[2].strip()
        lines.append((label, *(side[0] for side in line["texts"]), output, own_z, *cells))
    note = (
        f"R is above 0 where the output is likelier after the prompt about {groups[0]}. It is over "
        "all names of a prompt, of which the first is shown. z is the difference of the groups' "
        f"mean log-probabilities, {results.label(UNEDITED)}, in standard errors over names."
    )
    if len(about) > MOST:
        note += f" The first of {len(about)}; the run's store has all."
    columns = ("set", *groups, "output", "z", *(f"R, {results.label(edit)}" for edit in kept))
    table = Table("scored_texts", "Prompts and outputs", columns, tuple(lines), note, True)
    return [Section("examples", "Examples", (table,))]
