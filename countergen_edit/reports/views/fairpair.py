"""The view of FairPair: Tables 1 to 3 and Figures 5 and 6 of the paper, of one run and of several.

The paper's values stand beside those of a model of the same name, on Common Sents, John to Jane.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from countergen_edit.data.fairpair import UNITS
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.fairpair.continuations import (
    PERTURBED,
    STORE,
    read_pairs,
    read_perturbed,
)
from countergen_edit.metrics.fairpair.metric import OVER_ALL, OVER_PROMPTS, SOURCE, TARGET
from countergen_edit.metrics.published import published_name
from countergen_edit.metrics.results import Results, Side, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.metrics.template_tests import ALPHA
from countergen_edit.reports.blocks import (
    Cell,
    Figure,
    Fold,
    Number,
    Quote,
    Quotes,
    Section,
    Table,
    Words,
)
from countergen_edit.reports.panels import Panel, Series, state_panels, ticks
from countergen_edit.reports.views.base import Quantity, View
from countergen_edit.reports.views.stacked import AVERAGE, means, stacked

# Table 3 of the paper: V_pg, V_gp, B (in hundredths) and F; and Table 1, percent.
PUBLISHED: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "gpt2": {"jaccard": (85.3, 85.9, 85.8, 1.00), "sentiment": (22.9, 24.3, 23.9, 1.03)},
    "gpt2-xl": {"jaccard": (86.3, 86.6, 86.6, 1.00), "sentiment": (24.0, 23.1, 23.5, 1.00)},
    "tk-instruct-3b-def": {
        "jaccard": (90.7, 91.4, 91.2, 1.00),
        "sentiment": (34.6, 34.2, 34.4, 1.00),
    },
    "gpt-j-6b": {"jaccard": (85.8, 85.9, 85.9, 1.00), "sentiment": (20.4, 21.3, 20.8, 1.00)},
    "llama-13b": {"jaccard": (86.4, 87.6, 87.8, 1.02), "sentiment": (19.0, 19.4, 19.3, 1.01)},
    "instructgpt": {"jaccard": (78.7, 81.3, 81.4, 1.04), "sentiment": (16.3, 20.8, 19.2, 1.09)},
}
PUBLISHED_SUCCESS = dict(zip(PUBLISHED, (99.6, 99.6, 97.8, 99.3, 99.2, 99.7), strict=True))
PUBLISHED_AVERAGE = {"jaccard": (85.5, 86.5, 88.1, 1.01), "sentiment": (23.0, 23.9, 23.5, 1.02)}
"""The last row of Table 3, as printed; B by Jaccard averages 86.45 over its models."""
ENDS = ("v_pg", "v_gp", "bias", "f")
"""The quantities of Table 3, which the paper averages over models."""
COLUMNS = ("V_pg", "V_gp", "B", "F", "change of F", "2B−V−V", "p")
LETTERS = ((1, "B"), (2, "V_gp"), (3, "V_pg"))
"""Position in the list of each prompt in a row's detail, and letter."""
MOST_TEXTS = 1200
PER_PROMPT = 3
"""Continuations of one prompt and edit in the examples."""
MEANING = (
    "F = B²/(V_gp V_pg) above 1: the two sides differ by more than sampling does. 2B−V−V is its "
    "unbiased counterpart, 0 without a difference. p: permutation test, Holm."
)
CHAT = "Prompts are user messages in the chat template, and continuations the model's replies."
FILTERS = (
    "By characters: the Jaccard similarity nearest to the paper's Table 2; by neutral words: "
    "without the words of either group, which any correct perturbation changes."
)


