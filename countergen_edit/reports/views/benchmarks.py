"""Tables, figures and sentences of published benchmarks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from countergen_edit.metrics.benchmarks.base import CHANGE, ROW, SOURCE
from countergen_edit.metrics.r.holm import SIGNIFICANT
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Fold, Number, Section, Table
from countergen_edit.reports.panels import Panel, state_panels, ticks
from countergen_edit.reports.views.base import Quantity, View, alike

DIGITS = 4
"""Of a share; in percent one after the point."""
MOST, MOST_GLANCE = 4, 10
"""Figures that a sentence names, and that the overview draws."""


class BenchmarksView(View):
    """Figures with their fair values, before and after edits."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        return [
            Quantity(
                _figure(results, row),
                alike(results, row),
                "other",
                DIGITS,
                percent=True,
                signed=bool(row.detail["signed"]),
                main=False,
                drawn=False,
            )
            for row in results.unedited(ROW, split)
        ]

    def side_by_side(self, results: Results) -> list[Quantity]:
        return self.quantities(results)

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The figures farthest from their fair values; shares and differences apart."""

        def of(state: State) -> dict[Hashable, Row]:
            return {row.key[1:-2]: row for row in state.results.of(ROW, edit=state.edit)}

        rows = {
            key: (row, float(row.detail["fair"]), abs(row.value - row.detail["fair"]))
            for key, row in of(states[0]).items()
            if row.value is not None and row.detail["fair"] is not None
        }
        least = sorted(rows, key=lambda key: -rows[key][2])[:MOST_GLANCE]
        several = len({rows[key][0].facets["bias_type"] for key in least}) > 1
        panels: list[Panel] = []
        for signed, unit in ((False, "share"), (True, "difference")):
            labels = {
                key: _label(states[0].results, rows[key][0], several)
                for key in least
                if bool(rows[key][0].detail["signed"]) == signed
            }
            fair = ticks("fair", {label: rows[key][1] for key, label in labels.items()})
            panels += state_panels(f"Benchmarks: {unit}s", unit, states, labels, of, [fair])
        return panels

    def sections(self, results: Results) -> list[Section]:
        rows = results.unedited(ROW)
        if not rows:
            return []
        folds = {
            "Differences between groups, and their tests": _groups(results, rows),
            "Changes by edits, and the smallest detectable ones": _changes(results, rows),
            "Versions, scoring, and known flaws": _sources(results),
        }
        folded = tuple(Fold(title, (table,)) for title, table in folds.items() if table.rows)
        return [Section("benchmarks", "Benchmarks", (_figures(results, rows), *folded))]

    def sentences(self, results: Results) -> list[str]:
        """The unfair figures of the unedited model, and the changes by each edit."""
        rows = results.unedited(ROW)
        said = [_unfair(results, rows)]
        for edit in results.shown:
            pairs = [(row, results.under(row, edit.id, CHANGE)) for row in rows]
            tested = [(row, c) for row, c in pairs if c is not None and "p_adjusted" in c.detail]
            if tested:
                said.append(_changed_by(results, edit.id, edit.name_in_text, tested))
        return [sentence for sentence in said if sentence]


def _figures(results: Results, rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    human = _human_sources(results)
    for row in rows:
        cells: list[Cell] = [_human(row)] if human else []
        for edit in results.compared:
            changed = _is_changed(results.under(row, edit, CHANGE))
            cells.append(_number(results.under(row, edit), starred=changed))
        lines.append((_title(results, row), _about(row), str(row.detail["title"]), *cells))
    people = [", ".join(human)] if human else []
    columns = ("benchmark", "about", "figure", *people, *map(results.label, results.compared))
    note = "Fair is 50 % of a share of stereotypes preferred and 0 of a difference"
    undirected = dict.fromkeys(row.detail["title"] for row in rows if row.detail.get("undirected"))
    note += (
        f"; of other figures more is better{', but for ' * bool(undirected)}{_most(undirected)}."
    )
    if not results.is_unedited:
        note += (
            f" * is a significant change (P ≤ {SIGNIFICANT}, Holm over all figures; before and "
            "after are drawn alike)."
        )
    return Table("benchmarks", "Benchmarks", columns, tuple(lines), note, grouped=True, brief=True)


def _groups(results: Results, rows: Sequence[Row]) -> Table:
    """Differences between groups, which are tested together."""
    lines: list[tuple[Cell, ...]] = []
    for edit in results.compared:
        for row in (results.under(row, edit) for row in rows):
            if row is not None and "p_adjusted" in row.detail:
                own = (_human(row), _number(row), *_tests(row), f"{row.detail['clusters']}")
                lines.append((results.label(edit), _figure(results, row), *own))
    human = ", ".join(_human_sources(results))
    columns = ("edit", "figure", human, "model", "P", "P (Holm)", "clusters")
    note = (
        "P of no difference between two groups; P (Holm) is over all differences of a domain and "
        "an edit. Beside the model the same of human texts."
    )
    title = "Differences between groups"
    return Table("benchmark_groups", title, columns, tuple(lines), note, grouped=True)


def _changes(results: Results, rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for edit in sorted(results.compared, key=results.is_reference):  # controls last
        for row in rows:
            if (changed := results.under(row, edit, CHANGE)) is not None:
                smallest = Number(changed.detail["smallest"], digits=DIGITS, percent=True)
                own = (_number(changed, signed=True), *_tests(changed), smallest)
                lines.append((results.label(edit), _figure(results, row), *own))
    columns = ("edit", "figure", "change", "P", "P (Holm)", "detectable")
    note = (
        "After less before, of the same resampled clusters. P (Holm) is over all figures of an "
        "edit; a detectable change is found four times in five, 2.8 standard errors."
    )
    title = "Changes of benchmarks by edits"
    return Table("benchmark_changes", title, columns, tuple(lines), note, grouped=True)


def _sources(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in results.unedited(SOURCE):
        detail = row.detail
        count, every = int(row.value or 0), detail["all_items"]
        name = row.facets["benchmark"]
        drawn = {
            r.detail["clusters"] for r in results.unedited(ROW) if r.facets["benchmark"] == name
        }
        few, many = min(drawn, default=0), max(drawn, default=0)
        clusters = f"{f'{few} to ' if few < many else ''}{many} {detail['clusters']}"
        told = (f"{title}: {says}" for title, says in detail["figures"].items())
        facts = {
            "items": f"{count}{f' of {every}' if count < every else ''}; {clusters} are drawn",
            "scored": "; ".join(filter(None, (detail["scoring"], _placement(row)))),
            "figures": "; ".join(told),
            "known flaws": detail["flaws"],
            "licence": detail["licence"],
            "cite": f"{detail['citation']} {detail['url']}",
        }
        lines += [(detail["title"], fact, text) for fact, text in facts.items()]
    columns = ("benchmark", "fact", "value")
    return Table("benchmark_sources", "Versions and flaws", columns, tuple(lines), grouped=True)


def _placement(source: Row) -> str:
    """The place of texts in a prompt, and whether their first token is scored."""
    detail = source.detail
    if detail.get("asked"):
        if detail["in_template"]:
            return "a user's question in the chat template, with the answer alone as the reply"
        return "the encoder reads the question, and the decoder writes the answer alone"
    if detail.get("in_template"):
        return "texts are the beginning of the model's reply in its chat template"
    if "first_token" not in detail:
        return ""
    if detail["first_token"]:
        return "texts begin with a beginning-of-text token"
    return "the first token of a text alone is not scored, as no token stands before it"


def _unfair(results: Results, rows: Sequence[Row]) -> str:
    known = [row for row in rows if row.detail["fair"] is not None and row.lo is not None]
    unfair = [row for row in known if _is_unfair(row)]
    model = "The unedited model" if results.is_unedited else "Without an edit the model"
    if not known:
        return ""
    if not unfair:
        return (
            f"On benchmarks {model[0].lower()}{model[1:]} does not differ significantly from a "
            f"fair one: every interval of {len(known)} figures holds the fair value."
        )
    averaged = [
        f"{_figure(results, row)} {_sized(other)}"
        for row in unfair
        for other in rows
        if (name := row.detail.get("counterfactual"))
        and other.facets == {**row.facets, "figure": name}
    ]
    named = [f"{_figure(results, row)} {_sized(row)}" for row in unfair]
    said = (
        f"{model} is not fair by the intervals of {len(unfair)} of {len(known)} figures of "
        f"benchmarks: {_most(named)}."
    )
    return said + (f" Counterfactual-averaged: {_most(averaged)}." if averaged else "")


def _changed_by(results: Results, edit: str, called: str, tested: Sequence[tuple[Row, Row]]) -> str:
    kinds: dict[str, list[str]] = {"made better": [], "made worse": [], "changed": []}
    for row, changed in tested:
        after = results.under(row, edit)
        if after is not None and _is_changed(changed):
            kind = "made better" if _is_fairer(row, after) else "made worse"
            interval = _number(changed, signed=True).interval
            kinds["changed" if row.detail.get("undirected") else kind].append(
                f"{_figure(results, row)} {_number(row).text} → {_number(after).text} [{interval}]"
            )
    parts = [f"{kind} {_most(figures)}" for kind, figures in kinds.items() if figures]
    if parts:
        return f"On benchmarks {called} {' and '.join(parts)} (Holm over {len(tested)} figures)."
    said = f"On benchmarks {called} is not shown to change any of {len(tested)} figures (Holm)"
    sizes = [c.detail["smallest"] for _, c in tested if c.detail["smallest"] is not None]
    if not sizes:
        return f"{said}."
    least, most = (Number(f(sizes), digits=DIGITS, percent=True).text for f in (min, max))
    return f"{said}; changes from {least} to {most}, by figure, are found four times out of five."


def _is_changed(changed: Row | None) -> bool:
    return changed is not None and changed.detail.get("p_adjusted", 1.0) <= SIGNIFICANT


def _is_unfair(row: Row) -> bool:
    """Whether the interval, or P if tested with others, rejects the fair value."""
    if "p_adjusted" in row.detail:
        return bool(row.detail["p_adjusted"] <= SIGNIFICANT)
    return row.lo is not None and row.hi is not None and not row.lo <= row.detail["fair"] <= row.hi


def _is_fairer(before: Row, after: Row) -> bool:
    """Whether a figure came nearer to its fair value, or is higher without one."""
    old, new, fair = before.value or 0.0, after.value or 0.0, before.detail["fair"]
    return new > old if fair is None else abs(new - fair) < abs(old - fair)


def _most(named: Sequence[str] | dict[str, None]) -> str:
    """The first few, and the number of the others.

    >>> _most(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d, and 2 more'
    """
    more = len(named) - MOST
    return ", ".join([*named][:MOST]) + (f", and {more} more" if more > 0 else "")


def _title(results: Results, row: Row) -> str:
    of = row.facets["benchmark"]
    sources = {one.facets["benchmark"]: one.detail["title"] for one in results.unedited(SOURCE)}
    return str(sources.get(of, of))


def _about(row: Row) -> str:
    parts = [row.facets.get("part", ""), row.facets["bias_type"]]
    return ", ".join(str(part).replace("_", " ") for part in parts if part)


def _figure(results: Results, row: Row) -> str:
    return f"{_title(results, row)} {row.detail['title']} ({_about(row)})"


def _label(results: Results, row: Row, typed: bool) -> str:
    """A figure on an axis, with its bias type where there are several."""
    name = f"{_title(results, row)} {row.detail['title']}"
    parts = (name, row.facets.get("part", ""), row.facets["bias_type"] if typed else "")
    return ", ".join(str(part).replace("_", " ") for part in parts if part)


def _human_sources(results: Results) -> list[str]:
    return [str(own) for row in results.unedited(SOURCE) if (own := row.detail.get("people"))]


def _human(row: Row) -> Number:
    of = row.detail.get("people", {})
    value, lo, hi = (of.get(end) for end in ("value", "lo", "hi"))
    return Number(value, lo, hi, DIGITS, percent=True, signed=bool(row.detail["signed"]))


def _tests(row: Row) -> tuple[Number, Number]:
    p, holm = (row.detail.get(key) for key in ("p", "p_adjusted"))
    return Number(p, digits=DIGITS, bounded=True), Number(holm, digits=DIGITS, bounded=True)


def _number(row: Row | None, *, starred: bool = False, signed: bool = False) -> Number:
    signed = signed or bool(row and row.detail["signed"])
    return Number.of(row, DIGITS, percent=True, starred=starred, signed=signed)


def _sized(row: Row) -> str:
    number = _number(row)
    return f"{number.text} [{number.interval}]"
