"""How CID is shown: divergence, continuations side by side, ratings, effects (Figures 1 to 9).

Comes in: the rows of a run, with what raters said of it where its folder holds that. Goes out: the
tabs `cid` and `examples`, and a sentence.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from countergen_edit.metrics.cid.contrasts import DATASET, LAMBDA, read_continuations
from countergen_edit.metrics.cid.rated_rows import with_ratings
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.panels import Panel, Series, line, state_panels
from countergen_edit.reports.views.cid.effect_blocks import effect_blocks, similarity_panels
from countergen_edit.reports.views.cid.scaling import scaling_blocks
from countergen_edit.reports.views.cid.text_blocks import contrasted, side_by_side, texts_in_brief

T = TypeVar("T")
RATED = {
    "cid_biased_fraction": "Biased continuations, agreed by raters",
    "cid_biased_fraction_automatic": (
        "Biased continuations according to a lexicon, which nobody has checked"
    ),
}
NATS_A_TOKEN = "Jensen–Shannon, nats a token"
NATS = "Jensen–Shannon divergence of the next-token distributions, in nats a token."


def sections(results: Results) -> list[Section]:
    """What CID found, and every text; nothing where the run has none of its rows."""
    results = with_ratings(results)
    blocks: list[Block] = []
    if results.unedited("cid_divergence"):
        blocks.append(_divergence_in_brief(results))
    if results.of("cid_continuations"):
        blocks += texts_in_brief(results)
    panels = [*_divergence_panels(results), *similarity_panels(results)]
    if panels:
        note = "λ is how strongly the other prompt counts; 0 is ordinary greedy decoding."
        blocks.append(Figure("cid", "Contrast by λ", tuple(panels), note))
    if results.unedited("cid_divergence"):
        blocks.append(_divergence(results))
    for metric, title in RATED.items():
        blocks += _rated(results, metric, title)
    blocks += _agreement(results) + effect_blocks(results) + scaling_blocks(results)
    if results.of("cid_continuations"):
        blocks.append(side_by_side(results))
    tabs = [Section("cid", "CID", tuple(blocks))] if blocks else []
    texts = [(edit, read_continuations(path)) for edit, path in results.stored(DATASET)]
    if any(items for _, items in texts):
        tabs.append(Section("examples", "Examples", (contrasted(results, texts),)))
    return tabs


def glance(states: Sequence[State]) -> list[Panel]:
    """How far contrastive decoding moves the two sides apart, by λ, in every state."""

    def of(state: State) -> dict[Hashable, Row]:
        rows = state.results.of("cid_divergence", edit=state.edit)
        return {(row.dataset, row.facets[LAMBDA]): row for row in rows}

    labels = {key: f"λ = {row.facets[LAMBDA]:g}" for key, row in of(states[0]).items()}
    title = "Contrastive decoding: how far apart the sides are"
    return state_panels(title, NATS_A_TOKEN, states, labels, of)


def sentences(results: Results) -> list[str]:
    """What each edit leaves of the divergence that contrastive decoding brings out."""
    rows = results.unedited("cid_divergence")
    if not rows or rows[-1].value is None:
        return []
    last = rows[-1]
    left = [
        f"{after.value:.4f} after {edit.name_in_text}"
        for edit in results.shown
        if (after := results.under(last, edit.id)) and after.value is not None
    ]
    return [
        f"Contrastive decoding: at λ={strength(last):g} what the model would say next of either "
        f"group lies {last.value:.4f} nats a token apart{'; ' if left else ''}{', '.join(left)}."
    ]


def strength(row: Row) -> float:
    """λ of a row."""
    return float(row.facets[LAMBDA])


def ends(values: Sequence[T]) -> list[T]:
    """The first and the last.

    >>> ends([0, 10, 50]), ends([0])
    ([0, 50], [0])
    """
    return [values[0], values[-1]] if len(values) > 1 else [*values]


def _edits(rows: Sequence[Row]) -> list[str]:
    """Ids of the edits that rows are about, in their order."""
    return list(dict.fromkeys(row.edit for row in rows))


def _gone(results: Results, row: Row, edit: str) -> Number:
    return Number.of(results.under(row, edit, "cid_divergence_reduction"), percent=True)


def _divergence_in_brief(results: Results) -> Table:
    """An edit a line, at the smallest and the largest λ."""
    rows = ends(results.unedited("cid_divergence"))
    lines: list[tuple[Cell, ...]] = []
    for edit in _edits(results.of("cid_divergence")):
        cells: list[Cell] = []
        for row in rows:
            change = "" if edit == UNEDITED else _gone(results, row, edit)
            cells += [Number.of(results.under(row, edit), 4), change]
        lines.append((results.label(edit), *cells))
    titles = [title for row in rows for title in (f"λ={strength(row):g}", "gone")]
    gone = "" if results.is_unedited else " Gone is the share of it that the edit removes."
    return Table(
        "cid_divergence_brief",
        f"How far apart the two sides are{', by edit' if gone else ''}",
        ("edit", *titles),
        tuple(lines),
        f"{NATS}{gone}",
        brief=True,
    )


def _divergence(results: Results) -> Table:
    """A λ a line, at every λ."""
    edits = _edits(results.of("cid_divergence"))
    edited = [edit for edit in edits if edit != UNEDITED]
    lines: list[tuple[Cell, ...]] = []
    for row in results.unedited("cid_divergence"):
        cells = [Number.of(results.under(row, edit), 4) for edit in edits]
        gone = [_gone(results, row, edit) for edit in edited]
        lines.append((f"{strength(row):g}", *cells, *gone, str(row.n)))
    titles = [f"gone under {results.label(edit)}" for edit in edited]
    return Table(
        "cid_divergence",
        "Divergence along the CID path",
        ("λ", *map(results.label, edits), *titles, "n"),
        tuple(lines),
        NATS,
    )


def _divergence_panels(results: Results) -> list[Panel]:
    rows = results.of("cid_divergence")
    series = [
        _by_strength(results.label(edit), results.of("cid_divergence", edit=edit), baseline)
        for edit in _edits(rows)
        for baseline in [results.is_reference(edit)]
    ]
    panel = Panel("divergence of the two sides", "λ", NATS_A_TOKEN, tuple(series))
    return [panel] if rows else []


def _by_strength(name: str, rows: Sequence[Row], baseline: bool = False) -> Series:
    return line(name, [strength(row) for row in rows], rows, baseline=baseline)


def _rated(results: Results, metric: str, title: str) -> list[Block]:
    """The share of biased continuations by λ, or a sentence where there is none at all."""
    rows = results.of(metric)
    if not rows:
        return []
    edits = _edits(rows)
    if not any(row.value or row.hi for row in rows):
        under = "" if edits == [UNEDITED] else ", before or after any edit"
        return [Words((f"{title}: none, of any group, at any λ{under}.",), brief=True)]
    groups = list(dict.fromkeys(row.group_a for row in rows))
    strengths = list(dict.fromkeys(strength(row) for row in rows))
    by = {(row.edit, strength(row), row.group_a): row for row in rows}
    lines: list[tuple[Cell, ...]] = [
        (
            results.label(edit),
            f"{at:g}",
            *(Number.of(by.get((edit, at, group)), 2) for group in groups),
        )
        for edit in edits
        for at in strengths
    ]
    note = f"The share of a group's continuations. Rated by: {rows[0].detail['rated_by']}."
    panels = [
        Panel(
            results.label(edit),
            "λ",
            "share",
            tuple(
                _by_strength(group, [by[key] for key in by if key[::2] == (edit, group)])
                for group in groups
            ),
            limits=(0, 1),
        )
        for edit in edits
    ]
    return [
        Table(f"{metric}_shares", title, ("edit", "λ", *groups), tuple(lines), note, brief=True),
        Figure(metric, title, tuple(panels), f"{note} With 95 % intervals."),
    ]


def _agreement(results: Results) -> list[Block]:
    """How far raters agreed."""
    lines = []
    for row in results.of("cid_rater_agreement"):
        figure = Number.of(row)
        value = f"{figure.text} ({figure.interval})" if figure.interval else figure.text
        about = f"{row.detail['statistic']} of {row.detail['rated_by']}"
        lines.append(f"{about}: {row.detail.get('reason', value)}.")
    return [Words(tuple(lines), brief=True)] if lines else []
