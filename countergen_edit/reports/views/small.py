"""Views that add few words to the default table and figure."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.decisions.significance import is_significant, is_tested
from countergen_edit.metrics import fits
from countergen_edit.metrics.in_vocabulary import EXAMPLES
from countergen_edit.metrics.intersections import INTERSECTION, MARGINAL
from countergen_edit.metrics.r.effect_rows import SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, dataset_label, set_label
from countergen_edit.reports.blocks import Figure, Number, Section
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views import base

_MOST_DOTS = 80


class InVocabularyView(base.View, declared="in_vocabulary"):
    """Sets that are left out, with the words that the model lacks."""

    def sentences(self, results: Results) -> list[str]:
        measured = {row.dataset for row in results.unedited("group_effect")}
        rows = [r for r in results.unedited("in_vocabulary") if r.dataset not in measured]
        if not rows:
            return []
        words = dict.fromkeys(word for row in rows for word in row.detail["words"])
        lists = {"sets": ", ".join(map(set_label, rows)), "words": ", ".join([*words][:EXAMPLES])}
        key = "left_out" if measured else "not_measured"
        return [self.say(key, axis=rows[0].axis.replace("_", " and "), **lists)]


class ParaphrasesView(base.View, declared="paraphrases"):
    """How much conclusions depend on the template (Seshadri et al. 2022)."""

    def figure(self, results: Results) -> list[Figure]:
        panels = []
        for row in results.unedited("r_sd_over_paraphrases"):
            lines = [x for x in row.detail.get("paraphrases", ()) if "content" in x][:_MOST_DOTS]
            if lines:
                contents, r = (tuple(line[key] for line in lines) for key in ("content", "r"))
                dots = Series("a paraphrase", contents, r, kind="dots")
                panels.append(Panel(set_label(row), "mean R", "", (dots,), downwards=True))
        title = "R at a fixed content"
        of_contents = base.as_figure("paraphrases_r", title, panels, self.says["dots"])
        return [*of_contents, *super().figure(results)]

    def sentences(self, results: Results) -> list[str]:
        """The number of templates on which each edit lowers mean |R|; where R depends on them."""
        varies = []
        for row in results.unedited("paraphrase_variance_share"):
            if row.lo:
                rows = row, results.under(row, UNEDITED, "paraphrase_flip_rate")
                share, flips = (base.percent(r).in_text for r in rows)
                varies.append(self.say("varies", share=share, set=set_label(row), flips=flips))
        texts = [f"{base.first_few(varies, more='; {} sets more')}."] if varies else []
        falls = []
        for edit in results.shown:
            pair = [results.of(f"{m}_holding", edit=edit.id) for m in ("reduction", "halving")]
            if pair[0]:
                fell, halved = (sum(int(row.value or 0) for row in rows) for rows in pair)
                counts = {"fell": fell, "halved": halved, "of": sum(row.n for row in pair[0])}
                falls.append(self.say("falls", edit=edit.name_in_text, **counts))
        return [f"Mean |R|: {'; '.join(falls)}.", *texts] if falls else texts


class IntersectionsView(base.View, declared="intersections"):
    """Marginal effects, and the effect of every cell beyond them."""

    def sentences(self, results: Results) -> list[str]:
        rows, marginal = results.unedited(INTERSECTION), results.unedited(MARGINAL)
        axes = " and ".join(dict.fromkeys(row.axis for row in marginal))
        if not rows:
            return []
        return [
            self._significant(marginal, noun="difference", about=f"of {axes} alone"),
            self._significant(rows, noun="cell", about=f"beyond what {axes} add up to"),
        ]

    def _significant(self, rows: Sequence[Row], **kind: str) -> str:
        """The significant rows of one kind, or that none is significant, or tested."""
        tested = [row for row in rows if is_tested(row)]
        if not tested:
            return self.say("untested", **kind)
        if significant := sorted(filter(is_significant, rows), key=lambda r: -(r.value or 0.0)):
            effects = (
                f"{base.groups_of(r)} {Number.of(r, 2).in_text} nats on {dataset_label(r.dataset)}"
                for r in significant
            )
            counts = {"n": len(significant), "all": len(rows), "level": SIGNIFICANT}
            cells = base.first_few(effects, 4, ", and {} more")
            return self.say("significant", cells=cells, **counts, **kind)
        return self.say("none", p=base.least_p(tested), tests=len(tested), **kind)


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
            if row.edit in results.compared:
                refused = [f"{count} ({why})" for why, count in row.detail["refused"].items()]
                facts = row.detail | {"refused": ", ".join(refused) or "none"}
                counts.append(self.say("contexts", **facts))
        contexts = self.further(results, "own_contexts", counts=" ".join(counts))
        return base.as_section(*self.place, curves, contexts)
