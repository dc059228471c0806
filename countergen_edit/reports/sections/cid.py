"""Contrastive input decoding: divergence, continuations side by side, ratings (Figures 2 to 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import (
    Block,
    Cell,
    Figure,
    Number,
    Quote,
    Quotes,
    Section,
    Table,
    Words,
)
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import NO_EDIT, UNEDITED, edit_label, line

RATED = {
    "cid_biased_fraction": "Biased continuations, agreed by raters",
    "cid_biased_fraction_automatic": (
        "Biased continuations according to a lexicon, which nobody has checked"
    ),
}
SHOWN = 4
"""Commonest continuations of a cell."""


def cid(run: Run) -> Section | None:
    """What CID found; nothing where the run has none of its rows."""
    results = run.results
    blocks: list[Block] = []
    if results.of("cid_continuations"):
        blocks.append(_continuations(results))
    panels = _panels(results)
    if panels:
        words = "λ is how strongly the other prompt counts; 0 is ordinary greedy decoding."
        blocks.append(Figure("cid", "Contrast by λ", tuple(panels), words))
    if (table := _divergence(results)) is not None:
        blocks.append(table)
    blocks += [_rated(results, metric) for metric in RATED if results.of(metric)]
    blocks += _effects(results)
    return Section("cid", "CID", tuple(blocks)) if blocks else None


def _continuations(results: Results) -> Table:
    rows = results.of("cid_continuations")
    groups = list(dict.fromkeys(row.group_a for row in rows))
    lines: list[tuple[Cell, ...]] = []
    keys = dict.fromkeys((r.detail["template"], r.detail["lambda"], r.edit) for r in rows)
    places = {part: i for i, part in enumerate(dict.fromkeys(k[:2] for k in keys))}
    for key in sorted(keys, key=lambda k: places[k[:2]]):  # before and after side by side
        mine = {
            r.group_a: r for r in rows if (r.detail["template"], r.detail["lambda"], r.edit) == key
        }
        cells = [_quotes(mine[group]) if group in mine else "" for group in groups]
        lines.append((key[0], f"{key[1]:g}", edit_label(key[2]), *cells))
    return Table(
        "cid_continuations",
        "Continuations side by side",
        ("template", "λ", "edit", *(f"about {group}" for group in groups)),
        tuple(lines),
        "The commonest continuations, with how many pairs of names they came from. † names a "
        "protected criterion outright: an automatic pre-rating by a lexicon, which nobody has "
        "checked.",
        searchable=True,
        grouped=True,
    )


def _quotes(row: Row) -> Quotes:
    marked = row.detail.get("automatic", {})
    return Quotes(
        tuple(
            Quote(str(text), f"{count} of {row.n}" + (" †" if text in marked else ""))
            for text, count in row.detail["counts"][:SHOWN]
        )
    )


def _panels(results: Results) -> list[Panel]:
    panels = []
    if rows := results.of("cid_divergence"):
        series = _by_lambda(rows, lambda row: edit_label(row.edit))
        label = "Jensen–Shannon, nats a token"
        panels.append(Panel("divergence of the two sides", "λ", label, series))
    if rows := results.of("cid_similarity"):
        at = [float(r.detail["lambda"]) for r in rows]
        tau = float(rows[0].detail["tau"])
        series = (
            line("similarity", at, rows),
            Series(f"τ = {tau:g}", (), (tau,), kind="level", baseline=True),
        )
        panels.append(Panel("similarity of the two sides", "λ", "cosine", series))
    return panels


def _rated(results: Results, metric: str) -> Words | Figure:
    """The share of biased continuations by λ, or a sentence where there is none at all."""
    title, rows = RATED[metric], results.of(metric)
    edits = list(dict.fromkeys(row.edit for row in rows))
    if not any(row.value or row.hi for row in rows):
        under = "" if edits == [UNEDITED] else ", before or after any edit"
        return Words((f"{title}: none, of any group, at any λ{under}.",))
    panels = []
    for edit in edits:
        series = _by_lambda([r for r in rows if r.edit == edit], lambda row: row.group_a)
        panels.append(Panel(edit_label(edit), "λ", "share", series, limits=(0, 1)))
    note = "The share of a group's continuations, with 95 % intervals."
    return Figure(metric, title, tuple(panels), note)


def _by_lambda(rows: Sequence[Row], name: Callable[[Row], str]) -> tuple[Series, ...]:
    series = []
    for label in dict.fromkeys(map(name, rows)):
        mine = [row for row in rows if name(row) == label]
        series.append(line(label, [*map(_lambda, mine)], mine, baseline=label == NO_EDIT))
    return tuple(series)


def _lambda(row: Row) -> float:
    known = row.detail.get("lambda")
    return float(row.dataset.rpartition("λ=")[2] if known is None else known)


def _divergence(results: Results) -> Table | None:
    rows = results.unedited("cid_divergence")
    if not rows:
        return None
    edits = list(dict.fromkeys(r.edit for r in results.of("cid_divergence")))
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = [Number.of(results.under(row, edit), 4) for edit in edits]
        gone = [
            Number.of(results.under(row, edit, "cid_divergence_reduction"), percent=True)
            for edit in edits
            if edit != "none"
        ]
        lines.append((f"{_lambda(row):g}", *cells, *gone, str(row.n)))
    titles = [f"gone under {edit}" for edit in edits if edit != "none"]
    return Table(
        "cid_divergence",
        "Divergence along the CID path",
        ("λ", *map(edit_label, edits), *titles, "n"),
        tuple(lines),
        "Jensen–Shannon divergence of the next-token distributions, in nats a token.",
    )


def _effects(results: Results) -> list[Block]:
    rows = results.of("cid_lambda_star")
    lines: list[tuple[Cell, ...]] = []
    series = []
    for row in rows:
        largest = row.detail["largest"]
        values = tuple(float(largest if v is None else v) for v in row.detail["values"])
        at = tuple(row.dataset for _ in values)
        tips = tuple(f"{row.dataset}: {value:g}" for value in values)
        series.append(Series(row.dataset, at, values, kind="spread", tips=tips))
        low, high = (f"> {largest:g}" if q is None else f"{q:g}" for q in row.detail["quartiles"])
        median: Cell = f"> {largest:g}" if row.value is None else Number.of(row, 1)
        never = str(row.detail["never"])
        lines.append((row.dataset, median, f"{low} to {high}", never, str(row.n)))
    if not lines:
        return []
    titles = ("kind of perturbation", "median λ*", "quartiles", "never apart", "n")
    words = f"λ* drives the two sides below a similarity of {rows[0].detail['tau']:g}; smaller is "
    panel = Panel("λ* by kind of perturbation", "λ*", "", tuple(series), downwards=True)
    note = (
        "Every dot is a pair of prompts, boxes are quartiles. A pair that no λ drove apart is "
        f"drawn at the largest, {rows[0].detail['largest']:g}."
    )
    return [
        Figure("cid_effects", "Perturbation effect", (panel,), note),
        Table("cid_effects", "Perturbation effect", titles, tuple(lines), words + "stronger."),
    ]
