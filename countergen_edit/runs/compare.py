"""Comparison of two runs, paired on shared prompts or benchmark items, resampled alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from countergen_edit.core.errors import UserError
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.benchmarks.figures import COUNTED, Counted, difference_rows
from countergen_edit.metrics.benchmarks.figures import read as read_counted
from countergen_edit.metrics.benchmarks.items import STORE as KEPT
from countergen_edit.metrics.items import scores_of as scores_of_items
from countergen_edit.metrics.logged import change_rows, score_rows
from countergen_edit.metrics.r import resampled_abs_r
from countergen_edit.metrics.r.group_effect import GroupEffect, interval, root
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.scored_texts import SCORED_BY, read, scores_of
from countergen_edit.metrics.statistics import adjusted, estimate
from countergen_edit.runs.folder import read_records
from countergen_edit.runs.logs import Log

DIFFERENCES = {"group_effect_difference": "group effect, nats", "mean_abs_r_difference": "mean |R|"}
"""Row metrics of differences, with their titles."""
Line = Mapping[str, Any]


@dataclass(frozen=True)
class Under:
    """A run under one edit."""

    run: str
    edit: str
    record: EditRecord | None

    @property
    def label(self) -> str:
        return UNEDITED if self.record is None else self.record.label

    @property
    def recipe(self) -> object:
        """The same for edits made in the same way, whatever the model and the data."""
        return None if self.record is None else (self.record.eraser, self.record.places)


@dataclass(frozen=True)
class Scored(Under):
    """The texts that a run scored under one edit, by set and sample."""

    sets: Mapping[tuple[str, str], Mapping[tuple[object, ...], Line]]
    """(set, split) → what identifies a sample → its line."""


@dataclass(frozen=True)
class Figures(Under):
    """What a run counted of benchmarks under one edit."""

    by_name: Mapping[str, Counted]


OneOf = TypeVar("OneOf", bound=Under)


def scored_edits(run: Path, name: str) -> list[Scored]:
    """The scored texts of a run, one entry for each edit."""
    records = read_records(run)
    by_edit: dict[str, dict[tuple[str, str], dict[tuple[object, ...], Line]]] = {}
    # A search of several tasks keeps each in a folder, and the unedited model in all of them.
    for path in sorted((run / STORE).glob(f"*/{SCORED_BY}/*.jsonl")):
        for line in read(path):
            texts = tuple(tuple(side) for side in line["texts"])
            key = line["template"], tuple(line["outputs"]), texts
            sets = by_edit.setdefault(line["edit"], {})
            sets.setdefault((line["dataset"], line["split"]), {})[key] = line
    return [Scored(name, edit, records.get(edit), sets) for edit, sets in by_edit.items()]


def differences(first: Scored, second: Scored, seed: int) -> list[Row]:
    """Rows of both figures of `second` minus those of `first`, over the samples both have."""
    rows = []
    for at, of_first in first.sets.items():
        of_second = second.sets.get(at, {})
        shared = [key for key in of_first if key in of_second]
        if not shared:
            continue
        pair = [scores_of([side[key] for key in shared]) for side in (of_first, of_second)]
        effects = [root(GroupEffect(scores, seed).squared_draws) for scores in pair]
        effect = effects[1] - effects[0]
        means = [resampled_abs_r(scores, seed) for scores in pair]
        estimates = (
            interval(float(effect[0]), effect[1:]),
            estimate(means[1] - means[0], *pair[0].weights(seed), within=(-1, 1)),
        )
        rows += [
            Row.of_set(
                pair[0].data,
                metric,
                difference,
                edit=second.edit,
                split=at[1],
                n=len(pair[0].output),
                seed=seed,
                detail={
                    "of": DIFFERENCES[metric],
                    **_sides(first, second),
                    "samples": len(shared),
                    "samples_of_either": len(of_first.keys() | of_second.keys()),
                },
            )
            for metric, difference in zip(DIFFERENCES, estimates, strict=True)
        ]
    return rows


def paired(runs: Sequence[tuple[str, Path]], seed: int) -> list[Row]:
    """Every later run against the first: the unedited models, and edits of the same recipe.

    An edit without such a partner is paired with the only one of its eraser, else with the only
    edit. Random directions are left out.
    """
    sides = [scored_edits(path, name) for name, path in runs]
    return [row for one, two in _pairs(sides) for row in differences(one, two, seed)]


def _pairs(sides: Sequence[Sequence[OneOf]]) -> Iterator[tuple[OneOf, OneOf]]:
    """Every edit of the first run with the one of each later run that it is held against."""
    first, *others = sides
    for second in others:
        for one in first:
            partner = _partner(one, first, second)
            if partner is not None:
                yield one, partner


def _sides(first: Under, second: Under) -> dict[str, str]:
    """How a row of a difference names both."""
    return {
        "run": second.run,
        "against_run": first.run,
        "edit": second.label,
        "against_edit": first.label,
    }


def _partner(one: OneOf, first: Sequence[OneOf], second: Sequence[OneOf]) -> OneOf | None:
    first, second = (
        [s for s in side if s.record is None or not s.record.baseline] for side in (first, second)
    )
    if one not in first:
        return None
    same = [other for other in second if other.recipe == one.recipe]
    if same:
        return same[0]
    edits = [[s for s in side if s.record is not None] for side in (first, second)]
    of_eraser = [[s for s in side if _eraser(s) == _eraser(one)] for side in edits]
    for own, others in (of_eraser, edits):
        if len(own) == len(others) == 1:
            return others[0]
    return None


def _eraser(of: Under) -> str:
    return UNEDITED if of.record is None else of.record.eraser


def rows_of_log(log: Log, seed: int) -> list[Row]:
    """The mean of every task and metric of a log."""
    return score_rows(scores_of_items(log.items), seed)


def paired_items(logs: Mapping[str, Log], seed: int) -> list[Row]:
    """Every later log against the first, item by item; P is Holm's over all rows.

    Raises:
        UserError: logs are of two tools or versions of a task, or share no scored item.
    """
    if len(logs) < 2:
        return []
    (name, first), *others = logs.items()
    before, rows = scores_of_items(first.items), list[Row]()
    for other, second in others:
        tools = [log.tool.partition(" ")[0] for log in (second, first)]
        if tools[0] != tools[1]:
            raise UserError(
                f"{other} is a log of {tools[0]}, {name} one of {tools[1]}: no item is in both"
            )
        for task in first.versions.keys() & second.versions.keys():
            _require_same(task, {name: first.versions[task], other: second.versions[task]})
        after = scores_of_items(second.items)
        detail = {"run": other, "against_run": name, "edit": UNEDITED, "against_edit": UNEDITED}
        own = change_rows(before, after, seed, detail)
        if not own:
            raise UserError(
                f"{other} and {name} have no item in common: the tasks are "
                f"{', '.join(second.versions)} and {', '.join(first.versions)}"
            )
        for row in own:
            keys = {key for key in first.prompts.keys() & second.prompts if key[0] == row.dataset}
            odd = sum(first.prompts[key] != second.prompts[key] for key in keys)
            rows.append(replace(row, detail={**row.detail, "other_prompts": odd}))
    return _corrected(rows)


def figures_of(run: Path, name: str) -> list[Figures]:
    """The benchmark figures of a run, one entry for each edit."""
    records = read_records(run)
    by_edit: dict[str, dict[str, Counted]] = {}
    for path in sorted((run / STORE).glob(f"*/{KEPT}/*/*{COUNTED}")):
        counted = read_counted(path)
        by_edit.setdefault(path.parent.name, {})[counted.benchmark] = counted
    return [Figures(name, edit, records.get(edit), own) for edit, own in by_edit.items()]


def paired_figures(runs: Sequence[tuple[str, Path]], seed: int) -> list[Row]:
    """Benchmark figures of every later run against the first, on shared items.

    Raises:
        UserError: two runs scored the texts of a benchmark in different ways.
    """
    rows = []
    for one, two in _pairs([figures_of(path, name) for name, path in runs]):
        for name, before in one.by_name.items():
            if (after := two.by_name.get(name)) is not None:
                how = {side.run: {"normalise": side.by_name[name].normalise} for side in (one, two)}
                _require_same(before.title, how)
                sides = _sides(one, two)
                rows += difference_rows(before, after, seed, sides, edit=two.edit)
    return _corrected(rows)


def unpaired(runs: Sequence[tuple[str, Path]], logs: Sequence[str]) -> str:
    """Why benchmarks of our runs are not paired with logs of other tools, if any are there."""
    measured = [name for name, path in runs if figures_of(path, name)]
    if not (measured and logs):
        return ""
    return (
        f"Benchmarks of {', '.join(measured)} are not paired with {', '.join(logs)}: another "
        "tool's log knows an item by a hash of its own template, ours by its number and texts as "
        "they were published."
    )


def _corrected(rows: Sequence[Row]) -> list[Row]:
    """The rows with P over all of them."""
    tested = [row for row in rows if row.detail["p"] is not None]
    corrected = iter(adjusted([row.detail["p"] for row in tested]).tolist())
    return [
        row
        if row.detail["p"] is None
        else replace(row, detail={**row.detail, "p_adjusted": next(corrected)})
        for row in rows
    ]


def _require_same(task: str, versions: Mapping[str, Mapping[str, str]]) -> None:
    (first, own), (second, other) = versions.items()
    for fact in dict.fromkeys([*own, *other]):
        was, now = own.get(fact, "none"), other.get(fact, "none")
        if was != now:
            raise UserError(
                f"{task} is not the same in both: {fact} {was} in {first}, {now} in {second}; "
                "evaluate both alike"
            )
