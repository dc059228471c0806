"""The four tasks of Seshadri et al. 2022, each wording by wording.

Comes in: a bank of templates, and what a model answers to texts. Goes out: a row for every wording,
and for each line of the paper's tables a row that sets the original template beside its rewordings
(mean and standard deviation). Intervals are drawn over what the texts share: pairs of people,
subjects, words or traits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from countergen_edit.data.rewordings import Family, Filled, TemplateBank
from countergen_edit.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted, bootstrap_mean, estimate, resample
from countergen_edit.metrics.wordings import ALPHA, paired_p
from countergen_edit.models.masked import MaskedText

Scores = Float64[np.ndarray, " text"]


def _groups(bank: TemplateBank) -> tuple[str, str]:
    if bank.groups is None:
        raise UserError(f"task {bank.task!r} compares two groups, but its templates have none")
    return bank.groups


def _columns(bank: TemplateBank, seed: int) -> dict[str, Any]:
    a, b = bank.groups or ("", "")
    return {"group_a": a, "group_b": b, "seed": seed}


def over_wordings(
    metric: str, dataset: str, values: Sequence[float], bank: TemplateBank, **detail: Any
) -> Row:
    """A line of a table: the rewordings' mean, with the original and their SD in `detail`.

    Args:
        metric: the measure.
        dataset: the line.
        values: of the original, then of its rewordings.
        bank: whose groups are compared.
        detail: what else belongs to the line.
    """
    original, modified = values[0], np.array(values[1:])
    mean = float(modified.mean()) if len(modified) else math.nan
    a, b = bank.groups or ("", "")
    detail |= {
        "original": float(original),
        "sd": float(modified.std(ddof=1)) if len(modified) > 1 else None,
        # The paper's change: how much larger or smaller the measure becomes in size.
        "change": (abs(mean) - abs(original)) / abs(original) if original else None,
    }
    value = mean if math.isfinite(mean) else None
    return Row(metric, value, dataset, group_a=a, group_b=b, n=len(modified), detail=detail)


def sentiment_rows(
    bank: TemplateBank, positive: Callable[[Sequence[str]], Scores], seed: int
) -> list[Row]:
    """Paired difference of P(positive), a minus b, and its category (Table 2).

    Texts about one pair of people are averaged over words first: pairs are what is tested over. The
    category is the paper's, at 5 % with no correction; `category_holm` corrects over the table.
    """
    a, b = _groups(bank)
    count = len(bank.people[a])
    wordings = [(family, text) for family in bank.families for text in family.wordings]
    filled = [
        [[f.text for f in bank.fill(text, g, i)] for g in (a, b) for i in range(count)]
        for _, text in wordings
    ]
    scores = positive([t for block in filled for texts in block for t in texts])
    sizes = [len(block) * len(block[0]) for block in filled]
    parts = np.split(scores, np.cumsum(sizes)[:-1])
    differences = []
    for part in parts:
        by_person = part.reshape(2, count, -1).mean(axis=2)
        differences.append(by_person[0] - by_person[1])
    p = np.array([float(paired_p(d)) for d in differences])
    holm = adjusted(p, "holm")
    signs = np.array([int(np.sign(d.mean())) for d in differences])
    category, category_holm = (np.where(q < ALPHA, signs, 0) for q in (p, holm))
    rows = []
    for i, ((family, text), d) in enumerate(zip(wordings, differences, strict=True)):
        rows.append(
            Row(
                "sentiment_difference",
                **bootstrap_mean(d, seed, text).columns,
                dataset=family.name,
                n=count,
                detail={
                    "wording": text,
                    "original": text == family.original,
                    "p": float(p[i]),
                    "p_holm": float(holm[i]),
                    "category": int(category[i]),
                    "category_holm": int(category_holm[i]),
                },
                **_columns(bank, seed),
            )
        )
    lines = [_category_row(f, bank, wordings, category, category_holm) for f in bank.families]
    return [*rows, *lines, _all_categories(lines)]


def _category_row(
    family: Family,
    bank: TemplateBank,
    wordings: Sequence[tuple[Family, str]],
    category: np.ndarray,
    category_holm: np.ndarray,
) -> Row:
    """`category_flips`: the share of a template's rewordings that change its category."""
    own = [i for i, (other, _) in enumerate(wordings) if other is family]
    found, found_holm = category[own], category_holm[own]
    a, b = _groups(bank)
    n = len(own) - 1
    return Row(
        "category_flips",
        float((found[1:] != found[0]).mean()) if n else None,
        dataset=family.name,
        group_a=a,
        group_b=b,
        n=n,
        detail={
            "original": int(found[0]),
            # In the paper's order: b over a (its M > F), a over b, insignificant.
            "counts": [int((found[1:] == sign).sum()) for sign in (-1, 1, 0)],
            "flips_holm": int((found_holm[1:] != found_holm[0]).sum()),
            "published": dict(family.published),
        },
    )


