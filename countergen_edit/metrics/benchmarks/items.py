"""Items of a benchmark, a balanced sample of them, and what was scored and written of them.

Scores and texts are kept in the run, a file per edit and benchmark, so that a killed run repeats
nothing; those of other items or settings are made anew.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.core.reading import json_lines, json_records
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import append, digest, whole
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import Sampling
from countergen_edit.models import LanguageModel, TextScores, generate
from countergen_edit.models.progress import track


@dataclass(frozen=True)
class Item:
    """One question of a benchmark.

    Attributes
    ----------
    cluster
        Items within it (a target, a template, a writer) are not independent.
    texts
        A prompt, which may be empty, and the text that is scored after it.
    entry
        What the benchmark itself needs of the item.
    question
        Asked where the model writes replies, each text being one; empty where there is none.
    group
        The group it is about; a limit takes as many items of each.
    """

    id: str
    part: str
    bias_type: str
    cluster: str
    texts: tuple[tuple[str, str], ...]
    entry: Any = None
    question: str = ""
    group: str = ""

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
    places: dict[str, list[int]] = {}
    for place in rng.permutation(len(items)).tolist():
        places.setdefault(items[place].cluster, []).append(place)
    turns = sorted(
        (turn, number, place)
        for number, own in enumerate(places.values())
        for turn, place in enumerate(own)
    )
    return [items[place] for place in sorted(place for _, _, place in turns[:limit])]


STORE = "benchmarks"


def scored(
    context: EvaluationContext, edit: NamedEdit | None, benchmark: str, items: Sequence[Item]
) -> TextScores:
    """Likelihoods of every text of the items, from the store if they are there."""
    path = context.place(STORE, edit).with_suffix("") / f"{benchmark.rpartition(':')[2]}.jsonl"
    asked = is_asked(context.model, items)
    texts = [item.replies if asked else item.texts for item in items]
    key = digest([[item.id, own] for item, own in zip(items, texts, strict=True)])
    if (found := _read(path, key)) is not None:
        return found
    pairs = [pair for own in texts for pair in own]
    scores = context.texts(pairs, edit, f"Scoring {benchmark}", asked)
    _write(path, key, items, scores)
    return scores


def is_asked(model: LanguageModel, items: Sequence[Item]) -> bool:
    """Whether items are questions to be replied to by the model."""
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


TEXTS = ".texts.jsonl"
"""Ends the names of such files, beside those of what was scored."""


def continuations(
    context: EvaluationContext,
    edit: NamedEdit | None,
    benchmark: str,
    prompts: Sequence[str],
    how: Sampling,
) -> list[list[str]]:
    """Continuations of each prompt, from the store if they are there.

    A text depends on the seed, its prompt and how often that came before only.
    """
    name = benchmark.rpartition(":")[2]
    path = context.place(STORE, edit).with_suffix("") / f"{name}{TEXTS}"
    drawn = asdict(how)
    del drawn["n"], drawn["batch_size"]  # which change no text
    found = _opened(path, digest([drawn, context.seed]))
    wanted = Counter(prompts)
    missing = [p for p, times in wanted.items() if len(found.get(p, ())) < times * how.n]
    for part in track(_parts(missing, wanted, how), f"Writing {name}"):
        copies = [p for p in part for _ in range(wanted[p] * how.n)]
        with context.under(edit) as model:
            texts = generate(
                model,
                copies,
                max_new_tokens=how.max_new_tokens,
                do_sample=True,
                top_p=how.top_p,
                temperature=how.temperature,
                seed=context.seed,
                batch_size=how.batch_size,
            )
        own = defaultdict(list)
        for prompt, text in zip(copies, texts, strict=True):
            own[prompt].append(text)
        lines = ({"prompt": p, "texts": own[p]} for p in part)
        append(path, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
        found |= own
    taken: Counter[str] = Counter()
    of_each = []
    for prompt in prompts:
        start = taken[prompt] * how.n
        of_each.append(found[prompt][start : start + how.n])
        taken[prompt] += 1
    return of_each


def _parts(prompts: Sequence[str], wanted: Counter[str], how: Sampling) -> list[list[str]]:
    """Prompts of similar length, about a batch at a time."""
    parts: list[list[str]] = []
    room = 0
    for prompt in sorted(prompts, key=lambda p: (len(p), p)):
        if room <= 0:
            parts.append([])
            room = how.batch_size
        parts[-1].append(prompt)
        room -= wanted[prompt] * how.n
    return parts


def _opened(path: Path, key: str) -> dict[str, list[str]]:
    """Prompt → its texts; a file with another key is begun anew, an incomplete last line cut."""
    content = path.read_bytes() if path.is_file() else b""
    end = content.rfind(b"\n") + 1
    lines = [line for _, line in json_records(content[:end], path)]
    if not lines or lines[0].get("drawn") != key:
        with whole(path) as temporary:
            temporary.write_text(json.dumps({"drawn": key}) + "\n", "utf-8")
        return {}
    if end < len(content):
        os.truncate(path, end)
    return {line["prompt"]: line["texts"] for line in lines[1:]}
