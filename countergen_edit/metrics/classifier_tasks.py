"""The four classifier tasks of Seshadri et al. 2022: rows over templates and their paraphrases.

Sentiment is tested template by template, all sentences of one group against those of the other,
paired (`sentences`; section 2.1, Table 2). Sentences about one pair of people are not independent:
`people` averages each pair's sentences first. `tests/testbed/test_classifiers.py` has the false
positive rates of both. A user's own task is a subclass, as `path/to/file.py:Class`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.data.template_bank import PERSON, Family, Filled, TemplateBank
from countergen_edit.metrics.paraphrases import ALPHA, paired_p
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import (
    Estimate,
    Resampled,
    Weights,
    adjusted,
    bootstrap_mean,
    estimate,
    resample,
)
from countergen_edit.models.classifiers import (
    VADER,
    MaskedModel,
    MaskedText,
    Vader,
    classifier_from_objects,
    lexicon_words,
)
from countergen_edit.models.loading import load_head


class ClassifierTask(ABC):
    """A measure of bias in a classifier, over templates and their paraphrases."""

    labels_of: ClassVar[str]
    """A name in `models.classifiers.ROLE_NAMES`."""
    head: ClassVar[str] = "sequence classifier"
    """A name in `models.loading.HEADS`."""

    @abstractmethod
    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """A row for every template or paraphrase, and rows of how these spread.

        `model` comes from `load` or `wrap`. `UserError` if templates lack a slot that is needed.
        """

    def texts(self, bank: TemplateBank, template: str) -> Iterator[Filled]:
        """Texts of one template or paraphrase, by group and person."""
        for person in product(bank.pair, range(len(bank.people[bank.pair[0]]))):
            yield from bank.fill(template, *person)

    def load(self, name: str, labels: Sequence[str] | None = None, **where: Any) -> Any:
        """The model by hub id or directory; `where` is device, dtype and revision as of `load`.

        `labels` are its outputs in order, if its config lacks them; `UserError` if they do not fit.
        """
        if name != VADER:
            return self.wrap(name, *load_head(self.head, name, **where), labels)
        if self.labels_of != "sentiment":
            raise UserError(f"VADER scores sentiment, not task={self.labels_of}")
        return Vader()

    def wrap(
        self, name: str, hf_model: Any, tokenizer: Any, labels: Sequence[str] | None = None
    ) -> Any:
        """The same from objects in memory."""
        return classifier_from_objects(name, hf_model, tokenizer, self.labels_of, labels)


_HERE = "countergen_edit.metrics.classifier_tasks"
TASKS: Registry[type[ClassifierTask]] = Registry(
    "task",
    "countergen_edit.tasks",
    {
        "sentiment": f"{_HERE}:SentimentTask",
        "nli": f"{_HERE}:Inference",
        "toxicity": f"{_HERE}:Toxicity",
        "masked": f"{_HERE}:Association",
    },
    ClassifierTask,
)
"""Every classifier task by its name on the command line."""

OVER_TEMPLATES = " over templates"
"""Suffix of the names of rows over templates."""


class TemplateRows(list[Row]):
    """Rows of measures over templates and their paraphrases, and of how these spread.

    `values` of a measure and data set are of the original template, then of its paraphrases.
    """

    def __init__(self, bank: TemplateBank, seed: int) -> None:
        super().__init__()
        a, b = bank.people or ("", "")
        self.groups: dict[str, Any] = {"group_a": a, "group_b": b}
        self.seed = seed
        self.values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(
        self,
        metric: str,
        estimated: Estimate,
        family: Family,
        template: str,
        *,
        n: int,
        dataset: str = "",
        test: str = "",
        **detail: Any,
    ) -> None:
        """Add a measure of one template or paraphrase of a family."""
        dataset = dataset or family.name
        self.values[metric, dataset].append(estimated.value)
        columns: dict[str, Any] = {**self.groups, "dataset": dataset, "n": n, "seed": self.seed}
        columns["facets"] = {"paraphrase": template} | ({"test": test} if test else {})
        columns["detail"] = {"original": template == family.original, **detail}
        self.append(Row.of(metric, estimated, **columns))

    def spread(self, metric: str, dataset: str, *, n: int | None = None, **detail: Any) -> None:
        """Add a line of a table: the paraphrases' mean, with the original and their SD in `detail`.

        The change is the relative one of the absolute value (Seshadri et al. 2022).
        """
        original, *values = self.values.pop((metric, dataset))
        mean = float(np.mean(values)) if values else math.nan
        detail |= {
            "original": float(original),
            "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "change": (abs(mean) - abs(original)) / abs(original) if original and values else None,
        }
        columns: dict[str, Any] = {**self.groups, "dataset": dataset, "detail": detail}
        columns["n"] = len(values) if n is None else n
        self.append(Row.of(metric + OVER_TEMPLATES, mean, **columns))


Differences = Float64[np.ndarray, "pair word"]
OVER_PEOPLE, OVER_SENTENCES = "people", "sentences"
TESTS: Mapping[str, Callable[[Differences], Float64[np.ndarray, " drawn"]]] = {
    OVER_PEOPLE: lambda d: d.mean(axis=1),
    OVER_SENTENCES: np.ravel,
}
"""The unit of the test → the differences that it takes for independent draws."""


def paired_tests(name: str, differences: Sequence[Differences]) -> pd.DataFrame:
    """One of `TESTS`, of every template of a table; for a single difference p is 1.

    `n` counts independent differences; category 1 is a above b, -1 b above a, 0 neither.

    >>> d = np.array([[0.1, 0.1], [0.2, 0.2], [-0.1, -0.1]])
    >>> [int(paired_tests(name, [d]).n[0]) for name in TESTS]
    [3, 6]
    """
    drawn = [TESTS[name](d) for d in differences]
    p = np.array([float(paired_p(values)) if len(values) > 1 else 1.0 for values in drawn])
    sign = np.sign([values.mean() for values in drawn]).astype(int)
    tests = pd.DataFrame({"n": [len(values) for values in drawn], "p": p})
    tests["p_holm"] = adjusted(p, "holm")
    tests["category"] = sign * (tests.p < ALPHA)
    tests["category_holm"] = sign * (tests.p_holm < ALPHA)
    return tests


class SentimentTask(ClassifierTask):
    """Do two groups get different P(positive) from a classifier, or from VADER?"""

    labels_of: ClassVar[str] = "sentiment"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """Rows `sentiment_difference`, `sentiment_t_test` and `category_flips` (Table 2).

        Intervals are over pairs of i-th people; a test's value is p. VADER has `names_in_lexicon`.
        """
        rows, people = TemplateRows(bank, seed), len(bank.people[bank.pair[0]])
        templates = [(family, text) for family in bank.families for text in family.templates]
        texts = [[filled.text for filled in self.texts(bank, text)] for _, text in templates]
        flat = [text for of_template in texts for text in of_template]
        positive = model.probabilities(flat, progress="Classifying")["positive"]
        parts = np.split(positive, np.cumsum([*map(len, texts)])[:-1])
        differences = [a - b for a, b in (part.reshape(2, people, -1) for part in parts)]
        for (family, text), d in zip(templates, differences, strict=True):
            e = bootstrap_mean(d.mean(axis=1), seed, text)
            rows.add("sentiment_difference", e, family, text, n=people)
        for name in TESTS:
            tests = paired_tests(name, differences)
            records: Any = tests.to_dict("records")
            for (family, text), record in zip(templates, records, strict=True):
                p = Estimate(record.pop("p"))
                rows.add("sentiment_t_test", p, family, text, test=name, **record)
            for flips in _flips(name, tests, bank):
                rows.append(Row.of("category_flips", facets={"test": name}, **rows.groups, **flips))
        if isinstance(model, Vader):
            names = [person["base"] for group in bank.people.values() for person in group]
            valence = lexicon_words(names)
            columns: Any = {"dataset": bank.task, "n": len(names), "detail": {"valence": valence}}
            rows.append(Row.of("names_in_lexicon", float(len(valence)), seed=seed, **columns))
        return rows


def _flips(name: str, tests: pd.DataFrame, bank: TemplateBank) -> Iterator[dict[str, Any]]:
    """The share of paraphrases with another category than the original's."""
    family = np.repeat(range(len(bank.families)), [len(f.templates) for f in bank.families])
    first = tests.groupby(family).transform("first")
    flips, is_other = tests != first, pd.Series(family).duplicated()
    for i, of in enumerate((*bank.families, None)):
        chosen = is_other if of is None else is_other & (family == i)
        n, categories = int(chosen.sum()), tests.category[chosen]
        detail = {
            "original": None if of is None else int(first.category[family == i].iloc[0]),
            # In the paper's order: b over a (its M > F), a over b, insignificant.
            "counts": [int((categories == sign).sum()) for sign in (-1, 1, 0)],
            "flips_holm": int(flips.category_holm[chosen].sum()),
            "published": dict(of.published) if of and name == OVER_SENTENCES else {},
        }
        share = float(flips.category[chosen].mean()) if n else None
        yield {"value": share, "dataset": of.name if of else "all", "n": n, "detail": detail}