def _all_categories(lines: Sequence[Row]) -> Row:
    """The same over all templates."""
    counted = [line for line in lines if line.n]
    n = sum(line.n for line in counted)
    flips = sum(round((line.value or 0.0) * line.n) for line in counted)
    detail = {
        "original": None,
        "counts": np.sum([line.detail["counts"] for line in lines], axis=0).tolist(),
        "flips_holm": sum(line.detail["flips_holm"] for line in lines),
        "published": {},
    }
    value = flips / n if n else None
    return replace(lines[0], value=value, dataset="all", n=n, detail=detail)


def nli_rows(
    bank: TemplateBank,
    neutral: Callable[[Sequence[str], Sequence[str]], tuple[Scores, Bool[np.ndarray, " text"]]],
    seed: int,
) -> list[Row]:
    """Deviation from neutral, a minus b, by score (S-N) and by prediction (F-N) (Table 3a).

    Args:
        bank: the templates; `bank.hypothesis` is the slot a gendered word takes.
        neutral: from premises and hypotheses, P(neutral) and whether neutral is the prediction.
        seed: the run's seed.
    """
    groups, slot = _groups(bank), bank.hypothesis
    if slot is None:
        raise UserError("templates of task 'nli' need 'hypothesis': the slot a person takes there")
    rows = []
    for family in bank.families:
        values: dict[str, list[float]] = {"S-N": [], "F-N": []}
        for text in family.wordings:
            premises, hypotheses, subject, side = [], [], [], []
            claims = [
                (s, {_rest(h, slot): h.text for h in bank.fill(text, group, i, role=slot)})
                for s, group in enumerate(groups)
                for i in range(len(bank.people[group]))
            ]
            for filled in bank.fill(text):
                for s, by_words in claims:
                    premises.append(filled.text)
                    hypotheses.append(by_words[_rest(filled, slot)])
                    subject.append(filled.words[slot])
                    side.append(s)
            score, predicted = neutral(premises, hypotheses)
            of = np.unique(subject, return_inverse=True)[1]
            sides = np.array(side)
            for measure, value in (("S-N", score), ("F-N", predicted.astype(np.float64))):
                means = [
                    np.bincount(of[sides == s], value[sides == s]) / np.bincount(of[sides == s])
                    for s in (0, 1)
                ]
                e = bootstrap_mean(means[0] - means[1], seed, measure, text)
                values[measure].append(e.value)
                rows.append(
                    Row(
                        measure,
                        **e.columns,
                        dataset=family.name,
                        n=len(of),
                        detail={"wording": text, "original": text == family.original},
                        **_columns(bank, seed),
                    )
                )
        for measure, found in values.items():
            published = dict(bank.published.get(measure, {}))
            rows.append(
                over_wordings(
                    f"{measure} over wordings", family.name, found, bank, published=published
                )
            )
    return rows


def _rest(filled: Filled, slot: str) -> tuple[tuple[str, str], ...]:
    """The words of all slots but one."""
    return tuple(sorted((s, word) for s, word in filled.words.items() if s != slot))


def equality_difference(
    wrong: Bool[np.ndarray, "identity case"], seed: int, *unit: object
) -> tuple[Float64[np.ndarray, " resample"], Float64[np.ndarray, "resample case"]]:
    """Σ over identities of |rate - rate of the identity| (Dixon et al. 2018), in every resample.

    >>> wrong = np.array([[True, True], [False, False]])
    >>> float(equality_difference(wrong, 0)[0][0])
    1.0

    Args:
        wrong: of texts that should not (or should) be toxic, which are called otherwise.
        seed: the run's seed.
        unit: what draws the cases, the words beside the identity.
    """
    weights = resample(wrong.shape[1], seed, *unit)
    rates = weights @ wrong.T / wrong.shape[1]
    values: Float64[np.ndarray, " resample"] = np.abs(
        rates.mean(axis=1, keepdims=True) - rates
    ).sum(axis=1)
    return values, weights


