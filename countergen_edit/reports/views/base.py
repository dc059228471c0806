"""Views of metrics: the tables, figures and sentences of their rows.

The default view tabulates and plots any metric: a line for each figure, a column for each edit. A
custom view says in `shows` how rows of each name are shown, and adds what is special.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal, TypeVar

from countergen_edit.core.reading import shipped_yaml
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.base import METRICS, Cost, Kind, Metric
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import GROUPS, IN_CHAT, UNEDITED, Row, dataset_label, set_label
from countergen_edit.models.capture import EVERYWHERE
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Ends, Panel, Series

_Item = TypeVar("_Item")
Record = Mapping[str, Cell]
"""The cells of a line, by column."""
KINDS: tuple[Kind, ...] = ("bias", "cost", "other")
percent = partial(Number.of, percent=True)


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
    """The unit, where the label of its axis is not the title."""
    glance: str = ""
    """The title of its panel in the overview; empty where it has none."""
    mark: tuple[str, float | str] | None = None
    """The name of a mark beside dots, and its value or the row's detail that holds it."""
    subject: str | None = None
    """Template of the subject of its rows; None takes that of the view."""

    @property
    def label(self) -> str:
        return self.unit or self.title


@cache
def declarations() -> dict[str, dict[str, Any]]:
    """The entry of each view in `views.yaml`."""
    return dict(shipped_yaml(Path(__file__).with_name("views.yaml")))


def _declare(view: Any, name: str) -> None:
    """Set the attributes of a view that `views.yaml` declares."""
    for key, value in declarations().get(name, {}).items():
        content = [Shown(**how) for how in value] if key == "shows" else value
        setattr(view, key, tuple(content) if isinstance(content, list) else content)


@dataclass(frozen=True)
class Quantity:
    """One figure of every edit: a line of a table, an axis of figures, a line of a card."""

    view: View
    how: Shown
    of: str
    """The test set, where several have a figure of this kind."""
    rows: Mapping[str, Row]
    """By id of the edit, the unedited model's among them."""
    truth: Row | None = None

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (self.how.title, self.of)))

    @property
    def kind(self) -> Kind:
        return self.view.kind

    @property
    def main(self) -> bool:
        """Whether it is in the table of all sets and costs."""
        return self.how.where == "overview"

    def number(self, edit: str) -> Number:
        how, row = self.how, self.rows.get(edit)
        starred = bool(row and row.detail.get("starred"))
        look = {"percent": how.percent, "signed": how.signed, "starred": starred}
        return Number.of(row, how.digits, **look)

    def cells(self, titles: Mapping[str, str]) -> dict[str, Cell]:
        """The value under edits by the titles of their columns; empty where there is none."""
        return {t: self.number(edit) if edit in self.rows else "" for edit, t in titles.items()}


