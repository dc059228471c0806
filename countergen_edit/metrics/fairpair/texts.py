"""What FairPair's texts show by themselves: how often perturbing succeeds, and telling phrases.

Comes in: sampled prompts. Goes out: `fairpair_perturbed` with examples, and `fairpair_ngrams`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from countergen_edit.data.fairpair import REASONS, UNITS, Filter
from countergen_edit.metrics.fairpair.continuations import Sampled, joined
from countergen_edit.metrics.fairpair.ngrams import compare, strongest
from countergen_edit.metrics.fairpair.rows import FairPairRows, without_interval
from countergen_edit.metrics.rows import Row

EXAMPLES = 3
"""Perturbations of each kind that a run's rows quote."""


def perturbed_row(
    make: FairPairRows, sampled: Sequence[Sampled], passes: Filter, asked: bool
) -> Row:
    """The share of perturbations that pass (Table 1), with examples (Table 2).

    Beside the share stands what it would be if the third filter compared something else.
    """
    passed = np.array([[r is None for r in s.reasons] for s in sampled], dtype=np.float64)
    failed = Counter(r for s in sampled for r in s.reasons if r is not None)
    empty = sum(not text.strip() for s in sampled for text in (*s.g_x, *s.g_px))
    return make.row(
        "fairpair_perturbed",
        make.mean(passed.mean(axis=1), within=(0, 1)),
        passed.size,
        left_out={reason: failed[reason] for reason in REASONS},
        empty_continuations=empty,
        compared=passes.compared,
        asked=asked,
        shares={unit: _share(sampled, passes.by(unit)) for unit in UNITS},
        examples=_examples(sampled, passes),
    )


def _share(sampled: Sequence[Sampled], passes: Filter) -> float:
    """Of all perturbations, those that pass a filter."""
    return float(
        np.mean(
            [
                passes.reason(joined(s.prompt.source, original), text, s.prompt) is None
                for s in sampled
                for original, text in zip(s.g_x, s.p_x, strict=True)
            ]
        )
    )


def _examples(sampled: Sequence[Sampled], passes: Filter) -> list[dict[str, Any]]:
    """A few perturbations that passed and a few that did not, the first of their kind."""
    counts: Counter[str] = Counter()
    examples = []
    for s in sampled:
        for original, text, reason in zip(s.g_x, s.p_x, s.reasons, strict=True):
            kind = reason or "passed"
            if not original.strip() or counts[kind] >= EXAMPLES:
                continue
            counts[kind] += 1
            with_prompt = joined(s.prompt.source, original)
            examples.append(
                {
                    "original": with_prompt,
                    "perturbed": text,
                    "dissimilarity": {
                        unit: passes.by(unit).dissimilarity(with_prompt, text, s.prompt)
                        for unit in UNITS
                    },
                    "left_out": reason,
                }
            )
            break  # one a prompt, for variety
    return examples


def phrase_rows(make: FairPairRows, sampled: Sequence[Sampled], ngrams: int) -> list[Row]:
    """The 1- to 4-grams that one side uses more (Figure 6)."""
    if not ngrams:
        return []
    terms = compare(
        [text for s in sampled for text in s.p_g_x],
        [text for s in sampled for text in s.g_px],
        ngrams,
    )
    return [
        make.row(
            "fairpair_ngrams",
            without_interval(float(sum(term.p < 0.05 for term in terms))),
            len(terms),
            terms=[asdict(term) for term in strongest(terms, each=10)],
            source=make.groups[0],
            target=make.groups[1],
        )
    ]
