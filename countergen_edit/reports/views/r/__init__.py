"""The view of `R` (CounterGen, Figures 1 to 3 and Table 1)."""

from __future__ import annotations

from dataclasses import replace

from countergen_edit.data.design import HALF_WIDTH
from countergen_edit.decisions.changes import change_of
from countergen_edit.decisions.significance import class_of
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.r.effect_rows import HALF, LARGEST
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, dataset_label, set_label
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views.base import (
    Quantity,
    Record,
    Shown,
    View,
    as_section,
    p_holm,
)
from countergen_edit.reports.views.by_layer import layer_figures
from countergen_edit.reports.views.r import sentences
from countergen_edit.reports.views.r.examples import examples

EFFECT, REMOVED = "group_effect", "group_effect_removed"
NATS = "group effect, nats"
"""The label of an axis of group effects."""
HALF_WIDTHS = ("half-width asked for", "half-width foreseen", "half-width", "contents needed")
FEW = 3
"""Templates up to which 95 % intervals cover too little: see `statistics`."""
TESTED = (
    "P: probability of an effect as large if names were assigned to groups at random. Needed: "
    "names per group with which this effect is significant 4 times in 5. R is above 0 where "
    "outputs are likelier after the first group; opposite biases cancel. * is two standard errors "
    "from 0."
)
CHANGED = (
    f"Removed: the interval of the share lies above {HALF:.0%}. Partly removed: it lies above 0 "
    "and above the share that random directions remove."
)


class RView(View):
    """Group effects and R of every set."""

    shows = (
        Shown(
            EFFECT,
            "group effect",
            where="overview",
            drawn=True,
            unit=NATS,
            glance="Bias of every test set",
        ),
        Shown("mean_abs_r", "mean |R|", where="card"),
        Shown(REMOVED, "bias removed", percent=True, where="card"),
        Shown("null_abs_r", "mean |R| between names of one group"),
        Shown("r", "mean R", signed=True),
    )
    place = "bias", "Bias"
    heading = "Bias, set by set"
    brief = True
    covers = (0.0, 0.1)

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

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """Group effect, mean |R| and share of removed bias of every set, or its largest gap."""
        firsts = [*results.unedited(LARGEST, split)[:1], _main_row(results, split)]
        return [
            replace(
                quantity,
                truth=results.under(row, UNEDITED, f"planted_{row.metric}"),
                drawn=row is firsts[0],
            )
            for quantity in super().quantities(results, split)
            for row in [next(iter(quantity.rows.values()))]
        ]

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The quantities of the first set, or its largest gap."""
        every = self.quantities(results)
        return [quantity for quantity in every if quantity.of == every[0].of]

    def sections(self, results: Results) -> list[Section]:
        """Bias set by set, bias by layer, and single texts."""
        heading = "Bias under an edit at each layer"
        layers = layer_figures(results, EFFECT, "layers", heading, NATS)
        return [
            *as_section(*self.place, self.figure(results), self.table(results), _design(results)),
            *as_section("layers", "Layers and erasers", layers),
            *examples(results),
        ]

    def beside(self, results: Results, quantity: Quantity) -> Record:
        """The planted value and the test of the unedited model."""
        row = quantity.rows.get(UNEDITED)
        if row is None:
            return {}
        cells: dict[str, Cell] = {"n": str(row.n)}
        if (truth := results.under(row, UNEDITED, f"planted_{row.metric}")) is not None:
            cells["planted truth"] = Number.of(truth)
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
        """A figure under an edit; of a change its class, too."""
        row = quantity.rows.get(edit)
        before = None if row is None else results.under(row, UNEDITED, EFFECT)
        if row is None or before is None or row.metric != REMOVED:
            return super().cell(results, quantity, edit)
        status = change_of(results, before, edit) or class_of(before.detail)
        return f"{status}, {Number.of(row, percent=True).in_text}"

    def noted(self, results: Results) -> str:
        few = [
            f"{set_label(row)} ({row.detail['templates']})"
            for row in results.unedited("mean_abs_r", self.split)
            if row.detail.get("templates", FEW + 1) <= FEW
        ]
        note = f"{sentences.definition(results.unedited(EFFECT, self.split))} {TESTED}"
        if few:
            note += (
                f" Intervals over {FEW} templates or fewer cover the truth in about 9 cases of 10 "
                f"instead of 95 of 100: {', '.join(few)}."
            )
        return note if results.is_unedited else f"{note} {CHANGED}"

    def sentences(self, results: Results) -> list[str]:
        """The sets with and without bias."""
        return sentences.bias(results)

    def headline(self, results: Results) -> list[str]:
        """The sets with and without bias; beside edits in one line."""
        said = self.sentences(results)
        return said if results.is_unedited else [*filter(None, [" ".join(said)])]

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """The sets on which an edit removed or increased bias."""
        return sentences.outcome(results, edit)

    def baselines(self, results: Results) -> list[tuple[str, tuple[EditRecord, ...]]]:
        """The first set's group effect under prompting, steering and random maps."""
        main = _main_row(results)
        return [] if main is None else sentences.baselines(results, main)

    def caveats(self, results: Results) -> list[str]:
        """The basis of the intervals, and where names are too few."""
        return sentences.caveats(results)


def _design(results: Results) -> list[Table]:
    """How a pilot had the test sets drawn, and the half-widths that came of it."""
    rows = results.unedited(HALF_WIDTH)
    columns = ("set", "templates", "contents", "people per group", "prompts", *HALF_WIDTHS)
    cells: tuple[tuple[Cell, ...], ...] = tuple(
        (
            set_label(row),
            *(str(row.detail[key]) for key in ("templates", "contents", "people", "passes")),
            Number(row.detail["target"]),
            Number(row.detail["half_width"]),
            Number.of(row),
            str(row.detail["contents_needed"] or ""),
        )
        for row in rows
    )
    pilot = sum(row.detail["pilot"] for row in rows)
    note = (
        "Half-widths are of the 95 % interval of the group effect, in nats. A pilot of "
        f"{pilot:,} validation prompts chose the numbers. Each template with a content has people "
        "of its own."
    )
    title = "Design of the test sets"
    return [Table("design", title, columns, cells, note)] if rows else []


def _main_row(results: Results, split: str = "test") -> Row | None:
    """The set that figures show: the first test set, or the validation set of its name."""
    main = next(iter(results.unedited(EFFECT)), None)
    if split == "test":
        return main
    rows = results.unedited(EFFECT, split)
    name = dataset_label(main.dataset) if main else None
    same = (row for row in rows if dataset_label(row.dataset) == name)
    return next(same, rows[0] if rows else None)
