"""Tables, figures and sentences of classifier tasks, before and after edits.

Edits are fitted on original templates, so that paraphrases tell whether they generalise.
"""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.classifier_tasks.base import KEPT, OVER_TEMPLATES, mean_size
from countergen_edit.metrics.classifier_tasks.sentiment import PUBLISHED, RECOMMENDED
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import Quantity, View, alike

TEST_TITLES = {RECOMMENDED: "over people, recommended", PUBLISHED: "over sentences, as published"}


class ClassifierTasksView(View):
    """The paper's tables of the unedited model, then every template before and after edits."""

    def side_by_side(self, results: Results) -> list[Quantity]:
        flips = [
            (f"paraphrases that flip, over {row.facets['test']}", row, True)
            for row in results.unedited("category_flips", "")
        ]
        measures = [(f"{_measure(row)}, paraphrased", row, False) for row in _over(results)]
        return [
            Quantity(title, alike(results, row), "other", percent=percent, main=False)
            for title, row, percent in (*flips, *measures)
            if row.dataset == "all"
        ]

    def sections(self, results: Results) -> list[Section]:
        blocks: list[Block] = []
        if edits := _edits(results):
            blocks.append(_by_template(results, edits))
        if (categories := _categories(results)) is not None:
            blocks += [categories, _why_people(results)]
        for row in results.of("names_in_lexicon", split=""):
            names = ", ".join(f"{name} {v:+.1f}" for name, v in row.detail["valence"].items())
            sentence = f"A confound: in VADER's lexicon by themselves, {names or 'none'}."
            blocks.append(Words((sentence,), brief=True))
        if (measures := _measures(results)) is not None:
            blocks.append(measures)
        if any(row.edit == UNEDITED for row in _templates(results)):
            blocks += [*_figures(results), _every_template(results, edits)]
        return [Section("classifiers", "Classifiers", tuple(blocks))] if blocks else []

    def sentences(self, results: Results) -> list[str]:
        """The effect of each edit on paraphrases, and the flips over people and sentences."""
        measures = dict.fromkeys(row.metric for row in _templates(results))
        kept = {row.edit: row for row in results.of(KEPT, split="") if row.dataset == "all"}
        said = []
        for edit in _edits(results):
            sizes = []
            for metric in measures:
                before, after = (_mean_size(results, e, metric).text for e in (UNEDITED, edit))
                sizes.append(f"{metric.replace('_', ' ')} {before} → {after}")
            share = Number.of(kept.get(edit), percent=True)
            said.append(
                f"{results.label(edit)} on paraphrases, to which it was not fitted, in mean size: "
                f"{', '.join(sizes)}; {share.text} of their answers stay."
            )
        counts = {
            row.facets["test"]: f"{round((row.value or 0) * row.n)} of {row.n}"
            for row in results.unedited("category_flips", "")
            if row.n and row.dataset == "all"
        }
        if counts:
            said.append(
                f"Classifier: {counts[RECOMMENDED]} paraphrases say something else than the "
                f"template that they reword; tested over sentences, as published, "
                f"{counts[PUBLISHED]} do."
            )
        return said


def _over(results: Results) -> list[Row]:
    """Measures over templates, of the unedited model."""
    rows = (row for row in results.rows if row.edit == UNEDITED)
    return [row for row in rows if row.metric.endswith(OVER_TEMPLATES)]


def _templates(results: Results) -> list[Row]:
    """Measures of single templates and paraphrases."""
    rows = (row for row in results.rows if not row.split and "paraphrase" in row.facets)
    return [row for row in rows if "test" not in row.facets]


def _edits(results: Results) -> list[str]:
    return [e for e in dict.fromkeys(row.edit for row in _templates(results)) if e != UNEDITED]


def _mean_size(results: Results, edit: str, metric: str, dataset: str | None = None) -> Number:
    """The mean size of a measure over paraphrases."""
    rows = (row for row in _templates(results) if (row.metric, row.edit) == (metric, edit))
    own = [row for row in rows if dataset in (None, row.dataset) and not row.detail["original"]]
    return Number(mean_size(own))