class FairPairView(View):
    """The tables, figures and sentences of `FairPair`."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """F by each Φ."""
        rows = _f_rows(results, split)
        by_phi = {phi: {r.edit: r for r in rows if _phi(r) == phi} for phi in map(_phi, rows)}
        return [
            Quantity(f"F, {phi}", of_phi, "other", digits=2, main=False)
            for phi, of_phi in by_phi.items()
        ]

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """F by each Φ, beside the F without bias."""

        def of(state: State) -> dict[Hashable, Row]:
            return {_phi(row): row for row in state.results.of("fairpair_f", edit=state.edit)}

        labels = {phi: str(phi) for phi in of(states[0])}
        none = ticks("F without bias", dict.fromkeys(labels.values(), 1.0))
        title = "Bias of continuations, by each Φ"
        panels = state_panels(title, "F (1 = no bias)", states, labels, of, [none])
        return [replace(panel, covers=(1.0, 1.0)) for panel in panels]

    def side_by_side(self, results: Results) -> list[Quantity]:
        """F by each Φ, and the share of perturbations that pass."""
        passed = {row.edit: row for row in results.of("fairpair_perturbed")}
        share = Quantity("perturbations that pass", passed, "other", 4, percent=True, main=False)
        return [*self.quantities(results), *([share] if passed else [])]

    def pooled(self, sides: Sequence[Side]) -> list[Row]:
        """Means over models of both V, of B and of F (the last row of Table 3)."""
        return [row for end in ENDS for row in means(sides, f"fairpair_{end}")]

    def over_runs(self, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """Tables 1 and 3 and Figures 5 and 6 over all runs."""
        sides = [side for side in sides if _f_rows(side.results)]
        table_3 = stacked(sides, _table_3)
        if table_3 is None:
            return []
        labelled = [
            (s.label(r.edit), r) for s in sides for r in s.results.rows if r.edit in s.edits
        ]
        lines = [*table_3.rows, *_averages(sides, pooled)]
        order = list(dict.fromkeys(line[0] for line in lines))
        lines.sort(key=lambda line: order.index(line[0]))
        blocks = (
            replace(table_3, title="FairPair by model", rows=tuple(lines)),
            stacked(sides, _perturbed),
            *_figures(labelled),
        )
        return [Section("fairpair", "FairPair", tuple(b for b in blocks if b is not None))]

    def sections(self, results: Results) -> list[Section]:
        """The tab of FairPair, and continuations among the examples."""
        rows = _f_rows(results)
        if not rows:
            return []
        chat = any(row.detail.get("asked") for row in results.of("fairpair_perturbed"))
        notes = (*[CHAT][:chat], *_undefined(results), *_success(results))
        distributions, phrases = _figures([(results.label(r.edit), r) for r in results.rows])
        folds: dict[str, list[Words | Table | Figure | None]] = {
            "Intervals, tests and lengths": [_intervals(results), _lengths(results)],
            "By template and prompt": [_over_paraphrases(results), distributions],
            "Phrases of each side": [phrases],
            "Perturbations": [_perturbed(results), _perturbations(results)],
        }
        shown = {title: tuple(b for b in parts if b is not None) for title, parts in folds.items()}
        tab = Section(
            "fairpair",
            "FairPair",
            (
                _table_3(results),
                Words(notes, brief=True),
                *(Fold(title, parts) for title, parts in shown.items() if parts),
            ),
        )
        texts = _continuations(results)
        return [tab, *([Section("examples", "Examples", (texts,))] if texts else [])]

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """The Φ by which texts for the two groups still differ under an edit."""
        rows = [row for row in _f_rows(results) if row.edit == edit.id]
        phis = [_phi(row) for row in rows if _verdict(results, row).startswith("differ")]
        return [f"texts differ by {' and '.join(phis)}"] if phis else []

    def sentences(self, results: Results) -> list[str]:
        """The result of the pooled tests, a sentence for each Φ."""
        found: dict[str, list[str]] = {}
        for row in _f_rows(results):
            said = " ".join([*_state(results, row), _verdict(results, row)])
            found.setdefault(_phi(row), []).append(said)
        return [
            f"By {phi}, the continuations for the two groups {'; '.join(said)}."
            for phi, said in found.items()
        ]


def _phi(row: Row) -> str:
    """The run's name of the Φ of a row."""
    return str(row.facets["phi"])


def _f_rows(results: Results, split: str = "test") -> list[Row]:
    """The rows `fairpair_f`, sorted by Φ."""
    rows = results.of("fairpair_f", split)
    order = list(dict.fromkeys(map(_phi, rows)))
    return sorted(rows, key=lambda row: order.index(_phi(row)))


def _published_model(f: Row) -> str:
    """The paper's name of the model of a row `fairpair_f`; empty for other prompts."""
    sides = f.detail.get("source"), f.detail.get("target")
    alike = f.dataset == "common_sents" and sides == ("male", "female")
    return published_name(str(f.detail.get("model", ""))) if alike else ""


def _published_line(published: tuple[float, float, float, float]) -> tuple[Cell, ...]:
    *hundredths, f = published
    return (*(Number(value / 100) for value in hundredths), Number(f, digits=2), "", "", "")


