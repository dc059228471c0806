"""Tables, sentences and leaderboard columns of benchmarks.

Verdicts come from intervals and from P over all that an edit was tested on. Where a run has several
bias types, a leaderboard column is of all of them together.
"""

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
MOST = 4
"""Figures that a sentence names."""
MOST_GLANCE = 10
"""Figures that the overview draws."""


def quantities(results: Results, split: str) -> list[Quantity]:
    """Every figure."""
    return [
        Quantity(
            f"{_title(results, row)} {_figure(row)}",
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


def glance(states: Sequence[State]) -> list[Panel]:
    """The figures with a fair value, the least fair first; shares and differences apart."""

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
        known = [key for key in least if bool(rows[key][0].detail["signed"]) == signed]
        labels = {key: _label(states[0].results, rows[key][0], several) for key in known}
        fair = ticks("fair", {labels[key]: rows[key][1] for key in known})
        panels += state_panels(f"Benchmarks: {unit}s", unit, states, labels, of, [fair])
    return panels


def _label(results: Results, row: Row, typed: bool) -> str:
    """A figure on an axis, with its bias type where there are several."""
    about = row.facets.get("part", "")
    return ", ".join(
        str(part).replace("_", " ")
        for part in (
            f"{_title(results, row)} {row.detail['title']}",
            about,
            row.facets["bias_type"] if typed else "",
        )
        if part
    )


def sections(results: Results) -> list[Section]:
    """The tab of benchmarks."""
    rows = results.unedited(ROW)
    if not rows:
        return []
    folds = {
        "Differences between groups, and their tests": _groups(results, rows),
        "What edits change, and what could be found": _changes(results, rows),
        "What was read, how it is scored, and what is known to be wrong with it": _sources(results),
    }
    folded = tuple(Fold(title, (table,)) for title, table in folds.items() if table.rows)
    return [Section("benchmarks", "Benchmarks", (_figures(results, rows), *folded))]


def _figures(results: Results, rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    sources = _people(results)
    for row in rows:
        cells: list[Cell] = [_by_people(row)] if sources else []
        for edit in results.compared:
            changed = is_changed(results.under(row, edit, CHANGE))
            cells.append(_number(results.under(row, edit), starred=changed))
        lines.append((_title(results, row), _about(row), str(row.detail["title"]), *cells))
    people = [", ".join(sources)] if sources else []
    columns = ("benchmark", "about", "figure", *people, *map(results.label, results.compared))
    note = (
        "Fair is 50 % of a share of stereotypes preferred and 0 of a difference; of other figures "
        "more is better."
    )
    if plain := [*dict.fromkeys(row.detail["title"] for row in rows if row.detail.get("plain"))]:
        note = f"{note[:-1]}, but for {_most(plain)}, of which neither is."
    if not results.is_unedited:
        note += (
            f" * is where an edit changed it (P ≤ {SIGNIFICANT}, Holm over all figures; before "
            "and after are drawn alike)."
        )
    return Table("benchmarks", "Benchmarks", columns, tuple(lines), note, grouped=True, brief=True)


def _groups(results: Results, rows: Sequence[Row]) -> Table:
    """Differences between groups, which are tested together."""
    lines: list[tuple[Cell, ...]] = []
    for edit in results.compared:
        for row in (results.under(row, edit) for row in rows):
            if row is not None and "p_adjusted" in row.detail:
                p, holm = (
                    Number(row.detail[key], digits=DIGITS, bounded=True)
                    for key in ("p", "p_adjusted")
                )
                name = f"{_title(results, row)} {_figure(row)}"
                own = (_by_people(row), _number(row), p, holm, f"{row.detail['clusters']}")
                lines.append((results.label(edit), name, *own))
    columns = ("edit", "figure", ", ".join(_people(results)), "model", "P", "P (Holm)", "drawn")
    note = (
        "P of no difference between two groups; P (Holm) is over all differences of a domain and "
        "an edit. Beside the model the same of what people wrote."
    )
    title = "Differences between groups"
    return Table("benchmark_groups", title, columns, tuple(lines), note, grouped=True)


def _changes(results: Results, rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for edit in sorted(results.compared, key=results.is_reference):  # controls last
        for row in rows:
            changed = results.under(row, edit, CHANGE)
            if changed is None:
                continue
            p, holm = (
                Number(changed.detail.get(key), digits=DIGITS, bounded=True)
                for key in ("p", "p_adjusted")
            )
            smallest = Number(changed.detail["smallest"], digits=DIGITS, percent=True)
            change = _number(changed, signed=True)
            name = f"{_title(results, row)} {_figure(row)}"
            lines.append((results.label(edit), name, change, p, holm, smallest))
    columns = ("edit", "figure", "change", "P", "P (Holm)", "detectable")
    note = (
        "After less before, of the same clusters drawn. P (Holm) is over all figures of an edit; a "
        "change as large as detectable would be found four times in five, 2.8 standard errors."
    )
    title = "What edits change of benchmarks"
    return Table("benchmark_changes", title, columns, tuple(lines), note, grouped=True)


def _sources(results: Results) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in results.unedited(SOURCE):
        detail = row.detail
        count, every = int(row.value or 0), detail["all_items"]
        items = f"{count}" if count == every else f"{count} of {every}"
        clusters = {r.detail["clusters"] for r in results.unedited(ROW) if _of(r) == _of(row)}
        few, many = min(clusters, default=0), max(clusters, default=0)
        drawn = (
            f"{few} to {many} {detail['clusters']}" if few < many else f"{few} {detail['clusters']}"
        )
        scored = "; ".join(filter(None, (detail["asks"], where_text_stands(row))))
        told = (f"{title}: {says}" for title, says in detail.get("figures", {}).items())
        legitimate_differences = {
            "items": f"{items}; {drawn} are drawn",
            "scored": scored,
            "figures": "; ".join(told),
            "known flaws": detail["flaws"],
            "licence": detail["licence"],
            "cite": f"{detail['citation']} {detail['url']}",
        }
        lines += [(detail["title"], fact, text) for fact, text in legitimate_differences.items()]
    columns = ("benchmark", "fact", "what is known")
    return Table("benchmark_sources", "What was read", columns, tuple(lines), grouped=True)


def sentences(results: Results) -> list[str]:
    """Which figures of the unedited model are unfair, and what each edit changed."""
    rows = results.unedited(ROW)
    if not rows:
        return []
    said = [_unedited_model(results, rows)]
    for edit in results.shown:
        pairs = [(row, results.under(row, edit.id, CHANGE)) for row in rows]
        tested = [(row, c) for row, c in pairs if c is not None and "p_adjusted" in c.detail]
        if tested:
            said.append(_changed_by(results, edit.id, edit.name_in_text, tested))
    return [sentence for sentence in said if sentence]


def is_changed(changed: Row | None) -> bool:
    """Whether a change is significant."""
    return changed is not None and changed.detail.get("p_adjusted", 1.0) <= SIGNIFICANT


def is_unfair(row: Row) -> bool:
    """Whether the interval, or P if tested with others, rejects the fair value."""
    fair = row.detail["fair"]
    if "p_adjusted" in row.detail:
        return bool(row.detail["p_adjusted"] <= SIGNIFICANT)
    if fair is None or row.lo is None or row.hi is None:
        return False
    return not row.lo <= fair <= row.hi


def is_fairer(before: Row, after: Row) -> bool:
    """Whether a figure came nearer to its fair value, or is higher without one."""
    old, new, fair = before.value or 0.0, after.value or 0.0, before.detail["fair"]
    return new > old if fair is None else abs(new - fair) < abs(old - fair)


def _unedited_model(results: Results, rows: Sequence[Row]) -> str:
    known = [row for row in rows if row.detail["fair"] is not None and row.lo is not None]
    unfair = [row for row in known if is_unfair(row)]
    model = "The unedited model" if results.is_unedited else "Without an edit the model"
    if not known:
        return ""
    if not unfair:
        return (
            f"On benchmarks {model[0].lower()}{model[1:]} does not differ significantly from a "
            f"fair one: every interval of {len(known)} figures holds the fair value."
        )
    named = [f"{_title(results, row)} {_figure(row)} {_sized(row)}" for row in unfair]
    blind = [
        f"{_title(results, row)} {_figure(row)} {_sized(b)}"
        for row in unfair
        for b in _blind(rows, row)
    ]
    said = (
        f"{model} is not fair by the intervals of {len(unfair)} of {len(known)} figures of "
        f"benchmarks: {_most(named)}."
    )
    if not blind:
        return said
    return f"{said} A model to which the groups are alike would have {_most(blind)}."


def _blind(rows: Sequence[Row], row: Row) -> list[Row]:
    """The figures of a model to which the groups are alike."""
    name = row.detail.get("blind")
    about = {**row.facets, "figure": name}
    return [other for other in rows if name and other.facets == about]


def _changed_by(results: Results, edit: str, called: str, tested: Sequence[tuple[Row, Row]]) -> str:
    better: list[str] = []
    worse: list[str] = []
    plain: list[str] = []
    for row, changed in tested:
        after = results.under(row, edit)
        if after is not None and is_changed(changed):
            own = f"{_title(results, row)} {_figure(row)} {_from_to(row, after, changed)}"
            judged = better if is_fairer(row, after) else worse
            (plain if row.detail.get("plain") else judged).append(own)
    parts = [f"made better {_most(better)}"] if better else []
    parts += [f"made worse {_most(worse)}"] if worse else []
    parts += [f"changed {_most(plain)}"] if plain else []
    if parts:
        return f"On benchmarks {called} {' and '.join(parts)} (Holm over {len(tested)} figures)."
    said = f"On benchmarks {called} is not shown to change any of {len(tested)} figures (Holm)"
    sizes = [c.detail["smallest"] for _, c in tested if c.detail["smallest"] is not None]
    if not sizes:
        return f"{said}."
    least, most = (Number(end, digits=DIGITS, percent=True).text for end in _ends(sizes))
    return (
        f"{said}; a change is found four times out of five where it is {least} to {most} or more, "
        "by figure."
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _most(named: Sequence[str]) -> str:
    """The first of them, and how many more.

    >>> _most(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d, and 2 more'
    """
    more = len(named) - MOST
    return ", ".join(named[:MOST]) + (f", and {more} more" if more > 0 else "")


def _of(row: Row) -> str:
    return str(row.facets["benchmark"])


def _title(results: Results, row: Row) -> str:
    sources = {_of(source): str(source.detail["title"]) for source in results.unedited(SOURCE)}
    return sources.get(_of(row), _of(row))


def _people(results: Results) -> list[str]:
    return [str(own) for row in results.unedited(SOURCE) if (own := row.detail.get("people"))]


def _by_people(row: Row) -> Number:
    of = row.detail.get("people", {})
    value, lo, hi = (of.get(end) for end in ("value", "lo", "hi"))
    return Number(value, lo, hi, DIGITS, percent=True, signed=bool(row.detail["signed"]))


def _about(row: Row) -> str:
    parts = [row.facets.get("part", ""), row.facets["bias_type"]]
    return ", ".join(str(part).replace("_", " ") for part in parts if part)


def _figure(row: Row) -> str:
    return f"{row.detail['title']} ({_about(row)})"


def where_text_stands(source: Row) -> str:
    """Where texts stand, and whether their first token is scored."""
    if source.detail.get("asked") and not source.detail.get("in_template"):
        return "the encoder reads the question, and the decoder writes nothing but the answer"
    if source.detail.get("asked"):
        return "asked by a user in the chat template, with nothing but the answer as the reply"
    if source.detail.get("in_template"):
        return "texts are the beginning of the model's reply in its chat template"
    if "first_token" not in source.detail:
        return ""
    return (
        "texts begin with a beginning-of-text token"
        if source.detail["first_token"]
        else "the first token of a text alone is not scored, as no token stands before it"
    )


def _number(row: Row | None, *, starred: bool = False, signed: bool = False) -> Number:
    signed = signed or bool(row and row.detail["signed"])
    return Number.of(row, DIGITS, percent=True, starred=starred, signed=signed)


def _sized(row: Row) -> str:
    number = _number(row)
    return f"{number.text} [{number.interval}]"


def _from_to(before: Row, after: Row, changed: Row) -> str:
    return (
        f"{_number(before).text} → {_number(after).text} [{_number(changed, signed=True).interval}]"
    )


class BenchmarksView(View):
    """The tables, figures and sentences of `Benchmarks`."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        return quantities(results, split)

    def glance(self, states: Sequence[State]) -> list[Panel]:
        return glance(states)

    def side_by_side(self, results: Results) -> list[Quantity]:
        return quantities(results, "test")

    def sections(self, results: Results) -> list[Section]:
        return sections(results)

    def sentences(self, results: Results) -> list[str]:
        return sentences(results)
