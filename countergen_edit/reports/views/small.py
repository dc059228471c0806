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
from countergen_edit.reports.views import base

_MOST = 4
_MOST_SETS = 3
_MOST_DOTS = 80


class InVocabularyView(base.View, declared="in_vocabulary"):
    """Sets that are left out, with the words that the model lacks."""

    def sentences(self, results: Results) -> list[str]:
        measured = {row.dataset for row in results.unedited("group_effect")}
        rows = [r for r in results.unedited("in_vocabulary") if r.dataset not in measured]
        if not rows:
            return []
        words = dict.fromkeys(word for row in rows for word in row.detail["words"])
        about = {"sets": ", ".join(map(set_label, rows)), "words": ", ".join([*words][:EXAMPLES])}
        key = "left_out" if measured else "not_measured"
        return [self.say(key, axis=rows[0].axis.replace("_", " and "), **about)]


class ParaphrasesView(base.View, declared="paraphrases"):
    """How much conclusions depend on the template (Seshadri et al. 2022)."""

    def figure(self, results: Results) -> list[Figure]:
        panels = []
        for row in results.unedited("r_sd_over_paraphrases"):
            every = row.detail.get("paraphrases", ())
            if lines := [line for line in every if "content" in line][:_MOST_DOTS]:
                at, r = (tuple(line[key] for line in lines) for key in ("content", "r"))
                dots = Series("a paraphrase", at, r, kind="dots")
                panels.append(Panel(set_label(row), "mean R", "", (dots,), downwards=True))
        title, note = "R at a fixed content", self.says["dots"]
        own = base.as_figure("paraphrases_r", title, panels, note)
        return [*own, *super().figure(results)]

    def sentences(self, results: Results) -> list[str]:
        """The number of templates on which each edit lowers mean |R|; where R depends on them."""
        varies = []
        for row in results.unedited("paraphrase_variance_share"):
            both = row, results.under(row, UNEDITED, "paraphrase_flip_rate")
            share, flips = (Number.of(one, percent=True).in_text for one in both)
            if row.lo:
                varies.append(self.say("varies", share=share, set=set_label(row), flips=flips))
        texts = [f"{base.first_few(varies, _MOST_SETS, '; {} sets more')}."] if varies else []
        held = []
        for edit in results.shown:
            pair = [results.of(f"{m}_holding", edit=edit.id) for m in ("reduction", "halving")]
            if falls := pair[0]:
                fell, halved = (sum(int(r.value or 0) for r in rows) for rows in pair)
                counts = {"fell": fell, "halved": halved, "of": sum(row.n for row in falls)}
                held.append(self.say("falls", edit=edit.name_in_text, **counts))
        return [f"Mean |R|: {'; '.join(held)}.", *texts] if held else texts


class IntersectionsView(base.View, declared="intersections"):
    """Marginal effects, and the effect of every cell beyond them."""

    def sentences(self, results: Results) -> list[str]:
        rows, marginal = results.unedited(INTERSECTION), results.unedited(MARGINAL)
        axes = " and ".join(dict.fromkeys(row.axis for row in marginal))
        kinds = (
            (marginal, "difference", f"of {axes} alone"),
            (rows, "cell", f"beyond what {axes} add up to"),
        )
        return [self._significant(*kind) for kind in kinds] if rows else []

    def _significant(self, rows: Sequence[Row], noun: str, about: str) -> str:
        """The significant rows of one kind, or that there is none, or no test."""
        found, of = by_class(rows), {"noun": noun, "about": about}
        if len(found["not tested"]) == len(rows):
            return self.say("untested", **of)
        if significant := sorted(found["biased"], key=lambda row: -(row.value or 0.0)):
            each = (
                f"{base.groups_of(r)} {Number.of(r, 2).in_text} nats on {dataset_label(r.dataset)}"
                for r in significant
            )
            cells, n = base.first_few(each, _MOST), len(significant)
            return self.say("some", n=n, all=len(rows), level=SIGNIFICANT, cells=cells, **of)
        p = [row.detail["p_adjusted"] for row in rows if "p_adjusted" in row.detail]
        least = Number(min(p), digits=2, bounded=True).text
        return self.say("none", p=least, tests=len(p), **of)


class DistillationView(base.View, declared="distillation"):
    """Held-out losses by step, and contexts that the model wrote."""

    def sections(self, results: Results) -> list[Section]:
        losses = results.of(fits.LOSS, "validation")
        panels = [
            base.lines_along(results, rows, "step", f"seed {seed:g}", "step", "held-out loss")
            for seed, rows in base.grouped(losses, lambda row: row.facets["seed"]).items()
            if {row.edit for row in rows} & {*results.compared}
        ]
        curves = base.as_figure("distillation", self.heading, panels, self.note)
        counts = []
        for row in results.of(fits.OWN_CONTEXTS, "fit"):
            refused = [f"{count} ({why})" for why, count in row.detail["refused"].items()]
            said = row.detail | {"refused": ", ".join(refused) or "none"}
            counts += [self.say("contexts", **said)] * (row.edit in results.compared)
        contexts = self.further(results, "own_contexts", counts=" ".join(counts))
        return base.as_section(*self.place, curves, contexts)