class Inference(ClassifierTask):
    """Does P(neutral) differ between a hypothesis about one group and one about the other?

    Rows are of the deviation from neutral, a minus b, by score (S-N) and by prediction (F-N).
    """

    labels_of: ClassVar[str] = "nli"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        slot, (_, b) = bank.hypothesis, bank.pair
        if slot is None:
            raise UserError(
                "templates of task 'nli' need 'hypothesis': the slot a person takes there"
            )
        rows = TemplateRows(bank, seed)
        people = [*product(bank.pair, range(len(bank.people[b])))]
        for family in bank.families:
            for template in family.templates:
                claims = [
                    {h.other_words(slot): h.text for h in bank.fill(template, *person, role=slot)}
                    for person in people
                ]
                premises = [*bank.fill(template)]
                texts = [premise.text for premise in premises for _ in people]
                hypotheses = [claim[p.other_words(slot)] for p in premises for claim in claims]
                p = model.probabilities(texts, hypotheses, progress="Classifying")
                is_neutral = p["neutral"] >= np.max([*p.values()], axis=0)
                words = np.repeat([premise.words[slot] for premise in premises], len(people))
                word = np.unique(words, return_inverse=True)[1]
                is_b = np.array([group == b for _ in premises for group, _ in people])
                count = np.bincount(word[is_b])
                for measure, values in (("S-N", p["neutral"]), ("F-N", is_neutral)):
                    means = [np.bincount(word[of], values[of]) / count for of in (~is_b, is_b)]
                    e = bootstrap_mean(means[0] - means[1], seed, measure, template)
                    rows.add(measure, e, family, template, n=len(texts))
            sizes = {"used": len(texts)}
            if "instances" in bank.sizes:
                sizes["whole"] = bank.sizes["instances"]
            for measure in ("S-N", "F-N"):
                published = dict(bank.published.get(measure, {}))
                rows.spread(measure, family.name, published=published, **sizes)
        return rows


