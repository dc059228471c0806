"""Tables, figures and sentences of classifier tasks, before and after edits.

Edits are fitted on original templates, so that paraphrases tell whether they generalise.
"""

from __future__ import annotations

from countergen_edit.metrics.classifier_tasks.base import KEPT, OVER_TEMPLATES, mean_size
from countergen_edit.metrics.classifier_tasks.sentiment import PUBLISHED, RECOMMENDED
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Cell, Number, Section, Table, Words
from countergen_edit.reports.views.base import (
    Quantity,
    Record,
    Shown,
    View,
    as_section,
    as_table,
)

TEST_TITLES = {RECOMMENDED: "over people, recommended", PUBLISHED: "over sentences, as published"}
WHY_PEOPLE = (
    "A flip is a paraphrase of another category than its original; after Holm, with tests "
    "corrected for their number. Recommended is the test over people: sentences about the same two "
    "people are no independent draws, so that over sentences one name that a model scores oddly "
    "looks like a difference between groups."
)


class ClassifierTasksView(View):
    """The paper's tables of the unedited model, then every template before and after edits."""

    place = "classifiers", "Classifiers"
    split = ""
    note_of_edits = "Edits are fitted on the original templates, and not on paraphrases."

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """Flips by either test, then the measure of every template and what an edit keeps."""
        return (
            Shown("category_flips", "paraphrases that flip", percent=True, where="card"),
            *(Shown(metric, metric.replace("_", " ")) for metric in _metrics(results)),
            Shown(KEPT, "answers kept", percent=True),
        )

    def edits(self, results: Results) -> list[str]:
        return [UNEDITED, *_edits(results)]

    def about(self, row: Row) -> str:
        of = f"over {row.facets['test']}" if "test" in row.facets else row.facets.get("paraphrase")
        parts = ("" if of and row.dataset == "all" else row.dataset, of)
        return ", ".join(str(part) for part in parts if part)

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The share of paraphrases that flip, by either test."""
        every = super().quantities(results, "") if split == "test" else []
        return [quantity for quantity in every if quantity.of.startswith("over ")]

    def sections(self, results: Results) -> list[Section]:
        confounds = [
            f"A confound: in VADER's lexicon by themselves, {names or 'none'}."
            for row in results.of("names_in_lexicon", split="")
            for names in [", ".join(f"{n} {v:+.1f}" for n, v in row.detail["valence"].items())]
        ]
        return as_section(
            *self.place,
            _categories(results),
            [Words(tuple(confounds), brief=True)] if confounds else [],
            _measures(results),
            self.table(results),
        )

    def sentences(self, results: Results) -> list[str]:
        """The effect of each edit on paraphrases, and the flips over people and sentences."""
        kept = {row.edit: row for row in results.of(KEPT, split="") if row.dataset == "all"}
        said = []
        for edit in _edits(results):
            sizes = [
                f"{metric.replace('_', ' ')} {_mean_size(results, UNEDITED, metric).text} → "
                f"{_mean_size(results, edit, metric).text}"
                for metric in _metrics(results)
            ]
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


def _templates(results: Results) -> list[Row]:
    """Measures of single templates and paraphrases."""
    rows = (row for row in results.rows if not row.split and "paraphrase" in row.facets)
    return [row for row in rows if "test" not in row.facets]


def _metrics(results: Results) -> list[str]:
    return [*dict.fromkeys(row.metric for row in _templates(results))]


def _edits(results: Results) -> list[str]:
    return [e for e in dict.fromkeys(row.edit for row in _templates(results)) if e != UNEDITED]


def _mean_size(results: Results, edit: str, metric: str) -> Number:
    """The mean size of a measure over paraphrases."""
    rows = (row for row in _templates(results) if (row.metric, row.edit) == (metric, edit))
    return Number(mean_size([row for row in rows if not row.detail["original"]]))


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


def _categories(results: Results) -> list[Table]:
    """Table 2: the original's category, and the number of paraphrases in each."""
    records: list[Record] = []
    for row in results.unedited("category_flips", ""):
        original, paper = row.detail["original"], row.detail["published"]
        names = (_category(row, category) for category in (-1, 1, 0))
        records.append(
            {
                "paired t-test": TEST_TITLES[str(row.facets["test"])],
                "template": row.dataset,
                "original": "" if original is None else _category(row, original),
                **dict(zip(names, map(str, row.detail["counts"]), strict=True)),
                "flips": Number(row.value, percent=True),
                "after Holm": str(row.detail["flips_holm"]),
            }
        )
        if paper:
            counts = "/".join(map(str, paper["counts"]))
            records[-1] |= {"published": f"{paper['original']} {counts}"}  # type: ignore[operator]
    name, title = "classifier_categories", "Categories of templates and paraphrases"
    return as_table(name, title, records, WHY_PEOPLE, grouped=True, brief=True)


def _measures(results: Results) -> list[Table]:
    """Tables 3 and 4: the original's measure, its paraphrases' mean, change and SD."""
    records: list[Record] = []
    for row in results.rows:
        if row.edit != UNEDITED or not row.metric.endswith(OVER_TEMPLATES):
            continue
        used, whole, paper = (row.detail.get(key) for key in ("used", "whole", "published"))
        record: dict[str, Cell] = {
            "measure": _measure(row),
            "original": Number(row.detail["original"]),
            "paraphrased": Number.of(row),
            "change": Number(row.detail["change"], percent=True, signed=True),
            "SD": Number(row.detail["sd"]),
            "paraphrases": str(row.n or ""),
        }
        if whole is not None:
            record["of whole lists"] = f"{used:,} of {whole:,}"
        if paper:
            figures = paper.values() if isinstance(paper, dict) else paper
            record["published"] = " / ".join(map(str, figures))
        records.append(record)
    note = (
        "Paraphrased is the mean over the paraphrases, SD their standard deviation. Of whole "
        "lists: the traits or texts that were used, beside the number in the published lists of "
        "words."
    )
    title = "The measure of a template, and of its paraphrases"
    return as_table("classifier_measures", title, records, note, brief=True)
