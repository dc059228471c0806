"""Views of metrics: the tables, figures and sentences of their rows.

The default view tabulates and plots any metric: a line for each figure, a column for each edit. A
custom view says in `shows` how rows of each name are shown, and adds what is special.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from countergen_edit.core.registry import Registry
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.base import Cost, Kind, Metric
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import GROUPS, UNEDITED, Row, set_label
from countergen_edit.models.capture import EVERYWHERE
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, line, state_panels, ticks

Ends = tuple[float, float]
Item = TypeVar("Item")
Record = Mapping[str, Cell]
"""The cells of a line, by column."""


@dataclass(frozen=True)
class Shown:
    """How the rows of one name are shown."""

    name: str
    title: str
    digits: int = 3
    percent: bool = False
    signed: bool = False
    where: Literal["overview", "card", "page"] = "page"
    """`card`: also in cards and comparisons; `overview`: in the table of all sets, too."""
    drawn: bool = False
    """Whether the figure of the page shows it."""
    unit: str = ""
    """The label of its axis; the title if empty."""
    glance: str = ""
    """The title of its panel in the overview; empty where it has none."""
    mark: tuple[str, Callable[[Row], float]] | None = None
    """The name and the value of a mark beside a row's dots."""


@dataclass(frozen=True)
class Quantity:
    """One figure of every edit: a line of a table, an axis of figures, a line of a card."""

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
    limits: Ends | None = None
    """Ends of the axis."""
    covers: Ends | None = None
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
        row = self.rows.get(edit)
        starred = bool(row and row.detail.get("starred"))
        return Number.of(
            row, self.digits, percent=self.percent, signed=self.signed, starred=starred
        )