def _measure(row: Row) -> str:
    """The name of a measure over templates.

    >>> _measure(Row("FPED over templates", 0.0, dataset="all"))
    'FPED, all'
    """
    measure = row.metric.removesuffix(OVER_TEMPLATES)
    if measure == "b_associations":
        return f"{row.dataset}, % {row.group_b}"
    return f"{measure}, {row.dataset}"


def _category(row: Row, category: int) -> str:
    """The group that is ahead by a test, or neither.

    >>> _category(Row("r", 0.0, group_a="female", group_b="male"), -1)
    'M>F'
    """
    a, b = row.group_a, row.group_b
    short = (a[0].upper(), b[0].upper()) if a[0] != b[0] else (a, b)
    return {1: f"{short[0]}>{short[1]}", -1: f"{short[1]}>{short[0]}", 0: "insig."}[category]


def _categories(results: Results) -> Table | None:
    """Table 2: the original's category, and the number of paraphrases in each."""
    rows = results.unedited("category_flips", "")
    if not rows:
        return None
    published = _is_published(rows)
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        original, paper = row.detail["original"], row.detail["published"]
        counts = "/".join(map(str, paper["counts"])) if paper else ""
        lines.append(
            (
                TEST_TITLES[str(row.facets["test"])],
                row.dataset,
                "" if original is None else _category(row, original),
                *map(str, row.detail["counts"]),
                Number(row.value, percent=True),
                str(row.detail["flips_holm"]),
                *([f"{paper['original']} {counts}" if paper else ""] if published else []),
            )
        )
    names = [_category(rows[0], category) for category in (-1, 1, 0)]
    last = ("published",) if published else ()
    return Table(
        "classifier_categories",
        "Categories of templates and paraphrases",
        ("paired t-test", "template", "original", *names, "flips", "after Holm", *last),
        tuple(lines),
        "A flip is a paraphrase of another category than its original; after Holm, with tests "
        "corrected for their number.",
        grouped=True,
        brief=True,
    )


def _why_people(results: Results) -> Words:
    """The reason for the test over people, and how often the two disagree."""
    tests = results.unedited("sentiment_t_test", "")
    by_test: dict[str, dict[tuple[str, object], int]] = {RECOMMENDED: {}, PUBLISHED: {}}
    for row in tests:
        about = row.dataset, row.facets["paraphrase"]
        by_test[str(row.facets["test"])][about] = row.detail["category"]
    over, others = by_test.values()
    differ = [category != others[about] for about, category in over.items()]
    text = (
        "Recommended is the test over people: sentences about the same two people are no "
        "independent draws, so that over sentences one name that a model scores oddly looks like "
        "a difference between groups."
    )
    return Words(
        (f"{text} The two disagree on {sum(differ)} of {len(differ)} templates.",), brief=True
    )


def _measures(results: Results) -> Table | None:
    """Tables 3 and 4: the original's measure, its paraphrases' mean, change and SD."""
    rows = _over(results)
    if not rows:
        return None
    published, parts = _is_published(rows), any("whole" in row.detail for row in rows)
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        used, whole, paper = (row.detail.get(key) for key in ("used", "whole", "published"))
        figures = paper.values() if isinstance(paper, dict) else paper or []
        last = ["" if whole is None else f"{used:,} of {whole:,}"] if parts else []
        last += [" / ".join(map(str, figures))] if published else []
        change = Number(row.detail["change"], percent=True, signed=True)
        own = (Number(row.detail["original"]), Number.of(row), change, Number(row.detail["sd"]))
        lines.append((_measure(row), *own, str(row.n or ""), *last))
    columns = ["measure", "original", "paraphrased", "change", "SD", "paraphrases"]
    columns += ["of whole lists"] * parts + ["published"] * published
    note = (
        " Of whole lists: the traits or texts that were used, beside the number in the published "
        "lists of words."
    )
    return Table(
        "classifier_measures",
        "The measure of a template, and of its paraphrases",
        tuple(columns),
        tuple(lines),
        f"Paraphrased is the mean over the paraphrases, SD their standard deviation.{note * parts}",
        brief=True,
    )