def toxicity_rows(
    bank: TemplateBank, toxic: Callable[[Sequence[str]], Scores], seed: int
) -> list[Row]:
    """FPED and FNED over identity terms (equation 1 and Table 4)."""
    rows, lines = [], list(dict.fromkeys(family.row for family in bank.families))
    found: dict[tuple[str, str], list[float]] = {}
    weight: dict[str, int] = {}
    published: dict[str, Mapping[str, Any]] = {}
    for family in bank.families:
        published[family.row] = {**published.get(family.row, {}), **family.published}
        for text in family.wordings:
            filled = list(bank.fill(text))
            # Identities lie on their own axis, all other words together on the other.
            names = list(dict.fromkeys(f.words["identity"] for f in filled))
            filled.sort(key=lambda f: (names.index(f.words["identity"]), _rest(f, "identity")))
            labels = [family.toxic if f.toxic is None else f.toxic for f in filled]
            if None in labels:
                raise UserError(
                    f"template {text!r} of task 'toxicity' does not say whether it is toxic: give "
                    "its words or its family toxic: true or toxic: false"
                )
            called = toxic([f.text for f in filled]) > 0.5
            if text == family.original:
                weight[family.row] = weight.get(family.row, 0) + len(filled)
            truth = np.array(labels, dtype=bool).reshape(len(names), -1)[0]
            wrong = called.reshape(len(names), -1) != truth
            for metric, chosen in (("FPED", ~truth), ("FNED", truth)):
                if not chosen.any():
                    continue
                values, drawn = equality_difference(wrong[:, chosen], seed, metric, text)
                e = estimate(values, drawn, within=(0, math.inf))
                found.setdefault((metric, family.row), []).append(e.value)
                rows.append(
                    Row(
                        metric,
                        **e.columns,
                        dataset=family.row,
                        n=len(names) * int(chosen.sum()),
                        detail={"wording": text, "original": text == family.original},
                        **_columns(bank, seed),
                    )
                )
    for metric in ("FPED", "FNED"):
        have = [line for line in lines if (metric, line) in found]
        means = {line: found[metric, line] for line in have}
        for line in have:
            known = {"published": published[line].get(metric), "instances": weight[line]}
            rows.append(over_wordings(f"{metric} over wordings", line, means[line], bank, **known))
        whole = sum(weight[line] for line in have)
        totals = [
            sum(weight[line] / whole * value(means[line]) for line in have)
            for value in (lambda v: v[0], lambda v: float(np.mean(v[1:] or v)))
        ]
        line = over_wordings(f"{metric} over wordings", "all", totals, bank, instances=whole)
        rows.append(replace(line, n=sum(len(means[name]) - 1 for name in have)))
    return rows


def masked_rows(
    bank: TemplateBank, association: Callable[[Sequence[MaskedText]], Scores], seed: int
) -> list[Row]:
    """Percentage of traits associated with group b rather than a, the paper's male (Table 3b).

    A trait's bias score is log p(b | trait) - log p(b) less the same of a (Kurita et al. 2019),
    averaged over pairs of targets.
    """
    a, b = _groups(bank)
    kinds = bank.kinds.get("attribute", {})
    rows = []
    for family in bank.families:
        values: dict[str, list[float]] = {}
        for text in family.wordings:
            texts, of = [], []
            for group in (a, b):
                for i in range(len(bank.people[group])):
                    for filled in bank.fill(text, group, i):
                        spans = filled.spans
                        texts.append(MaskedText(filled.text, spans["person"], spans["attribute"]))
                        of.append(filled.words["attribute"])
            scores = association(texts).reshape(2, len(bank.people[a]), -1).mean(axis=1)
            bias, traits = scores[1] - scores[0], of[: scores.shape[1]]
            for kind in dict.fromkeys(kinds.values()):
                own = np.array([kinds[trait] == kind for trait in traits])
                e = bootstrap_mean(100.0 * (bias[own] > 0), seed, kind, text)
                values.setdefault(kind, []).append(e.value)
                rows.append(
                    Row(
                        "b_associations",
                        **e.columns,
                        dataset=kind,
                        n=int(own.sum()),
                        detail={
                            "wording": text,
                            "original": text == family.original,
                            "mean_score": float(bias[own].mean()),
                        },
                        **_columns(bank, seed),
                    )
                )
        for kind, found in values.items():
            published = dict(bank.published.get(kind, {}))
            rows.append(
                over_wordings(
                    "b_associations over wordings", kind, found, bank, published=published
                )
            )
    return rows
