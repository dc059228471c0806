"""Published benchmarks of masked models, with the rows of `metric=benchmarks`.

Edits are fitted on the templates of `masked`, which share no text with the benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.edits import Edit, applied
from countergen_edit.metrics.benchmarks.figures import BenchmarkFigure, figures_of_counts
from countergen_edit.metrics.benchmarks.masked import MASKINGS, masked_counts, masked_items
from countergen_edit.metrics.benchmarks.metric import Benchmarks
from countergen_edit.metrics.classifier_tasks.association import Association
from countergen_edit.metrics.rows import Row


class MaskedBenchmarks(Association):
    """Figures of published benchmarks of a masked model, and their changes under an edit.

    Parameters
    ----------
    of : str or sequence of str
        Benchmarks with a form for masked models.
    directory, bias_types, limit
        As of `metric=benchmarks`; None of bias types takes all.
    """

    templates = "masked"

    def __init__(
        self,
        of: Sequence[str] | str = ("crows_pairs", "stereoset"),
        directory: str | None = None,
        bias_types: Sequence[str] | str | None = None,
        limit: int | Mapping[str, int | None] | None = None,
    ) -> None:
        self.benchmarks = Benchmarks(of, directory, bias_types or "all", limit)
        for name in self.benchmarks.of:
            if name not in MASKINGS:
                raise UserError(
                    f"benchmark {name} has no form for masked models: name of {', '.join(MASKINGS)}"
                )
        self.benchmarks.prepare()
        self.unedited = cache(self.figures)

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        rows = []
        for name, (benchmark, every) in self.benchmarks.read.items():
            items = masked_items(benchmark, self.benchmarks.items(name, seed))
            about = {"scoring": benchmark.masked["scoring"], "normalise": "masked"}
            about["all_items"] = len(masked_items(benchmark, every))
            rows.append(self.benchmarks.source_row(name, seed, items, **about))
        return [*rows, *self.benchmarks.rows_of(self.unedited(model, seed), seed)]

    def rows_under(self, bank: TemplateBank, model: Any, seed: int, edit: Edit) -> list[Row]:
        before = self.unedited(model, seed)
        with applied(model.encoder, edit):
            now = self.figures(model, seed)
        changes = self.benchmarks.changes_of(before, now, seed)
        return [*self.benchmarks.rows_of(now, seed), *changes]

    def figures(self, model: Any, seed: int) -> list[BenchmarkFigure]:
        """Every figure of every benchmark, of the model as it is."""
        found = []
        for name, (benchmark, _) in self.benchmarks.read.items():
            items = masked_items(benchmark, self.benchmarks.items(name, seed))
            counts = masked_counts(model, benchmark, items)
            found += figures_of_counts(benchmark, counts, seed)
        return found
