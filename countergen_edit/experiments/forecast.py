"""How long a run will take, from a short trial on its own model and data.

Comes in: a study. Goes out: its `Pace`. The trial scores validation data of few names a group,
unedited and under an edit in the middle, and captures some of the fitting data; then twice as many,
since the first texts of a batch cost more than the others. It leaves nothing behind: no row, no
edit in the run. What metrics that generate text take is not in it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.thinning import few_texts, few_variations
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import AffineErasure
from countergen_edit.experiments.fit_data import capture_sites
from countergen_edit.experiments.study import Study
from countergen_edit.experiments.work import Pace, captured, characters
from countergen_edit.metrics.bench import Bench

FIT, CERTIFICATE = 0.5e-9, 2e-9
"""Seconds for each row and squared width: the mean of four erasers on 5,020 rows of 576."""
ENOUGH = 0.4
"""Seconds: what takes less says little, since few texts do not keep a processor busy."""
LEAST = 0.3
EVERY = 4
"""Of the fitting samples the trial captures one in so many."""


def announcement(study: Study, candidates: int) -> str:
    """What is about to be done, up to the time that it takes."""
    blocks = f"{study.model.n_layers} blocks of width {study.model.d_model}"
    return f"{candidates} candidate edits in {blocks}. Time{_uncounted(study)}: about "


def reading(study: Study) -> str:
    """What is about to be done where nothing is edited, up to the time that it takes."""
    blocks = f"{study.model.n_layers} blocks of width {study.model.d_model}"
    return f"The model as it came, {blocks}. Time{_uncounted(study)}: about "


def _uncounted(study: Study) -> str:
    slow = [metric.name for metric in study.metrics if metric.is_slow]
    return f", what {', '.join(slow)} take not counted" if slow else ""


def try_pace(study: Study) -> Pace:
    """Measure the pace of a study's model on its data."""
    model, middle = study.model, study.model.n_layers // 2
    edit = _edit(model.d_model, middle)
    share = (middle + 1) / model.n_layers

    def timed(work: Callable[[NamedEdit | None], object]) -> tuple[float, float]:
        return _seconds(lambda: work(None)), _seconds(lambda: work(edit))

    def sets(names: int) -> tuple[float, float, float]:
        task, bench = study.task.thinned(names, study.seed), _bench(study, middle)
        agreement = task.agreement.get("validation")
        few = [*(task.validation or task.test[:1]), *([agreement] if agreement else [])]
        return characters(few), *timed(lambda e: [bench.scores(data, e) for data in few])

    def running(names: int) -> tuple[float, float, float]:
        task, bench = study.task.thinned(names, study.seed), _bench(study, middle)
        texts = task.neutral["validation"]
        return float(sum(map(len, texts))), *timed(lambda e: bench.neutral(texts, e))

    sets(1)  # what comes first is slower
    paces = []
    for score in (sets, *([running] if study.task.neutral.get("validation") else [])):
        whole, half = _rates(score, study.task.most_names)
        run = max(whole - half, 0.0) / share
        paces += [max(whole - run, 0.0), run]
    read, run, *texts = paces
    read_texts, run_texts = texts or (0.0, 0.0)
    rows_of = 0.0

    def capture(names: int) -> tuple[float, float]:
        nonlocal rows_of
        few, keep = (
            [_some(few_variations(data, names, study.seed)) for data in group]
            for group in (study.task.fit, study.task.keep)
        )
        seconds, rows = _capture(study, few, keep)
        count = characters([*few, *keep])
        rows_of = rows / count
        return count, seconds

    [capturing] = _rates(capture, max(data.widest for data in study.task.fit))
    size = rows_of * captured(study.task) * model.d_model**2
    return Pace(read, run, read_texts, run_texts, capturing, FIT * size, CERTIFICATE * size)


def try_reading(study: Study) -> Pace:
    """Measure the pace of a study that edits nothing, on its test data: of reading alone."""
    task, seed = study.task, study.seed
    widest = max(data.widest for data in task.test)

    def sets(names: int) -> tuple[float, float]:
        few, bench = [few_variations(data, names, seed) for data in task.test], _plain(study)
        return characters(few), _seconds(lambda: [bench.scores(data, None) for data in few])

    def running(names: int) -> tuple[float, float]:
        every = task.neutral["test"]
        texts = few_texts(every, math.ceil(len(every) * min(names / widest, 1)), seed)
        bench = _plain(study)
        return float(sum(map(len, texts))), _seconds(lambda: bench.neutral(texts, None))

    sets(1)  # what comes first is slower
    [read] = _rates(sets, widest)
    [read_texts] = _rates(running, widest) if task.neutral.get("test") else [0.0]
    return Pace(read, 0.0, read_texts, 0.0, 0.0, 0.0, 0.0)


def _rates(attempt: Callable[[int], tuple[float, ...]], most: int) -> list[float]:
    """Seconds for one character more, from attempts with twice as many names each.

    The last two tell, the last of which took long enough to go by; noise cannot make the rate less
    than `LEAST` of the plain one.
    """
    names = 1
    before: tuple[float, ...] = (0.0, 0.0, 0.0)
    while True:
        count, *seconds = attempt(names)
        if (seconds[0] >= ENOUGH and before[0]) or names >= most:
            break
        names, before = 2 * names, (count, *seconds)
    more = count - before[0]
    return [
        min(max((now - then) / more if more else 0.0, LEAST * now / count), now / count)
        for now, then in zip(seconds, before[1:], strict=False)
    ]


def _bench(study: Study, middle: int) -> Bench:
    return Bench(study.resuming([middle], share=0.25), study.store, study.seed)


def _plain(study: Study) -> Bench:
    return Bench(study.model, study.store, study.seed)


def _capture(
    study: Study, fit: Sequence[CounterfactualSet], keep: Sequence[CounterfactualSet]
) -> tuple[float, int]:
    """Seconds that some fitting data take, and how many rows they give."""
    rows = 0

    def capture() -> None:
        nonlocal rows
        data = capture_sites(
            study.model,
            fit,
            keep,
            (),
            sites=study.sites,
            layers=study.layers,
            positions=study.positions,
            sinks=study.sinks,
        )
        rows = len(data[study.sites[0]].group)

    return _seconds(capture), rows


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _some(data: CounterfactualSet) -> CounterfactualSet:
    return replace(data, samples=data.samples[::EVERY])


def _edit(width: int, layer: int) -> NamedEdit:
    """An edit of the usual kind, which changes next to nothing."""
    direction = np.zeros((width, 1))
    direction[0] = 1.0
    erasure = AffineErasure(direction, direction.T, np.zeros(width))
    return NamedEdit.of(Edit.at("resid_post", {layer: erasure}), "trial")
