"""The view of `R`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from countergen_edit.decisions.significance import class_of
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.r.largest_gap import LARGEST
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Section
from countergen_edit.reports.panels import Panel, state_panels
from countergen_edit.reports.views.base import Quantity, View, alike
from countergen_edit.reports.views.r import sections, sentences
from countergen_edit.reports.views.r.sections import COVERED, NATS, main_row


class RView(View):
    """Group effects and R of every set."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """Group effect, mean |R| and share of removed bias of every set, or its largest gap."""
        if gaps := results.unedited(LARGEST, split):
            return [
                Quantity(
                    f"largest gap, {set_label(row)}",
                    alike(results, row),
                    "bias",
                    of=set_label(row),
                    axis=NATS,
                    drawn=row is gaps[0],
                )
                for row in gaps
            ]
        main, effect = main_row(results, split), "group_effect"
        return [
            Quantity(
                f"{title}, {set_label(row)}",
                rows,
                "bias",
                percent=metric.endswith("removed"),
                main=metric == effect,
                of=set_label(row),
                axis=axis,
                limits=limits,
                truth=results.under(row, UNEDITED, f"planted_{metric}"),
                drawn=row is main and metric == effect,
            )
            for metric, title, axis, limits in (
                (effect, "group effect", NATS, None),
                ("mean_abs_r", "mean |R|", "mean |R|", (0.0, 1.0)),
                ("group_effect_removed", "bias removed", "", None),
            )
            for row in results.unedited(effect, split)
            if (rows := alike(results, row, metric))
        ]

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The quantities of the first set, or its largest gap."""
        every = self.quantities(results)
        return [quantity for quantity in every if quantity.of == every[0].of]

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The group effect of every test set in every state; of several pairs the largest gap."""
        largest = bool(states[0].results.unedited(LARGEST))
        metric = LARGEST if largest else "group_effect"

        def of(state: State) -> dict[Hashable, Row]:
            rows = state.results.of(metric, "test", state.edit)
            return {(row.dataset, row.group_a, row.group_b): row for row in rows}

        def label(row: Row) -> str:
            status = class_of(row.detail)
            if status == "not significant":
                return f"{set_label(row)} (P {row.detail['p_adjusted']:.2f})"
            return set_label(row) + (f" ({status})" if status == "cannot be tested" else "")

        labels = {key: label(row) for key, row in of(states[0]).items()}
        title = "Largest gap between groups" if largest else "Bias of every test set"
        return state_panels(title, NATS, states, labels, of, covers=COVERED)

    def sections(self, results: Results) -> list[Section]:
        """Bias set by set, bias by layer, and single texts."""
        return [
            *sections.bias(results),
            *sections.layers(results),
            *sections.examples(results),
        ]

    def sentences(self, results: Results) -> list[str]:
        """The sets with and without bias."""
        return sentences.bias(results)

    def headline(self, results: Results) -> list[str]:
        """The sets with and without bias, in one line."""
        return sentences.headline(results)

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """The sets on which an edit removed or increased bias."""
        return sentences.outcome(results, edit)

    def baselines(self, results: Results) -> list[tuple[str, tuple[EditRecord, ...]]]:
        """The first set's group effect under prompting, steering and random maps."""
        main = main_row(results)
        return [] if main is None else sentences.baselines(results, main)

    def caveats(self, results: Results) -> list[str]:
        """The basis of the intervals, and where names are too few."""
        return sentences.caveats(results)
