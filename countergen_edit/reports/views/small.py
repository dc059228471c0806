"""Views that add few words to the default table and figure."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.decisions.significance import by_class
from countergen_edit.metrics import fits
from countergen_edit.metrics.in_vocabulary import EXAMPLES
from countergen_edit.metrics.intersections import INTERSECTION, MARGINAL
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, dataset_label, set_label
from countergen_edit.reports.blocks import Figure, Number, Section
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import (
    View,
    as_figure,
    as_section,
    as_table,
    first_few,
    grouped,
    groups_of,
    lines_along,
)

_MOST = 4
"""Cells that a sentence names."""
_MOST_SETS = 3
_MOST_DOTS = 80
"""Paraphrases that are drawn."""


class CapabilityView(View, declared="capability"):
    """Accuracy on all questions and the change of P(right); on the page, each kind."""


class LmEvalView(View, declared="lm_eval"):
    """Each figure of each task of lm-evaluation-harness, and its change under an edit."""

    def about(self, row: Row) -> str:
        of = "" if row.facets["filter"] == "none" else f" ({row.facets['filter']})"
        return f"{row.dataset} {row.facets['figure']}{of}"


class LoggedView(View, declared="logged"):
    """The mean score of every task and metric in logs of other tools."""


class InVocabularyView(View, declared="in_vocabulary"):
    """Sets that are left out, with the words that the model lacks."""

    def sentences(self, results: Results) -> list[str]:
        """That nothing was measured, or what was left out, and why."""
        measured = {row.dataset for row in results.unedited("group_effect")}
        rows = [r for r in results.unedited("in_vocabulary") if r.dataset not in measured]
        if not rows:
            return []
        words = dict.fromkeys(word for row in rows for word in row.detail["words"])
        about = {
            "sets": ", ".join(map(set_label, rows)),
            "axis": rows[0].axis.replace("_", " and "),
        }
        key = "left_out" if measured else "not_measured"
        return [self.say(key, words=", ".join([*words][:EXAMPLES]), **about)]


class ParaphrasesView(View, declared="paraphrases"):
    """How much conclusions depend on the template (Seshadri et al. 2022)."""

    def figure(self, results: Results) -> list[Figure]:
        """Mean R of each paraphrase of a content; the spread of sets under edits."""
        panels = []
        for row in results.unedited("r_sd_over_paraphrases"):
            every = row.detail.get("paraphrases", ())
            if lines := [line for line in every if "content" in line][:_MOST_DOTS]:
                at, r = (tuple(line[key] for line in lines) for key in ("content", "r"))
                dots = Series("a paraphrase", at, r, kind="dots")
                panels.append(Panel(set_label(row), "mean R", "", (dots,), downwards=True))
        note = "Every dot is a paraphrase; lines are named by the first of a content."
        own = as_figure("paraphrases_r", "R at a fixed content", panels, note)
        return [*own, *super().figure(results)]

    def sentences(self, results: Results) -> list[str]:
        """The number of templates on which each edit lowers mean |R|; where R depends on them."""
        varies = []
        for row in results.unedited("paraphrase_variance_share"):
            both = row, results.under(row, UNEDITED, "paraphrase_flip_rate")
            share, flips = (Number.of(one, percent=True).in_text for one in both)
            if row.lo:
                varies.append(self.say("varies", share=share, set=set_label(row), flips=flips))
        texts = [f"{first_few(varies, _MOST_SETS, '; {} sets more')}."] if varies else []
        held = []
        for edit in results.shown:
            falls = results.of("reduction_holding", edit=edit.id)
            halves = results.of("halving_holding", edit=edit.id)
            if falls:
                fell, halved = (sum(int(r.value or 0) for r in rows) for rows in (falls, halves))
                of, name = sum(row.n for row in falls), edit.name_in_text
                held.append(self.say("falls", edit=name, fell=fell, of=of, halved=halved))
        return [f"Mean |R|: {'; '.join(held)}.", *texts] if held else texts


class IntersectionsView(View, declared="intersections"):
    """Marginal effects, and the effect of every cell beyond them."""

    def sentences(self, results: Results) -> list[str]:
        """Significant effects of each axis alone, and of cells beyond both."""
        rows, marginal = results.unedited(INTERSECTION), results.unedited(MARGINAL)
        if not rows:
            return []
        axes = " and ".join(dict.fromkeys(row.axis for row in marginal))
        return [
            self._significant(marginal, "difference", f"of {axes} alone"),
            self._significant(rows, "cell", f"beyond what {axes} add up to"),
        ]

    def _significant(self, rows: Sequence[Row], noun: str, about: str) -> str:
        """The significant rows of one kind, or that there is none, or no test."""
        found, of = by_class(rows), {"noun": noun, "about": about}
        if len(found["not tested"]) == len(rows):
            return self.say("untested", **of)
        if significant := sorted(found["biased"], key=lambda row: -(row.value or 0.0)):
            each = (
                f"{groups_of(row)} {Number.of(row, 2).in_text} nats on {dataset_label(row.dataset)}"
                for row in significant
            )
            cells, n = first_few(each, _MOST), len(significant)
            return self.say("some", n=n, all=len(rows), level=SIGNIFICANT, cells=cells, **of)
        p = [row.detail["p_adjusted"] for row in rows if "p_adjusted" in row.detail]
        least = Number(min(p), digits=2, bounded=True).text
        return self.say("none", p=least, tests=len(p), **of)


class DistillationView(View, declared="distillation"):
    """Held-out losses by step, and contexts that the model wrote."""

    def sections(self, results: Results) -> list[Section]:
        """The curves of the edits shown, seed by seed, and examples of contexts."""
        losses = results.of(fits.LOSS, "validation")
        panels = [
            lines_along(results, rows, "step", f"seed {seed:g}", "step", "held-out loss")
            for seed, rows in grouped(losses, lambda row: row.facets["seed"]).items()
            if {row.edit for row in rows} & {*results.compared}
        ]
        curves = as_figure("distillation", self.heading, panels, self.note)
        written = results.of(fits.OWN_CONTEXTS, "fit")
        written = [row for row in written if row.edit in results.compared]
        records = [
            {"edit": results.label(row.edit), "use": one["use"], "text": one["text"]}
            for row in written
            for one in row.detail["examples"]
        ]
        counts = []
        for detail in (row.detail for row in written):
            refused = ", ".join(f"{count} ({why})" for why, count in detail["refused"].items())
            counts.append(self.say("contexts", **detail | {"refused": refused or "none"}))
        title = "Contexts that the model wrote"
        contexts = as_table("own_contexts", title, records, " ".join(counts))
        return as_section(*self.place, curves, contexts)
