"""How the classifier tasks are shown: what a template says, and what its rewordings say.

Comes in: the rows of a task. Goes out: the tab `classifiers`: the paper's tables, every wording
drawn and listed. Refused: measuring a causal model, which classifiers are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from countergen_edit.edits import NamedEdit
from countergen_edit.errors import UserError
from countergen_edit.metrics.base import MeasuredSplit, Metric, Quantity
from countergen_edit.metrics.bench import Bench
from countergen_edit.metrics.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.metrics.classifier_tasks import over_runs
from countergen_edit.metrics.classifier_tasks.over_wordings import OVER_WORDINGS
from countergen_edit.metrics.classifier_tasks.paired_tests import PUBLISHED, RECOMMENDED
from countergen_edit.metrics.panels import Panel, Series
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row

TEST_TITLES = {RECOMMENDED: "over people, recommended", PUBLISHED: "over sentences, as published"}
"""What the table calls each test."""


class ClassifierTasks(Metric):
    """What `countergen-edit classifiers` measured; shown as any metric is, and never audited."""

    def prepare(self) -> None:
        """Refuse, before a run begins.

        Raises:
            UserError: always.
        """
        _refuse()

    def rows(
        self, bench: Bench, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Refuse.

        Raises:
            UserError: always.
        """
        _refuse()

    @classmethod
    def side_by_side(cls, results: Results) -> list[Quantity]:
        """How many rewordings flip by each test, and the measure of all templates."""
        return over_runs.compared(results, _measured(results), measure_name)

    @classmethod
    def over_runs(cls, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """Tables 2 to 4 of all runs."""

        def categories(results: Results) -> Table | None:
            flips = results.of("category_flips", split="")
            return _categories(flips) if flips else None

        def measures(results: Results) -> Table | None:
            rows = _measured(results)
            return _measures(rows) if rows else None

        return over_runs.over_runs(sides, (categories, measures))

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """The tab `classifiers`; nothing where the run asked no classifier."""
        flips = results.of("category_flips", split="")
        measures = _measured(results)
        wordings = _wordings(results)
        if not (flips or measures or wordings):
            return []
        blocks: list[Block] = [_categories(flips), _why_people(results)] if flips else []
        for row in results.of("names_in_lexicon", split=""):
            names = ", ".join(f"{name} {v:+.1f}" for name, v in row.detail["valence"].items())
            sentence = f"A confound: in VADER's lexicon by themselves, {names or 'none'}."
            blocks.append(Words((sentence,), brief=True))
        blocks += [_measures(measures)] if measures else []
        return [Section("classifiers", "Classifiers", (*blocks, *wordings))]

    @classmethod
    def sentences(cls, results: Results) -> list[str]:
        """How many rewordings say something else than their template, by either test."""
        every = [row for row in results.of("category_flips", split="") if row.dataset == "all"]
        counts = {
            row.facets["test"]: f"{round((row.value or 0) * row.n)} of {row.n}"
            for row in every
            if row.n
        }
        if not counts:
            return []
        return [
            f"Classifier: {counts[RECOMMENDED]} rewordings say something else than the template "
            f"that they reword; tested over sentences, as published, {counts[PUBLISHED]} do."
        ]


def _measured(results: Results) -> list[Row]:
    """The rows of measures over wordings."""
    return [row for row in results.rows if row.metric.endswith(OVER_WORDINGS)]


def _refuse() -> Never:
    raise UserError(
        "classifier_tasks are asked of classifiers, not of the model of an audit: run "
        "countergen-edit classifiers task=sentiment"
    )


def category_name(row: Row, category: int) -> str:
    """What a test says of a template: which group is ahead, or neither.

    >>> category_name(Row("r", 0.0, group_a="female", group_b="male"), -1)
    'M>F'
    """
    a, b = row.group_a, row.group_b
    short = (a[0].upper(), b[0].upper()) if a[0] != b[0] else (a, b)
    return {1: f"{short[0]}>{short[1]}", -1: f"{short[1]}>{short[0]}", 0: "insig."}[category]


def measure_name(row: Row) -> str:
    """What was measured of a template over its wordings.

    >>> measure_name(Row("FPED over wordings", 0.0, dataset="all"))
    'FPED, all'
    """
    measure = row.metric.removesuffix(OVER_WORDINGS)
    if measure == "b_associations":
        return f"{row.dataset}, % {row.group_b}"
    return f"{measure}, {row.dataset}"


def _categories(rows: Sequence[Row]) -> Table:
    """Table 2: the original's category, and how many rewordings fall in each."""
    published = _is_published(rows)
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        original, paper = row.detail["original"], row.detail["published"]
        counts = "/".join(map(str, paper["counts"])) if paper else ""
        lines.append(
            (
                TEST_TITLES[str(row.facets["test"])],
                row.dataset,
                "" if original is None else category_name(row, original),
                *map(str, row.detail["counts"]),
                Number(row.value, percent=True),
                str(row.detail["flips_holm"]),
                *([f"{paper['original']} {counts}" if paper else ""] if published else []),
            )
        )
    names = [category_name(rows[0], category) for category in (-1, 1, 0)]
    last = ("published",) if published else ()
    return Table(
        "classifier_categories",
        "What a template says, and how many of its rewordings say what",
        ("paired t-test", "template", "original", *names, "flips", "after Holm", *last),
        tuple(lines),
        "A flip is a rewording that says something else than its original. "
        "After Holm: how many flips are left where tests are corrected for their number.",
        grouped=True,
        brief=True,
    )


def _why_people(results: Results) -> Words:
    """Why the test over people is recommended, and how often it decides otherwise here."""
    tests = results.of("sentiment_t_test", split="")
    over = [row for row in tests if row.facets["test"] == RECOMMENDED]
    differ = [
        row.detail["category"] != other.detail["category"]
        for row in over
        for other in tests
        if other.facets == row.facets | {"test": PUBLISHED} and other.dataset == row.dataset
    ]
    text = (
        "Recommended is the test over people: sentences about the same two people are no "
        "independent draws, so that over sentences one name that a model scores oddly looks like "
        "a difference between groups."
    )
    return Words(
        (f"{text} The two disagree on {sum(differ)} of {len(differ)} wordings.",), brief=True
    )


def _measures(rows: Sequence[Row]) -> Table:
    """Tables 3 and 4: the original's measure, its rewordings' mean, change and SD."""
    published = _is_published(rows)
    parts = any("whole" in row.detail for row in rows)
    lines: list[tuple[Cell, ...]] = [
        (
            measure_name(row),
            Number(row.detail["original"]),
            Number.of(row),
            Number(row.detail["change"], percent=True, signed=True),
            Number(row.detail["sd"]),
            str(row.n or ""),
            *([_share(row)] if parts else []),
            *([_figures(row.detail.get("published"))] if published else []),
        )
        for row in rows
    ]
    last = (*(["of whole lists"] if parts else []), *(["published"] if published else []))
    note = (
        " Of whole lists: the traits or texts that were used, beside how many the published lists "
        "of words have or make."
    )
    return Table(
        "classifier_measures",
        "The measure of a template, and of its rewordings",
        ("measure", "original", "reworded", "change", "SD", "rewordings", *last),
        tuple(lines),
        f"Reworded is the mean over the rewordings, SD their standard deviation.{note * parts}",
        brief=True,
    )


def _share(row: Row) -> str:
    """How much of the published lists a measure is about.

    >>> _share(Row("b_associations over wordings", 50.0, detail={"used": 38, "whole": 230}))
    '38 of 230'
    """
    used, whole = row.detail.get("used"), row.detail.get("whole")
    return "" if whole is None else f"{used} of {whole}"


def _is_published(rows: Sequence[Row]) -> bool:
    """Whether the paper has figures of the same model."""
    return any(row.detail.get("published") for row in rows)


def _figures(paper: dict[str, float] | list[float] | None) -> str:
    """The paper's original, mean of rewordings and SD.

    >>> _figures({"original": -0.037, "modified": 0.007, "sd": 0.058})
    '-0.037 / 0.007 / 0.058'
    """
    values = paper.values() if isinstance(paper, dict) else paper or []
    return " / ".join(map(str, values))


def _wordings(results: Results) -> list[Block]:
    """Every wording, drawn and listed, with what each test says of it."""
    every = [row for row in results.rows if not row.split and "wording" in row.facets]
    rows = [row for row in every if "test" not in row.facets]
    if not rows:
        return []
    metrics = dict.fromkeys(row.metric for row in rows if row.value is not None)
    figures = [_by_wording(metric, rows) for metric in metrics]
    tests: dict[str, dict[tuple[str, str], Row]] = {}
    for row in every:
        if "test" in row.facets:
            of = row.dataset, str(row.facets["wording"])
            tests.setdefault(str(row.facets["test"]), {})[of] = row
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        first = "original" if row.detail.get("original") else ""
        of = row.dataset, str(row.facets["wording"])
        said = [cell for test in tests.values() for cell in _test_cells(test.get(of))]
        lines.append((*of, first, row.metric.replace("_", " "), Number.of(row), *said))
    titles = [title for test in tests for title in (f"over {test}", "p")]
    table = Table(
        "classifier_wordings",
        "Wording by wording",
        ("template", "wording", "", "measure", "value", *titles),
        tuple(lines),
        "Paired t-tests at 5 %, uncorrected." if tests else "",
        searchable=True,
        grouped=True,
    )
    return [*figures, table]


def _test_cells(test: Row | None) -> tuple[Cell, ...]:
    """What a test says of a wording, and its p; nothing where a task did not test it."""
    if test is None:
        return "", ""
    return category_name(test, test.detail["category"]), Number(test.value, digits=4, bounded=True)


def _by_wording(metric: str, rows: Sequence[Row]) -> Figure:
    """The values of a measure, template by template."""
    title = metric.replace("_", " ")
    own_rows = [row for row in rows if row.metric == metric and row.value is not None]
    series = []
    for template in dict.fromkeys(row.dataset for row in own_rows):
        own = [
            (row.facets["wording"], row.value or 0.0) for row in own_rows if row.dataset == template
        ]
        values = tuple(value for _, value in own)
        tips = tuple(f"{wording}: {value:.3f}" for wording, value in own)
        series.append(Series(template, (template,) * len(own), values, kind="spread", tips=tips))
    panel = Panel(title, title, "", tuple(series), downwards=True)
    note = "Every dot is one wording of a template; boxes are quartiles."
    return Figure(f"classifier_{metric}", f"{title}, by wording", (panel,), note)
