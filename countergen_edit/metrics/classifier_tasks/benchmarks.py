"""Published benchmarks of masked models, with the rows of `metric=benchmarks`.

Edits are fitted on the templates of `masked`, of which no text is a benchmark's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.metrics.benchmarks.base import BENCHMARKS
from countergen_edit.metrics.benchmarks.figures import Measured, measured
from countergen_edit.metrics.benchmarks.masked import MASKINGS
from countergen_edit.metrics.benchmarks.metric import Benchmarks
from countergen_edit.metrics.classifier_tasks.association import Association
from countergen_edit.metrics.rows import Row


class MaskedBenchmarks(Association):
    """Figures of published benchmarks of a masked model, and what an edit changes of them.

    Parameters
    ----------
    of : str or sequence of str
        Benchmarks that are asked of masked models.
    directory, sources, bias_types, limit
        As of `metric=benchmarks`; None of bias types takes all.
    """

    templates = "masked"

    def __init__(
        self,
        of: Sequence[str] | str = ("crows_pairs", "stereoset"),
        directory: str | None = None,
        sources: str | None = None,
        bias_types: Sequence[str] | str | None = None,
        limit: int | Mapping[str, int | None] | None = None,
    ) -> None:
        self.benchmarks = Benchmarks(of, directory, sources, bias_types or "all", limit)
        self.maskings = {}
        for name in self.benchmarks.of:
            kind = BENCHMARKS.get(name).name
            if kind not in MASKINGS:
                raise UserError(
                    f"benchmark {name} is not asked of masked models: name of {', '.join(MASKINGS)}"
                )
            self.maskings[name] = MASKINGS.make(kind)
        self.benchmarks.prepare()
        self._unedited: dict[tuple[str, int], list[tuple[str, Measured]]] = {}

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        now = self._before(model, seed)
        return [*self._sources(seed), *self.benchmarks.rows_of(now, seed)]

    def rows_under(
        self,
        bank: TemplateBank,
        model: Any,
        seed: int,
        edited: Callable[[], AbstractContextManager[object]],
    ) -> list[Row]:
        before = self._before(model, seed)
        with edited():
            now = self._measured(model, seed)
        return [
            *self.benchmarks.rows_of(now, seed),
            *self.benchmarks.changes_of(before, now, seed),
        ]

    def _before(self, model: Any, seed: int) -> list[tuple[str, Measured]]:
        key = model.fingerprint, seed
        if key not in self._unedited:
            self._unedited[key] = self._measured(model, seed)
        return self._unedited[key]

    def _measured(self, model: Any, seed: int) -> list[tuple[str, Measured]]:
        found = []
        for name, (benchmark, _) in self.benchmarks.read.items():
            masking = self.maskings[name]
            items = masking.asked(self.benchmarks.items(name, seed))
            counts = masking.counts(model, benchmark, items)
            found += [(name, one) for one in measured(benchmark, items, counts, seed)]
        return found

    def _sources(self, seed: int) -> list[Row]:
        rows = []
        for name in self.benchmarks.read:
            masking, (_, every) = self.maskings[name], self.benchmarks.read[name]
            items = masking.asked(self.benchmarks.items(name, seed))
            rows.append(
                self.benchmarks.source_row(
                    name,
                    seed,
                    items,
                    asks=masking.asks,
                    normalise="masked",
                    all_items=len(masking.asked(every)),
                )
            )
        return rows
