"""The view of `R` (CounterGen, Figures 1 to 3 and Table 1)."""

from __future__ import annotations

from dataclasses import replace

from countergen_edit.data.task import HALF_WIDTH
from countergen_edit.decisions.changes import change_of
from countergen_edit.decisions.significance import class_of
from countergen_edit.metrics.r.effect_rows import LARGEST
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, dataset_label, set_label
from countergen_edit.metrics.scored_texts import SCORED_BY, read
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views import base
from countergen_edit.reports.views.base import Quantity, Record, Shown
from countergen_edit.reports.views.by_layer import layer_figures
from countergen_edit.reports.views.r_sentences import EFFECT, RSentences, definition

REMOVED = "group_effect_removed"
_NATS = "group effect, nats"
"""The label of an axis of group effects."""
_MOST_TEXTS = 1200
"""Lines of the table of texts."""
FEW = 3
"""Templates up to which 95 % intervals cover too little: see `statistics`."""


class RView(RSentences):
    """Group effects and R of every set."""

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """Where there are several pairs of groups, the largest gap takes the place of all."""
        if not any(row.metric == LARGEST for row in results.rows):
            return self.shows
        rest = (replace(how, where="page", drawn=False, glance="") for how in self.shows)
        largest = replace(
            self.shows[0],
            name=LARGEST,
            title="largest gap",
            unit="largest gap, nats",
            glance="Largest gap between groups",
        )
        return (largest, *rest)

    def label(self, row: Row) -> str:
        """A set, and whether its bias is not significant or cannot be tested."""
        status = class_of(row.detail)
        if status == "not significant":
            return f"{set_label(row)} (P {row.detail['p_adjusted']:.2f})"
        return set_label(row) + (f" ({status})" if status == "cannot be tested" else "")

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The quantities of the first set, or its largest gap."""
        every = self.quantities(results)
        return [quantity for quantity in every if quantity.of == every[0].of]

    def sections(self, results: Results) -> list[Section]:
        """Bias set by set, bias by layer, and single texts."""
        under, fitted = "under an edit at each layer", _OnFit(self.metric, "fit_data")
        layers = layer_figures(results, EFFECT, "layers", f"Bias {under}", _NATS)
        r = layer_figures(results, "r", "layers_r", f"Mean R {under}", "mean R")
        # As CounterGen draws it, where its fitting data are measured.
        layers = [*r, *layers] if results.of("r", fitted.split) else [*layers, *r]
        own, of_fit = ((v.figure(results), v.table(results)) for v in (self, fitted))
        pilot = sum(row.detail["pilot"] for row in results.unedited(HALF_WIDTH))
        design = self.further(results, "design", pilot=f"{pilot:,}")
        return [
            *base.as_section(*self.place, *own, *of_fit, design),
            *base.as_section("layers", "Layers and erasers", layers),
            *base.as_section("examples", "Examples", self._texts(results)),
        ]

    def beside(self, results: Results, quantity: Quantity) -> Record:
        """The planted value and the test of the unedited model."""
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
            cells["P (Holm)"] = base.p_holm(row)
        return cells

    def cell(self, results: Results, quantity: Quantity, edit: str) -> Cell:
        """A figure under an edit; of a change its class, too."""
        row = quantity.rows.get(edit)
        before = None if row is None else results.under(row, UNEDITED, EFFECT)
        if row is None or before is None or row.metric != REMOVED:
            return super().cell(results, quantity, edit)
        status = change_of(results, before, edit) or class_of(before.detail)
        return f"{status}, {Number.of(row, percent=True).in_text}"

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
                sides = zip(groups, (texts[0] for texts in line["texts"]), strict=True)
                cells = by_text.setdefault(
                    key, {"set": dataset_label(line["dataset"]), **dict(sides)}
                )
                cells["output"] = output.strip()
                z = line["z"][i] if edit == UNEDITED and line["z"] is not None else None
                cells.setdefault("z", Number(z, digits=1, signed=True))
                cells[f"R, {labels[edit]}"] = Number(line["r"][i], signed=True)
        note = self.say("texts", group=groups[0], unedited=labels[UNEDITED])
        if len(by_text) > _MOST_TEXTS:
            note += f" The first of {len(by_text)}; the run's store has all."
        records = [*by_text.values()][:_MOST_TEXTS]
        title = "Prompts and outputs"
        return base.as_table("scored_texts", title, records, note, searchable=True)


class _OnFit(RView):
    """The same of the sets that erasers are fitted on."""

    split = "fit"
    heading = "Fitting data, set by set"
