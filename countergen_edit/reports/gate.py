"""A run held to limits: every figure on every test set, as lines, JUnit XML and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.writing import whole
from countergen_edit.decisions.gate import Check, Verdict, checked, difference, overall
from countergen_edit.metrics.base import Way
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import Shown, View
from countergen_edit.runs.compare import paired_edits
from countergen_edit.runs.run import Run

COLUMNS = ("task", "dataset", "axis", "group_a", "group_b", "facets", "value", "lo", "hi")
"""The columns of a row that stand in the JSON file."""
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Line:
    """A check as people read it."""

    check: Check
    figure: str
    of: str
    """The set, group and facets."""
    how: Shown

    @property
    def text(self) -> str:
        """Verdict, figure, interval and limit."""
        row, limit = self.check.row, self.check.limit
        bound = "at most" if self.check.better == "lower" else "at least"
        p = Number(self.check.p_adjusted, digits=3, bounded=True).text
        value = Number.of(row, self.how.digits, signed=self.how.signed).in_text
        about = ", ".join(filter(None, (self.figure, self.of)))
        return f"{self.check.verdict:<11}  {about}: {value}, {bound} {limit:g}, P {p}"


@dataclass(frozen=True)
class Gate:
    """What came of it."""

    held: str
    """The run and its model or edit, and the baseline if there is one."""
    checks: tuple[Line, ...]
    """Of every figure and set."""
    strict: bool
    """Whether intervals decided."""

    @property
    def verdict(self) -> Verdict:
        """`holds` if every check does, `fails` if one fails, else `cannot tell`."""
        return overall([line.check for line in self.checks])

    @property
    def lines(self) -> list[str]:
        """What is held, a line for each check, and the verdict."""
        of = [line.check.verdict for line in self.checks]
        counts = ", ".join(f"{verdict} {of.count(verdict)}" for verdict in dict.fromkeys(of))
        by = "95 % intervals; P: Holm over the sets of a figure" if self.strict else "estimates"
        last = f"The gate {self.verdict}, by {by}. Checks: {counts}."
        return [self.held, *(line.text for line in self.checks), last]

    def write_json(self, path: Path) -> None:
        """Write every check as JSON, whole or not at all; `NotWrittenError` if it cannot be."""
        checks = []
        for line in self.checks:
            row = line.check.row.to_dict()
            about = {"figure": line.figure, **{key: row[key] for key in COLUMNS}}
            checks.append(about | {k: v for k, v in vars(line.check).items() if k != "row"})
        content = {"held": self.held, "verdict": self.verdict, "strict": self.strict}
        with whole(path) as temporary:
            temporary.write_text(json.dumps(content | {"checks": checks}, indent=2) + "\n", "utf-8")

    def write_junit(self, path: Path) -> None:
        """Write a test case for each check as JUnit XML, likewise; no telling is an error."""
        kinds = {"fails": "failure", "cannot tell": "error"}
        every = [kinds.get(line.check.verdict, "") for line in self.checks]
        counts = {f"{kind}s": str(every.count(kind)) for kind in kinds.values()}
        about = {"name": as_xml(self.held), "tests": str(len(every)), **counts}
        suite = ElementTree.Element("testsuite", about)
        for line, kind in zip(self.checks, every, strict=True):
            named = {"classname": line.figure, "name": as_xml(line.of or line.figure)}
            case = ElementTree.SubElement(suite, "testcase", named)
            if kind:
                ElementTree.SubElement(case, kind, message=as_xml(line.text))
        with whole(path) as temporary:
            ElementTree.ElementTree(suite).write(temporary, "utf-8", xml_declaration=True)


def as_xml(text: str) -> str:
    """A text without what XML forbids."""
    return NO_XML.sub("\ufffd", text)


class Held:
    """The rows of a run that are held: of the edit that a search keeps, else of no edit.

    Raises
    ------
    UserError
        A task of the run has no test rows.
    """

    def __init__(self, run: Run) -> None:
        record = run.best_record if run.results.of("cost", "validation") else None
        self.run, self.edit = run, record.id if record else UNEDITED
        self.results = run.results.only(edits=(self.edit,))
        tasks = {row.task for row in self.results.rows if row.split == "test"}
        if lacking := [task for task in run.manifest.get("tasks", ()) if task not in tasks]:
            raise UserError(
                f"{run.path} has no test rows of {lacking[0]!r}: let the run finish, or gate an "
                "audit of the model if the search kept no edit"
            )

    @property
    def name(self) -> str:
        """The folder and the model."""
        label = "" if self.edit == UNEDITED else f" with {self.results.label(self.edit)}"
        return f"{self.run.path}, {self.run.manifest.get('model', 'model')}{label}"

    def figures(self) -> dict[str, tuple[View, Shown, Way]]:
        """The measured figures of which more or less is better, by the name of their rows."""
        return {
            how.name: (view, how, ways[how.name])
            for view in self.run.views
            if view.metric is not None
            for ways in [view.metric.directions(view.name)]
            for how in view.shown(self.results)
            if how.name in ways and self.results.of(how.name)
        }

    def checks(
        self, limits: Mapping[str, float | str], strict: bool, other: Held | None = None
    ) -> list[Line]:
        """Every set against the limit of each figure; of differences where another is given."""
        known, many = self.figures(), len(self.results.by_task()) > 1
        if other is not None:
            known = {name: of for name, of in known.items() if name in other.figures()}
        lines = []
        for name, limit in limits.items():
            require_known("figure", name, known)
            figure = name if other is None else f"margin.{name}"
            bound = number(figure, limit)
            view, how, better = known[name]
            rows = self.results.of(name)
            for row in rows:
                ends = [round(end, 9) for end in (row.lo, row.value, row.hi) if end is not None]
                if ends != sorted(ends):
                    raise UserError(f"{self.run.path}: {name}={row.value} is outside its interval")
            if other is not None:
                rows, how = self.minus(other, rows), replace(how, signed=True)
                bound = bound if better == "lower" else -bound
            for check in checked(rows, bound, better, strict=strict):
                of = (check.row.task if many else "", view.about(check.row))
                lines.append(Line(check, figure, ", ".join(filter(None, of)), how))
        return lines

    def minus(self, other: Held, rows: Sequence[Row]) -> list[Row]:
        """The rows of a figure less those of another run about the same sets."""
        sides = (other.run.path, other.edit), (self.run.path, self.edit)
        known, paired = (
            {_about(row): row for row in every if row.split == "test"}
            for every in (other.results.rows, paired_edits(*sides, rows[0].seed))
        )
        return [
            difference(
                row, known.get(_about(row)), paired.get(_about(row, f"{row.metric}_difference"))
            )
            for row in rows
        ]


def number(figure: str, limit: float | str) -> float:
    """A limit, a text on the command line; `UserError` unless it is a finite number."""
    with suppress(TypeError, ValueError):
        if math.isfinite(float(limit)):
            return float(limit)
    raise UserError(f"{figure}={limit}: a limit is a number, such as 0.3")


def _about(row: Row, metric: str = "") -> tuple[object, ...]:
    """What tells a row from others of a run, whatever the edit."""
    facets = tuple(sorted(row.facets.items()))
    return metric or row.metric, row.dataset, row.axis, row.group_a, row.group_b, facets


def gate(
    run: Run,
    limits: Mapping[str, float | str],
    margins: Mapping[str, float | str],
    baseline: Run | None = None,
    *,
    strict: bool = True,
) -> Gate:
    """Hold the figures of a run to limits, and to those of another run with margins.

    `UserError` if a figure is unknown, a limit is no number, or there is none.
    """
    if not isinstance(margins, Mapping):
        raise UserError(f"margin={margins} names no figure: write margin.FIGURE=NUMBER")
    if not {**limits, **margins}:
        raise UserError("no limit is given: write countergen-edit gate RUN group_effect=0.3")
    if bool(margins) != (baseline is not None):
        raise UserError("baseline=RUN and margin.FIGURE=NUMBER go together: give both or neither")
    held = Held(run)
    lines = held.checks(limits, strict)
    if baseline is None:
        return Gate(held.name, tuple(lines), strict)
    other = Held(baseline)
    lines += held.checks(margins, strict, other)
    return Gate(f"{held.name}; against {other.name}", tuple(lines), strict)
