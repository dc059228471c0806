"""How `R` is shown."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.r.largest_gap import LARGEST
from countergen_edit.metrics.results import Results, Side, State
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Section
from countergen_edit.reports.panels import Panel
from countergen_edit.reports.views.base import Quantity, View, alike
from countergen_edit.reports.views.r import baselines, examples, over_runs, sections, sentences
from countergen_edit.reports.views.r.sections import main_row


class RView(View):
    """The tables, figures and sentences of `R`."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The group effect of every set of the split, mean |R|, then the share that is gone."""
        if gaps := results.unedited(LARGEST, split):
            return [
                Quantity(
                    f"largest gap, {set_label(row)}",
                    alike(results, row),
                    "bias",
                    of=set_label(row),
                    axis="group effect, nats",
                    drawn=row is gaps[0],
                )
                for row in gaps
            ]
        main = main_row(results, split)
        rows = results.unedited("group_effect", split)

        def sizes(metric: str, title: str, limits: tuple[float, float] | None) -> list[Quantity]:
            return [
                Quantity(
                    f"{title}, {set_label(row)}",
                    by_edit,
                    "bias",
                    main=limits is None,
                    of=set_label(row),
                    axis=f"{title}, nats" if limits is None else title,
                    limits=limits,
                    truth=results.under(row, UNEDITED, f"planted_{metric}"),
                    drawn=row is main and limits is None,
                )
                for row in rows
                if (by_edit := alike(results, row, metric))
            ]

        shares = [
            Quantity(
                f"bias removed, {set_label(row)}",
                by_edit,
                "bias",
                percent=True,
                main=False,
                of=set_label(row),
                drawn=False,
            )
            for row in rows
            if (by_edit := alike(results, row, "group_effect_removed"))
        ]
        effects = sizes("group_effect", "group effect", None)
        return [*effects, *sizes("mean_abs_r", "mean |R|", (0.0, 1.0)), *shares]

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The figures of the first set, or its largest gap."""
        every = self.quantities(results)
        return [quantity for quantity in every if quantity.of == every[0].of]

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """Mean |R| of every set with its floor; of more than two groups the largest gaps."""
        return sections.glance(states)

    def over_runs(self, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """CounterGen's Table 1 of all runs, and their group effects."""
        return over_runs.over_runs(sides)

    def sections(self, results: Results) -> list[Section]:
        """Bias set by set, bias by layer, and single texts."""
        return [
            *sections.bias(results),
            *sections.layers(results),
            *examples.examples(results),
        ]

    def sentences(self, results: Results) -> list[str]:
        """On which sets the model is biased."""
        return sentences.bias(results)

    def headline(self, results: Results) -> list[str]:
        """On which sets the model is biased, in one line."""
        return sentences.headline(results)

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """On which sets an edit removed or increased the bias, class by class."""
        return sentences.outcome(results, edit)

    def baselines(self, results: Results) -> list[tuple[str, tuple[EditRecord, ...]]]:
        """What prompting leaves of the first set's group effect, then steering and random maps."""
        main = main_row(results)
        return [] if main is None else baselines.sentences(results, main)

    def caveats(self, results: Results) -> list[str]:
        """What the intervals are drawn over, and where names are too few."""
        return sentences.caveats(results)
