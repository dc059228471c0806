"""Published benchmarks before and after an edit.

Rows: `benchmark` for each figure of each part and bias type, with intervals over its clusters;
`benchmark_change`, edited minus unedited on the same resamples, with P over all changes of an edit
by Holm's method; `benchmark_source`. Nothing is fitted or selected on these data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from annotated_types import Gt, Le

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import require_keys
from countergen_edit.core.writing import digest, write_json_lines
from countergen_edit.data.benchmarks import BENCHMARKS, Benchmark, BenchmarkItem, Files
from countergen_edit.data.benchmarks import benchmark_named as named
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.benchmarks.figures import (
    COUNTED,
    EVERY_TYPE,
    BenchmarkFigure,
    counts_of,
    figures_of_counts,
    read_counts,
)
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import joined, require_room
from countergen_edit.metrics.fairpair.phi import Sentiment
from countergen_edit.metrics.rows import Row, with_holm
from countergen_edit.metrics.statistics import Estimate
from countergen_edit.models import LanguageModel, generate, lengths, opens_texts

BENCHMARK_STORE = "benchmarks"
BENCHMARK = "benchmark"
BENCHMARK_CHANGE, BENCHMARK_SOURCE = "benchmark_change", "benchmark_source"
SAMPLING = {
    **dict.fromkeys(("n", "max_new_tokens", "batch_size"), Annotated[int, Gt(0)]),
    "top_p": Annotated[float, Gt(0), Le(1)],
    "temperature": Annotated[float, Gt(0)],
}
"""Settings of a benchmark of sampled texts, as of `generate`; `n` texts for each prompt."""
_LONGEST = 20
"""Texts of each benchmark whose length is checked before a run."""


class Benchmarks(Metric):
    """Figures of published benchmarks, and their changes under an edit.

    Parameters
    ----------
    of : str or sequence of str
        Benchmarks by name, and YAML files of further ones.
    directory : str, optional
        Directory of their data, or one file of a benchmark; None takes the installed package's.
        A file `sources.yaml` there gives the hashes of other versions.
    bias_types : str or sequence of str, optional
        The benchmarks' own, axes, or `all`; None takes those of the audited axis, or all.
    limit : int or mapping, optional
        Most items of each part and bias type, for all benchmarks or by name.
    settings : mapping, optional
        Name → `SAMPLING` of a benchmark of sampled texts.
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
        self.benchmarks = [named(name) for name in self.of]
        self.is_generating = all(one.sampling for one in self.benchmarks)
        limits = limit if isinstance(limit, Mapping) else {self.of[0]: limit}
        for name in (*limits, *self.settings):
            require_known("benchmark", name, dict.fromkeys((*BENCHMARKS, *self.of)))
        for name, own in self.settings.items():
            known = SAMPLING if named(name).sampling else {}
            require_keys(own, known, f"setting of benchmark {name}", f"benchmark {name}.")
        if any(most is not None and most < 1 for most in limits.values()):
            raise UserError(f"benchmarks.limit={limit!r}: write whole numbers above 0")

    def prepare(self) -> None:
        known = {name for one in self.benchmarks for name in (*one.bias_types, *one.axes)}
        for wanted in self.bias_types or ():
            require_known("bias type", wanted, sorted({*known, EVERY_TYPE}))
        self.read: dict[str, tuple[Benchmark, list[BenchmarkItem]]] = {}
        for one in self.benchmarks:
            if types := self._types(one):
                files = Files.of(one.name, self.directory)
                items = [self._with_others(one, item) for item in one.read(files, types)]
                sampling = {**one.sampling, **self.settings.get(one.name, {})}
                own = replace(one, source=files.source, sampling=sampling)
                self.read[one.name] = own, items

    def _with_others(self, benchmark: Benchmark, item: BenchmarkItem) -> BenchmarkItem:
        """The item with its first texts about the other group of the axis added, if it has one."""
        task, own = self.task, item.texts[: benchmark.swapped]
        if not own or task.substitution is None:
            return item
        if item.bias_type not in benchmark.axes.get(task.axis.name, ()):
            return item
        swap = task.substitution.swap
        others = [(swap(prompt), swap(text)) for prompt, text in own]
        is_swapped = all(a != b for a, b in zip(own, others, strict=True))
        return replace(item, texts=(*item.texts, *others)) if is_swapped else item

    def _types(self, benchmark: Benchmark) -> list[str]:
        axes = sorted(self.task.own_axes & benchmark.axes.keys()) if self.bias_types is None else ()
        wanted = self.bias_types or axes or [EVERY_TYPE]
        types = {name for one in wanted for name in benchmark.axes.get(one, (one,))}
        return [name for name in benchmark.bias_types if name in types or EVERY_TYPE in wanted]

    def items(self, name: str, seed: int) -> list[BenchmarkItem]:
        """The items of a benchmark within the limits of the metric and of the task."""
        own = self.limit.get(name) if isinstance(self.limit, Mapping) else self.limit
        limit = min((most for most in (own, self.task.limit) if most is not None), default=None)
        groups: dict[tuple[str, ...], list[BenchmarkItem]] = defaultdict(list)
        for item in self.read[name][1]:
            groups[item.part, item.bias_type, *filter(None, [item.group])].append(item)
        return [
            item
            for about, items in groups.items()
            for item in limited(items, limit, seed, name, *about)
        ]

    def check(self, model: LanguageModel) -> None:
        """Raise a `UserError` where the context has no room for one of the longest texts."""
        for benchmark, items in self.read.values():
            if not benchmark.sampling:
                texts = {prompt + text for item in items for prompt, text in item.texts}
                lengths(model, sorted(texts, key=len)[-_LONGEST:])
            elif not model.is_encoder_decoder:
                prompts = sorted({item.entry["prompt"] for item in items}, key=len)[-_LONGEST:]
                longest = max(lengths(model, prompts), default=0)
                require_room(model, benchmark.name, longest, benchmark.sampling["max_new_tokens"])

    def narrowed(self, model: LanguageModel) -> str:
        names = [name for name in BENCHMARKS if named(name).sampling]
        return f"metric.benchmarks.of=[{','.join(names)}]"

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        now = self._figures(context, edit)
        rows = self._rows(now, context.seed)
        if edit is None:
            return [*(self._source_row(name, context) for name in self.read), *rows]
        return [*rows, *_changes(self._figures(context, None), now, context.seed)]

    def _figures(self, context: EvaluationContext, edit: NamedEdit | None) -> list[BenchmarkFigure]:
        found = []
        for name, (benchmark, _) in self.read.items():
            if items := self.items(name, context.seed):
                counts = self._counts(context, edit, benchmark, items)
                found += figures_of_counts(benchmark, counts, context.seed)
        return found

    def _counts(
        self,
        context: EvaluationContext,
        edit: NamedEdit | None,
        benchmark: Benchmark,
        items: Sequence[BenchmarkItem],
    ) -> pd.DataFrame:
        """The counts of each item, from the store if they are there: a killed run repeats none."""
        folder = context.place(BENCHMARK_STORE, edit).with_suffix("")
        path = folder / f"{Path(benchmark.name).stem}{COUNTED}"
        how, asked = benchmark.sampling, is_asked(context.model, items)
        content = [[item.id, item.replies if asked else item.texts, item.entry] for item in items]
        key = digest([content, how, context.seed, benchmark.counts])
        if path.is_file() and (kept := read_counts(path))["key"][0] == key:
            return kept
        about = (context, edit, benchmark, items)
        texts = sampled_texts(*about) if how else []
        scores = sentiment(texts) if how else likelihoods(*about)
        counts = counts_of(benchmark, items, scores)
        lines = counts.assign(benchmark=benchmark.name, key=key, written=texts or None)
        write_json_lines(path, lines.to_dict("records"))
        return counts

    def _of_people(self, seed: int) -> dict[tuple[str, str], Estimate]:
        """The figures of human texts, by benchmark and name."""
        found: dict[tuple[str, str], Estimate] = {}
        for name, (benchmark, _) in self.read.items():
            if benchmark.human_source and (items := self.items(name, seed)):
                scores = sentiment([[item.entry["sentence"]] for item in items])
                counts = counts_of(benchmark, items, scores)
                own = figures_of_counts(benchmark, counts, seed)
                found |= {(name, one.kind.name): one.estimate for one in own}
        return found

    def _rows(self, now: Sequence[BenchmarkFigure], seed: int) -> list[Row]:
        """A row of each figure; P and Holm's P where figures are tested together."""
        people, rows = self._of_people(seed), list[Row]()
        families: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for one in now:
            row = one.row(BENCHMARK, seed, one.estimate)
            if one.pooled is not None:
                row.detail["pooled"] = one.pooled
            if row.value is None:
                row.detail["reason"] = "no item by which it is defined"
            if human := people.get((one.benchmark, one.kind.name)):
                row.detail["people"] = human.columns
            if one.kind.groups and one.kind.fair is not None:
                row.detail["p"] = one.less(one.kind.fair)[1]
                families[one.benchmark, one.bias_type].append(row)
            rows.append(row)
        for family in families.values():
            with_holm(family)
        return rows

    def _source_row(self, name: str, context: EvaluationContext) -> Row:
        benchmark, every = self.read[name]
        items, model = self.items(name, context.seed), context.model
        parts = dict.fromkeys(item.part for item in items)
        kinds = [kind for part in parts for kind in benchmark.kinds_of(part)]
        facts = ("title", "citation", "licence", "url")
        about = {
            **{fact: getattr(benchmark.source, fact) for fact in facts},
            "figures": {kind.title: kind.description for kind in kinds},
            "flaws": benchmark.flaws,
            "clusters": benchmark.clusters,
            "people": benchmark.human_source,
            **{"scoring": benchmark.scoring, "normalise": benchmark.normalise},
            **{"first_token": opens_texts(model), "in_template": model.chat.is_on},
            **{"asked": is_asked(model, items), "all_items": len(every)},
        }
        columns: dict[str, Any] = {"facets": {"benchmark": name}, "split": "test"}
        columns |= {"n": len(items), "seed": context.seed, "detail": about}
        return Row(BENCHMARK_SOURCE, float(len(items)), dataset=name, **columns)