class View:
    """The tables, figures and sentences of one metric; by default one table and one figure.

    `metric` is None for rows that a run records by itself. `name` is the metric's in the run; its
    rows have this name unless `metric.measures` lists others.
    """

    shows: ClassVar[tuple[Shown, ...]] = ()
    """How rows are shown; by default as the metric declares."""
    place: ClassVar[tuple[str, str]] = ("", "")
    """The name and title of its tab; by default those of the metric."""
    heading: ClassVar[str] = ""
    """The title of its table and figure; by default that of the tab."""
    split: ClassVar[str] = "test"
    """The split of the rows of the page."""
    note: ClassVar[str] = "Intervals are 95 %."
    note_of_edits: ClassVar[str] = ""
    """What a run with edits adds to the note."""
    brief: ClassVar[bool] = False
    """Whether terminals print the table."""
    covers: Ends | None = None
    """The least range of the figure's axis."""

    def __init__(self, metric: type[Metric] | None = None, name: str = "") -> None:
        self.metric = metric
        self.name = name

    @property
    def kind(self) -> Kind:
        return "other" if self.metric is None else self.metric.kind

    @property
    def title(self) -> str:
        return (self.metric and self.metric.title) or self.name.replace("_", " ")

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """How rows are shown."""
        if self.shows or self.metric is None:
            return self.shows
        names = self.metric.measures or (self.name,)
        titles = {name: name.replace("_", " ") for name in names} if names[1:] else {}
        unit = ", ".join(filter(None, (self.title, self.metric.unit)))
        return tuple(
            Shown(
                name,
                titles.get(name, self.title),
                self.metric.digits,
                self.metric.percent,
                where="overview",
                drawn=True,
                unit=unit,
            )
            for name in names
        )

    def about(self, row: Row) -> str | None:
        """What tells a row from others of its name; None leaves the row out."""
        facets = {k: v for k, v in row.facets.items() if k != GROUPS}
        parts = (f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in facets.items())
        group = "" if row.group_b else row.group_a.replace("_", " ")
        return ", ".join(filter(None, (set_label(row) if row.dataset else "", group, *parts)))

    def figures(self, results: Results, split: str = "") -> list[Quantity]:
        """Every figure of the page, with its rows by edit."""
        found = []
        for how in self.shown(results):
            rows = results.of(how.name, split or self.split)
            for own in grouped(rows, lambda row: row.key[1:-2]).values():
                if (of := self.about(own[0])) is None:
                    continue
                found.append(
                    Quantity(
                        ", ".join(filter(None, (how.title, of))),
                        {row.edit: row for row in own},
                        self.kind,
                        how.digits,
                        how.percent,
                        how.signed,
                        main=how.where == "overview",
                        of=of,
                        axis=how.unit or how.title,
                        covers=self.covers,
                        drawn=how.drawn,
                    )
                )
        return found

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The figures of cards, comparisons and the overview; empty where nothing was measured."""
        kept = {how.name for how in self.shown(results) if how.where != "page"}
        every = self.figures(results, split)
        return [q for q in every if next(iter(q.rows.values())).metric in kept]

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The figures by which runs are compared; those with one title share a column."""
        return [q for q in self.quantities(results) if q.main or q.kind == "other"]

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The panels of the overview: every state on all test data."""
        shown = self.shown(states[0].results)
        return [p for how in shown if how.glance for p in self.dots(how, how.glance, states)]

    def label(self, row: Row) -> str:
        """A row on an axis."""
        return self.about(row) or ""

    def dots(
        self,
        how: Shown,
        title: str,
        states: Sequence[State],
        keys: Collection[Hashable] | None = None,
    ) -> list[Panel]:
        """A panel with a dot for each state at each row of the first; none without a row.

        `keys` are of rows, the first and the last two entries left off; by default of all.
        """

        def of(state: State) -> dict[Hashable, Row]:
            rows = state.results.of(how.name, self.split, state.edit)
            found = {row.key[2:-2]: row for row in rows if self.about(row) is not None}
            return {key: row for key, row in found.items() if keys is None or key in keys}

        first = of(states[0])
        labels = {key: self.label(row) or title for key, row in first.items()}
        marks = []
        if how.mark is not None:
            name, value = how.mark
            marks.append(ticks(name, {labels[key]: value(row) for key, row in first.items()}))
        unit = how.unit or how.title
        return state_panels(title, unit, states, labels, of, marks, covers=self.covers)

    def sections(self, results: Results) -> list[Section]:
        """The tabs of the page: here one, with a table and a figure of the metric's rows."""
        place = self.place if self.place[0] else (self.name, self.title)
        return as_section(*place, self.table(results), self.figure(results))

    @property
    def _named(self) -> tuple[str, str]:
        """The name and title of its table and figure."""
        return self.name or self.place[0], self.heading or self.place[1] or self.title

    def noted(self, results: Results) -> str:
        """The note of the table and the figure."""
        return self.note if results.is_unedited else f"{self.note} {self.note_of_edits}".rstrip()

    def edits(self, results: Results) -> list[str]:
        """Ids of the edits that are columns of the table."""
        return results.compared

    def beside(self, results: Results, quantity: Quantity) -> Record:
        """Further cells of a line of the table, before those of the edits."""
        return {}

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        """A figure under an edit in the table."""
        return quantity.number(edit) if edit in quantity.rows else ""

    def records(self, results: Results) -> list[Record]:
        """The lines of the table: a figure each, under every compared edit."""
        every, edits = self.figures(results), self.edits(results)
        known = [quantity for quantity in every if quantity.rows.keys() & {*edits}]
        titles = edit_titles(results, [e for e in edits if any(e in q.rows for q in known)])
        units = {q.label for q in known}
        besides = [self.beside(results, q) for q in known]
        extra = dict.fromkeys(column for cells in besides for column in cells)
        records: list[Record] = []
        for q, cells in zip(known, besides, strict=True):
            head = {"".join(units) if len(units) == 1 else "figure": q.title}
            if 1 < len(units) < len(known):  # those of one unit together
                head = {"figure": q.label, "of": q.of or q.title}
            own = {title: self.cell(results, q, edit) for edit, title in titles.items()}
            records.append({**head, **{column: cells.get(column, "") for column in extra}, **own})
        return records

    def table(self, results: Results) -> list[Table]:
        """A line for each figure, a column for each compared edit."""
        records = self.records(results)
        is_grouped = any("of" in record for record in records)
        note = self.noted(results)
        return as_table(*self._named, records, note, grouped=is_grouped, brief=self.brief)

    def figure(self, results: Results) -> list[Figure]:
        """A panel for each drawn name, with dots of every edit."""
        states = [
            State(results.label(edit), results, edit, results.is_reference(edit))
            for edit in results.compared
        ]
        drawn = [how for how in self.shown(results) if how.drawn]
        panels = [p for how in drawn for p in self.dots(how, how.unit or how.title, states)]
        return as_figure(*self._named, panels, self.noted(results))

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


