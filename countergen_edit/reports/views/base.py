"""Views of metrics: the tables, figures and sentences of their rows.

The default view shows a metric without one by the title and unit that it declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from countergen_edit.core.registry import Registry
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.base import Cost, Kind, Metric
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, edit_dots


@dataclass(frozen=True)
class Quantity:
    """One figure of every edit: a column of tables, an axis of figures, a line of a card."""

    title: str
    rows: Mapping[str, Row]
    """By id of the edit, the unedited model's among them."""
    kind: Kind
    digits: int = 3
    percent: bool = False
    signed: bool = False
    main: bool = True
    """Whether it is in the table of all sets and costs."""
    of: str = ""
    """The test set, where several have a figure of this kind."""
    axis: str = ""
    """The label of an axis; the title if empty."""
    limits: tuple[float, float] | None = None
    """Ends of the axis."""
    covers: tuple[float, float] | None = None
    """The least range of the axis."""
    truth: Row | None = None
    """The planted value, where it is known."""
    drawn: bool = True
    """Whether figures show it."""

    @property
    def label(self) -> str:
        """The label of its axis."""
        return self.axis or self.title

    def number(self, edit: str) -> Number:
        """The value under an edit, as tables show it."""
        return Number.of(self.rows.get(edit), self.digits, percent=self.percent, signed=self.signed)


class View:
    """The tables, figures and sentences of one metric; by default one table and one figure.

    Parameters
    ----------
    metric : type[Metric] or None
        The metric that measured the rows; None for rows that a run records by itself.
    name : str
        The name of the metric in the run: its rows have this name unless `metric.measures` lists
        others.
    """

    def __init__(self, metric: type[Metric] | None = None, name: str = "") -> None:
        self.metric = metric
        self.name = name

    @property
    def kind(self) -> Kind:
        return "other" if self.metric is None else self.metric.kind

    @property
    def title(self) -> str:
        return (self.metric and self.metric.title) or self.name.replace("_", " ")

    @property
    def measures(self) -> Sequence[str]:
        return (self.metric and self.metric.measures) or (self.name,)

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The figures in the table of all sets and costs; empty where nothing was measured."""
        if self.metric is None:
            return []
        return [
            Quantity(
                self._title(row),
                alike(results, row),
                self.kind,
                digits=self.metric.digits,
                percent=self.metric.percent,
                of=set_label(row),
                axis=self.metric.unit or self._title(row),
            )
            for measure in self.measures
            for row in results.unedited(measure, split)
        ]

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The panels of the overview: every state on all test data."""
        return []

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The figures by which runs are compared; those with one title share a column."""
        return [quantity for quantity in self.quantities(results) if quantity.main]

    def sections(self, results: Results) -> list[Section]:
        """The tabs of the page: here one, with a table and a figure of the metric's rows."""
        quantities = self.quantities(results)
        if not quantities:
            return []
        lines: list[tuple[Cell, ...]] = [
            (q.title, *map(q.number, results.compared)) for q in quantities
        ]
        panels = [
            Panel(q.title, q.axis, "", tuple(edit_dots(results, q.rows[UNEDITED])), True)
            for q in quantities
        ]
        columns = (quantities[0].axis, *map(results.label, results.compared))
        note = "Intervals are 95 %."
        table = Table(self.name, self.title, columns, tuple(lines), note)
        figure = Figure(self.name, self.title, tuple(panels), note)
        return [Section(self.name, self.title, (table, figure))]

    def sentences(self, results: Results) -> list[str]:
        """Findings in words."""
        return []

    def headline(self, results: Results) -> list[str]:
        """The sentences of the verdict."""
        return self.sentences(results)[:1]

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """Group differences under an edit, and what became worse, a few words each."""
        return []

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """The effect of an edit: of a bias a sentence, of a cost a few words."""
        return ""

    def baselines(self, results: Results) -> list[tuple[str, tuple[EditRecord, ...]]]:
        """Of a bias: sentences about baselines such as prompting, and the edits they are about."""
        return []

    def caveats(self, results: Results) -> list[str]:
        """Limits of the figures; they follow all findings."""
        return []

    def _title(self, row: Row) -> str:
        title = self.title if len(self.measures) < 2 else row.metric.replace("_", " ")
        return f"{title}, {set_label(row)}" if row.dataset else title


class CostView(View):
    """A cost before and after an edit."""

    metric: type[Cost]
    axis = ""
    """The label of its axis; the title if empty."""
    covers: tuple[float, float] | None = None
    """The least range of its axis."""
    percent = False
    drawn = True
    """Whether figures show it."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The row that counts."""
        return [
            Quantity(
                self.title,
                alike(results, row),
                "cost",
                self.metric.digits,
                percent=self.percent,
                axis=self.axis,
                covers=self.covers,
                drawn=self.drawn,
            )
            for row in results.unedited(self.metric.counts, split)
        ]

    def sections(self, results: Results) -> list[Section]:
        """None: costs share a tab."""
        return []

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """The figure before and after."""
        return ", ".join(
            f"{q.title} {q.number(UNEDITED).text} → {q.number(edit.id).text}"
            for q in self.quantities(results)
            if q.main and {UNEDITED, edit.id} <= q.rows.keys()
        )


def alike(results: Results, row: Row, metric: str | None = None) -> dict[str, Row]:
    """The row and those about the same data under every edit, by the edit's id."""
    wanted = metric or row.metric
    about = row.key[1:-2]
    return {r.edit: r for r in results.of(wanted, row.split) if r.key[1:-2] == about}


_ROOM = "countergen_edit.reports.views"
VIEWS: Registry[type[View]] = Registry(
    "view",
    _ROOM,
    {
        "r": f"{_ROOM}.r:RView",
        "intersections": f"{_ROOM}.intersections:IntersectionsView",
        "paraphrases": f"{_ROOM}.paraphrases:ParaphrasesView",
        "fairpair": f"{_ROOM}.fairpair:FairPairView",
        "cid": f"{_ROOM}.cid:CidView",
        "classifier_tasks": f"{_ROOM}.classifiers:ClassifierTasksView",
        "agreement": f"{_ROOM}.agreement:AgreementView",
        "perplexity": f"{_ROOM}.perplexity:PerplexityView",
        "kl": f"{_ROOM}.kl:KLView",
        "legitimate_differences": f"{_ROOM}.legitimate_differences:LegitimateDifferencesView",
        "off_target": f"{_ROOM}.off_target:OffTargetView",
        "benchmarks": f"{_ROOM}.benchmarks:BenchmarksView",
        "hiring": f"{_ROOM}.hiring:HiringView",
        "in_vocabulary": f"{_ROOM}.in_vocabulary:InVocabularyView",
        "guardedness": f"{_ROOM}.guardedness:GuardednessView",
        "refinement": f"{_ROOM}.refinement:RefinementView",
        "gates": f"{_ROOM}.gates:GatesView",
        "logged": f"{_ROOM}.logged:LoggedView",
    },
    View,
)
"""Views by the name of their metric; a user's own enters with `@VIEWS.register("mine")`."""


def view_of(metric: type[Metric], registered: str, name: str = "") -> View:
    """The view of a metric: its attribute `view`, the registered one, or the default.

    Parameters
    ----------
    metric : type[Metric]
    registered : str
        Its name in the registry of metrics.
    name : str
        Its name in the run.
    """
    if metric.view is not None:
        view: View = metric.view(metric, name or registered)
        return view
    if registered in VIEWS:
        return VIEWS.get(registered)(metric, registered)
    return (CostView if issubclass(metric, Cost) else View)(metric, name or registered)
