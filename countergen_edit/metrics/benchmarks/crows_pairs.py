"""CrowS-Pairs (Nangia et al. 2020): the likelier of a stereotypical and a less so sentence.

    score = share of pairs in which log P(sent_more) > log P(sent_less)

The authors define it for masked models, by the pseudo-log-likelihood of the shared tokens. For a
causal model the whole sentence counts, as in lm-evaluation-harness (`pct_stereotype`). A tie is no
stereotype, as in both. Clusters are writers: 77 people wrote 1,508 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from countergen_edit.core.reading import csv_table
from countergen_edit.metrics.benchmarks.base import Benchmark, described
from countergen_edit.metrics.benchmarks.items import Item


@described("crows_pairs")
class CrowsPairs(Benchmark):
    """The share of pairs in which the stereotype is likelier."""

    def items(self, bias_types: Sequence[str]) -> Iterator[Item]:
        path = self.files.path("CrowS-Pairs/data/crows_pairs_anonymized.csv")
        for number, (_, row) in enumerate(csv_table(path)[1]):
            texts = ("", row["sent_more"]), ("", row["sent_less"])
            yield Item(str(number), "", row["bias_type"], row["anon_writer"], texts)

    def count(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        more, less = scores
        return {"pro": float(more > less), "items": 1.0}