def _point(row: Row | None, *, signed: bool = False) -> Number:
    return Number(None if row is None else row.value, signed=signed)


def _p(value: float | None, digits: int = 4) -> Number:
    return Number(value, digits=digits, bounded=True)


def _table_3(results: Results) -> Table:
    """Table 3: variability, bias and F by edit."""
    rows = _f_rows(results)
    lines: list[tuple[Cell, ...]] = []
    for i, row in enumerate(rows):
        change = results.under(row, row.edit, "fairpair_f_change")
        lines.append(
            (
                _phi(row),
                results.label(row.edit),
                *(_point(results.under(row, row.edit, f"fairpair_{e}")) for e in ENDS[:-1]),
                Number.of(row, 2),
                Number.of(change, 2, signed=True) if change else "",
                _point(results.under(row, row.edit, "fairpair_energy"), signed=True),
                _p(row.detail.get("p_adjusted"), 3),
            )
        )
        last = i + 1 == len(rows) or _phi(rows[i + 1]) != _phi(row)
        published = PUBLISHED.get(_published_model(row), {}).get(_phi(row))
        if last and published:
            lines.append((_phi(row), "published", *_published_line(published)))
    detail = rows[0].detail
    title = f"FairPair: {detail.get('source')} perturbed to {detail.get('target')}"
    columns = ("Φ", "edit", *COLUMNS)
    return Table("fairpair", title, columns, tuple(lines), MEANING, grouped=True, brief=True)


def _averages(sides: Sequence[Side], pooled: Sequence[Row]) -> list[tuple[Cell, ...]]:
    """Lines of the average over runs, and of the published average beside all its models."""
    of = Results(pooled)
    lines: list[tuple[Cell, ...]] = []
    for f in of.of("fairpair_f"):
        ends = (_point(of.under(f, f.edit, f"fairpair_{end}")) for end in ENDS[:-1])
        cells: tuple[Cell, ...] = (*ends, Number.of(f, 2), "", "", "")
        lines.append((_phi(f), f"{AVERAGE} of {f.n}", "", *cells))
    models = {_published_model(row) for side in sides for row in _f_rows(side.results)}
    if models >= {*PUBLISHED}:
        for phi, published in PUBLISHED_AVERAGE.items():
            lines.append((phi, f"{AVERAGE}, published", "", *_published_line(published)))
    return lines


def _intervals(results: Results) -> Table:
    """B, both V and 2B − V − V with their intervals, and the other tests."""
    ends = {"bias": "B", "v_gp": "V_gp", "v_pg": "V_pg", "energy": "2B − V − V"}
    lines: list[tuple[Cell, ...]] = []
    for row in _f_rows(results):
        found = {end: results.under(row, row.edit, f"fairpair_{end}") for end in ends}
        cells = [Number.of(of, signed=end == "energy") for end, of in found.items()]
        tests = [_p(row.detail.get(f"t_p_{side}")) for side in ("v_pg", "v_gp")]
        prompts = row.detail.get("tested_prompts")
        share = "" if prompts is None else f"{row.detail.get('significant_prompts')} of {prompts}"
        lines.append((_phi(row), results.label(row.edit), *cells, *tests, share))
    tests_of = ("p, t-test against V_pg", "p, t-test against V_gp", "prompts with p < 0.05")
    note = "The t-tests of B are the paper's. Prompts: permutation test, Holm."
    columns = ("Φ", "edit", *ends.values(), *tests_of)
    title = "Intervals and tests"
    return Table("fairpair_tests", title, columns, tuple(lines), note, grouped=True)


def _lengths(results: Results) -> Table | None:
    """Words of the continuations of the two sides, and the tests of their difference."""
    rows = {(r.edit, r.facets["test"]): r for r in results.of("fairpair_length_difference")}
    lines: list[tuple[Cell, ...]] = []
    for edit in dict.fromkeys(edit for edit, _ in rows):
        by_side = {r.facets["side"]: r for r in results.of("fairpair_length", edit=edit)}
        cells: list[Cell] = [Number.of(by_side[side], 1) for side in (SOURCE, TARGET)]
        for test in (OVER_PROMPTS, OVER_ALL):
            row = rows[edit, test]
            cells += [Number.of(row, 2, signed=True), _p(row.detail["p"])]
        lines.append((results.label(edit), *cells))
    titles = ("difference by prompt", "p, over prompts", "difference of all", "p, over all")
    note = (
        "Over all continuations is Welch's t-test; recommended is the paired test over prompts, "
        "which differ in length. A continuation is cut at max_new_tokens."
    )
    columns = ("edit", SOURCE, TARGET, *titles)
    name, title = "fairpair_lengths", "Words of a continuation"
    return Table(name, title, columns, tuple(lines), note) if lines else None


