"""How `ClassifierTasks` is shown."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.classifier_tasks.base import OVER_TEMPLATES
from countergen_edit.metrics.classifier_tasks.sentiment import PUBLISHED, RECOMMENDED
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Block, Cell, Number, Section, Table, Words
from countergen_edit.reports.views.base import Quantity, View, alike
from countergen_edit.reports.views.classifiers.edited import (
    before_and_after,
    category_name,
    edit_sentences,
    template_blocks,
)
from countergen_edit.reports.views.stacked import stacked

TEST_TITLES = {RECOMMENDED: "over people, recommended", PUBLISHED: "over sentences, as published"}
"""What the table calls each test."""


def unedited(results: Results) -> Results:
    """The rows of the unedited model."""
    return results.only(edits=[UNEDITED])


def _measured(results: Results) -> list[Row]:
    return [row for row in results.rows if row.metric.endswith(OVER_TEMPLATES)]


def measure_name(row: Row) -> str:
    """What a row over paraphrases measures.

    >>> measure_name(Row("FPED over templates", 0.0, dataset="all"))
    'FPED, all'
    """
    measure = row.metric.removesuffix(OVER_TEMPLATES)
    if measure == "b_associations":
        return f"{row.dataset}, % {row.group_b}"
    return f"{measure}, {row.dataset}"


def _categories(rows: Sequence[Row]) -> Table:
    """Table 2: the original's category, and how many paraphrases fall in each."""
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
        "What a template says, and how many of its paraphrases say what",
        ("paired t-test", "template", "original", *names, "flips", "after Holm", *last),
        tuple(lines),
        "A flip is a paraphrase that says something else than its original. "
        "After Holm: how many flips are left where tests are corrected for their number.",
        grouped=True,
        brief=True,
    )


def _why_people(results: Results) -> Words:
    """Why the test over people is recommended, and how often the two disagree."""
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
        (f"{text} The two disagree on {sum(differ)} of {len(differ)} templates.",), brief=True
    )


def _measures(rows: Sequence[Row]) -> Table:
    """Tables 3 and 4: the original's measure, its paraphrases' mean, change and SD."""
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
        "The measure of a template, and of its paraphrases",
        ("measure", "original", "paraphrased", "change", "SD", "paraphrases", *last),
        tuple(lines),
        f"Paraphrased is the mean over the paraphrases, SD their standard deviation.{note * parts}",
        brief=True,
    )


def _share(row: Row) -> str:
    """How much of the published word lists a measure is about.

    >>> _share(Row("b_associations over templates", 50.0, detail={"used": 38, "whole": 230}))
    '38 of 230'
    """
    used, whole = row.detail.get("used"), row.detail.get("whole")
    return "" if whole is None else f"{used:,} of {whole:,}"


def _is_published(rows: Sequence[Row]) -> bool:
    """Whether the paper has figures of the same model."""
    return any(row.detail.get("published") for row in rows)


def _figures(paper: dict[str, float] | list[float] | None) -> str:
    """The paper's original, mean of paraphrases and SD.

    >>> _figures({"original": -0.037, "modified": 0.007, "sd": 0.058})
    '-0.037 / 0.007 / 0.058'
    """
    values = paper.values() if isinstance(paper, dict) else paper or []
    return " / ".join(map(str, values))


class ClassifierTasksView(View):
    """The tables, figures and sentences of `ClassifierTasks`."""

    def side_by_side(self, results: Results) -> list[Quantity]:
        own = unedited(results)
        flips = [
            (f"paraphrases that flip, over {row.facets['test']}", row, True)
            for row in own.of("category_flips", split="")
        ]
        measures = [(f"{measure_name(row)}, paraphrased", row, False) for row in _measured(own)]
        return [
            Quantity(title, alike(own, row), "other", percent=percent, main=False)
            for title, row, percent in (*flips, *measures)
            if row.dataset == "all"
        ]

    def over_runs(self, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:

        def categories(results: Results) -> Table | None:
            flips = results.of("category_flips", split="", edit=UNEDITED)
            return _categories(flips) if flips else None

        def measures(results: Results) -> Table | None:
            rows = _measured(unedited(results))
            return _measures(rows) if rows else None

        tables = (stacked(sides, make) for make in (categories, measures))
        blocks = tuple(table for table in tables if table is not None)
        return [Section("classifiers", "Classifiers", blocks)] if blocks else []

    def sections(self, results: Results) -> list[Section]:
        every, results = results, unedited(results)
        flips = results.of("category_flips", split="")
        measures = _measured(results)
        templates = template_blocks(results)
        if not (flips or measures or templates):
            return []
        blocks: list[Block] = [_categories(flips), _why_people(results)] if flips else []
        for row in results.of("names_in_lexicon", split=""):
            names = ", ".join(f"{name} {v:+.1f}" for name, v in row.detail["valence"].items())
            sentence = f"A confound: in VADER's lexicon by themselves, {names or 'none'}."
            blocks.append(Words((sentence,), brief=True))
        blocks += [_measures(measures)] if measures else []
        blocks = [*before_and_after(every), *blocks, *templates]
        return [Section("classifiers", "Classifiers", tuple(blocks))]

    def sentences(self, results: Results) -> list[str]:
        flips = results.of("category_flips", split="", edit=UNEDITED)
        counts = {
            row.facets["test"]: f"{round((row.value or 0) * row.n)} of {row.n}"
            for row in flips
            if row.n and row.dataset == "all"
        }
        if not counts:
            return edit_sentences(results)
        return [
            *edit_sentences(results),
            f"Classifier: {counts[RECOMMENDED]} paraphrases say something else than the template "
            f"that they reword; tested over sentences, as published, {counts[PUBLISHED]} do.",
        ]