def limited(
    items: Sequence[BenchmarkItem], limit: int | None, seed: int, *unit: object
) -> list[BenchmarkItem]:
    """At most `limit` items, in order: a random one of each cluster, then a second of each, ….

    >>> items = [BenchmarkItem(str(i), "", "", "ab"[i > 3], ()) for i in range(6)]
    >>> sorted(item.cluster for item in limited(items, 4, 0))
    ['a', 'a', 'b', 'b']
    """
    if limit is None or len(items) <= limit:
        return list(items)
    by_cluster = defaultdict(list)
    for place in generator(seed, "benchmark", *unit).permutation(len(items)).tolist():
        by_cluster[items[place].cluster].append(place)
    turns = chain.from_iterable(zip_longest(*by_cluster.values()))
    kept = islice((place for place in turns if place is not None), limit)
    return [items[place] for place in sorted(kept)]


def likelihoods(
    context: EvaluationContext,
    edit: NamedEdit | None,
    benchmark: Benchmark,
    items: Sequence[BenchmarkItem],
) -> list[list[float]]:
    """The log-probability of each text of the items, or its mean over tokens."""
    asked = is_asked(context.model, items)
    texts = [pair for item in items for pair in (item.replies if asked else item.texts)]
    found = context.texts(texts, edit, f"Scoring {benchmark.name}", asked)
    is_mean = benchmark.normalise == "mean"
    values = iter((found.log_p / found.tokens if is_mean else found.log_p).tolist())
    return [[next(values) for _ in item.texts] for item in items]


