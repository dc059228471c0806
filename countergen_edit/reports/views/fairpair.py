"""The view of FairPair: Tables 1 to 3 and Figures 3 to 6 of the paper."""

from __future__ import annotations

from dataclasses import replace

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.fairpair.continuations import read_texts
from countergen_edit.metrics.paraphrases import ALPHA
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports import blocks
from countergen_edit.reports.blocks import Number, Section, Table
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views import base

LETTERS = {"B": 1, "V_gp": 2, "V_pg": 3}
"""The position of each in the list of a prompt in a row's detail."""
_MOST_TEXTS = 1200
PER_PROMPT = 3


class FairPairView(base.View, declared="fairpair"):
    """The tables, figures and sentences of `FairPair`."""

    def about(self, row: Row) -> str:
        return ", ".join(map(str, row.facets.values()))

    def cell(self, results: Results, quantity: base.Quantity, edit: str) -> blocks.Cell:
        row = quantity.rows.get(edit)
        cell = super().cell(results, quantity, edit)
        return replace(cell, starred=True) if row and _differs(row) else cell  # type: ignore[type-var]

    def sections(self, results: Results) -> list[Section]:
        notes = self._notes(results)
        tests, perturbed, phrases = (self.further(results, name) for name in self.tables)
        words = [blocks.Words((*notes,), brief=True)] if notes else []
        figures = [*self._distributions(results), *self._by_size(results)]
        content = (self.table(results), words, tests, figures, perturbed, phrases)
        examples = base.as_section("examples", "Examples", _continuations(results))
        return [*base.as_section(*self.place, *content), *examples]

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        rows = results.of("fairpair_f", edit=edit.id)
        phis = [self.about(row) for row in rows if _differs(row)]
        return [f"texts differ by {' and '.join(phis)} (permutation test)"] if phis else []

    def sentences(self, results: Results) -> list[str]:
        sentences = []
        for phi, rows in base.grouped(results.of("fairpair_f"), self.about).items():
            parts = (f"{_state(results, row)} {self._verdict(results, row)}" for row in rows)
            verdicts = "; ".join(map(str.lstrip, parts))
            sentences.append(self.say("of_phi", phi=phi, verdicts=verdicts))
        return sentences

    def _verdict(self, results: Results, row: Row) -> str:
        if row.value is None:
            return self.say("undefined", reason=row.detail.get("reason", "no continuations"))
        here = " on these prompts alone" if row.lo is not None and row.lo <= 1 else ""
        does = f"differ{here}" if _differs(row) else "do not differ detectably"
        rows = results.of("fairpair_f_of_paraphrase", edit=row.edit)
        rows = [r for r in rows if r.value is not None and r.facets["phi"] == row.facets["phi"]]
        above = sum(r.lo is not None and r.lo > 1 for r in rows)
        counts = {"tested": sum(map(_differs, rows)), "n": len(rows), "above": above}
        end = self.say("by_template", **counts) if rows else ""
        p, f = base.p_holm(row).text, Number.of(row, 2).in_text
        return self.say("tested", does=does, p=p, f=f) + end

    def _notes(self, results: Results) -> list[str]:
        """Prompts without F, empty continuations, and what each filter left out (Table 1)."""
        notes = []
        for row in results.of("fairpair_f"):
            if row.value is not None and (counts := row.detail.get("undefined")):
                where = ", ".join(filter(None, (f"By {self.about(row)}", _state(results, row))))
                n, reason = sum(counts.values()), row.detail["reason"]
                notes.append(self.say("undefined_in", where=where, n=n, reason=reason))
        rows = results.of("fairpair_perturbed")
        if empty := sum(row.detail.get("empty_continuations", 0) for row in rows):
            notes.append(f"{empty} continuations were empty.")
        for row in rows:
            left_out = row.detail.get("left_out", {}).items()
            if counts := [f"{n} by filter {reason!r}" for reason, n in left_out if n]:
                units = row.detail["shares"].items()
                shares = [f"by {u} {Number(share, percent=True).text}" for u, share in units]
                lists = {"counts": base.and_list(counts), "shares": base.and_list(shares)}
                notes.append(self.say("left_out", n=row.n, **lists))
        return notes

    def _by_size(self, results: Results) -> list[blocks.Figure]:
        """Figures 3 and 4: B and V by the number of continuations and of folds."""
        panels = [
            base.lines_along(results, rows, size, title, f"{size} of each side", f"mean {phi}")
            for size in ("samples", "folds")
            for (title, phi), rows in base.grouped(
                results.of(f"fairpair_by_{size}"),
                lambda row: ("{quantity}, {phi}".format(**row.facets), row.facets["phi"]),
            ).items()
        ]
        title = "B and V by sample size and folds"
        return base.as_figure("fairpair_sizes", title, panels, self.says["folds"])

    def _distributions(self, results: Results) -> list[blocks.Figure]:
        """Figure 5: B and V by prompt."""
        panels = []
        for row in results.of("fairpair_f"):
            series = []
            for name, i in LETTERS.items():
                prompts = [p for p in row.detail.get("prompts", ()) if p[i] is not None]
                y = tuple(float(prompt[i]) for prompt in prompts)
                tips = tuple(f"{name}, {prompt[0]}: {prompt[i]:.3f}" for prompt in prompts)
                series.append(Series(name, (), y, kind="spread", tips=tips))
            if any(s.y for s in series):
                title = f"{self.about(row)}, {results.label(row.edit)}"
                panels.append(Panel(title, f"{self.about(row)} over pairs", "", tuple(series)))
        title, note = "B and V by prompt", "Every dot is a prompt; boxes: quartiles."
        return base.as_figure("fairpair_distributions", title, panels, note)


def _differs(row: Row) -> bool:
    p = row.detail.get("p_adjusted")
    return row.value is not None and p is not None and p < ALPHA


def _state(results: Results, row: Row) -> str:
    """The model that a row is about; empty where there is one."""
    if results.is_unedited:
        return ""
    return "before any edit" if row.edit == UNEDITED else f"after {results.label(row.edit)}"


def _continuations(results: Results) -> list[Table]:
    """Continuations of x and of p(x), and the perturbed ones, of every measured edit."""
    edits = list(dict.fromkeys(row.edit for row in results.of("fairpair_f")))
    records: list[base.Record] = []
    for edit, sampled in read_texts(results, edits).items():
        for s in sampled:
            triples = [*zip(s.g_x, s.p_x, s.g_px, strict=True)]
            for g_x, p_x, g_px in triples[:PER_PROMPT]:
                record: dict[str, blocks.Cell] = {"edit": results.label(edit)}
                texts = ((s.prompt.source, ""), (g_x, ""))
                record["prompt x, its continuation"] = blocks.Quotes(texts)
                record["perturbed"] = p_x
                texts = ((s.prompt.target, ""), (g_px, ""))
                record["prompt p(x), its continuation"] = blocks.Quotes(texts)
                records.append(record)
    note = f"The first {PER_PROMPT} of every prompt; the run's store holds all."
    shown = records[:_MOST_TEXTS]
    return base.as_table("continuations", "Continuations", shown, note, searchable=True)
