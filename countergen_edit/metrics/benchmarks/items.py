"""Items of a benchmark, a balanced sample of them, and the run's store of their scores and texts.

The store has a file per edit and benchmark, so that a killed run repeats nothing; a file of other
items or settings is overwritten.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from countergen_edit.core.reading import json_lines, json_records
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import append, digest, write_json_lines
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import Sampling
from countergen_edit.models import LanguageModel, TextScores, generate
from countergen_edit.models.progress import track

STORE = "benchmarks"
Value = TypeVar("Value")


@dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    id: str
    part: str
    bias_type: str
    cluster: str
    """What it shares with items that are not independent: a target, a template, a writer."""
    texts: tuple[tuple[str, str], ...]
    """A prompt, which may be empty, and the text that is scored after it."""
    entry: Any = None
    """The data of the item that its benchmark reads."""
    question: str = ""
    """The user's message to models that reply, each text being a reply; empty without one."""
    group: str = ""
    """The group it is about; a limit holds for each."""

    @property
    def replies(self) -> tuple[tuple[str, str], ...]:
        """The question and each text as the whole reply.

        >>> Item("1", "", "", "", (("Q: Who left? A:", " Jane"),), question="Who left?").replies
        (('Who left?', 'Jane'),)
        """
        return tuple((self.question, text.lstrip()) for _, text in self.texts)


def limited(items: Sequence[Item], limit: int | None, seed: int, *unit: object) -> list[Item]:
    """At most `limit` items, in order: a random one of each cluster, then a second of each, ….

    >>> items = [Item(str(i), "", "", "ab"[i > 3], ()) for i in range(6)]
    >>> sorted(item.cluster for item in limited(items, 4, 0))
    ['a', 'a', 'b', 'b']
    """
    if limit is None or len(items) <= limit:
        return list(items)
    rng = generator(seed, "benchmark", *unit)
    by_cluster: dict[str, list[int]] = {}
    for place in rng.permutation(len(items)).tolist():
        by_cluster.setdefault(items[place].cluster, []).append(place)
    turns = chain.from_iterable(zip_longest(*by_cluster.values()))
    kept = islice((place for place in turns if place is not None), limit)
    return [items[place] for place in sorted(kept)]


def stored(context: EvaluationContext, edit: NamedEdit | None, benchmark: str, end: str) -> Path:
    """The file of a benchmark under an edit; of a custom benchmark the class names it."""
    name = benchmark.rpartition(":")[2]
    return context.place(STORE, edit).with_suffix("") / f"{name}{end}"


def by_item(values: Iterable[Value], items: Sequence[Item]) -> list[list[Value]]:
    """Values of the texts of all items, as a list for each item."""
    rest = iter(values)
    return [[next(rest) for _ in item.texts] for item in items]


def scored(
    context: EvaluationContext, edit: NamedEdit | None, benchmark: str, items: Sequence[Item]
) -> TextScores:
    """Likelihoods of every text of the items, from the store if they are there."""
    path = stored(context, edit, benchmark, ".jsonl")
    asked = is_asked(context.model, items)
    texts = [item.replies if asked else item.texts for item in items]
    key = digest([[item.id, own] for item, own in zip(items, texts, strict=True)])
    lines = [line for _, line in json_lines(path)] if path.is_file() else []
    if lines and lines[0].get("items") == key:
        log_p, tokens = ([x for line in lines[1:] for x in line[of]] for of in ("log_p", "tokens"))
        return TextScores(np.array(log_p, dtype=np.float64), np.array(tokens, dtype=np.int64))
    pairs = [pair for own in texts for pair in own]
    scores = context.texts(pairs, edit, f"Scoring {benchmark}", asked)
    columns = (by_item(values.tolist(), items) for values in (scores.log_p, scores.tokens))
    own_lines = [
        {"id": item.id, "log_p": log_p, "tokens": tokens}
        for item, log_p, tokens in zip(items, *columns, strict=True)
    ]
    write_json_lines(path, [{"items": key}, *own_lines])
    return scores


def is_asked(model: LanguageModel, items: Sequence[Item]) -> bool:
    """Whether the model replies to the items as questions."""
    return model.chat.is_on and all(item.question for item in items)


def continuations(
    context: EvaluationContext,
    edit: NamedEdit | None,
    benchmark: str,
    prompts: Sequence[str],
    sampling: Sampling,
) -> list[list[str]]:
    """Continuations of each prompt, from the store if they are there.

    A text depends only on the seed, its prompt and the number of earlier copies of that prompt.
    """
    path = stored(context, edit, benchmark, ".texts.jsonl")
    drawn = asdict(sampling)
    del drawn["n"], drawn["batch_size"]  # which change no text
    found = _opened(path, digest([drawn, context.seed]))
    wanted = Counter(prompts)
    missing = [p for p, times in wanted.items() if len(found.get(p, ())) < times * sampling.n]
    missing.sort(key=lambda prompt: (len(prompt), prompt))  # similar lengths go together
    size = max(1, sampling.batch_size // sampling.n)
    batches = [missing[start : start + size] for start in range(0, len(missing), size)]
    for batch in track(batches, f"Writing {benchmark}"):
        copies = [p for p in batch for _ in range(wanted[p] * sampling.n)]
        with context.under(edit) as model:
            texts = generate(
                model,
                copies,
                max_new_tokens=sampling.max_new_tokens,
                do_sample=True,
                top_p=sampling.top_p,
                temperature=sampling.temperature,
                seed=context.seed,
                batch_size=sampling.batch_size,
            )
        own = defaultdict(list)
        for prompt, text in zip(copies, texts, strict=True):
            own[prompt].append(text)
        lines = [json.dumps({"prompt": p, "texts": own[p]}, ensure_ascii=False) for p in batch]
        append(path, "".join(f"{line}\n" for line in lines))
        found |= own
    left = {prompt: iter(texts) for prompt, texts in found.items()}
    return [[next(left[prompt]) for _ in range(sampling.n)] for prompt in prompts]


def _opened(path: Path, key: str) -> dict[str, list[str]]:
    """Prompt → its texts; a file with another key is overwritten, an incomplete last line cut."""
    content = path.read_bytes() if path.is_file() else b""
    end = content.rfind(b"\n") + 1
    lines = [line for _, line in json_records(content[:end], path)]
    if not lines or lines[0].get("drawn") != key:
        write_json_lines(path, [{"drawn": key}])
        return {}
    if end < len(content):
        os.truncate(path, end)
    return {line["prompt"]: line["texts"] for line in lines[1:]}