IDENTITY = "identity"
"""The slot whose words are the identity terms."""


def equality_difference(
    wrong: Bool[np.ndarray, "identity case"], seed: int, *unit: object
) -> tuple[Resampled, Weights]:
    """Σ over identities of |rate - rate of the identity| (Dixon et al. 2018), in every resample.

    `wrong` marks misclassified texts, (identity, case); cases are resampled, named by `unit`.

    >>> wrong = np.array([[True, True], [False, False]])
    >>> float(equality_difference(wrong, 0)[0][0])
    1.0
    """
    weights = resample(wrong.shape[1], seed, *unit)
    rates = weights @ wrong.T / wrong.shape[1]
    gaps = np.abs(rates.mean(axis=1, keepdims=True) - rates)
    return gaps.sum(axis=1), weights


class Toxicity(ClassifierTask):
    """Do error rates differ over identity terms?"""

    labels_of: ClassVar[str] = "toxicity"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """FPED and FNED over identity terms (equation 1 and Table 4).

        The row of all lines weighs each by its number of whole-list instances, as in the paper.
        """
        rows, used, whole = TemplateRows(bank, seed), Counter[str](), Counter[str]()
        published: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for family in bank.families:
            line = family.row
            published[line] |= family.published
            for template in family.templates:
                texts = sorted(
                    bank.fill(template), key=lambda f: (f.words[IDENTITY], f.other_words(IDENTITY))
                )
                labels = [family.toxic if one.toxic is None else one.toxic for one in texts]
                if None in labels:
                    raise UserError(
                        f"template {template!r} of task 'toxicity' does not say whether it is "
                        "toxic: give its words or its family toxic: true or toxic: false"
                    )
                toxic = model.probabilities([one.text for one in texts])["toxic"] > 0.5
                identities = len({one.words[IDENTITY] for one in texts})
                wrong = (toxic != np.array(labels, dtype=bool)).reshape(identities, -1)
                truth = np.array(labels[: wrong.shape[1]], dtype=bool)
                if template == family.original:
                    used[line] += wrong.size
                    whole[line] += bank.whole(template)
                for metric, cases in (("FPED", ~truth), ("FNED", truth)):
                    if n := wrong[:, cases].size:
                        unit = (metric, template)
                        draws, weights = equality_difference(wrong[:, cases], seed, *unit)
                        e = estimate(draws, weights, within=(0, math.inf))
                        rows.add(metric, e, family, template, dataset=line, n=n)
        for metric in ("FPED", "FNED"):
            lines = {line: values for (name, line), values in rows.values.items() if name == metric}
            for line in lines:
                sizes = {"used": used[line], "whole": whole[line]}
                rows.spread(metric, line, published=published[line].get(metric), **sizes)
            if lines:
                total = sum(whole[line] for line in lines)
                rows.values[metric, "all"] = [
                    sum(whole[line] / total * mean(values) for line, values in lines.items())
                    for mean in (lambda v: v[0], lambda v: float(np.mean(v[1:] or v)))
                ]
                n = sum(len(values) - 1 for values in lines.values())
                in_use = sum(used[line] for line in lines)
                rows.spread(metric, "all", n=n, used=in_use, whole=total)
        return rows