def is_asked(model: LanguageModel, items: Sequence[BenchmarkItem]) -> bool:
    """Whether the model replies to the items as questions."""
    return model.chat.is_on and all(item.question for item in items)


def sampled_texts(
    context: EvaluationContext,
    edit: NamedEdit | None,
    benchmark: Benchmark,
    items: Sequence[BenchmarkItem],
) -> list[list[str]]:
    """Texts that begin with the prompt of each item."""
    how = {"do_sample": True, "seed": context.seed, **benchmark.sampling}
    n = how.pop("n")
    prompts = [item.entry["prompt"] for item in items for _ in range(n)]
    with context.under(edit) as model:
        new = generate(model, prompts, progress=f"Writing {benchmark.name}", **how)
    texts = [joined(prompt, text) for prompt, text in zip(prompts, new, strict=True)]
    return [texts[start : start + n] for start in range(0, len(texts), n)]


def sentiment(texts: Sequence[Sequence[str]]) -> list[list[float]]:
    """VADER's compound score of each text."""
    scores = iter(Sentiment().scores([text for own in texts for text in own]).tolist())
    return [[next(scores) for _ in own] for own in texts]


def _changes(
    before: Sequence[BenchmarkFigure], now: Sequence[BenchmarkFigure], seed: int
) -> list[Row]:
    """A row of the change of each figure, with Holm's P over them all."""
    changes = [(new, *new.less(old.draws)) for old, new in zip(before, now, strict=True)]
    return with_holm(
        [
            one.row(BENCHMARK_CHANGE, seed, found, smallest=found.smallest, p=p)
            for one, found, p in changes
        ]
    )
