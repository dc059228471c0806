"""Checks that a model has learned what was planted: rows for each family, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp
from scipy.stats import pearsonr

from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.costs.agreement import agreement_rows
from countergen_edit.metrics.r import relative_difference
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel
from countergen_edit.reports.blocks import Cell, Number, Table
from countergen_edit.testbed import Truth, load_axis

SPLIT: Split = "test"
RECOVERY = {
    "planted_mean_abs_r": "mean |R| planted",
    "mean_abs_r": "mean |R| measured",
    "planted_r_correlation": "correlation of R",
    "planted_r_mean_abs_difference": "mean absolute difference",
}
EFFECTS = {
    "planted_group_effect": "group effect planted",
    "group_effect": "group effect measured",
    "planted_difference_correlation": "correlation of items",
    "leaning_across_correlation": "correlation of a",
    "leaning_within_correlation": "correlation of b",
}
"""Metrics of a family and their columns; a and b are the leanings of names over all families and in
this one (`testbed/leanings.py`)."""
EVERY_FAMILY = "families of gender"
NATIONALITY_PAIRS = (
    ("egypt_male", "usa_male"),
    ("mexico_male", "usa_male"),
    ("egypt_female", "usa_female"),
)

Scores = Float64[np.ndarray, "item side variation"]
Items = Float64[np.ndarray, " item"]


@dataclass(frozen=True)
class _Comparison:
    """One set, measured and planted."""

    measured: Scores
    """log P in nats."""
    effect: GroupEffect
    planted: Scores
    """The same, as planted for these names."""
    planted_difference: Items
    """The groups' difference in mean log P over all possible names."""

    @property
    def r(self) -> tuple[Items, Items]:
        """Planted and measured R, from probabilities averaged over the names of a group."""
        planted, measured = (
            relative_difference(*logsumexp(log_p, axis=2).T)
            for log_p in (self.planted, self.measured)
        )
        return planted, measured

    @property
    def difference(self) -> Items:
        """The groups' difference in mean log P over the names that were scored."""
        mean = self.measured.mean(axis=2)
        return np.asarray(mean[:, 0] - mean[:, 1])


def planted_sets(truth: Truth, family: str, split: Split) -> list[CounterfactualSet]:
    """The sets of a family: one for gender, one for each of three pairs of nationalities."""
    axis = load_axis(truth.of(family, split)[0].axis)
    pairs = [None] if axis.name == "gender" else list(NATIONALITY_PAIRS)
    return [truth.counterfactual_set(family, split, axis, pair) for pair in pairs]


def verify_testbed(model: LanguageModel, truth: Truth) -> list[Row]:
    """The rows of each family (`RECOVERY` and `EFFECTS`), of all of gender, and of agreement.

    Names that the model was trained on are compared with the truth about these names (R and what
    names lean to); the group effect, an estimate over names, with that of all possible names.
    """
    rows, gender = [], dict[str, dict[str, float | None]]()
    items: list[_Comparison] = []
    for family in truth.families:
        sets = planted_sets(truth, family, SPLIT)
        comparisons = [_compare(model, truth, data) for data in sets]
        values = _values(comparisons) | _leaning_correlations(truth, family, sets, comparisons)
        rows += _rows(family, values, sum(len(c.difference) for c in comparisons))
        if sets[0].axis == "gender":
            gender[family] = values
            items += comparisons
    effects = [[v["planted_group_effect"], v["group_effect"]] for v in gender.values()]
    over_families = _correlation(*np.array(effects, dtype=np.float64).T)
    rows += _rows(EVERY_FAMILY, {"group_effect_correlation": over_families}, len(effects))
    differences = _pooled([(c.planted_difference, c.difference) for c in items])
    over_items = {"planted_difference_correlation": _correlation(*differences)}
    rows += _rows(EVERY_FAMILY, over_items, len(differences[0]))
    agreement = score(model, truth.agreement_set(SPLIT, load_axis("gender")))
    return rows + agreement_rows(agreement, seed=truth.seed)


def _compare(model: LanguageModel, truth: Truth, data: CounterfactualSet) -> _Comparison:
    planted, scores = truth.planted_effect(data.pairs[0]), score(model, data)
    return _Comparison(
        scores.log_p,
        GroupEffect(scores, truth.seed),
        truth.scores(data),
        np.array([planted[s.template, output] for s in data.samples for output in s.outputs]),
    )


