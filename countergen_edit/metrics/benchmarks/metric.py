"""Published benchmarks before and after an edit.

Rows: `benchmark` for each figure of each part and bias type, with intervals over its clusters;
`benchmark_change`, edited minus unedited on the same resamples, with P over all changes of an edit
by Holm's method. Nothing is fitted or chosen on these data; a `limit` draws by the run's seed, the
same items for every edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.benchmarks import Files, sources
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.benchmarks.base import (
    ALL,
    BENCHMARKS,
    CHANGE,
    ROW,
    SOURCE,
    UNDEFINED,
    Benchmark,
    Normalise,
)
from countergen_edit.metrics.benchmarks.figures import (
    COUNTED,
    Measured,
    change,
    keep,
    measured,
    p_fair,
)
from countergen_edit.metrics.benchmarks.items import STORE, Item, is_asked, limited
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, adjusted
from countergen_edit.models import LanguageModel, Workload, opens_texts


class Benchmarks(Metric):
    """Figures of published benchmarks, and what an edit changes of them.

    Parameters
    ----------
    of : str or sequence of str
        Benchmarks by name.
    directory : str, optional
        Of their data; None takes the installed package's.
    sources : str, optional
        A file of the versions to be found there, in the form of ours.
    bias_types : str or sequence of str, optional
        The benchmarks' own, axes, or `all`; None takes those of the audited axis, or all.
    limit : int or mapping, optional
        Most items of each part and bias type, for all benchmarks or by name.
    normalise : {"sum", "mean"}, optional
        Log-probability of all tokens or per token; None takes each benchmark's own.
    settings : mapping, optional
        Name → what the benchmark itself takes.
    """

    title = "Published benchmarks"
    is_slow = True
    has_baseline = True

    def __init__(
        self,
        of: Sequence[str] | str = ("stereoset", "crows_pairs", "bbq", "winobias", "winogender"),
        directory: str | None = None,
        sources: str | None = None,
        bias_types: Sequence[str] | str | None = None,
        limit: int | Mapping[str, int | None] | None = None,
        normalise: Normalise | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.of = [of] if isinstance(of, str) else list(dict.fromkeys(of))
        self.directory = directory
        self.sources = sources
        self.bias_types = [bias_types] if isinstance(bias_types, str) else bias_types
        self.limit = limit
        self.normalise = normalise
        self.settings = settings or {}
        if not self.of:
            raise UserError("benchmarks.of is empty: name at least one benchmark")
        kinds = [BENCHMARKS.get(name) for name in self.of]
        self.is_generating = all(kind.is_generating for kind in kinds)
        self.is_answered = all(kind.is_generating or kind.is_answered for kind in kinds)
        for name in self.settings:
            BENCHMARKS.get(name)
        for name, most in limit.items() if isinstance(limit, Mapping) else [("", limit)]:
            if name:
                BENCHMARKS.get(name)
            if most is not None and most < 1:
                raise UserError(f"benchmarks.limit={limit!r}: write whole numbers above 0")

    def prepare(self) -> None:
        expected = sources() if self.sources is None else sources(Path(self.sources).expanduser())
        self.read: dict[str, tuple[Benchmark, list[Item]]] = {}
        for name in self.of:
            kind = BENCHMARKS.get(name)
            if types := self._types(kind):
                files = Files.of(kind.name, self.directory, expected)
                benchmark = BENCHMARKS.make(name, self.settings.get(name), files=files)
                self.read[name] = benchmark, self._doubled(benchmark, benchmark.items(types))
        if not self.read:
            every = {t for name in self.of for t in BENCHMARKS.get(name).bias_types}
            raise unknown("bias type", (self.bias_types or [""])[0], sorted(every))

    def _doubled(self, benchmark: Benchmark, items: Sequence[Item]) -> list[Item]:
        task = self._bound_to
        if task is None or (substitution := task.substitution) is None:
            return [*items]
        about = benchmark.axes.get(task.axis.name, ())
        return [
            benchmark.doubled(item, substitution.swap) if item.bias_type in about else item
            for item in items
        ]

    def _types(self, kind: type[Benchmark]) -> list[str]:
        if self.bias_types is None:
            own = [t for axis in sorted(self.task.own_axes) for t in kind.axes.get(axis, ())]
            return own or [*kind.bias_types]
        if ALL in self.bias_types:
            return [*kind.bias_types]
        every = [BENCHMARKS.get(name) for name in self.of]
        for wanted in self.bias_types:
            known = {name for one in every for name in (*one.bias_types, *one.axes)}
            if wanted not in known:
                raise unknown("bias type", wanted, sorted({*known, ALL}))
        named = [t for wanted in self.bias_types for t in kind.axes.get(wanted, (wanted,))]
        return [t for t in kind.bias_types if t in named]

    def _limit(self, name: str) -> int | None:
        own = self.limit.get(name) if isinstance(self.limit, Mapping) else self.limit
        quick = None if self._bound_to is None else self._bound_to.limit
        return min((most for most in (own, quick) if most is not None), default=None)

    @property
    def _bound_to(self) -> Task | None:
        return vars(self).get("task")

    def items(self, name: str, seed: int) -> list[Item]:
        groups: dict[tuple[str, ...], list[Item]] = {}
        for item in self.read[name][1]:
            about = (item.part, item.bias_type, *([item.group] if item.group else []))
            groups.setdefault(about, []).append(item)
        return [
            item
            for about, own in groups.items()
            for item in limited(own, self._limit(name), seed, name, *about)
        ]

    def check(self, model: LanguageModel) -> None:
        for benchmark, items in self.read.values():
            benchmark.check(model, items)

    def narrowed(self, model: LanguageModel) -> str:
        kinds = {name: BENCHMARKS.get(name) for name in BENCHMARKS if ".py:" not in name}
        answered = not model.no_replies
        names = [n for n, k in kinds.items() if k.is_generating or (k.is_answered and answered)]
        return f"metric.benchmarks.of=[{','.join(names)}]"

    def workload(self) -> Workload:
        every = [one.workload(self.items(name, 0)) for name, (one, _) in self.read.items()]
        scored = tuple(pair for asked in every for pair in asked.scored)
        continued = tuple(prompt for asked in every for prompt in asked.continued)
        longest = max(every, key=lambda asked: asked.max_new_tokens)
        return replace(longest, scored=scored, continued=continued)

    def measured(
        self, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[tuple[str, Measured]]:
        found = []
        for name, (benchmark, _) in self.read.items():
            items = self.items(name, context.seed)
            how = self.normalise or benchmark.normalise
            counts = benchmark.counts(context, edit, items, how)
            place = (
                context.place(STORE, edit).with_suffix("") / f"{name.rpartition(':')[2]}{COUNTED}"
            )
            keep(place, name, benchmark.files.source.title, how, items, counts)
            found += [(name, one) for one in measured(benchmark, items, counts, context.seed)]
        return found

    def by_people(self, seed: int) -> dict[tuple[str, str], Measured]:
        found: dict[tuple[str, str], Measured] = {}
        for name, (benchmark, _) in self.read.items():
            items = self.items(name, seed)
            if counts := benchmark.by_people(items):
                own = measured(benchmark, items, counts, seed)
                found |= {(name, one.kind.name): one for one in own}
        return found

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        now = self.measured(context, edit)
        rows = self.rows_of(now, context.seed)
        if edit is None:
            return [*(self._source(name, context) for name in self.read), *rows]
        return [*rows, *self.changes_of(self.measured(context, None), now, context.seed)]

    def rows_of(self, now: Sequence[tuple[str, Measured]], seed: int) -> list[Row]:
        by_people = self.by_people(seed)
        rows = []
        for name, one in now:
            row = _row(ROW, name, one, seed, one.estimate)
            row.detail.update({} if one.pooled is None else {"pooled": one.pooled})
            row.detail.update({} if row.value is not None else {"reason": UNDEFINED})
            if people := by_people.get((name, one.kind.name)):
                row.detail["people"] = people.estimate.columns
            rows.append(row)
        _tested(rows, now)
        return rows

    def changes_of(
        self,
        before: Sequence[tuple[str, Measured]],
        now: Sequence[tuple[str, Measured]],
        seed: int,
    ) -> list[Row]:
        changes = [change(old, one) for (_, old), (_, one) in zip(before, now, strict=True)]
        corrected = iter(adjusted([own.p for own in changes if own.p is not None]).tolist())
        rows = []
        for (name, one), own in zip(now, changes, strict=True):
            row = _row(CHANGE, name, one, seed, own.estimate)
            row.detail["smallest"] = own.estimate.smallest
            row.detail.update({} if own.p is None else {"p": own.p, "p_adjusted": next(corrected)})
            rows.append(row)
        return rows

    def _source(self, name: str, context: EvaluationContext) -> Row:
        benchmark, every = self.read[name]
        own = self.items(name, context.seed)
        return self.source_row(
            name,
            context.seed,
            own,
            asks=benchmark.asks,
            normalise=self.normalise or benchmark.normalise,
            first_token=opens_texts(context.model),
            in_template=context.model.chat.is_on,
            asked=is_asked(context.model, own),
            all_items=len(every),
        )

    def source_row(self, name: str, seed: int, items: Sequence[Item], **detail: object) -> Row:
        benchmark, _ = self.read[name]
        source = benchmark.files.source
        return Row(
            SOURCE,
            float(len(items)),
            dataset=name,
            facets={"benchmark": name},
            split="test",
            n=len(items),
            seed=seed,
            detail={
                "title": source.title,
                "citation": source.citation,
                "licence": source.licence,
                "url": source.url,
                "figures": {
                    kind.title: kind.says
                    for part in dict.fromkeys(item.part for item in items)
                    for kind in benchmark.figures_of(part)
                },
                "flaws": benchmark.flaws,
                "clusters": benchmark.clusters,
                "people": benchmark.people,
                **detail,
            },
        )


def _tested(rows: Sequence[Row], now: Sequence[tuple[str, Measured]]) -> None:
    """Add P of a fair model to figures that are tested together, and Holm's over these."""
    families: dict[tuple[str, str], list[tuple[Row, float]]] = {}
    for row, (name, one) in zip(rows, now, strict=True):
        p = p_fair(one) if one.kind.tested else None
        if p is not None:
            families.setdefault((name, one.kind.tested), []).append((row, p))
    for tested in families.values():
        corrected = adjusted([p for _, p in tested]).tolist()
        for (row, p), holm in zip(tested, corrected, strict=True):
            row.detail.update({"p": p, "p_adjusted": holm})


def _row(metric: str, name: str, one: Measured, seed: int, estimated: Estimate) -> Row:
    facets: dict[str, str | float] = {"benchmark": name, "figure": one.kind.name}
    facets |= {"part": one.part} if one.part else {}
    facets["bias_type"] = one.bias_type
    return Row(
        metric,
        **estimated.columns,
        dataset=name,
        facets=facets,
        split="test",
        n=one.items,
        seed=seed,
        detail={
            "title": one.kind.title,
            "fair": one.kind.fair,
            "signed": one.kind.signed,
            "clusters": one.clusters,
            **({"plain": True} if one.kind.plain else {}),
            **({"blind": one.kind.blind} if one.kind.blind else {}),
        },
    )
