"""Tables, figures and sentences of classifier tasks, before and after edits.

Edits are fitted on original templates, so that paraphrases tell whether they generalise.
"""

from __future__ import annotations

import numpy as np

from countergen_edit.metrics.classifier_tasks.base import ANSWERS_KEPT, OVER_TEMPLATES
from countergen_edit.metrics.classifier_tasks.sentiment import OVER_PEOPLE, OVER_SENTENCES
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

EVEN = {"b_associations": 50.0}
"""Measures under equal treatment of groups, where that is not 0."""
TEST_TITLES = {
    OVER_PEOPLE: "over people, recommended",
    OVER_SENTENCES: "over sentences, as published",
}
WHY_PEOPLE = (
    "A flip is a paraphrase of another category than its original; after Holm, with tests "
    "corrected for their number. Recommended is the test over people: sentences about the same two "
    "people are not independent draws, so that over sentences one name that a model scores oddly "
    "looks like a difference between groups."
)


class ClassifierTasksView(View):
    """The paper's tables of the unedited model, then every template before and after edits."""

    place = "classifiers", "Classifiers"
    split = ""
    note_of_edits = "Edits are fitted on the original templates, and not on paraphrases."

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """Flips by either test, then the measure of every template and what an edit keeps."""
        measures = dict.fromkeys(metric for _, metric in _sizes(results))
        return (
            Shown("category_flips", "paraphrases that flip", percent=True, where="card"),
            *(Shown(metric, metric.replace("_", " ")) for metric in measures),
            Shown(ANSWERS_KEPT, "answers kept", percent=True),
        )

    def edits(self, results: Results) -> list[str]:
        return [*dict.fromkeys((UNEDITED, *(edit for edit, _ in _sizes(results))))]

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
        kept = {row.edit: row for row in results.of(ANSWERS_KEPT, split="") if row.dataset == "all"}
        sizes = {about: Number(mean).text for about, mean in _sizes(results).items()}
        sentences = []
        for edit in self.edits(results)[1:]:
            changes = [
                f"{metric.replace('_', ' ')} {sizes[UNEDITED, metric]} → {size}"
                for (of, metric), size in sizes.items()
                if of == edit
            ]
            sentences.append(
                f"{results.label(edit)} on paraphrases, to which it was not fitted, in mean size: "
                f"{', '.join(changes)}; {Number.of(kept.get(edit), percent=True).text} of their "
                "answers stay."
            )
        counts = {
            row.facets["test"]: f"{round((row.value or 0) * row.n)} of {row.n}"
            for row in results.unedited("category_flips", "")
            if row.n and row.dataset == "all"
        }
        if counts:
            sentences.append(
                f"Classifier: {counts[OVER_PEOPLE]} paraphrases say something else than the "
                f"template that they reword; tested over sentences, as published, "
                f"{counts[OVER_SENTENCES]} do."
            )
        return sentences


def _sizes(results: Results) -> dict[tuple[str, str], float | None]:
    """Edit and measure → mean distance of paraphrases from equal treatment of groups."""
    sizes: dict[tuple[str, str], list[float]] = {}
    for row in results.rows:
        if "paraphrase" in row.facets and "test" not in row.facets and not row.split:
            distances = sizes.setdefault((row.edit, row.metric), [])
            if row.value is not None and not row.detail["original"]:
                distances.append(abs(row.value - EVEN.get(row.metric, 0.0)))
    return {about: float(np.mean(own)) if own else None for about, own in sizes.items()}


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
        detail = row.detail
        names = [_category(row, category) for category in (-1, 1, 0)]
        original, paper = detail["original"], detail["published"]
        record: dict[str, Cell] = {
            "paired t-test": TEST_TITLES[str(row.facets["test"])],
            "template": row.dataset,
            "original": "" if original is None else _category(row, original),
            **dict(zip(names, map(str, detail["counts"]), strict=True)),
            "flips": Number(row.value, percent=True),
            "after Holm": str(detail["flips_holm"]),
        }
        if paper:
            record["published"] = f"{paper['original']} {'/'.join(map(str, paper['counts']))}"
        records.append(record)
    name, title = "classifier_categories", "Categories of templates and paraphrases"
    return as_table(name, title, records, WHY_PEOPLE, grouped=True, brief=True)


def _measures(results: Results) -> list[Table]:
    """Tables 3 and 4: the original's measure, its paraphrases' mean, change and SD."""
    records: list[Record] = []
    for row in results.rows:
        if row.edit != UNEDITED or not row.metric.endswith(OVER_TEMPLATES):
            continue
        detail, measure = row.detail, row.metric.removesuffix(OVER_TEMPLATES)
        record: dict[str, Cell] = {
            "measure": f"{measure}, {row.dataset}",
            "original": Number(detail["original"]),
            "paraphrased": Number.of(row),
            "change": Number(detail["change"], percent=True, signed=True),
            "SD": Number(detail["sd"]),
            "paraphrases": str(row.n or ""),
        }
        if measure == "b_associations":
            record["measure"] = f"{row.dataset}, % {row.group_b}"
        if detail.get("whole") is not None:
            record["of whole lists"] = f"{detail['used']:,} of {detail['whole']:,}"
        if paper := detail.get("published"):
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
