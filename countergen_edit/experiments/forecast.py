"""How long a run will take, from a short trial on its own model and data.

Comes in: a study. Goes out: its `Pace`. The trial scores the validation data with one name a group,
unedited and under an edit in the middle, and captures some of the fitting data. It leaves nothing
behind: no row, no edit in the run. What metrics that generate text take is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.thinning import few_variations
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import AffineErasure
from countergen_edit.experiments.fit_data import capture_sites
from countergen_edit.experiments.study import Study
from countergen_edit.experiments.work import Pace, characters
from countergen_edit.metrics.bench import Bench

FIT, CERTIFICATE = 0.5e-9, 2e-9
"""Seconds for each row and squared width: the mean of four erasers on 5,020 rows of 576."""
EVERY = 4
"""Of the fitting samples the trial captures one in so many."""


def announcement(study: Study, candidates: int) -> str:
    """What is about to be done, up to the time that it takes."""
    slow = [metric.name for metric in study.metrics if metric.is_slow]
    without = f", what {', '.join(slow)} take not counted" if slow else ""
    return (
        f"{candidates} candidate edits in {study.model.n_layers} blocks of width "
        f"{study.model.d_model}. Time{without}: about "
    )


def try_pace(study: Study) -> Pace:
    """Measure the pace of a study's model on its data."""
    model, task = study.model, study.task.thinned(1, study.seed)
    middle = model.n_layers // 2
    agreement = task.agreement.get("validation")
    sets = [*(task.validation or task.test[:1]), *([agreement] if agreement else [])]
    texts = task.neutral.get("validation", ())
    bench = Bench(study.resuming([middle], share=0.25), study.store, study.seed)

    def score(edit: NamedEdit | None) -> None:
        for data in sets:
            bench.scores(data, edit)
        if texts:
            bench.neutral(texts, edit)

    warm = Bench(model, study.store, study.seed)
    warm.scores(_first(sets[0]), None)
    whole, half = (
        _seconds(lambda: score(None)),
        _seconds(lambda: score(_edit(model.d_model, middle))),
    )
    count = characters(sets, texts)
    share = (middle + 1) / model.n_layers
    run = max(whole - half, 0.0) / share / count
    read = max(whole / count - run, 0.0)
    captured, rows, of = _capture(study)
    size = rows * study.captured_characters / of * model.d_model**2
    return Pace(read, run, captured, FIT * size, CERTIFICATE * size)


def _capture(study: Study) -> tuple[float, int, float]:
    """Seconds for each character that is captured; rows and characters of the trial."""
    few = [_some(few_variations(data, 1, study.seed)) for data in study.task.fit]
    keep = [_some(few_variations(data, 1, study.seed)) for data in study.task.keep]
    neutral = study.task.neutral.get("fit", ())[::8]
    rows = 0

    def capture() -> None:
        nonlocal rows
        data = capture_sites(
            study.model,
            few,
            keep,
            neutral,
            sites=study.sites,
            layers=study.layers,
            positions=study.positions,
        )
        rows = len(data[study.sites[0]].group)

    seconds, of = _seconds(capture), characters([*few, *keep], neutral)
    return seconds / of, rows, of


def _seconds(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _some(data: CounterfactualSet) -> CounterfactualSet:
    return replace(data, samples=data.samples[::EVERY])


def _first(data: CounterfactualSet) -> CounterfactualSet:
    return replace(data, samples=data.samples[:1])


def _edit(width: int, layer: int) -> NamedEdit:
    """An edit of the usual kind, which changes next to nothing."""
    direction = np.zeros((width, 1))
    direction[0] = 1.0
    erasure = AffineErasure(direction, direction.T, np.zeros(width))
    return NamedEdit.of(Edit.at("resid_post", {layer: erasure}), "trial")
