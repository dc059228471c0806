"""A run held to limits: every figure on every test set, as lines and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.writing import whole
from countergen_edit.decisions.gate import Check, GateVerdict, checked, difference, overall
from countergen_edit.metrics.base import Way
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import Shown, View
from countergen_edit.runs.compare import paired_edits
from countergen_edit.runs.run import Run

_COLUMNS = ("task", "dataset", "axis", "group_a", "group_b", "facets", "value", "lo", "hi")
_CHECKED = ("limit", "better", "p_adjusted", "verdict")
_Limits = Mapping[str, float | str]


@dataclass(frozen=True)
class GateResult:
    """The checks of every figure and set, of the run, edit and baseline `held`."""

    held: str
    checks: tuple[Check, ...]
    strict: bool

    @property
    def verdict(self) -> GateVerdict:
        """`holds` if every check does, `fails` if one fails, else `cannot tell`."""
        return overall(self.checks)

    @property
    def lines(self) -> list[str]:
        of = [check.verdict for check in self.checks]
        counts = ", ".join(f"{verdict} {of.count(verdict)}" for verdict in dict.fromkeys(of))
        by = "95 % intervals; P: Holm over the sets of a figure" if self.strict else "estimates"
        last = f"The gate {self.verdict}, by {by}. Checks: {counts}."
        return [self.held, *(check.text for check in self.checks), last]

    def write_json(self, path: Path) -> None:
        """Write every check as JSON, whole or not at all; `NotWrittenError` if it cannot be."""
        checks = []
        for check in self.checks:
            row = check.row.to_dict()
            about = {"figure": check.figure, **{key: row[key] for key in _COLUMNS}}
            checks.append(about | {key: getattr(check, key) for key in _CHECKED})
        content = {"held": self.held, "verdict": self.verdict, "strict": self.strict}
        with whole(path) as temporary:
            temporary.write_text(json.dumps(content | {"checks": checks}, indent=2) + "\n", "utf-8")


def gate_run(
    run: Run, limits: _Limits, margins: _Limits, baseline: Run | None = None, *, strict: bool = True
) -> GateResult:
    """Hold the figures of a run to limits, and to those of another run with margins.

    `UserError` if a figure is unknown, a limit is not a number, or there is none.
    """
    if not isinstance(margins, Mapping):
        raise UserError(f"margin={margins} names no figure: write margin.FIGURE=NUMBER")
    if not {**limits, **margins}:
        raise UserError("no limit is given: write countergen-edit gate RUN group_effect=0.3")
    if bool(margins) != (baseline is not None):
        raise UserError("baseline=RUN and margin.FIGURE=NUMBER go together: give both or neither")
    results, edit, name = _held(run)
    known = _figures(run, results)
    checks = _checks(run, known, results, limits, strict)
    if baseline is not None:
        others, other, other_name = _held(baseline)
        against = _by_subject(others.rows)
        paired = _by_subject(
            paired_edits((baseline.path, other), (run.path, edit), results.rows[0].seed)
        )

        def minus(row: Row) -> Row:
            of_both = paired.get(_subject(replace(row, metric=f"{row.metric}_difference")))
            return difference(row, against.get(_subject(row)), of_both)

        in_both = known.keys() & _figures(baseline, others).keys()
        shared = {figure: known[figure] for figure in known if figure in in_both}
        checks += _checks(run, shared, results, margins, strict, minus)
        name = f"{name}; against {other_name}"
    return GateResult(name, tuple(checks), strict)


def _held(run: Run) -> tuple[Results, str, str]:
    """The rows of the edit that a search keeps, else of no edit; its id, and its name in words.

    `UserError` if a task has no test rows.
    """
    record = run.best_record if run.results.of("cost", "validation") else None
    edit = record.id if record else UNEDITED
    results = run.results.only(edits=(edit,))
    tasks = {row.task for row in results.rows if row.split == "test"}
    if lacking := [task for task in run.manifest.get("tasks", ()) if task not in tasks]:
        raise UserError(
            f"{run.path} has no test rows of {lacking[0]!r}: let the run finish, or gate an "
            "audit of the model if the search kept no edit"
        )
    label = f" with {results.label(edit)}" if record else ""
    return results, edit, f"{run.path}, {run.manifest.get('model', 'model')}{label}"


def _figures(run: Run, results: Results) -> dict[str, tuple[View, Shown, Way]]:
    """The measured figures of which more or less is better, by the name of their rows."""
    return {
        how.name: (view, how, ways[how.name])
        for view in run.views
        if view.metric is not None
        for ways in [view.metric.directions(view.name)]
        for how in view.shown(results)
        if how.name in ways and results.of(how.name)
    }


def _checks(
    run: Run,
    known: Mapping[str, tuple[View, Shown, Way]],
    results: Results,
    limits: _Limits,
    strict: bool,
    minus: Callable[[Row], Row] | None = None,
) -> list[Check]:
    """Every set against the limit of each figure; of differences with `minus`."""
    checks, many = [], len(results.by_task()) > 1
    for name, given in limits.items():
        require_known("figure", name, known)
        figure = name if minus is None else f"margin.{name}"
        limit = _number(figure, given)
        view, how, better = known[name]
        rows = results.of(name)
        for row in rows:
            ends = [round(end, 9) for end in (row.lo, row.value, row.hi) if end is not None]
            if ends != sorted(ends):
                raise UserError(f"{run.path}: {name}={row.value} is outside its interval")
        if minus is not None:
            rows = [*map(minus, rows)]
            limit = limit if better == "lower" else -limit
        bound = f"{'at most' if better == 'lower' else 'at least'} {limit:g}"
        for check in checked(rows, limit, better, strict=strict):
            of = ", ".join(filter(None, (check.row.task if many else "", view.about(check.row))))
            about = ", ".join(filter(None, (figure, of)))
            signed = how.signed or minus is not None
            value = Number.of(check.row, how.digits, signed=signed).in_text
            p = Number(check.p_adjusted, bounded=True).text
            text = f"{check.verdict:<11}  {about}: {value}, {bound}, P {p}"
            checks.append(replace(check, figure=figure, of=of, text=text))
    return checks


def _number(figure: str, limit: float | str) -> float:
    """A limit, a text on the command line; `UserError` unless it is a finite number."""
    with suppress(TypeError, ValueError):
        if math.isfinite(float(limit)):
            return float(limit)
    raise UserError(f"{figure}={limit}: a limit is a number, such as 0.3")


def _subject(row: Row) -> tuple[object, ...]:
    """What tells a row from others of a run, whatever the edit and task."""
    facets = tuple(sorted(row.facets.items()))
    return row.metric, row.dataset, row.axis, row.group_a, row.group_b, facets


def _by_subject(rows: list[Row]) -> dict[tuple[object, ...], Row]:
    return {_subject(row): row for row in rows if row.split == "test"}