def _over_paraphrases(results: Results) -> Table | None:
    """The spread of F over templates; None for one template."""
    lines: list[tuple[Cell, ...]] = []
    for row in _f_rows(results):
        spread = results.under(row, row.edit, "fairpair_f_over_paraphrases")
        if spread is not None:
            low, high = spread.detail["range"] or (None, None)
            numbers = map(Number, (spread.value, spread.detail["sd"], low, high))
            differ = f"{spread.detail['differ']} of {spread.n}"
            flips = Number(spread.detail["flip_rate"], percent=True)
            lines.append((_phi(row), results.label(row.edit), *numbers, differ, flips))
    titles = ("mean F", "SD", "least F", "greatest F", "templates where the sides differ")
    columns = ("Φ", "edit", *titles, "conclusions that flip")
    note = "A conclusion flips if the sides differ on one of two templates only."
    name, title = "fairpair_paraphrases", "F over templates"
    return Table(name, title, columns, tuple(lines), note, grouped=True) if lines else None


def _perturbed(results: Results) -> Table | None:
    """Table 1: the share of perturbations that pass, by the unit of the third filter."""
    rows = results.of("fairpair_perturbed")
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        counts = row.detail.get("left_out", {})
        left_out = ", ".join(f"{reason}: {count}" for reason, count in counts.items() if count)
        shares = [Number(row.detail["shares"][unit], digits=4, percent=True) for unit in UNITS]
        passed = Number.of(row, 4, percent=True)
        lines.append((results.label(row.edit), passed, *shares, left_out, str(row.n)))
    if not lines:
        return None
    f = next(iter(results.of("fairpair_f")), None)
    if f is not None and (success := PUBLISHED_SUCCESS.get(_published_model(f))) is not None:
        number = Number(success / 100, digits=4, percent=True)
        lines.append(("published", number, *[""] * (len(UNITS) + 2)))
    columns = ("edit", "pass the filters", *(f"by {unit}" for unit in UNITS), "left out", "n")
    note = f"The third filter of this run compares {rows[0].detail['compared']}. {FILTERS}"
    return Table("fairpair_perturbed", "Perturbations that pass", columns, tuple(lines), note)


def _perturbations(results: Results) -> Table | None:
    """Table 2: perturbations with their similarity and the verdict of the filters."""
    lines: list[tuple[Cell, ...]] = []
    for row in results.of("fairpair_perturbed"):
        for e in row.detail.get("examples", []):
            verdict = "passed" if e["left_out"] is None else f"left out: {e['left_out']}"
            alike = [Number(1 - e["dissimilarity"][unit], digits=4, percent=True) for unit in UNITS]
            lines.append((results.label(row.edit), e["original"], e["perturbed"], *alike, verdict))
    columns = ("edit", "original", "perturbed", *(f"alike by {unit}" for unit in UNITS), "filters")
    name, title = "fairpair_perturbations", "Examples of perturbations"
    return Table(name, title, columns, tuple(lines), FILTERS) if lines else None


def _figures(labelled: Sequence[tuple[str, Row]]) -> tuple[Figure | None, ...]:
    """B and V by prompt (Figure 5) and phrases (6).

    `labelled` are rows, each with its run or edit.
    """
    prompts, phrases = [], []
    for label, row in labelled:
        if row.metric == "fairpair_f":
            of_prompts = row.detail.get("prompts", [])
            series = tuple(_letter(of_prompts, place, name) for place, name in LETTERS)
            if any(s.y for s in series):
                title = f"{_phi(row)}, {label}"
                prompts.append(Panel(title, f"mean of {_phi(row)} over pairs", "", series))
        elif row.metric == "fairpair_ngrams":
            phrases += _phrase_panels(label, row)
    made = {
        "distributions": ("B and V by prompt", prompts, "Every dot is a prompt; boxes: quartiles."),
        "phrases": (
            "Phrases of each side",
            phrases,
            "Phrases of one to four words whose share of texts differs significantly.",
        ),
    }
    return tuple(
        Figure(f"fairpair_{name}", title, tuple(panels), note) if panels else None
        for name, (title, panels, note) in made.items()
    )