class CostView(View):
    """A cost before and after an edit: the row that counts."""

    metric: type[Cost]
    unit = ""
    percent = False
    drawn = True

    def shown(self, results: Results) -> tuple[Shown, ...]:
        about = (self.metric.counts, self.title, self.metric.digits, self.percent)
        return (Shown(*about, where="overview", drawn=self.drawn, unit=self.unit),)

    def about(self, row: Row) -> str:
        return ""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The figures that the unedited model has, too."""
        return [q for q in super().quantities(results, split) if UNEDITED in q.rows]

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


def as_table(
    name: str, title: str, lines: Iterable[Record], note: str = "", **flags: bool
) -> list[Table]:
    """A table of records, with every column that one has; `flags` are those of `Table`."""
    records = [*lines]
    columns = tuple(dict.fromkeys(column for record in records for column in record))
    rows = tuple(tuple(record.get(column, "") for column in columns) for record in records)
    return [Table(name, title, columns, rows, note, **flags)] if records else []


def edit_titles(results: Results, edits: Iterable[str]) -> dict[str, str]:
    """The column of each edit; the id tells equal labels apart."""
    labels = {edit: results.label(edit) for edit in edits}
    every = [*labels.values()]
    return {e: label if every.count(label) == 1 else f"{label} {e}" for e, label in labels.items()}


def p_holm(row: Row, digits: int = 3) -> Number:
    """The P value of a row, corrected for the number of tests."""
    return Number(row.detail.get("p_adjusted"), digits=digits, bounded=True)


def grouped(items: Iterable[Item], key: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    """Items by a key, in the order of their first."""
    groups: dict[Any, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def as_figure(name: str, title: str, panels: Iterable[Panel], note: str = "") -> list[Figure]:
    """A figure; empty without a panel."""
    drawn = tuple(panels)
    return [Figure(name, title, drawn, note)] if drawn else []


def lines_along(
    results: Results, rows: Iterable[Row], facet: str, title: str, x_label: str, y_label: str
) -> Panel:
    """A panel with a line for each compared edit along a numeric facet of the rows."""
    by_edit = grouped(rows, lambda row: row.edit)
    lines = [
        line(results.label(edit), [float(r.facets[facet]) for r in own], own, is_reference)
        for edit in results.compared
        if (own := by_edit.get(edit))
        for is_reference in [results.is_reference(edit)]
    ]
    return Panel(title, x_label, y_label, tuple(lines))


def as_section(name: str, title: str, *blocks: Iterable[Block]) -> list[Section]:
    """A tab with all blocks; empty without one."""
    every = tuple(block for some in blocks for block in some)
    return [Section(name, title, every)] if every else []


def first_few(parts: Iterable[str], most: int, more: str = ", and {} more") -> str:
    """The first parts of a sentence, and the number of the others.

    >>> first_few("abcdef", 4), first_few("ab", 4)
    ('a, b, c, d, and 2 more', 'a, b')
    """
    every = [*parts]
    return ", ".join(every[:most]) + (more.format(len(every) - most) if every[most:] else "")


def and_list(parts: Iterable[str]) -> str:
    """Parts as a sentence lists them.

    >>> and_list(["race", "age", "religion"])
    'race, age and religion'
    """
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def place_in_text(edit: EditRecord) -> str:
    """An edit at one place, with the place, as sentences name it."""
    [place] = edit.places
    if place.site == EVERYWHERE:
        return f"{edit.name_in_text} everywhere, fitted at layer {place.layer}"
    where = f"layer {place.layer}" if place.site == "resid_post" else str(place)
    return f"{edit.name_in_text} at {where}"


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
        "agreement": f"{_ROOM}.costs:AgreementView",
        "perplexity": f"{_ROOM}.costs:PerplexityView",
        "kl": f"{_ROOM}.costs:KLView",
        "legitimate_differences": f"{_ROOM}.costs:LegitimateDifferencesView",
        "off_target": f"{_ROOM}.off_target:OffTargetView",
        "capability": f"{_ROOM}.capability:CapabilityView",
        "lm_eval": f"{_ROOM}.lm_eval:LmEvalView",
        "benchmarks": f"{_ROOM}.benchmarks:BenchmarksView",
        "hiring": f"{_ROOM}.hiring:HiringView",
        "in_vocabulary": f"{_ROOM}.in_vocabulary:InVocabularyView",
        "guardedness": f"{_ROOM}.guardedness:GuardednessView",
        "distillation": f"{_ROOM}.distillation:DistillationView",
        "gates": f"{_ROOM}.gates:GatesView",
        "logged": f"{_ROOM}.logged:LoggedView",
        "locate": f"{_ROOM}.locate:LocateView",
    },
    View,
)
"""Views by the name of their metric; a user's own enters with `@VIEWS.register("mine")`."""


def view_of(metric: type[Metric], registered: str, name: str = "") -> View:
    """The view of a metric: its attribute `view`, the registered one, or the default.

    `registered` is its name in the registry of metrics, `name` that in the run.
    """
    if metric.view is not None:
        view: View = metric.view(metric, name or registered)
        return view
    if registered in VIEWS:
        return VIEWS.get(registered)(metric, registered)
    return (CostView if issubclass(metric, Cost) else View)(metric, name or registered)