def _is_published(rows: Sequence[Row]) -> bool:
    """Whether the paper has figures of the same model."""
    return any(row.detail.get("published") for row in rows)


def _by_template(results: Results, edits: Sequence[str]) -> Table:
    kept = {(row.dataset, row.edit): row for row in results.of(KEPT, split="")}
    lines: list[tuple[Cell, ...]] = []
    for row in _templates(results):
        if row.edit != UNEDITED or not row.detail["original"]:
            continue
        for edit in (UNEDITED, *edits):
            size = _mean_size(results, edit, row.metric, row.dataset)
            share = kept.get((row.dataset, edit), kept.get(("all", edit)))
            stays = Number.of(share, percent=True) if edit != UNEDITED else ""
            name = f"{row.metric.replace('_', ' ')}, {row.dataset}"
            number = Number.of(results.under(row, edit))
            lines.append((name, results.label(edit), number, size, stays))
    return Table(
        "classifier_edits",
        "Before and after",
        ("measure", "edit", "original", "paraphrases, mean size", "answers kept"),
        tuple(lines),
        "Edits are fitted on the original templates, and not on paraphrases. Mean size is the "
        "distance from equal treatment of groups. Answers kept: unchanged answers, of the "
        "paraphrases' texts.",
        grouped=True,
        brief=True,
    )


def _every_template(results: Results, edits: Sequence[str]) -> Table:
    """Every template and paraphrase with its tests, and its measure under each edit."""
    tests: dict[str, dict[tuple[str, str], Row]] = {}
    for row in results.unedited("sentiment_t_test", ""):
        tests.setdefault(str(row.facets["test"]), {})[_place(row)] = row
    lines: list[tuple[Cell, ...]] = []
    for row in _templates(results):
        if row.edit != UNEDITED:
            continue
        first = "original" if row.detail["original"] else ""
        said: list[Cell] = []
        for by_place in tests.values():
            test = by_place[_place(row)]
            p = Number(test.value, digits=4, bounded=True)
            said += [_category(test, test.detail["category"]), p]
        after = [Number.of(results.under(row, edit)) for edit in edits]
        name = row.metric.replace("_", " ")
        lines.append((*_place(row), first, name, Number.of(row), *said, *after))
    titles = [title for test in tests for title in (f"over {test}", "p")]
    labels = map(results.label, edits)
    return Table(
        "classifier_templates",
        "Template by template",
        ("template", "paraphrase", "", "measure", "value", *titles, *labels),
        tuple(lines),
        "Paired t-tests at 5 %, uncorrected." if tests else "",
        searchable=True,
        grouped=True,
    )


def _place(row: Row) -> tuple[str, str]:
    return row.dataset, str(row.facets["paraphrase"])


def _figures(results: Results) -> list[Figure]:
    """The values of each measure, template by template."""
    by_metric: dict[str, dict[str, list[Row]]] = {}
    for row in _templates(results):
        if row.edit == UNEDITED and row.value is not None:
            by_metric.setdefault(row.metric, {}).setdefault(row.dataset, []).append(row)
    figures = []
    for metric, by_template in by_metric.items():
        title = metric.replace("_", " ")
        series = []
        for template, rows in by_template.items():
            values = tuple(row.value or 0.0 for row in rows)
            tips = tuple(f"{template}: {value:.3f}" for value in values)
            x = (template,) * len(rows)
            series.append(Series(template, x, values, kind="spread", tips=tips))
        panel = Panel(title, title, "", tuple(series), downwards=True)
        note = "Every dot is a template or a paraphrase; boxes are quartiles."
        figures.append(Figure(f"classifier_{metric}", f"{title}, by template", (panel,), note))
    return figures