def _letter(prompts: Sequence[list[Any]], place: int, name: str) -> Series:
    known = [(str(p[0]), float(p[place])) for p in prompts if p[place] is not None]
    tips = tuple(f"{name}, {label}: {value:.3f}" for label, value in known)
    return Series(name, (), tuple(value for _, value in known), kind="spread", tips=tips)


def _phrase_panels(label: str, row: Row) -> list[Panel]:
    """The share of the texts of both sides with each phrase, by the side that uses it more."""
    terms: list[dict[str, Any]] = row.detail["terms"]
    sides = {"share_pg": f"{row.detail['source']}, perturbed", "share_gp": row.detail["target"]}
    panels = []
    for (share, side), sign in zip(sides.items(), (-1, 1), strict=True):
        more = [term for term in terms if term["log_odds"] * sign > 0]
        more.sort(key=lambda term: term[share], reverse=True)
        texts = tuple(str(term["text"]) for term in more)
        bars = tuple(
            Series(name, texts, tuple(float(term[key]) for term in more), kind="bars")
            for key, name in sides.items()
        )
        if more:
            title = f"{label}: more after {side}"
            panels.append(Panel(title, "share of continuations", "", bars, downwards=True))
    return panels


def _state(results: Results, row: Row) -> list[str]:
    if results.is_unedited:
        return []
    return ["before any edit" if row.edit == UNEDITED else f"after {results.label(row.edit)}"]


def _verdict(results: Results, row: Row) -> str:
    if row.value is None:
        return f"have no F: F is undefined ({row.detail.get('reason', 'no continuations')})"
    p = row.detail.get("p_adjusted")
    text = "differ" if p is not None and p < ALPHA else "do not differ detectably"
    spread = results.under(row, row.edit, "fairpair_f_over_paraphrases")
    if spread is not None and spread.detail["range"] is not None:
        lo, hi = spread.detail["range"]
        text += f", on {spread.detail['differ']} of {spread.n} templates (F {lo:.2f} to {hi:.2f})"
    return text


def _undefined(results: Results) -> list[str]:
    """The prompts without F, where others have one."""
    return [
        f"{', '.join([f'By {_phi(row)}', *_state(results, row)])}, F is undefined in "
        f"{sum(row.detail['undefined'].values())} prompts ({row.detail['reason']})."
        for row in _f_rows(results)
        if row.value is not None and row.detail.get("undefined")
    ]


def _success(results: Results) -> list[str]:
    """The shares of perturbations that passed the filters, by edit."""
    rows = results.of("fairpair_perturbed")
    if not rows:
        return []
    shares = ", ".join("–" if r.value is None else f"{100 * r.value:.1f} %" for r in rows)
    text = f"Of {rows[0].n} perturbations {shares} passed the filters"
    if empty := sum(row.detail.get("empty_continuations", 0) for row in rows):
        text += f"; {empty} continuations were empty"
    return [f"{text}."]


def _continuations(results: Results) -> Table | None:
    """Continuations of x and of p(x), and the perturbed ones, of every measured edit."""
    edits = list(dict.fromkeys(row.edit for row in results.of("fairpair_f")))
    files = [(edit, path) for edit, path in results.stored(STORE) if edit in edits]
    lines: list[tuple[Cell, ...]] = []
    for edit, path in sorted(files, key=lambda pair: edits.index(pair[0])):
        if path.name.endswith(PERTURBED):
            continue
        prompts, pairs = read_pairs(path)
        beside = path.with_name(f"{path.stem}{PERTURBED}")
        changed = read_perturbed(beside) if beside.is_file() else ()
        for i, pair in enumerate(pairs[:PER_PROMPT]):
            own = Quotes((Quote(prompts.prompt), Quote(pair.g_x)))
            other = Quotes((Quote(prompts.perturbed_prompt), Quote(pair.g_px)))
            lines.append((results.label(edit), own, changed[i] if changed else "", other))
    note = f"The first {PER_PROMPT} of every prompt; the run's store holds all."
    columns = ("edit", "prompt x, its continuation", "perturbed", "prompt p(x), its continuation")
    name, title, rows = "continuations", "Continuations", tuple(lines[:MOST_TEXTS])
    return Table(name, title, columns, rows, note, searchable=True) if rows else None
