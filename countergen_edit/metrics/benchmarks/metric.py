"""Published benchmarks before and after an edit.

Rows: `benchmark` for each figure of each part and bias type, with intervals over its clusters;
`benchmark_change`, edited minus unedited on the same resamples, with P over all changes of an edit
by Holm's method; `benchmark_source`. Nothing is fitted or selected on these data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.benchmarks import Files
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.benchmarks.base import (
    ALL,
    BENCHMARKS,
    CHANGE,
    ROW,
    SOURCE,
    Benchmark,
)
from countergen_edit.metrics.benchmarks.figures import COUNTED, Figure, figures_of_counts, keep
from countergen_edit.metrics.benchmarks.items import Item, is_asked, limited, stored
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, adjusted
from countergen_edit.models import LanguageModel, opens_texts

Named = tuple[str, Figure]
"""A figure after the name of its benchmark."""


class Benchmarks(Metric):
    """Figures of published benchmarks, and their changes under an edit.

    Parameters
    ----------
    of : str or sequence of str
        Benchmarks by name.
    directory : str, optional
        Of their data, or one file of a benchmark; None takes the installed package's. A file
        `sources.yaml` there gives the hashes of other versions.
    bias_types : str or sequence of str, optional
        The benchmarks' own, axes, or `all`; None takes those of the audited axis, or all.
    limit : int or mapping, optional
        Most items of each part and bias type, for all benchmarks or by name.
    settings : mapping, optional
        Name → settings of the benchmark itself.
    """

    title = "Published benchmarks"
    is_slow = True
    has_baseline = True

    def __init__(
        self,
        of: Sequence[str] | str = ("stereoset", "crows_pairs", "bbq", "winobias", "winogender"),
        directory: str | None = None,
        bias_types: Sequence[str] | str | None = None,
        limit: int | Mapping[str, int | None] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.of = [of] if isinstance(of, str) else list(dict.fromkeys(of))
        self.directory = directory
        self.bias_types = [bias_types] if isinstance(bias_types, str) else bias_types
        self.limit = limit
        self.settings = settings or {}
        if not self.of:
            raise UserError("benchmarks.of is empty: name at least one benchmark")
        limits = limit if isinstance(limit, Mapping) else {self.of[0]: limit}
        kinds = [BENCHMARKS.get(name) for name in (*self.of, *self.settings, *limits)]
        self.is_generating = all(kind.is_generating for kind in kinds[: len(self.of)])
        if any(most is not None and most < 1 for most in limits.values()):
            raise UserError(f"benchmarks.limit={limit!r}: write whole numbers above 0")

    def prepare(self) -> None:
        self.read: dict[str, tuple[Benchmark, list[Item]]] = {}
        for name in self.of:
            kind = BENCHMARKS.get(name)
            if types := self._types(kind):
                files = Files.of(kind.name, self.directory)
                benchmark = BENCHMARKS.make(name, self.settings.get(name), files=files)
                items = [item for item in benchmark.items(types) if item.bias_type in types]
                self.read[name] = benchmark, self._with_counterfactuals(benchmark, items)
        if not self.read:
            every = {t for name in self.of for t in BENCHMARKS.get(name).bias_types}
            raise unknown("bias type", (self.bias_types or [""])[0], sorted(every))

    @property
    def _task(self) -> Task | None:
        """The task; None for masked models, which have none."""
        return getattr(self, "task", None)

    def _with_counterfactuals(self, benchmark: Benchmark, items: list[Item]) -> list[Item]:
        if self._task is None or (substitution := self._task.substitution) is None:
            return items
        about, swap = benchmark.axes.get(self._task.axis.name, ()), substitution.swap
        return [
            benchmark.with_counterfactuals(i, swap) if i.bias_type in about else i for i in items
        ]

    def _types(self, kind: type[Benchmark]) -> list[str]:
        if self.bias_types is None:
            own = [t for axis in sorted(self.task.own_axes) for t in kind.axes.get(axis, ())]
            return own or [*kind.bias_types]
        if ALL in self.bias_types:
            return [*kind.bias_types]
        every = [BENCHMARKS.get(name) for name in self.of]
        known = {name for one in every for name in (*one.bias_types, *one.axes)}
        for wanted in self.bias_types:
            if wanted not in known:
                raise unknown("bias type", wanted, sorted({*known, ALL}))
        named = [t for wanted in self.bias_types for t in kind.axes.get(wanted, (wanted,))]
        return [t for t in kind.bias_types if t in named]

    def items(self, name: str, seed: int) -> list[Item]:
        """The items of a benchmark within the limits of the metric and of the task."""
        own = self.limit.get(name) if isinstance(self.limit, Mapping) else self.limit
        limits = (own, self._task.limit if self._task else None)
        limit = min((most for most in limits if most is not None), default=None)
        groups: dict[tuple[str, ...], list[Item]] = defaultdict(list)
        for item in self.read[name][1]:
            groups[item.part, item.bias_type, *filter(None, [item.group])].append(item)
        return [
            item
            for about, items in groups.items()
            for item in limited(items, limit, seed, name, *about)
        ]

    def check(self, model: LanguageModel) -> None:
        for benchmark, items in self.read.values():
            benchmark.check(model, items)

    def narrowed(self, model: LanguageModel) -> str:
        own = [name for name in BENCHMARKS if ".py:" not in name]
        names = [name for name in own if BENCHMARKS.get(name).is_generating]
        return f"metric.benchmarks.of=[{','.join(names)}]"

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        now = self._figures(context, edit)
        rows = self.rows_of(now, context.seed)
        if edit is None:
            return [*(self._source_row(name, context) for name in self.read), *rows]
        return [*rows, *self.changes_of(self._figures(context, None), now, context.seed)]

    def _figures(self, context: EvaluationContext, edit: NamedEdit | None) -> list[Named]:
        found = []
        for name, (benchmark, _) in self.read.items():
            items = self.items(name, context.seed)
            counts = benchmark.counts(items, benchmark.scores(context, edit, items))
            path, title = stored(context, edit, name, COUNTED), benchmark.files.source.title
            keep(path, name, title, benchmark.normalise, items, counts)
            own = figures_of_counts(benchmark, items, counts, context.seed)
            found += [(name, one) for one in own]
        return found

    def _of_people(self, seed: int) -> dict[tuple[str, str], Estimate]:
        """The figures of human texts, by benchmark and name."""
        found: dict[tuple[str, str], Estimate] = {}
        for name, (benchmark, _) in self.read.items():
            items = self.items(name, seed) if benchmark.human_source else []
            if scores := benchmark.human_scores(items):
                counts = benchmark.counts(items, scores)
                own = figures_of_counts(benchmark, items, counts, seed)
                found |= {(name, one.kind.name): one.estimate for one in own}
        return found

    def rows_of(self, now: Sequence[Named], seed: int) -> list[Row]:
        """A row of each figure; P and Holm's P where figures are tested together."""
        people, rows = self._of_people(seed), []
        families: dict[tuple[str, str], list[Tested]] = defaultdict(list)
        for name, one in now:
            row = one.row(ROW, name, seed, one.estimate)
            if one.pooled is not None:
                row.detail["pooled"] = one.pooled
            if row.value is None:
                row.detail["reason"] = "no item by which it is defined"
            if (name, one.kind.name) in people:
                row.detail["people"] = people[name, one.kind.name].columns
            if one.kind.family and one.kind.fair is not None:
                tested = row, one.less(one.kind.fair).p
                families[name, one.kind.family].append(tested)
            rows.append(row)
        for family in families.values():
            _add_p(family)
        return rows

    def changes_of(self, before: Sequence[Named], now: Sequence[Named], seed: int) -> list[Row]:
        """A row of the change of each figure, with Holm's P over them all."""
        tested = []
        for (_, old), (name, one) in zip(before, now, strict=True):
            change = one.less(old.draws)
            row = one.row(CHANGE, name, seed, change.estimate)
            row.detail["smallest"] = change.estimate.smallest
            tested.append((row, change.p))
        _add_p(tested)
        return [row for row, _ in tested]

    def _source_row(self, name: str, context: EvaluationContext) -> Row:
        benchmark, every = self.read[name]
        items, model = self.items(name, context.seed), context.model
        about: dict[str, object] = {"scoring": benchmark.scoring, "normalise": benchmark.normalise}
        about |= {"first_token": opens_texts(model), "in_template": model.chat.is_on}
        about |= {"asked": is_asked(model, items), "all_items": len(every)}
        return self.source_row(name, context.seed, items, **about)

    def source_row(self, name: str, seed: int, items: Sequence[Item], **detail: object) -> Row:
        """The row of a benchmark's version, licence, flaws and items."""
        benchmark, _ = self.read[name]
        source, n = benchmark.files.source, len(items)
        parts = dict.fromkeys(item.part for item in items)
        kinds = [kind for part in parts for kind in benchmark.figures_of(part)]
        about = {
            "title": source.title,
            "citation": source.citation,
            "licence": source.licence,
            "url": source.url,
            "figures": {kind.title: kind.description for kind in kinds},
            "flaws": benchmark.flaws,
            "clusters": benchmark.clusters,
            "people": benchmark.human_source,
        }
        about_row: dict[str, Any] = {
            "dataset": name,
            "facets": {"benchmark": name},
            "split": "test",
        }
        return Row(SOURCE, float(n), n=n, seed=seed, detail=about | detail, **about_row)


Tested = tuple[Row, float | None]
"""A row with the P of its test, None where undefined."""


def _add_p(tested: Iterable[Tested]) -> None:
    """Write P into the rows, and P by Holm's method over them all."""
    defined = [(row, p) for row, p in tested if p is not None]
    corrected = adjusted([p for _, p in defined]).tolist()
    for (row, p), holm in zip(defined, corrected, strict=True):
        row.detail.update({"p": p, "p_adjusted": holm})
