"""Differences of two runs, paired and resampled on shared prompts or items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from countergen_edit.core.errors import UserError
from countergen_edit.decisions.judgement import selected
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.benchmarks import BENCHMARK_STORE as KEPT
from countergen_edit.metrics.benchmarks import COUNTED, difference_rows, read_counts
from countergen_edit.metrics.items import item_scores, logged_changes
from countergen_edit.metrics.r.formula import resampled_means
from countergen_edit.metrics.r.group_effect import GroupEffect, interval, root
from countergen_edit.metrics.results import STORE, Results
from countergen_edit.metrics.rows import UNEDITED, Row, with_holm
from countergen_edit.metrics.scored_texts import SCORED_BY, read, scores_of
from countergen_edit.metrics.statistics import estimate
from countergen_edit.runs.folder import finished_rows, read_records
from countergen_edit.runs.logs import Log

DIFFERENCES = {"group_effect_difference": "group effect, nats", "mean_abs_r_difference": "mean |R|"}
"""Row metrics of differences, with their titles."""
Runs = Mapping[str, Path]
"""Run folders by name."""


class Under(NamedTuple):
    """The measurements of a run under one edit, without a record of the unedited model."""

    run: str
    edit: str
    record: EditRecord | None
    measured: Mapping[Any, Any]


ALIKE: Sequence[Callable[[EditRecord | None], object]] = (
    lambda record: record and (record.eraser, record.places),
    lambda record: record and record.eraser,
    lambda record: record is None,
)
"""Keys by which edits of two runs are paired: recipe, eraser, whether it is an edit."""


def _pairs(runs: Runs, read_edits: Any) -> Iterator[tuple[Under, Under]]:
    """Every later run against the first: the selected edits, then all that are alike.

    Those are the unedited models, which runs without edits select too, and the only edits of a
    recipe, else of an eraser, else of the runs, controls left out.
    """
    sides, picked = [], []
    for name, path in runs.items():
        records = read_records(path)
        edits = [Under(name, edit, records.get(edit), m) for edit, m in read_edits(path).items()]
        sides.append([edit for edit in edits if not (edit.record and edit.record.baseline)])
        parts = Results(finished_rows(path), records).by_task().values()
        ids = {record.id if (record := selected(part)) else UNEDITED for part in parts}
        picked.append([edit for edit in sides[-1] if edit.edit in ids])
    for second, picked_second in zip(sides[1:], picked[1:], strict=True):
        pairs = {(one.edit, two.edit): (one, two) for one in picked[0] for two in picked_second}
        for one in sides[0]:
            for key in ALIKE:
                alike = [e for e in (*sides[0], *second) if key(e.record) == key(one.record)]
                if len(alike) == 2 and alike[1].run != one.run:
                    pairs.setdefault((one.edit, alike[1].edit), (one, alike[1]))
                    break
        yield from pairs.values()


def _sides(first: Under, second: Under) -> dict[str, str]:
    one, two = (UNEDITED if u.record is None else u.record.label for u in (first, second))
    return {"run": second.run, "against_run": first.run, "edit": two, "against_edit": one}


def _scored(run: Path) -> Mapping[str, Any]:
    """Edit → (set, axis) → template, outputs and texts → scored line of a sample."""
    by_edit: Any = defaultdict(lambda: defaultdict(dict))
    # A search of several tasks keeps each in a folder, and the unedited model in all of them.
    for path in sorted((run / STORE).glob(f"*/{SCORED_BY}/*.jsonl")):
        for line in read(path):
            texts = tuple(map(tuple, line["texts"]))
            sample = line["template"], tuple(line["outputs"]), texts
            by_edit[line["edit"]][line["dataset"], line["axis"]][sample] = line
    return dict(by_edit)


def paired(runs: Runs, seed: int) -> list[Row]:
    """Both figures of R in every later run minus the first, on shared samples."""
    return [row for pair in _pairs(runs, _scored) for row in _differences(*pair, seed)]


def paired_edits(first: tuple[Path, str], second: tuple[Path, str], seed: int) -> list[Row]:
    """The same of two edits by their ids, each in the folder of its run."""
    one, two = (
        Under(str(path), edit, read_records(path).get(edit), _scored(path).get(edit, {}))
        for path, edit in (first, second)
    )
    return _differences(one, two, seed)


def _differences(first: Under, second: Under, seed: int) -> list[Row]:
    rows = []
    for at, before in first.measured.items():
        after = second.measured.get(at, {})
        shared = [key for key in before if key in after]
        if not shared:
            continue
        pair = [scores_of([side[key] for key in shared]) for side in (before, after)]
        effects = [root(GroupEffect(scores, seed).squared_draws) for scores in pair]
        means = [resampled_means(scores, seed)[1] for scores in pair]
        estimates = (
            interval(effects[1] - effects[0]),
            estimate(means[1] - means[0], *pair[0].weights(seed), within=(-1, 1)),
        )
        samples = {"samples": len(shared), "samples_of_either": len(before.keys() | after)}
        for (metric, title), difference in zip(DIFFERENCES.items(), estimates, strict=True):
            detail = {"of": title, **_sides(first, second), **samples}
            columns = {"edit": second.edit, "split": "test", "n": len(pair[0].output), "seed": seed}
            rows.append(Row.of(metric, difference, pair[0].data, detail=detail, **columns))
    return rows


def paired_items(logs: Mapping[str, Log], seed: int) -> list[Row]:
    """Every later log against the first, item by item; P is Holm's over all rows.

    `UserError` if logs are of two tools or versions of a task, or share no scored item.
    """
    if len(logs) < 2:
        return []
    (name, first), *later = logs.items()
    rows: list[Row] = []
    before = item_scores(first.items)
    for other, second in later:
        tools = [log.tool.partition(" ")[0] for log in (second, first)]
        if tools[0] != tools[1]:
            raise UserError(
                f"{other} is a log of {tools[0]}, {name} one of {tools[1]}: no item is in both"
            )
        for task in first.versions.keys() & second.versions.keys():
            facts = first.versions[task], second.versions[task]
            for fact in {**facts[0], **facts[1]}:
                was, now = (side.get(fact, "none") for side in facts)
                if was != now:
                    raise UserError(
                        f"{task} is not the same in both: {fact} {was} in {name}, {now} in {other};"
                        " evaluate both alike"
                    )
        sides = _sides(Under(name, UNEDITED, None, {}), Under(other, UNEDITED, None, {}))
        changes = logged_changes(before, item_scores(second.items), seed, sides)
        if not changes:
            raise UserError(
                f"{other} and {name} have no item in common: the tasks are "
                f"{', '.join(second.versions)} and {', '.join(first.versions)}"
            )
        shared = first.prompts.keys() & second.prompts
        unequal = [key[0] for key in shared if first.prompts[key] != second.prompts[key]]
        for row in changes:
            row.detail["other_prompts"] = unequal.count(row.dataset)
        rows += changes
    with_holm([row for row in rows if row.detail["p"] is not None])
    return rows


def _counted(run: Path) -> Mapping[str, Any]:
    """Edit → benchmark → its counts."""
    by_edit: Any = defaultdict(dict)
    for path in sorted((run / STORE).glob(f"*/{KEPT}/*/*{COUNTED}")):
        counts = read_counts(path)
        by_edit[path.parent.name][counts["benchmark"][0]] = counts
    return dict(by_edit)


def paired_figures(runs: Runs, seed: int) -> list[Row]:
    """Benchmark figures of every later run against the first, on shared items."""
    rows = []
    for one, two in _pairs(runs, _counted):
        for name in [name for name in one.measured if name in two.measured]:
            counts = one.measured[name], two.measured[name]
            rows += difference_rows(name, *counts, seed, _sides(one, two), two.edit)
    with_holm([row for row in rows if row.detail["p"] is not None])
    return rows
