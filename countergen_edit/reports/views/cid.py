"""The view of contrastive input decoding: all figures but the fifth, and appendix C."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.cid.metric import LAMBDA, TEMPLATE
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import (
    Cell,
    Figure,
    Number,
    Quote,
    Quotes,
    Section,
    Table,
    Tokens,
)
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import (
    Quantity,
    View,
    as_figure,
    as_section,
    as_table,
    grouped,
    lines_along,
)

_NATS = "Jensen–Shannon, nats a token"
_STRONGEST = 10
"""Perturbations of each kind that are listed."""
MARK = "†"
LEGEND = (
    f"The commonest continuations and their number of pairs of names. {MARK} names a protected "
    "criterion outright: an automatic pre-rating by a lexicon; no person has rated."
)


class CidView(View, declared="cid"):
    """The tables, figures and sentences of `Cid`."""

    def about(self, row: Row) -> str:
        facets = {k: f"λ={v:g}" if k == LAMBDA else str(v) for k, v in row.facets.items()}
        return ", ".join(filter(None, (_group(row), *facets.values())))

    def figure(self, results: Results) -> list[Figure]:
        """Lines by λ, of each group apart where rows are of one."""
        panels = [
            lines_along(results, rows, LAMBDA, group or how.title, "λ", how.unit or how.title)
            for how in self.shows
            if how.drawn
            for group, rows in grouped(results.of(how.name), _group).items()
        ]
        return as_figure("cid", "Contrast by λ", panels, self.note)

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        row = quantity.rows.get(edit)
        if row is not None and row.value is None and "largest" in row.detail:
            return f"> {row.detail['largest']:g}"  # never apart
        return super().cell(results, quantity, edit)

    def sections(self, results: Results) -> list[Section]:
        """Figures by λ and by kind of perturbation, and continuations."""
        drawn, boxes = self.figure(results), _boxes(results)
        texts = [*_perturbations(results), *_texts(results)]
        return as_section(*self.place, self.table(results), boxes, drawn, texts)

    def sentences(self, results: Results) -> list[str]:
        """The divergence at the largest λ, before and after each edit."""
        rows = results.unedited("cid_divergence")
        if not rows or rows[-1].value is None:
            return []
        last = rows[-1]
        left = [
            f"; {after.value:.4f} after {edit.name_in_text}"
            for edit in results.shown
            if (after := results.under(last, edit.id)) and after.value is not None
        ]
        return [
            f"Contrastive decoding: at λ={last.facets[LAMBDA]:g} the next-token distributions of "
            f"the two groups are {last.value:.4f} nats a token apart{''.join(left)}."
        ]


def _group(row: Row) -> str:
    """The group of a row about one."""
    return "" if row.group_b else row.group_a


def _boxes(results: Results) -> list[Figure]:
    """Figure 4: λ* of every perturbation by kind, by increasing median."""
    series = []
    for row in results.of("cid_lambda_star"):
        values = (row.detail["largest"] if v is None else v for v in row.detail["values"])
        series.append(Series(str(row.facets["perturbation"]), (), tuple(values), kind="spread"))
    note = "Every dot is a perturbation; boxes: quartiles. At the largest λ: never apart."
    panels = [Panel("", "λ*", "", tuple(series), wide=True)] if series else []
    return as_figure("cid_lambda_star", "λ* by kind of perturbation", panels, note)


def _perturbations(results: Results) -> list[Table]:
    """Figure 8: perturbations of each kind, those with the strongest effect first."""
    records = [
        {"kind": str(row.facets["perturbation"]), "sentence": sentence, "perturbed": text}
        | {"λ*": Number(value, digits=1)}
        for row in results.of("cid_lambda_star")
        for value, (sentence, text) in zip(
            *(row.detail[key][:_STRONGEST] for key in ("values", "perturbations")), strict=True
        )
    ]
    title = "Perturbations with the strongest effect"
    note = f"At most {_STRONGEST} of a kind. –: no λ drives the continuations apart."
    return as_table("cid_perturbations", title, records, note, searchable=True, grouped=True)


def cid_comparison(
    prompts: tuple[str, str],
    strengths: Sequence[float],
    texts: Sequence[tuple[Sequence[str], Sequence[float], float]],
    title: str,
) -> Table:
    """Figure 1: the continuation of each prompt at every λ, its tokens coloured by Δ.

    `texts` has the tokens, their Δ, and the divergence, of each λ and each of both prompts.
    """
    cells = [Tokens(tuple(t), tuple(delta), f"{apart:.4f}") for t, delta, apart in texts]
    return Table(
        "cid_comparison",
        title,
        ("λ", *(f"{prompt} …" for prompt in prompts)),
        tuple((f"{s:g}", *cells[2 * i : 2 * i + 2]) for i, s in enumerate(strengths)),
        "Green: likelier after this prompt than after the other; red: less likely. The number: the "
        f"divergence of the two next-token distributions, {_NATS}.",
        brief=True,
    )


def _texts(results: Results) -> list[Table]:
    """The continuations of each template with their counts (appendix C)."""
    places = grouped(
        results.of("cid_continuations"),
        lambda row: (str(row.facets[TEMPLATE]), row.facets[LAMBDA], row.edit),
    )
    records = [
        {"template": template, "λ": f"{at:g}", "edit": results.label(edit)}
        | {row.group_a: _quotes(row) for row in rows}
        for (template, at, edit), rows in sorted(places.items(), key=lambda item: item[0][:2])
    ]
    name, title = "cid_continuations", "Continuations side by side"
    return as_table(name, title, records, LEGEND, searchable=True, grouped=True)


def _quotes(row: Row) -> Quotes:
    marked = row.detail.get("automatic", {})
    return Quotes(
        tuple(
            Quote(str(text), f"{count} of {row.n}" + (f" {MARK}" if text in marked else ""))
            for text, count in row.detail["counts"]
        )
    )
