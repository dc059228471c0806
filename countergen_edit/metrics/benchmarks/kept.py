"""What was scored of each item, kept in the run: a killed run scores no benchmark twice.

Comes in: items, and a bench to score their texts on. Goes out: log-probabilities and numbers of
tokens, text by text. Each edit has a file of each benchmark under the run's store, a line for each
item, by which runs can be paired item by item. Scores of other items than those asked for, as
after a change of the limit, are made anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.bench import Bench
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.models import LanguageModel, TextScores
from countergen_edit.reading import json_lines
from countergen_edit.writing import digest, whole

STORE = "benchmarks"


def scored(
    bench: Bench, edit: NamedEdit | None, benchmark: str, items: Sequence[Item]
) -> TextScores:
    """Likelihoods of every text of the items, from the store where they are there."""
    path = bench.place(STORE, edit).with_suffix("") / f"{benchmark.rpartition(':')[2]}.jsonl"
    asked = is_asked(bench.model, items)
    texts = [item.replies if asked else item.texts for item in items]
    key = digest([[item.id, own] for item, own in zip(items, texts, strict=True)])
    if (found := _read(path, key)) is not None:
        return found
    pairs = [pair for own in texts for pair in own]
    scores = bench.texts(pairs, edit, f"Scoring {benchmark}", asked)
    _write(path, key, items, scores)
    return scores


def is_asked(model: LanguageModel, items: Sequence[Item]) -> bool:
    """Whether the items are asked: each has a question, and what the model writes is a reply."""
    return model.is_answering and all(item.question for item in items)


def _read(path: Path, key: str) -> TextScores | None:
    if not path.is_file():
        return None
    lines = [line for _, line in json_lines(path)]
    if not lines or lines[0].get("items") != key:
        return None
    log_p, tokens = ([value for line in lines[1:] for value in line[of]] for of in _VALUES)
    return TextScores(np.array(log_p, dtype=np.float64), np.array(tokens, dtype=np.int64))


_VALUES = ("log_p", "tokens")


def _write(path: Path, key: str, items: Sequence[Item], scores: TextScores) -> None:
    ends = np.cumsum([len(item.texts) for item in items])[:-1]
    columns = (np.split(values, ends) for values in (scores.log_p, scores.tokens))
    lines: list[dict[str, Any]] = [{"items": key}]
    for item, log_p, tokens in zip(items, *columns, strict=True):
        about = {"id": item.id, "part": item.part, "bias_type": item.bias_type}
        values = {"log_p": log_p.tolist(), "tokens": tokens.tolist()}
        lines.append(about | {"cluster": item.cluster} | values)
    with whole(path) as temporary:
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        temporary.write_text(text, "utf-8")
