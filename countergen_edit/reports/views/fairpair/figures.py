"""FairPair's figures: B and V over prompts, by sample size, F over templates, and phrases.

Comes in: the rows of a run. Goes out: panels of series. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.panels import Panel, Series, state_panels, ticks
from countergen_edit.reports.views.fairpair.tables import of_paraphrases, phi_of

Labelled = Sequence[tuple[str, Row]]
"""Rows, each with what its panel calls whatever it is about: an edit, or a run."""

LETTERS = ((1, "B"), (2, "V_gp"), (3, "V_pg"))
"""Place in an entry of a row's detail → the paper's letter."""
F, FROM_1 = "F (1 = no bias)", (1.0, 1.0)
"""What an axis of F is called, and where it begins."""
MEAN_OF = "mean of {} over pairs"
SIZES = (("by_samples", "continuations"), ("by_folds", "folds"))
"""Where a row's detail has them by size → what there are so many of."""


def glance(states: Sequence[State]) -> list[Panel]:
    """F by each Φ in every state, and the F of what differs by no more than sampling."""

    def of(state: State) -> dict[Hashable, Row]:
        return {phi_of(row): row for row in state.results.of("fairpair_f", edit=state.edit)}

    labels = {phi: str(phi) for phi in of(states[0])}
    none = ticks("F of no bias", dict.fromkeys(labels.values(), 1.0))
    title = "Bias of what the model writes, by each Φ"
    panels = state_panels(title, F, states, labels, of, [none])
    return [replace(panel, covers=FROM_1) for panel in panels]


def over_paraphrases(results: Results, rows: Sequence[Row]) -> Figure | None:
    """F of every template; nothing where there is one template."""
    series: dict[str, list[Series]] = {}
    for row in rows:
        label = results.label(row.edit)
        known = [
            (r.facets["paraphrase"], r.value)
            for r in of_paraphrases(results, row)
            if r.value is not None
        ]
        if results.under(row, row.edit, "fairpair_f_over_paraphrases") is not None:
            tips = tuple(f"{label}, {paraphrase}: {value:.3f}" for paraphrase, value in known)
            values = tuple(value for _, value in known)
            grey = results.is_reference(row.edit)
            spread = Series(label, (), values, kind="spread", baseline=grey, tips=tips)
            series.setdefault(phi_of(row), []).append(spread)
    if not series:
        return None
    return Figure(
        "fairpair_paraphrases",
        "F, template by template",
        tuple(Panel(phi, F, "", tuple(own), covers=FROM_1) for phi, own in series.items()),
        "Every dot is one template of the prompts; boxes are quartiles.",
    )


def distributions(labelled: Labelled) -> Figure:
    """B and both V over prompts (Figure 5), from rows `fairpair_f`."""
    panels = []
    for about, row in labelled:
        prompts: list[list[Any]] = row.detail.get("prompts", [])
        series = []
        for place, name in LETTERS:
            known = [(str(p[0]), float(p[place])) for p in prompts if p[place] is not None]
            tips = tuple(f"{name}, {label}: {value:.3f}" for label, value in known)
            y = tuple(value for _, value in known)
            series.append(Series(name, (), y, kind="spread", tips=tips))
        if any(s.y for s in series):
            panels.append(Panel(f"{phi_of(row)}, {about}", _mean_of(row), "", tuple(series)))
    return Figure(
        "fairpair_distributions",
        "B and V, prompt by prompt",
        tuple(panels),
        "Every dot is a prompt, boxes are quartiles. Bias is where B lies right of both V.",
    )


def _mean_of(row: Row) -> str:
    return MEAN_OF.format(phi_of(row))


def ablations(results: Results) -> Figure | None:
    """B and both V by number of continuations and of folds (Figures 3 and 4)."""
    panels = []
    for row in results.of("fairpair_bias"):
        for key, label in SIZES:
            sizes: list[list[Any]] = row.detail.get(key, [])
            series = []
            for place, name in LETTERS:
                known = [s for s in sizes if s[place] is not None]
                x, y = tuple(int(s[0]) for s in known), tuple(float(s[place]) for s in known)
                series.append(Series(name, x, y))
            if sizes:
                title = f"{phi_of(row)}, {results.label(row.edit)}"
                panels.append(Panel(title, f"{label} of each side", _mean_of(row), tuple(series)))
    words = "Where the lines are level, more continuations would not change the result."
    title = "B and V by sample size"
    return Figure("fairpair_sizes", title, tuple(panels), words) if panels else None


def sizes_over_runs(labelled: Labelled) -> Figure | None:
    """B by number of continuations and of folds, a line for each run (Figures 3 and 4).

    Args:
        labelled: rows `fairpair_bias`.
    """
    panels = []
    for phi in dict.fromkeys(phi_of(row) for _, row in labelled):
        for key, counted in SIZES:
            series = []
            for about, row in labelled:
                sizes: list[list[Any]] = row.detail.get(key, []) if phi_of(row) == phi else []
                known = [s for s in sizes if s[1] is not None]
                x, y = tuple(int(s[0]) for s in known), tuple(float(s[1]) for s in known)
                series += [Series(about, x, y)] if known else []
            if series:
                label = f"{counted} of each side"
                panels.append(Panel(f"B, {phi}", label, MEAN_OF.format(phi), tuple(series)))
    words = "Where a line is level, more continuations would not change the result."
    title = "B by sample size"
    return Figure("fairpair_sizes", title, tuple(panels), words) if panels else None


def phrases(labelled: Labelled) -> Figure | None:
    """The phrases that either side uses more (Figure 6), from rows `fairpair_ngrams`.

    As the paper's, the share of both sets of continuations that has a phrase, sorted by that of
    the side that has it more; beside them the log odds.
    """
    panels = []
    for about, row in labelled:
        source, target = row.detail["source"], row.detail["target"]
        terms: list[dict[str, Any]] = row.detail["terms"]
        sets = {"share_pg": f"{source}, perturbed", "share_gp": str(target)}
        for (share, name), sign in zip(sets.items(), (-1, 1), strict=True):
            more = [term for term in terms if term["log_odds"] * sign > 0]
            more.sort(key=lambda term: term[share], reverse=True)
            if not more:
                continue
            bars = (_bars(side, more, key) for key, side in sets.items())
            title = f"{about}: more after {name}"
            panels.append(Panel(title, "share of continuations", "", tuple(bars), downwards=True))
        if terms:
            odds = (
                _bars(name, [term for term in terms if term["log_odds"] * sign > 0], "log_odds")
                for name, sign in zip(reversed(sets.values()), (1, -1), strict=True)
            )
            panels.append(Panel(f"{about}: log odds", "log odds", "", tuple(odds), downwards=True))
    words = (
        "Phrases of one to four words whose share of texts differs significantly. Log odds are "
        "above 0 where g(p(x)) has them more, and compare rare phrases with common ones."
    )
    title = "Telling phrases"
    return Figure("fairpair_phrases", title, tuple(panels), words) if panels else None


def _bars(name: str, terms: Sequence[dict[str, Any]], key: str) -> Series:
    texts = tuple(str(term["text"]) for term in terms)
    return Series(name, texts, tuple(float(term[key]) for term in terms), kind="bars")
