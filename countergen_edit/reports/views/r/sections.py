"""R of every set under every edit (CounterGen, Figures 1 to 3 and Table 1)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from countergen_edit.decisions.changes import change_of
from countergen_edit.decisions.significance import class_of, is_tested
from countergen_edit.metrics.r.largest_gap import LARGEST
from countergen_edit.metrics.r.paired import HALF
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import GROUPS, UNEDITED, Row, dataset_label, set_label
from countergen_edit.reports.blocks import Block, Cell, Figure, Fold, Number, Section, Table
from countergen_edit.reports.panels import Panel, edit_dots, state_dots
from countergen_edit.reports.views.by_layer import layer_figures
from countergen_edit.reports.views.r.sentences import definition

NATS, COVERED = "group effect, nats", (0.0, 0.1)
"""What an axis of group effects is called, and what it covers at least."""
FEW = 3
"""Templates up to which a 95 % interval falls short: `statistics` says by how much."""


def glance(states: Sequence[State]) -> list[Panel]:
    """The group effect of every test set in every state; of several pairs the largest gap."""
    largest = bool(states[0].results.unedited(LARGEST))
    metric = LARGEST if largest else "group_effect"

    def of(state: State) -> dict[Hashable, Row]:
        rows = state.results.of(metric, "test", state.edit)
        return {(row.dataset, row.group_a, row.group_b): row for row in rows}

    first = of(states[0])
    labels = {key: f"{set_label(row)}{_significance(row)}" for key, row in first.items()}
    series = state_dots(states, labels, of)
    if not series:
        return []
    title = "Largest gap between groups" if largest else "Bias of every test set"
    return [Panel(title, NATS, "", tuple(series), True, covers=COVERED, joined=True)]


def _significance(row: Row) -> str:
    """Of a difference that is not significant its P; that a set cannot be tested."""
    status = class_of(row.detail)
    if status == "not significant":
        return f" (P {row.detail['p_adjusted']:.2f})"
    return f" ({status})" if status == "cannot be tested" else ""


def bias(results: Results) -> list[Section]:
    """Bias, what names alone would show of it, and its direction, set by set.

    Sets that erasers were fitted on are folded away: what an edit does there proves nothing.
    """
    blocks: list[Block] = [*_of_sets(results, "test")]
    if fitted := _of_sets(results, "fit"):
        blocks.append(Fold("Sets that erasers were fitted on", tuple(fitted)))
    return [Section("bias", "Bias", tuple(blocks))] if blocks else []


def _of_sets(results: Results, split: str) -> list[Figure | Table]:
    """What is shown of the sets of a split."""
    rows = results.unedited("group_effect", split)
    if not rows:
        return []
    gaps = results.unedited(LARGEST, split)
    shown = gaps or rows
    panels = [
        Panel(set_label(row), NATS, "", tuple(edit_dots(results, row)), True, covers=COVERED)
        for row in shown
    ]
    figure = Figure(
        "bias_by_set",
        f"Bias{'' if results.is_unedited else ' under every edit'}, set by set",
        tuple(panels),
        f"Dots are group effects with 95 % intervals. {definition(rows)}"
        + (" Of all pairs of groups the largest is shown." if gaps else "")
        + ("" if results.is_unedited else " Hollow is what an edit is held against."),
    )
    blocks: list[Figure | Table] = [
        figure,
        *_largest(results, gaps),
        _effects(results, rows),
        *_removed(results, rows),
        _tests(results, rows),
        _sizes(results, rows),
        *_directions(results, split),
    ]
    if split == "test":
        return blocks
    return [replace(b, name=f"{b.name}_{split}", title=f"{b.title} (fitted)") for b in blocks]


def _effects(results: Results, rows: Sequence[Row]) -> Table:
    note = f"{definition(rows)} n counts prompt-output pairs."
    return _by_edit(results, rows, "group_effect", "Group effect, set by set", (), note)


def _largest(results: Results, gaps: Sequence[Row]) -> list[Table]:
    """Of each set the two groups that are furthest apart, under every edit."""
    if not gaps:
        return []
    lines: list[tuple[Cell, ...]] = []
    for row in gaps:
        pair = " and ".join(row.detail["pair"]).replace("_", " ")
        p = Number(row.detail.get("p_adjusted"), bounded=True)
        after = [Number.of(results.under(row, edit)) for edit in results.compared]
        lines.append((set_label(row), str(row.detail["pairs"]), pair, p, *after))
    note = (
        "Nats between the two groups that are furthest apart; under an edit these may be others. "
        "Intervals are of the largest of all pairs: they hold for every pair at once. P is Holm's "
        "over all pairs and sets."
    )
    titles = ("set", "pairs", "furthest apart", "P (Holm)", *map(results.label, results.compared))
    return [
        Table("largest_gap", "Largest gap between groups", titles, tuple(lines), note, brief=True)
    ]


def _sizes(results: Results, rows: Sequence[Row]) -> Table:
    note = (
        "CounterGen's R, its absolute value averaged. The floor is what names of one group would "
        "show: mean |R| is bias only as far as it is above."
    )
    counts = {
        set_label(row): row.detail.get("templates", FEW + 1)
        for row in results.unedited("mean_abs_r", rows[0].split)
    }
    if few := [f"{label} ({count})" for label, count in counts.items() if count <= FEW]:
        note += (
            f" Intervals over {FEW} templates or fewer cover the truth in about nine cases of ten "
            f"instead of 95 of 100: {', '.join(few)}."
        )
    return _by_edit(results, rows, "mean_abs_r", "Mean |R|, set by set", ("null_abs_r",), note)


def _by_edit(
    results: Results,
    rows: Sequence[Row],
    metric: str,
    title: str,
    baselines: Sequence[str],
    note: str,
) -> Table:
    """A line for each set, a column for each edit; before them the truth, and the floor."""
    columns = {
        f"planted_{metric}": "planted truth",
        **dict.fromkeys(baselines, "within_group_null"),
    }
    columns = {
        m: label for m, label in columns.items() if any(results.under(r, UNEDITED, m) for r in rows)
    }
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        before = [Number.of(results.under(row, UNEDITED, m)) for m in columns]
        after = [Number.of(results.under(row, edit, metric)) for edit in results.compared]
        lines.append((set_label(row), str(row.n), *before, *after))
    edits = map(results.label, results.compared)
    titles = ("set", "n", *columns.values(), *edits)
    name = "bias" if metric == "group_effect" else metric
    return Table(name, title, titles, tuple(lines), note, brief=_is_brief(rows))


def _is_brief(rows: Sequence[Row]) -> bool:
    """Whether a line for each row is few; every pair of several groups is not."""
    return not any(GROUPS in row.facets for row in rows)


def _removed(results: Results, rows: Sequence[Row]) -> list[Table]:
    edits = results.shown
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        gone = [results.under(row, edit.id, "group_effect_removed") for edit in edits]
        lines.append((set_label(row), *(Number.of(share, percent=True) for share in gone)))
    if not edits:
        return []
    titles = ("set", *(edit.label for edit in edits))
    brief = _is_brief(rows)
    note = "Share of the group effect that is gone; below 0 where it grew."
    classes = [
        (set_label(row), *(change_of(results, row, e.id) or class_of(row.detail) for e in edits))
        for row in rows
    ]
    said = (
        f"Removed: the interval shows {HALF:.0%} or more gone. Partly removed: some, and more than "
        "under random directions. Not removed: less. Not significant: there was no significant "
        "bias, and the edit increased none."
    )
    return [
        Table("removed", "Bias removed", titles, tuple(lines), note, brief=brief),
        Table("changes", "What each edit did to the bias", titles, tuple(classes), said),
    ]


def _tests(results: Results, rows: Sequence[Row]) -> Table:
    """Of the unedited model: the test of every set, and how many names it needs."""
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        p, least = (
            Number(row.detail.get(key), bounded=True) for key in ("p_adjusted", "least_p_adjusted")
        )
        share = Number.of(results.under(row, UNEDITED, "group_share"), percent=True)
        people = str(row.detail["people"]) if is_tested(row) else "–"
        needed = max(row.detail.get(key) or 0 for key in ("people_needed", "names_to_test"))
        lines.append(
            (set_label(row), class_of(row.detail), p, least, share, people, str(needed or "–"))
        )
    return Table(
        "tests",
        f"Test of each set, {results.label(UNEDITED)}",
        (
            "set",
            "result",
            "P (Holm)",
            "smallest possible P",
            "share of group",
            "names per group",
            "names needed",
        ),
        tuple(lines),
        "P: of an effect as large if groups were assigned to the names at random. Share: of the "
        "squared difference between two people of the two groups. Needed: names per group with "
        "which P can be 0.05, and an effect of this size is significant 4 times in 5.",
    )


def _directions(results: Results, split: str) -> list[Table]:
    rows = results.unedited("r", split)
    if not rows:
        return []
    known = any(row.detail.get("published") for row in rows)
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = []
        for edit in results.compared:
            after = results.under(row, edit)
            star = bool(after and after.detail.get("starred"))
            cells.append(Number.of(after, signed=True, starred=star))
        if known:
            paper = row.detail.get("published") or {"r": None, "starred": False}
            cells.append(Number(paper["r"], digits=2, signed=True, starred=paper["starred"]))
        lines.append((set_label(row), *cells))
    titles = (*map(results.label, results.compared), *(["published"] if known else []))
    pair = rows[0].group_a, rows[0].group_b
    first, second = pair if _is_brief(rows) else ("the first of the two groups", "the second")
    table = Table(
        "direction",
        "Mean R: in which direction",
        ("set", *titles),
        tuple(lines),
        f"Above 0, outputs are likelier after {first}; below 0, after {second}. "
        "Opposite biases cancel. * is two standard errors from 0.",
        brief=_is_brief(rows),
    )
    return [table]


def layers(results: Results) -> list[Section]:
    """What an edit at each layer leaves; nothing where a run has edits at one layer only."""
    blocks: list[Block] = [
        *layer_figures(
            results,
            "group_effect",
            name="layers",
            heading="Bias left by an edit at each layer",
            y_label=NATS,
            title=set_label,
            limits=None,
        )
    ]
    return [Section("layers", "Layers and erasers", tuple(blocks))] if blocks else []


def main_row(results: Results, split: str = "test") -> Row | None:
    """The set that figures show: the first test set, on validation data that of its family."""
    main = next(iter(results.unedited("group_effect")), None)
    if split == "test":
        return main
    rows = results.unedited("group_effect", split)
    family = dataset_label(main.dataset) if main else None
    same = (row for row in rows if dataset_label(row.dataset) == family)
    return next(same, rows[0] if rows else None)