SCORE_DECIMALS = 3
"""Decimals of a bias score in nats; others are rounding in single precision."""


class Association(ClassifierTask):
    """Does a masked model associate traits with one group rather than the other?"""

    labels_of: ClassVar[str] = "masked"
    head: ClassVar[str] = "masked language model"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """Percentage of traits associated with group b rather than a, the paper's male (Table 3b).

        A trait's score is log p(b | trait) - log p(b) less the same of a (Kurita et al. 2019),
        averaged over pairs of targets.
        """
        kinds, rows = bank.kinds.get("attribute", {}), TemplateRows(bank, seed)
        for family in bank.families:
            used: dict[str, int] = {}
            for template in family.templates:
                texts = [*self.texts(bank, template)]
                scores = model.associations(
                    [MaskedText(f.text, f.spans[PERSON], f.spans["attribute"]) for f in texts]
                )
                a, b = scores.reshape(2, len(bank.people[bank.pair[0]]), -1).mean(axis=1)
                traits = [filled.words["attribute"] for filled in texts[: len(a)]]
                for kind in dict.fromkeys(kinds.values()):
                    bias = (b - a)[[kinds[trait] == kind for trait in traits]]
                    n = used[kind] = len(bias)
                    # A trait without any association, but for rounding, is half of each.
                    share = 50.0 * (1.0 + np.sign(np.round(bias, SCORE_DECIMALS)))
                    e = bootstrap_mean(share, seed, kind, template, whole=100)
                    facts: Any = {"dataset": kind, "n": n, "mean_score": float(bias.mean())}
                    rows.add("b_associations", e, family, template, **facts)
            for kind, n in used.items():
                sizes = {"used": n, "whole": bank.sizes.get(kind, n)}
                published = dict(bank.published.get(kind, {}))
                rows.spread("b_associations", kind, **sizes, published=published)
        return rows

    def wrap(
        self, name: str, hf_model: Any, tokenizer: Any, labels: Sequence[str] | None = None
    ) -> Any:
        return MaskedModel(name, hf_model, tokenizer)
