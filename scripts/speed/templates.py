"""Speed of the clustered bootstrap against a loop that resamples and measures, on the same data.

    python scripts/speed/templates.py

2,000 resamples of mean |R| over 40 templates × 100 pairs of names × 6 outputs.
"""

from __future__ import annotations

import time

import numpy as np

from countergen_edit.metrics.r.formula import relative_difference
from countergen_edit.metrics.statistics import estimate, resample, weighted_mean

TEMPLATES, NAMES, OUTPUTS, RESAMPLES, LOOPED = 40, 100, 6, 2000, 50


def main() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.4, 1, (TEMPLATES * OUTPUTS, 2, NAMES))
    p *= rng.uniform(0.3, 1, (TEMPLATES * OUTPUTS, 2, 1))
    template = np.repeat(np.arange(TEMPLATES), OUTPUTS)

    began = time.perf_counter()
    weights = resample(TEMPLATES, 0, "templates", resamples=RESAMPLES)
    names = [resample(NAMES, 0, "names", side, resamples=RESAMPLES) for side in (0, 1)]
    sides = [np.log(w @ p[:, side].T / NAMES) for side, w in enumerate(names)]
    values = weighted_mean(np.abs(relative_difference(*sides)), template, weights)
    e = estimate(values, weights, *names, within=(0, 1))
    ours = time.perf_counter() - began

    began = time.perf_counter()
    looped = []
    for _ in range(LOOPED):
        drawn = rng.integers(TEMPLATES, size=TEMPLATES)
        items = np.concatenate([np.flatnonzero(template == t) for t in drawn])
        columns = [rng.integers(NAMES, size=NAMES) for _ in range(2)]
        a, b = (np.log(p[items, side][:, columns[side]].mean(axis=1)) for side in (0, 1))
        looped.append(float(np.abs(relative_difference(a, b)).mean()))
    loop = (time.perf_counter() - began) * RESAMPLES / LOOPED

    print(f"mean |R| {e.value:.3f} [{e.lo:.3f}, {e.hi:.3f}]; loop's SE {np.std(looped):.4f}, ours")
    print(f"{e.standard_error:.4f}; {RESAMPLES} resamples: {ours:.2f} s, loop {loop:.1f} s")
    print(f"ratio {loop / ours:.1f}")


if __name__ == "__main__":
    main()