def _values(comparisons: Sequence[_Comparison]) -> dict[str, float | None]:
    planted, measured = _pooled([c.r for c in comparisons])
    truth, difference = _pooled([(c.planted_difference, c.difference) for c in comparisons])
    squared = np.average([c.effect.squared for c in comparisons])  # all sets have the same items
    return {
        "planted_mean_abs_r": float(np.abs(planted).mean()),
        "mean_abs_r": float(np.abs(measured).mean()),
        "planted_r_correlation": _correlation(planted, measured),
        "planted_r_mean_abs_difference": float(np.abs(planted - measured).mean()),
        "planted_group_effect": float(np.sqrt((truth**2).mean())),
        "group_effect": float(np.sqrt(max(squared, 0.0))),
        "planted_difference_correlation": _correlation(truth, difference),
    }


def _leaning_correlations(
    truth: Truth,
    family: str,
    sets: Sequence[CounterfactualSet],
    comparisons: Sequence[_Comparison],
) -> dict[str, float | None]:
    """Correlations of the planted with the measured leanings of names within their groups."""
    planted, measured = [], []
    for data, comparison in zip(sets, comparisons, strict=True):
        names = [[v.name for v in data.samples[0].of(group)] for group in data.groups]
        strengths = [[truth.leanings.strengths(n or "", family) for n in side] for side in names]
        outputs = len(data.samples[0].outputs)
        by_output = comparison.measured.reshape(len(data.samples), outputs, 2, -1).mean(axis=0)
        along = truth.leanings.directions(family, outputs) @ by_output.swapaxes(0, 1) / outputs
        planted.append(np.array(strengths).transpose(2, 0, 1))
        measured.append(along.swapaxes(0, 1))
    pairs = [
        (a - a.mean(axis=2, keepdims=True), b - b.mean(axis=2, keepdims=True))
        for a, b in zip(planted, measured, strict=True)
    ]
    return {
        metric: _correlation(*_pooled([(a[i], b[i]) for a, b in pairs]))
        for i, metric in enumerate(("leaning_across_correlation", "leaning_within_correlation"))
    }


def _pooled(
    pairs: Sequence[tuple[Float64[np.ndarray, "*_"], Float64[np.ndarray, "*_"]]],
) -> tuple[Float64[np.ndarray, " value"], Float64[np.ndarray, " value"]]:
    a, b = (np.concatenate([array.ravel() for array in side]) for side in zip(*pairs, strict=True))
    return a, b


def _correlation(
    planted: Float64[np.ndarray, " value"], measured: Float64[np.ndarray, " value"]
) -> float | None:
    """Pearson's; None where the planted values are constant."""
    return float(pearsonr(planted, measured).statistic) if np.ptp(planted) > 1e-9 else None


def _rows(dataset: str, values: dict[str, float | None], n: int) -> list[Row]:
    return [
        Row(
            metric=metric,
            value=value,
            dataset=dataset,
            split=SPLIT,
            n=n,
            detail={"reason": "nothing was planted here"} if value is None else {},
        )
        for metric, value in values.items()
    ]


def recovery_table(rows: Sequence[Row]) -> Table:
    """R and agreement, planted and measured, on held-out names and templates."""
    lines = _family_lines(rows, RECOVERY)
    for row in (row for row in rows if row.metric == "agreement"):
        who = "both groups" if row.group_b else row.group_a
        lines.append((f"agreement, {who}", Number(1.0), Number.of(row), "", "", str(row.n)))
    titles = ("family", *RECOVERY.values(), "n")
    return Table("recovery", "Planted and measured", titles, tuple(lines), brief=True)


def effect_table(rows: Sequence[Row]) -> Table:
    """Group effects and leanings of names, planted and measured."""
    lines = _family_lines(rows, EFFECTS)
    titles = ("family", *EFFECTS.values(), "n")
    for row in (row for row in rows if row.dataset == EVERY_FAMILY):
        if row.metric in EFFECTS:
            cells: tuple[Cell, ...] = ("", "", Number.of(row), "", "")
            lines.append((f"items of all {EVERY_FAMILY}", *cells, str(row.n)))
        else:
            cells = ("", Number.of(row), "", "", "")
            lines.append((f"correlation over {EVERY_FAMILY}", *cells, str(row.n)))
    return Table("effects", "Group effects (nats)", titles, tuple(lines), brief=True)


def _family_lines(rows: Sequence[Row], columns: dict[str, str]) -> list[tuple[Cell, ...]]:
    families: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.metric in columns and row.dataset != EVERY_FAMILY:
            families.setdefault(row.dataset, {})[row.metric] = row
    return [
        (
            family.replace("_", " "),
            *(Number.of(of_family.get(metric)) for metric in columns),
            str(next(iter(of_family.values())).n),
        )
        for family, of_family in families.items()
    ]
