"""Tables, figures and sentences of classifier tasks."""

from __future__ import annotations

from countergen_edit.metrics.classifier_tasks import OVER_PEOPLE, OVER_SENTENCES, OVER_TEMPLATES
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Cell, Number, Section, Table, Words
from countergen_edit.reports.views import base

SHARES = ("b_associations",)
"""Measures in percent of the second group."""


class ClassifierTasksView(base.View, declared="classifier_tasks"):
    """The paper's tables, then every template."""

    def shown(self, results: Results) -> tuple[base.Shown, ...]:
        rows = [r for r in results.rows if "paraphrase" in r.facets and "test" not in r.facets]
        measures = dict.fromkeys(row.metric for row in rows)
        return (*self.shows, *(base.Shown(m, m.replace("_", " ")) for m in measures))

    def about(self, row: Row) -> str:
        of = f"over {row.facets['test']}" if "test" in row.facets else row.facets.get("paraphrase")
        parts = ("" if of and row.dataset == "all" else row.dataset, of)
        return ", ".join(str(part) for part in parts if part)

    def quantities(self, results: Results, split: str = "test") -> list[base.Quantity]:
        quantities = super().quantities(results, "") if split == "test" else []
        return [quantity for quantity in quantities if quantity.of.startswith("over ")]

    def sections(self, results: Results) -> list[Section]:
        confounds = []
        for row in results.of("names_in_lexicon", split=""):
            names = ", ".join(f"{n} {v:+.1f}" for n, v in row.detail["valence"].items())
            confounds.append(self.say("confound", names=names or "none"))
        words = [Words(tuple(confounds), brief=True)] if confounds else []
        categories, measures = self._categories(results), self._measures(results)
        return base.as_section(*self.place, categories, words, measures, self.table(results))

    def sentences(self, results: Results) -> list[str]:
        counts = {
            row.facets["test"]: f"{round((row.value or 0) * row.n)} of {row.n}"
            for row in results.unedited("category_flips", "")
            if row.n and row.dataset == "all"
        }
        if not counts:
            return []
        return [self.say("flips", people=counts[OVER_PEOPLE], sentences=counts[OVER_SENTENCES])]

    def _categories(self, results: Results) -> list[Table]:
        """Table 2: the original's category, and the number of paraphrases in each."""
        records: list[base.Record] = []
        for row in results.unedited("category_flips", ""):
            detail, original = row.detail, row.detail["original"]
            names = [_category(row, category) for category in (-1, 1, 0)]
            record: dict[str, Cell] = {
                "paired t-test": self.says[str(row.facets["test"])],
                "template": row.dataset,
                "original": "" if original is None else _category(row, original),
                **dict(zip(names, map(str, detail["counts"]), strict=True)),
                "flips": Number(row.value, percent=True),
                "after Holm": str(detail["flips_holm"]),
            }
            if paper := detail["published"]:
                record["published"] = f"{paper['original']} {'/'.join(map(str, paper['counts']))}"
            records.append(record)
        title, note = "Categories of templates and paraphrases", self.says["categories"]
        look = {"grouped": True, "brief": True}
        return base.as_table("classifier_categories", title, records, note, **look)

    def _measures(self, results: Results) -> list[Table]:
        """Tables 3 and 4: the original's measure, its paraphrases' mean, change and SD."""
        records: list[base.Record] = []
        for row in results.rows:
            if row.edit != UNEDITED or not row.metric.endswith(OVER_TEMPLATES):
                continue
            detail, measure = row.detail, row.metric.removesuffix(OVER_TEMPLATES)
            share = f"{row.dataset}, % {row.group_b}"
            record: dict[str, Cell] = {
                "measure": share if measure in SHARES else f"{measure}, {row.dataset}",
                "original": Number(detail["original"]),
                "paraphrased": Number.of(row),
                "change": Number(detail["change"], percent=True, signed=True),
                "SD": Number(detail["sd"]),
                "paraphrases": str(row.n or ""),
            }
            if detail.get("whole") is not None:
                record["of whole lists"] = f"{detail['used']:,} of {detail['whole']:,}"
            if paper := detail.get("published"):
                figures = paper.values() if isinstance(paper, dict) else paper
                record["published"] = " / ".join(map(str, figures))
            records.append(record)
        title, note = "The measure of a template, and of its paraphrases", self.says["measures"]
        return base.as_table("classifier_measures", title, records, note, brief=True)


def _category(row: Row, category: int) -> str:
    """The group that is ahead by a test, such as `M>F`, or neither."""
    a, b = row.group_a, row.group_b
    if a[0] != b[0]:
        a, b = a[0].upper(), b[0].upper()
    return {1: f"{a}>{b}", -1: f"{b}>{a}", 0: "insig."}[category]
