"""Published benchmarks before and after an edit.

Rows: `benchmark` for each figure of each part and bias type, with intervals over its clusters;
`benchmark_change`, edited minus unedited on the same resamples, with P over all changes of an edit
by Holm's method; `benchmark_source`. Nothing is fitted or selected on these data.

P is Student's, of a change over its standard error, with one degree of freedom less than there are
clusters (of several groups, those of the smallest). Two runs are compared on the items that both
have, with the same number and the same texts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from annotated_types import Gt, Le
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from scipy import stats

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import json_lines
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import require_keys
from countergen_edit.core.writing import digest, write_json_lines
from countergen_edit.data.benchmarks import (
    BENCHMARKS,
    Benchmark,
    BenchmarkItem,
    FigureKind,
    Files,
    benchmark_named,
)
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import joined, require_room
from countergen_edit.metrics.fairpair.phi import Sentiment
from countergen_edit.metrics.rows import Row, with_holm
from countergen_edit.metrics.statistics import (
    Estimate,
    Resampled,
    Weights,
    estimate,
    finite,
    resample,
    share_interval,
)
from countergen_edit.models import LanguageModel, generate, lengths, opens_texts

EVERY_TYPE = "all"
"""The bias type of figures over all of them."""
_LEAST = 0.5
"""Share of items that need to have the count which a figure requires."""
COUNTED = ".counted.jsonl"
"""Suffix of a file of counts."""


def _mann_whitney(first: Sequence[Any], second: Sequence[Any]) -> Any:
    """Two-sided P that two samples of each item have one distribution."""
    return stats.mannwhitneyu(np.stack(first), np.stack(second)).pvalue


_FUNCTIONS = {"minimum": np.minimum, "where": np.where, "isnan": np.isnan}
_FUNCTIONS |= {"mann_whitney": _mann_whitney}
_KEY = ["id", "part", "digest"]
"""What identifies an item in two runs."""
_compiled = cache(SandboxedEnvironment(undefined=StrictUndefined).compile_expression)


def value_of(formula: str | int, columns: Mapping[str, Any]) -> Any:
    """The value of a formula of arrays, in Jinja's sandbox with some functions of NumPy.

    >>> value_of("minimum(a / b, 1)", {"a": np.array([1.0, 4.0]), "b": 2})
    array([0.5, 1. ])
    """
    try:
        return _compiled(str(formula), undefined_to_none=False)(columns, **_FUNCTIONS)
    except (TemplateError, TypeError) as error:
        raise UserError(f"formula {formula!r} of a benchmark: {error}") from error


def counts_of(
    benchmark: Benchmark, items: Sequence[BenchmarkItem], scores: Sequence[Sequence[float]]
) -> pd.DataFrame:
    """A line for each item with its counts, added up over sampled texts."""
    facts = ["id", "part", "bias_type", "cluster", "group"]
    counted = pd.DataFrame([vars(item) for item in items], columns=facts)
    counted["digest"] = [digest(item.texts) for item in items]
    documents = pd.DataFrame([item.entry for item in items], dtype=object)
    columns = {field: documents[field].to_numpy() for field in documents}
    shape: tuple[int, ...] = (1, len(items))
    if benchmark.sampling:
        columns["sentiment"] = np.array(scores, dtype=float).T
        shape = columns["sentiment"].shape
    else:  # of items without texts about other groups their scores are missing
        names = [*benchmark.items.texts]
        names += [f"swapped_{name}" for name in names[: benchmark.swapped]]
        by_text = [dict(zip(names, of_item, strict=False)) for of_item in scores]
        table = pd.DataFrame(by_text, columns=names, dtype=np.float64)
        columns |= {name: table[name].to_numpy() for name in names}
        columns["answer"] = table[[*benchmark.items.texts]].to_numpy().argmax(axis=1)
    for count, formula in benchmark.counts.items():
        values = np.broadcast_to(value_of(formula, columns), shape)
        counted[count] = values.astype(float).sum(axis=0)
    return counted


@dataclass(frozen=True)
class BenchmarkFigure:
    """A figure of some items, in resamples of their clusters.

    `draws` begins with the figure itself; `weights` are per group where it compares two; `pooled`
    weighs items alike where the figure weighs clusters alike.
    """

    benchmark: str
    kind: FigureKind
    part: str
    bias_type: str
    draws: Resampled
    weights: tuple[Weights, ...]
    items: int
    pooled: float | None

    @property
    def clusters(self) -> int:
        return sum(int(weights.shape[1]) for weights in self.weights)

    @property
    def estimate(self) -> Estimate:
        within = (-1.0 if self.kind.signed else 0.0, 1.0)
        return estimate(self.draws, *self.weights, within=within, whole=float(not self.kind.signed))

    def less(self, other: Resampled | float) -> tuple[Estimate, float | None]:
        """The figure less a value, or less other draws on the same resamples, with its P.

        P is None where undefined, and that of equal signs where all clusters differ alike. Where
        none differs, the interval is Clopper and Pearson's, times the range of the figure.
        """
        gap = estimate(self.draws - other, *self.weights)
        fewest = min(int(weights.shape[1]) for weights in self.weights)
        if not (math.isfinite(gap.standard_error) and math.isfinite(gap.value)):
            return gap, None
        if gap.standard_error:
            return gap, gap.p_of_none(fewest)
        if gap.value:
            return gap, 2.0 ** (1 - fewest)
        most = share_interval(0, fewest)[1] * (2.0 if self.kind.signed else 1.0)
        return replace(gap, lo=-most, hi=most), 1.0

    def row(self, metric: str, seed: int, of: Estimate, **detail: Any) -> Row:
        kind = self.kind
        facts: Any = {"title": kind.title, "fair": kind.fair, "signed": kind.signed}
        facts["clusters"] = self.clusters
        marks = {"undirected": kind.undirected, "counterfactual": kind.counterfactual}
        facts |= {mark: value for mark, value in marks.items() if value}
        part = {"part": self.part} if self.part else {}
        facets = {"figure": kind.name, **part, "bias_type": self.bias_type}
        columns: Any = {"facets": {"benchmark": self.benchmark, **facets}, "n": self.items}
        columns |= {"dataset": self.benchmark, "split": "test", "seed": seed}
        return Row.of(metric, of, **columns, detail=facts | detail)


def figures_of_counts(
    benchmark: Benchmark, counts: pd.DataFrame, seed: int
) -> list[BenchmarkFigure]:
    """Every figure of every part and bias type, and of all bias types together."""
    figures = list[BenchmarkFigure]()
    types = [*counts["bias_type"].unique()]
    for part, of_part in counts.groupby("part", sort=False):
        for bias_type in [*types, *([EVERY_TYPE] if len(types) > 1 else [])]:
            is_all = bias_type == EVERY_TYPE
            of_type = of_part if is_all else of_part[of_part["bias_type"] == bias_type]
            for kind in benchmark.kinds_of(part):
                # Figures of some groups or items are about one bias type alone.
                if is_all and (kind.groups or kind.requires):
                    continue
                if {*kind.groups} <= {*of_type["group"]}:
                    items = of_type[of_type["group"].isin(kind.groups)] if kind.groups else of_type
                    least = _LEAST * len(items)
                    items = items[items[kind.requires] > 0] if kind.requires else items
                    if len(items) and len(items) >= least:
                        figures.append(_figure(benchmark, kind, part, bias_type, items, seed))
    return figures


def _figure(
    benchmark: Benchmark,
    kind: FigureKind,
    part: str,
    bias_type: str,
    items: pd.DataFrame,
    seed: int,
) -> BenchmarkFigure:
    """A figure of some items; part, bias type and group name the draws of clusters."""
    values, weights = list[Resampled](), list[Weights]()
    pooled: float | None = None
    with np.errstate(invalid="ignore", divide="ignore"):  # undefined in some resamples
        for group in kind.groups or ("",):
            members = items[items["group"] == group] if group else items
            cluster, names = pd.factorize(members["cluster"])
            unit = ("benchmark", benchmark.name, part, bias_type, *filter(None, [group]))
            weights.append(resample(len(names), seed, *unit))
            size = np.bincount(cluster) if benchmark.equal_clusters else 1
            totals = {c: np.bincount(cluster, members[c]) / size for c in benchmark.counts}
            sums = {count: weights[-1] @ total for count, total in totals.items()}
            values.append(value_of(kind.formula, sums))
        if benchmark.equal_clusters:
            sums = {count: items[count].to_numpy().sum() for count in benchmark.counts}
            pooled = finite(value_of(kind.formula, sums))
    alone = any(len(drawn) == 1 for drawn in weights)  # one cluster has no spread
    draws = np.asarray(values[0] - values[1] if values[1:] else values[0])[: 1 if alone else None]
    return BenchmarkFigure(
        benchmark.name, kind, part, bias_type, draws, tuple(weights), len(items), pooled
    )


def read_counts(path: Path) -> pd.DataFrame:
    """Counts kept by a run; `UserError` for a damaged file."""
    return pd.DataFrame([line for _, line in json_lines(path)])


def difference_rows(
    name: str,
    before: pd.DataFrame,
    after: pd.DataFrame,
    seed: int,
    detail: Mapping[str, Any],
    edit: str,
) -> list[Row]:
    """Every figure in `after` less in `before`; none without shared items."""
    benchmark = benchmark_named(name)
    either = pd.concat([before, after]).drop_duplicates(_KEY)
    shared = before[_KEY].merge(after[_KEY])
    sides = (figures_of_counts(benchmark, shared.merge(side), seed) for side in (before, after))
    rows = []
    for one, two in zip(*sides, strict=True):
        difference, p = two.less(one.draws)
        is_of_type = (either["bias_type"] == one.bias_type) | (one.bias_type == EVERY_TYPE)
        count = int((is_of_type & (either["part"] == one.part)).sum())
        place = ", ".join(filter(None, (one.part, one.bias_type))).replace("_", " ")
        row = one.row("benchmark_difference", seed, difference)
        del row.facets["benchmark"]
        facts = {
            "about": f"{benchmark.source.title} ({place})",
            "of": one.kind.title,
            "percent": True,
            "before": one.estimate.columns["value"],
            "after": two.estimate.columns["value"],
            "p": p,
            "method": "drawn over clusters, the same in both",
            "smallest": difference.smallest,
            "clusters": one.clusters,
            "samples": one.items,
            "samples_of_either": count,
            "samples_of_one": count - one.items,
        }
        rows.append(replace(row, edit=edit, detail={**detail, **facts}))
    return rows


BENCHMARK_STORE = "benchmarks"
BENCHMARK = "benchmark"
BENCHMARK_CHANGE, BENCHMARK_SOURCE = "benchmark_change", "benchmark_source"
SAMPLING = {
    **dict.fromkeys(("n", "max_new_tokens", "batch_size"), Annotated[int, Gt(0)]),
    "top_p": Annotated[float, Gt(0), Le(1)],
    "temperature": Annotated[float, Gt(0)],
}
"""Settings of sampled texts, as of `generate`; `n` texts for each prompt."""
_LONGEST = 20
"""Texts of each benchmark whose length is checked before a run."""


class Benchmarks(Metric):
    """Figures of published benchmarks, and their changes under an edit.

    Parameters
    ----------
    of : benchmarks by name, and YAML files of further ones
    directory : directory of their data, or one file of a benchmark; None takes the installed
        package's. A file `sources.yaml` there gives the hashes of other versions.
    bias_types : the benchmarks' own, axes, or `all`; None takes those of the audited axis, or all
    limit : most items of each part and bias type, for all benchmarks or by name
    settings : name → `SAMPLING` of a benchmark of sampled texts
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
        self.benchmarks = [benchmark_named(name) for name in self.of]
        self.is_generating = all(one.sampling for one in self.benchmarks)
        limits = limit if isinstance(limit, Mapping) else {self.of[0]: limit}
        for name in (*limits, *self.settings):
            require_known("benchmark", name, dict.fromkeys((*BENCHMARKS, *self.of)))
        for name, sampling in self.settings.items():
            types = SAMPLING if benchmark_named(name).sampling else {}
            require_keys(sampling, types, f"setting of benchmark {name}", f"benchmark {name}.")
        if any(most is not None and most < 1 for most in limits.values()):
            raise UserError(f"benchmarks.limit={limit!r}: write whole numbers above 0")

    def prepare(self) -> None:
        names = {name for one in self.benchmarks for name in (*one.bias_types, *one.axes)}
        for bias_type in self.bias_types or ():
            require_known("bias type", bias_type, sorted({*names, EVERY_TYPE}))
        self.read: dict[str, tuple[Benchmark, list[BenchmarkItem]]] = {}
        for one in self.benchmarks:
            if types := self._types(one):
                files = Files.of(one.name, self.directory)
                items = [self._with_others(one, item) for item in one.read(files, types)]
                sampling = {**one.sampling, **self.settings.get(one.name, {})}
                benchmark = replace(one, source=files.source, sampling=sampling)
                self.read[one.name] = benchmark, items

    def _with_others(self, benchmark: Benchmark, item: BenchmarkItem) -> BenchmarkItem:
        """The item with its texts about the other group of the axis, if it has one."""
        task, texts = self.task, item.texts[: benchmark.swapped]
        bias_types = benchmark.axes.get(task.axis.name, ())
        if not texts or task.substitution is None or item.bias_type not in bias_types:
            return item
        swap = task.substitution.swap
        swapped = [(swap(prompt), swap(text)) for prompt, text in texts]
        differ = all(a != b for a, b in zip(texts, swapped, strict=True))
        return replace(item, texts=(*item.texts, *swapped)) if differ else item

    def _types(self, benchmark: Benchmark) -> list[str]:
        axes = sorted(self.task.own_axes & benchmark.axes.keys()) if self.bias_types is None else ()
        names = self.bias_types or axes or [EVERY_TYPE]
        types = {bias_type for name in names for bias_type in benchmark.axes.get(name, (name,))}
        return [name for name in benchmark.bias_types if name in types or EVERY_TYPE in names]

    def items(self, name: str, seed: int) -> list[BenchmarkItem]:
        """The items of a benchmark within the limits of the metric and of the task."""
        limit = self.limit.get(name) if isinstance(self.limit, Mapping) else self.limit
        limit = min((most for most in (limit, self.task.limit) if most is not None), default=None)
        groups: dict[tuple[str, ...], list[BenchmarkItem]] = defaultdict(list)
        for item in self.read[name][1]:
            groups[item.part, item.bias_type, *filter(None, [item.group])].append(item)
        parts = (limited(items, limit, seed, name, *group) for group, items in groups.items())
        return [*chain.from_iterable(parts)]

    def check(self, model: LanguageModel) -> None:
        """`UserError` where the context lacks room for one of the longest texts."""
        for benchmark, items in self.read.values():
            if not benchmark.sampling:
                texts = {prompt + text for item in items for prompt, text in item.texts}
                lengths(model, sorted(texts, key=len)[-_LONGEST:])
            elif not model.is_encoder_decoder:
                prompts = sorted({item.entry["prompt"] for item in items}, key=len)[-_LONGEST:]
                longest = max(lengths(model, prompts), default=0)
                require_room(model, benchmark.name, longest, benchmark.sampling["max_new_tokens"])

    def narrowed(self, model: LanguageModel) -> str:
        names = [name for name in BENCHMARKS if benchmark_named(name).sampling]
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
        changes = []
        for old, one in zip(self._figures(context, None), now, strict=True):
            change, p = one.less(old.draws)
            detail = {"smallest": change.smallest, "p": p}
            changes.append(one.row(BENCHMARK_CHANGE, context.seed, change, **detail))
        return [*rows, *with_holm(changes)]

    def _figures(self, context: EvaluationContext, edit: NamedEdit | None) -> list[BenchmarkFigure]:
        figures = []
        for name, (benchmark, _) in self.read.items():
            if items := self.items(name, context.seed):
                counts = self._counts(context, edit, benchmark, items)
                figures += figures_of_counts(benchmark, counts, context.seed)
        return figures

    def _counts(
        self,
        context: EvaluationContext,
        edit: NamedEdit | None,
        benchmark: Benchmark,
        items: Sequence[BenchmarkItem],
    ) -> pd.DataFrame:
        """The counts of each item; a run that was killed reads them from the store."""
        folder = context.place(BENCHMARK_STORE, edit).with_suffix("")
        path = folder / f"{Path(benchmark.name).stem}{COUNTED}"
        in_chat = is_asked(context.model, items)
        content = [[item.id, item.replies if in_chat else item.texts, item.entry] for item in items]
        key = digest([content, benchmark.sampling, context.seed, benchmark.counts])
        if path.is_file() and (counts := read_counts(path))["key"][0] == key:
            return counts
        texts = list[list[str]]()
        if benchmark.sampling:
            sampling = {"do_sample": True, "seed": context.seed, **benchmark.sampling}
            n = sampling.pop("n")
            prompts = [item.entry["prompt"] for item in items for _ in range(n)]
            with context.under(edit) as model:
                new = generate(model, prompts, progress=f"Writing {benchmark.name}", **sampling)
            whole = [joined(prompt, text) for prompt, text in zip(prompts, new, strict=True)]
            texts = [whole[start : start + n] for start in range(0, len(whole), n)]
            scores = sentiment(texts)
        else:
            scores = likelihoods(context, edit, benchmark, items)
        counts = counts_of(benchmark, items, scores)
        lines = counts.assign(benchmark=benchmark.name, key=key, written=texts or None)
        write_json_lines(path, lines.to_dict("records"))
        return counts

    def _of_people(self, seed: int) -> dict[tuple[str, str], Estimate]:
        """The figures of human texts, by benchmark and name."""
        estimates: dict[tuple[str, str], Estimate] = {}
        for name, (benchmark, _) in self.read.items():
            if benchmark.human_source and (items := self.items(name, seed)):
                scores = sentiment([[item.entry["sentence"]] for item in items])
                counts = counts_of(benchmark, items, scores)
                for one in figures_of_counts(benchmark, counts, seed):
                    estimates[name, one.kind.name] = one.estimate
        return estimates

    def _rows(self, now: Sequence[BenchmarkFigure], seed: int) -> list[Row]:
        """A row of each figure; P and Holm's P where figures are tested together."""
        people = self._of_people(seed)
        rows = list[Row]()
        families = defaultdict[tuple[str, str], list[Row]](list)
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
        benchmark, all_items = self.read[name]
        model = context.model
        items = self.items(name, context.seed)
        parts = dict.fromkeys(item.part for item in items)
        kinds = [kind for part in parts for kind in benchmark.kinds_of(part)]
        facts = ("title", "citation", "licence", "url")
        detail = {
            **{fact: getattr(benchmark.source, fact) for fact in facts},
            "figures": {kind.title: kind.description for kind in kinds},
            "flaws": benchmark.flaws,
            "clusters": benchmark.clusters,
            "people": benchmark.human_source,
            "scoring": benchmark.scoring,
            "normalise": benchmark.normalise,
            "first_token": opens_texts(model),
            "in_template": model.chat.is_on,
            "asked": is_asked(model, items),
            "all_items": len(all_items),
        }
        columns: dict[str, Any] = {"dataset": name, "facets": {"benchmark": name}, "split": "test"}
        n = len(items)
        return Row.of(BENCHMARK_SOURCE, float(n), n=n, seed=context.seed, detail=detail, **columns)


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
    drawn = islice((place for place in turns if place is not None), limit)
    return [items[place] for place in sorted(drawn)]


def likelihoods(
    context: EvaluationContext,
    edit: NamedEdit | None,
    benchmark: Benchmark,
    items: Sequence[BenchmarkItem],
) -> list[list[float]]:
    """The log-probability of each text of the items, or its mean over tokens."""
    in_chat = is_asked(context.model, items)
    texts = [pair for item in items for pair in (item.replies if in_chat else item.texts)]
    scores = context.texts(texts, edit, f"Scoring {benchmark.name}", in_chat)
    is_mean = benchmark.normalise == "mean"
    values = iter((scores.log_p / scores.tokens if is_mean else scores.log_p).tolist())
    return [[next(values) for _ in item.texts] for item in items]


def is_asked(model: LanguageModel, items: Sequence[BenchmarkItem]) -> bool:
    """Whether the model replies to the items as questions."""
    return model.chat.is_on and all(item.question for item in items)


def sentiment(texts: Sequence[Sequence[str]]) -> list[list[float]]:
    """VADER's compound score of each text."""
    scores = iter(Sentiment().scores([text for of_item in texts for text in of_item]).tolist())
    return [[next(scores) for _ in of_item] for of_item in texts]