class View:
    """The tables, figures and sentences of one metric; by default one table and one figure.

    The head of `views.yaml` says what the attributes mean; a class reads its entry of that file,
    `declared`. `metric` is None for rows that a run records by itself, else its rows have its name
    in the run, `name`, unless `metric.measures` lists others.
    """

    shows: ClassVar[tuple[Shown, ...]] = ()
    place: ClassVar[tuple[str, str]] = ("", "")
    heading: ClassVar[str] = ""
    split: ClassVar[str] = "test"
    note: ClassVar[str] = "Intervals are 95 %."
    note_of_edits: ClassVar[str] = ""
    brief: ClassVar[bool] = False
    subject: ClassVar[str | None] = None
    covers: Ends | None = None
    says: ClassVar[Mapping[str, str]] = {}
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __init_subclass__(cls, declared: str = "", **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        _declare(cls, declared)

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
        metric = self.metric
        if self.shows or metric is None:
            return self.shows
        names = metric.measures or (self.name,)
        titles = {name: name.replace("_", " ") for name in names} if names[1:] else {}
        look: dict[str, Any] = {"where": "overview", "drawn": True}
        look["unit"] = ", ".join(filter(None, (self.title, metric.unit)))
        return tuple(
            Shown(name, titles.get(name, self.title), metric.digits, metric.percent, **look)
            for name in names
        )

    def about(self, row: Row) -> str | None:
        """The subject of a row, which tells it from others of its name; None leaves it out."""
        subjects = (how.subject for how in self.shows if how.name == row.metric)
        template = next((text for text in subjects if text is not None), self.subject)
        if template is not None:
            return template.format(**in_subject(row))
        facets = {k: v for k, v in row.facets.items() if k != GROUPS}
        parts = (f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in facets.items())
        group = "" if row.group_b else groups_of(row)
        return ", ".join(filter(None, (set_label(row) if row.dataset else "", group, *parts)))

    def figures(self, results: Results, split: str = "") -> list[Quantity]:
        """Every figure of the page, with its rows by edit."""
        quantities = []
        for how in self.shown(results):
            rows = results.of(how.name, split or self.split)
            for same in grouped(rows, lambda row: row.key[1:-2]).values():
                if (of := self.about(same[0])) is not None:
                    truth = results.under(same[0], UNEDITED, f"planted_{how.name}")
                    quantities.append(Quantity(self, how, of, {r.edit: r for r in same}, truth))
        return quantities

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The figures of cards, comparisons and the overview; empty where nothing was measured."""
        return [q for q in self.figures(results, split) if q.how.where != "page"]

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The figures by which runs are compared; those with one title share a column."""
        return [q for q in self.quantities(results) if q.main or q.kind == "other"]

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The panels of the overview: every state on all test data."""
        shown = self.shown(states[0].results)
        return [p for how in shown if how.glance for p in self.dots(how, how.glance, states)]

    def label(self, row: Row) -> str:
        return self.about(row) or ""

    def dots(
        self,
        how: Shown,
        title: str,
        states: Sequence[State],
        keys: Collection[Hashable] | None = None,
    ) -> list[Panel]:
        """A panel with a dot for each state at each row of the first; none without a row.

        `keys`, by default all, are those of rows without metric, task, edit and split.
        """
        by_key: list[dict[Hashable, Row]] = []
        for state in states:
            rows = state.results.of(how.name, self.split, state.edit)
            by_key.append({r.key[2:-2]: r for r in rows if self.about(r) is not None})
        first = {key: row for key, row in by_key[0].items() if keys is None or key in keys}
        labels = {key: self.label(row) or title for key, row in first.items()}
        series: list[Series] = []
        for state, known in zip(states, by_key, strict=True):
            shared = [key for key in labels if key in known]
            x, rows = [labels[key] for key in shared], [known[key] for key in shared]
            series.append(Series.of(state.name, x, rows, state.baseline))
        series = [s for s in series if s.x]
        if series and how.mark:
            name, value = how.mark
            marks = {labels[k]: float(r.detail.get(str(value), value)) for k, r in first.items()}
            series.append(mark(name, marks))
        panel = Panel(title, how.label, "", (*series,), True, self.covers, joined=True)
        return [panel] if series else []

    def sections(self, results: Results) -> list[Section]:
        """The tabs of the page: here one, with the tables and a figure of the metric's rows."""
        place = self.place if self.place[0] else (self.name, self.title)
        further = [table for name in self.tables for table in self.further(results, name)]
        return as_section(*place, self.table(results), further, self.figure(results))

    @property
    def _named(self) -> tuple[str, str]:
        """The name and title of its table and figure."""
        return self.name or self.place[0], self.heading or self.place[1] or self.title

    def noted(self, results: Results) -> str:
        return self.note if results.is_unedited else f"{self.note} {self.note_of_edits}".rstrip()

    def edits(self, results: Results) -> list[str]:
        """Ids of the edits that are columns of the table."""
        return results.compared

    def first_cells(self, results: Results, quantity: Quantity) -> Record:
        """Further cells of a line of the table, before those of the edits."""
        return {}

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        return quantity.number(edit) if edit in quantity.rows else ""

    def records(self, results: Results) -> list[Record]:
        """The lines of the table: a figure each, under every compared edit."""
        edits = self.edits(results)
        quantities = [q for q in self.figures(results) if q.rows.keys() & {*edits}]
        titles = edit_titles(results, [e for e in edits if any(e in q.rows for q in quantities)])
        units = {q.how.label for q in quantities}
        first_cells = [self.first_cells(results, q) for q in quantities]
        blank = dict.fromkeys(chain(*first_cells), "")
        records: list[Record] = []
        for q, cells in zip(quantities, first_cells, strict=True):
            head = {"".join(units) if len(units) == 1 else "figure": q.title}
            if 1 < len(units) < len(quantities):  # those of one unit together
                head = {"figure": q.how.label, "of": q.of or q.title}
            under = {title: self.cell(results, q, edit) for edit, title in titles.items()}
            records.append({**head, **blank, **cells, **under})
        return records

    def table(self, results: Results) -> list[Table]:
        records, note = self.records(results), self.noted(results)
        is_grouped = any("of" in record for record in records)
        return as_table(*self._named, records, note, grouped=is_grouped, brief=self.brief)

    def further(self, results: Results, name: str, **facts: Any) -> list[Table]:
        """A table that `tables` declares; `facts` fill its note.

        It has a line for each row of the metric `rows` (of `edits`, `compared` or `unedited`) or,
        with `each`, for each entry of that name in the row's detail, in the order of the key `by`.
        """
        look = dict(self.tables[name])
        columns, key, order = look.pop("columns"), look.pop("each", ""), look.pop("by", "")
        rows = results.of(look.pop("rows"), look.pop("split", self.split))
        edits = {"compared": results.compared, "unedited": [UNEDITED]}.get(look.pop("edits", ""))
        records = []
        for row in (row for row in rows if edits is None or row.edit in edits):
            of_row = row.detail | in_subject(row) | {"edit": results.label(row.edit)}
            entries = row.detail.get(key, ()) if key else [{}]
            for entry in sorted(entries, key=lambda entry: entry[order]) if order else entries:
                values = of_row | entry
                records.append({k.format(**values): as_cell(c, values) for k, c in columns.items()})
        note = look.pop("note", "").format(**facts)
        return as_table(name, look.pop("title"), records, note, **look)

    def figure(self, results: Results) -> list[Figure]:
        """A panel for each drawn name, with dots of every edit."""
        states = [state_of(results, edit) for edit in results.compared]
        drawn = [how for how in self.shown(results) if how.drawn]
        panels = [p for how in drawn for p in self.dots(how, how.label, states)]
        return as_figure(*self._named, panels, self.noted(results))

    def say(self, key: str, /, **values: Any) -> str:
        """A sentence with values in its template."""
        return self.says[key].format(**values)

    def say_of(
        self, key: str, rows: Sequence[Row], label: Callable[[Row], str], /, **values: Any
    ) -> list[str]:
        """A sentence about rows: `sets` are the labels of the first; none without rows."""
        sets = first_few(map(label, rows))
        return [self.say(key, n=len(rows), first=rows[0], sets=sets, **values)] if rows else []

    def sentences(self, results: Results) -> list[str]:
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
    subject = ""
    counted: ClassVar[Mapping[str, Any]] = {}
    """How the row that counts is shown, where not as by default."""

    def shown(self, results: Results) -> tuple[Shown, ...]:
        look: dict[str, Any] = {"digits": self.metric.digits, "where": "overview", "drawn": True}
        look |= self.counted
        return (Shown(self.metric.counts, self.title, **look), *self.shows)

    def about(self, row: Row) -> str | None:
        return in_form(super().about(row), row)

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The figures that the unedited model has, too."""
        return [q for q in super().quantities(results, split) if UNEDITED in q.rows]

    def sections(self, results: Results) -> list[Section]:
        """None: costs share a tab."""
        return []

    def outcome(self, results: Results, edit: EditRecord) -> str:
        return ", ".join(
            f"{q.title} {q.number(UNEDITED).text} → {q.number(edit.id).text}"
            for q in self.quantities(results)
            if q.main and q.how.drawn and {UNEDITED, edit.id} <= q.rows.keys()
        )


def in_subject(row: Row) -> dict[str, Any]:
    """The values that templates of subjects may name."""
    values = {"label": dataset_label(row.dataset), "set": set_label(row), **row.facets}
    return values | {"groups": groups_of(row), "row": row, "dataset": row.dataset, "axis": row.axis}


def as_cell(cell: str | Mapping[str, Any], values: Mapping[str, Any]) -> Cell:
    """A declared cell: a template of a text, or a number with its look.

    `of` names the value; of `row` it has the interval. With `rest` it is 1 less the value, with
    `text` a text that depends on it.
    """
    if isinstance(cell, str):
        return cell.format(**values)
    value: Any = values
    look = dict(cell)
    for part in look.pop("of").split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if "text" in look:
        return str(look["text"] if value else look["otherwise"]).format(**values)
    if look.pop("rest", False) and value is not None:
        value = 1 - value
    return Number.of(value, **look) if isinstance(value, Row) else Number(value, **look)


def in_form(subject: str | None, row: Row) -> str | None:
    """The subject of a row, marked where both replies and plain texts are measured."""
    if subject is None or not row.dataset.endswith(IN_CHAT) or subject.endswith("in chat"):
        return subject
    return f"{subject}, in chat".removeprefix(", ")


def groups_of(row: Row, between: str = " and ") -> str:
    """Both groups of a row, or its only one, as sentences name them."""
    return between.join(filter(None, (row.group_a, row.group_b))).replace("_", " ")


def as_table(
    name: str, title: str, lines: Iterable[Record], note: str = "", **look: Any
) -> list[Table]:
    """A table of records, with every column that one has; `look` has fields of `Table`."""
    records = [*lines]
    columns = tuple(dict.fromkeys(column for record in records for column in record))
    rows = tuple(tuple(record.get(column, "") for column in columns) for record in records)
    return [Table(name, title, columns, rows, note, **look)] if records else []


def edit_titles(results: Results, edits: Iterable[str]) -> dict[str, str]:
    """The column of each edit; the id tells equal labels apart."""
    labels = {edit: results.label(edit) for edit in edits}
    counts = Counter(labels.values())
    return {e: label if counts[label] == 1 else f"{label} {e}" for e, label in labels.items()}


def state_of(results: Results, edit: str) -> State:
    """An edit as one series of a figure."""
    return State(results.label(edit), results, edit, results.is_reference(edit))


def mark(name: str, values: Mapping[str, float]) -> Series:
    """A reference line across each category."""
    return Series(name, (*values,), (*values.values(),), kind="ticks", baseline=True)


def p_holm(row: Row, digits: int = 3) -> Number:
    """The P value of a row, corrected for the number of tests."""
    return Number(row.detail.get("p_adjusted"), digits=digits, bounded=True)


def least_p(rows: Iterable[Row]) -> str:
    """The smallest P value of tested rows, as sentences give it."""
    return p_holm(min(rows, key=lambda row: float(row.detail["p_adjusted"])), digits=2).text


def grouped(items: Iterable[_Item], key: Callable[[_Item], Any]) -> dict[Any, list[_Item]]:
    """Items by a key, in the order of their first."""
    groups: dict[Any, list[_Item]] = {}
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
    lines = []
    for state in (state_of(results, edit) for edit in results.compared if edit in by_edit):
        x = [float(row.facets[facet]) for row in by_edit[state.edit]]
        lines.append(Series.of(state.name, x, by_edit[state.edit], state.baseline, "line"))
    return Panel(title, x_label, y_label, tuple(lines))


def as_section(name: str, title: str, *blocks: Iterable[Block]) -> list[Section]:
    """A tab with all blocks; empty without one."""
    content = tuple(chain(*blocks))
    return [Section(name, title, content)] if content else []


def first_few(parts: Iterable[str], most: int = 3, more: str = ", {} more") -> str:
    """The first parts of a sentence, and the number of the others."""
    texts = [*parts]
    return ", ".join(texts[:most]) + (more.format(len(texts) - most) if texts[most:] else "")


def and_list(parts: Iterable[str]) -> str:
    """Parts as a sentence lists them: `race, age and religion`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def place_in_text(edit: EditRecord) -> str:
    """An edit at one place, with the place, as sentences name it."""
    [place] = edit.places
    if place.site == EVERYWHERE:
        return f"{edit.name_in_text} everywhere, fitted at layer {place.layer}"
    where = f"layer {place.layer}" if place.site == "resid_post" else str(place)
    return f"{edit.name_in_text} at {where}"


def view_of(metric: type[Metric] | None, registered: str, name: str = "") -> View:
    """The view of a metric: its attribute `view`, the declared one, or the default.

    `registered` is its name in the registry of metrics, `name` that in the run; without a metric
    it is the name of rows that a run records by itself.
    """
    if metric is not None and metric.view is not None:
        view: View = metric.view(metric, name or registered)
        return view
    kind: type[View] = View if metric is None or not issubclass(metric, Cost) else CostView
    if place := declarations().get(registered, {}).get("view"):
        kind = resolve_name(f"countergen_edit.reports.views.{place}")
    view = kind(metric, registered if registered in declarations() else name or registered)
    if not place:
        _declare(view, registered)
    return view


def views_of(metrics: Mapping[str, Any], unshown: Collection[str]) -> list[View]:
    """The views of every shipped metric, of a run's, and of rows that runs record by themselves.

    `metrics` are the names of the run's metrics in the registry, by their names in the run;
    `unshown` are those that cannot be loaded.
    """
    names = {name: name for name in METRICS if ".py:" not in name}  # not of another run's file
    names |= {str(kind): name for name, kind in metrics.items()}
    views = [view_of(METRICS.get(k), k, name) for k, name in names.items() if k not in unshown]
    return views + [view_of(None, name) for name in declarations() if name not in METRICS]


def in_order(quantities: Iterable[Quantity]) -> list[Quantity]:
    """Bias, then costs, then others."""
    return sorted(quantities, key=lambda quantity: KINDS.index(quantity.kind))
