"""The view of contrastive input decoding: all figures but the fifth, and appendix C."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.cid import LAMBDA, TEMPLATE
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports import blocks
from countergen_edit.reports.blocks import Number, Section, Table
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views import base

_STRONGEST = 10
_LONG = {"searchable": True, "grouped": True}
MARK = "†"


class CidView(base.View, declared="cid"):
    """The tables, figures and sentences of `Cid`."""

    def about(self, row: Row) -> str:
        facets = {k: f"λ={v:g}" if k == LAMBDA else str(v) for k, v in row.facets.items()}
        return ", ".join(filter(None, (_group(row), *facets.values())))

    def figure(self, results: Results) -> list[blocks.Figure]:
        """Lines by λ, of each group apart where rows are of one."""
        panels = [
            base.lines_along(results, rows, LAMBDA, group or how.title, "λ", how.unit or how.title)
            for how in self.shows
            if how.drawn
            for group, rows in base.grouped(results.of(how.name), _group).items()
        ]
        return base.as_figure("cid", "Contrast by λ", panels, self.note)

    def cell(self, results: Results, quantity: base.Quantity, edit: str) -> blocks.Cell:
        row = quantity.rows.get(edit)
        if row is not None and row.value is None and "largest" in row.detail:
            return f"> {row.detail['largest']:g}"  # never apart
        return super().cell(results, quantity, edit)

    def sections(self, results: Results) -> list[Section]:
        drawn, effects = self.figure(results), self._effects(results)
        return base.as_section(
            *self.place, self.table(results), effects[:1], drawn, effects[1:], self._texts(results)
        )

    def sentences(self, results: Results) -> list[str]:
        last = next(reversed(results.unedited("cid_divergence")), None)
        if last is None or last.value is None:
            return []
        left = [
            f"; {after.value:.4f} after {edit.name_in_text}"
            for edit in results.shown
            if (after := results.under(last, edit.id)) and after.value is not None
        ]
        return [self.say("apart", at=last.facets[LAMBDA], value=last.value, left="".join(left))]

    def _effects(self, results: Results) -> list[blocks.Block]:
        """λ* of perturbations: by kind, by increasing median (Figure 4), and listed (Figure 8)."""
        series, records = [], list[base.Record]()
        for row in results.of("cid_lambda_star"):
            kind, values = str(row.facets["perturbation"]), row.detail["values"]
            y = tuple(row.detail["largest"] if value is None else value for value in values)
            series.append(Series(kind, (), y, kind="spread"))
            strongest = (row.detail[key][:_STRONGEST] for key in ("values", "perturbations"))
            for value, (text, other) in zip(*strongest, strict=True):
                record: base.Record = {"kind": kind, "sentence": text, "perturbed": other}
                records.append({**record, "λ*": Number(value, digits=1)})
        if not series:
            return []
        panel, title = Panel("", "λ*", "", (*series,), wide=True), "λ* by kind of perturbation"
        figure = base.as_figure("cid_lambda_star", title, [panel], self.says["boxes"])
        title, note = self.says["effects"], self.say("strongest", most=_STRONGEST)
        table = base.as_table("cid_perturbations", title, records, note, **_LONG)
        return [*figure, *table]

    def _texts(self, results: Results) -> list[Table]:
        """The continuations of each template with their counts (appendix C)."""
        by_place = base.grouped(
            results.of("cid_continuations"),
            lambda row: (str(row.facets[TEMPLATE]), float(row.facets[LAMBDA]), row.edit),
        )
        records = [
            {"template": template, "λ": f"{at:g}", "edit": results.label(edit)}
            | {row.group_a: _quotes(row) for row in of_place}
            for (template, at, edit), of_place in sorted(by_place.items(), key=lambda x: x[0][:2])
        ]
        title, note = "Continuations side by side", self.say("legend", mark=MARK)
        return base.as_table("cid_continuations", title, records, note, **_LONG)


def _group(row: Row) -> str:
    return "" if row.group_b else row.group_a


def _quotes(row: Row) -> blocks.Quotes:
    marked = row.detail.get("automatic", {})
    counts = [(str(text), f"{count} of {row.n}") for text, count in row.detail["counts"]]
    return blocks.Quotes(tuple((t, n + f" {MARK}" * (t in marked)) for t, n in counts))


def cid_comparison(
    prompts: tuple[str, str],
    strengths: Sequence[float],
    texts: Sequence[tuple[Sequence[str], Sequence[float], float]],
    title: str,
) -> Table:
    """Figure 1: the continuation of each prompt at every λ, its tokens coloured by Δ.

    `texts` has the tokens, their Δ, and the divergence, of each λ and each of both prompts.
    """
    cells = [blocks.Tokens(tuple(t), tuple(delta), f"{apart:.4f}") for t, delta, apart in texts]
    columns = ("λ", *(f"{prompt} …" for prompt in prompts))
    rows: list[tuple[blocks.Cell, ...]] = [
        (f"{s:g}", *cells[2 * i : 2 * i + 2]) for i, s in enumerate(strengths)
    ]
    note = CidView.says["comparison"]
    return Table("cid_comparison", title, columns, tuple(rows), note, brief=True)
