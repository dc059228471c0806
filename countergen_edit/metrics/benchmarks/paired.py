"""What was counted of each item, kept in the run, and two runs held against each other by it.

Comes in: counts of items, of one run and of another. Goes out: rows `benchmark_difference` of every
figure on the items that both have: the same clusters are drawn of both, as they are before and
after an edit. An item is the same where its number and all its texts are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.data.benchmarks import Files, Source
from countergen_edit.metrics.benchmarks.base import ALL, BENCHMARKS, Counts
from countergen_edit.metrics.benchmarks.figures import Measured, change, measured
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.rows import Row
from countergen_edit.reading import json_lines
from countergen_edit.writing import digest, whole

DIFFERENCE = "benchmark_difference"
COUNTED = ".counted.jsonl"
"""How a file of counts ends."""
METHOD = "drawn over clusters, the same in both"
_ABOUT = [field.name for field in fields(Item) if field.name not in ("texts", "entry")]


@dataclass(frozen=True)
class Counted:
    """What a run counted of the items of a benchmark under one edit."""

    benchmark: str
    title: str
    """What the benchmark is called."""
    normalise: str
    items: Mapping[str, Item]
    """By what identifies an item; without its texts."""
    counts: Mapping[str, Mapping[str, float]]
    """Of the same items."""


def keep(
    path: Path, benchmark: str, title: str, normalise: str, items: Sequence[Item], counts: Counts
) -> None:
    """Write what was counted of each item, unless it stands there."""
    lines: list[dict[str, Any]] = [
        {"benchmark": benchmark, "title": title, "normalise": normalise},
        *(
            {name: getattr(item, name) for name in _ABOUT}
            | {"texts": digest(item.texts)}
            | {"counts": {key: float(values[i]) for key, values in counts.items()}}
            for i, item in enumerate(items)
        ),
    ]
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    if path.is_file() and path.read_text("utf-8") == text:
        return
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8")


def read(path: Path) -> Counted:
    """What a run kept.

    Raises:
        UserError: the file is damaged.
    """
    (_, header), *lines = json_lines(path)
    items, counts = {}, {}
    for _, line in lines:
        item = Item(texts=(), **{name: line[name] for name in _ABOUT if name in line})
        key = f"{item.part} {item.id} {line['texts']}"
        items[key], counts[key] = item, line["counts"]
    return Counted(header["benchmark"], header["title"], header["normalise"], items, counts)


def difference_rows(
    before: Counted, after: Counted, seed: int, detail: Mapping[str, Any], **columns: Any
) -> list[Row]:
    """What every figure is in `after` less what it is in `before`; none where no item is in both.

    Args:
        before, after: of one benchmark, scored alike.
        seed: of the draws of clusters.
        detail: what else each row says of the two sides.
        columns: of each row.
    """
    shared = [key for key in before.items if key in after.items]
    if not shared:
        return []
    items = [before.items[key] for key in shared]
    kind = BENCHMARKS.get(before.benchmark)
    # Figures are functions of counts: no file is read for them.
    benchmark = kind(Files(Source(before.title, "", "", "", {}), Path()))
    sides = [measured(benchmark, items, _arrays(side, shared), seed) for side in (before, after)]
    either = [*{**before.items, **after.items}.values()]
    return [
        _row(before, one, two, either, seed, detail, columns)
        for one, two in zip(*sides, strict=True)
    ]


def _row(
    of: Counted,
    one: Measured,
    two: Measured,
    either: Sequence[Item],
    seed: int,
    detail: Mapping[str, Any],
    columns: Mapping[str, Any],
) -> Row:
    found = change(one, two)
    about = ", ".join(filter(None, (one.part, one.bias_type))).replace("_", " ")
    own = [
        item for item in either if item.part == one.part and one.bias_type in (item.bias_type, ALL)
    ]
    facets: dict[str, str | float] = {"figure": one.kind.name}
    facets |= {"part": one.part} if one.part else {}
    facets["bias_type"] = one.bias_type
    return Row(
        DIFFERENCE,
        **found.estimate.columns,
        dataset=of.benchmark,
        facets=facets,
        split="test",
        n=one.items,
        seed=seed,
        detail={
            **detail,
            "about": f"{of.title} ({about})",
            "of": one.kind.title,
            "percent": True,
            "before": _known(one),
            "after": _known(two),
            "p": found.p,
            "method": METHOD,
            "smallest": found.estimate.smallest,
            "clusters": one.clusters,
            "samples": one.items,
            "samples_of_either": len(own),
            "samples_of_one": len(own) - one.items,
        },
        **columns,
    )


def _known(one: Measured) -> float | None:
    value = float(one.draws[0])
    return value if math.isfinite(value) else None


def _arrays(side: Counted, keys: Sequence[str]) -> Counts:
    own = [side.counts[key] for key in keys]
    return {name: np.array([each[name] for each in own], dtype=np.float64) for name in own[0]}
