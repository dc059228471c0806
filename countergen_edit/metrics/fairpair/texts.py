"""What FairPair's texts show by themselves: how often perturbing succeeds, and telling phrases.

Comes in: sampled prompts. Goes out: `fairpair_perturbed` with examples, and `fairpair_ngrams`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from countergen_edit.data.text.perturbation import REASONS, Filter
from countergen_edit.metrics.fairpair.continuations import Sampled, joined
from countergen_edit.metrics.fairpair.ngrams import compare, strongest
from countergen_edit.metrics.fairpair.rows import FairPairRows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate

EXAMPLES = 3
"""Perturbations of each kind that a run's rows quote."""


def perturbed_row(make: FairPairRows, sampled: Sequence[Sampled], passes: Filter) -> Row:
    """The share of perturbations that pass (Table 1), with examples (Table 2)."""
    passed = np.array([[r is None for r in s.reasons] for s in sampled], dtype=np.float64)
    failed = Counter(r for s in sampled for r in s.reasons if r is not None)
    empty = sum(not text.strip() for s in sampled for text in (*s.g_x, *s.g_px))
    return make.row(
        "fairpair_perturbed",
        make.dataset,
        make.mean(passed.mean(axis=1)),
        passed.size,
        left_out={reason: failed[reason] for reason in REASONS},
        empty_continuations=empty,
        examples=_examples(sampled, passes),
    )


def _examples(sampled: Sequence[Sampled], passes: Filter) -> list[dict[str, Any]]:
    """A few perturbations that passed and a few that did not, the first of their kind."""
    taken: Counter[str] = Counter()
    examples = []
    for s in sampled:
        for original, text, reason in zip(s.g_x, s.p_x, s.reasons, strict=True):
            kind = reason or "passed"
            if not original.strip() or taken[kind] >= EXAMPLES:
                continue
            taken[kind] += 1
            whole = joined(s.prompt.source, original)
            examples.append(
                {
                    "original": whole,
                    "perturbed": text,
                    "dissimilarity": passes.dissimilarity(whole, text, s.prompt),
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
    telling = strongest(terms, each=10)
    count = float(sum(term.p < 0.05 for term in terms))
    nan = float("nan")
    return [
        make.row(
            "fairpair_ngrams",
            make.dataset,
            Estimate(count, nan, nan, nan),
            len(terms),
            terms=[asdict(term) for term in telling],
            source=make.groups[0],
            target=make.groups[1],
        )
    ]
