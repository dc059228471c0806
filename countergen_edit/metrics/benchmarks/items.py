"""Items of a benchmark, a balanced sample of them, and the run's store of their scores and texts.

The store has a file per edit and benchmark, so that a killed run repeats nothing; a file of other
items or settings is overwritten.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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

STORE = "benchmarks"


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
        The data of the item that its benchmark reads.
    question
        The user's message to models that reply, each text being a reply; empty without one.
    group
        The group it is about; a limit holds for each.
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


def stored(context: EvaluationContext, edit: NamedEdit | None, benchmark: str, end: str) -> Path:
    """The file of a benchmark under an edit; of a custom benchmark the class names it."""
    name = benchmark.rpartition(":")[2]
    return context.place(STORE, edit).with_suffix("") / f"{name}{end}"


def write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON lines in one go."""
    with whole(path) as temporary:
        temporary.write_text("".join(map(_line, lines)), "utf-8")


def _line(content: Mapping[str, Any]) -> str:
    return f"{json.dumps(content, ensure_ascii=False)}\n"


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
    scores = context.texts(
        [pair for own in texts for pair in own], edit, f"Scoring {benchmark}", asked
    )
    ends = np.cumsum([len(own) for own in texts])[:-1]
    columns = zip(items, np.split(scores.log_p, ends), np.split(scores.tokens, ends), strict=True)
    own_lines = [{"id": i.id, "log_p": p.tolist(), "tokens": n.tolist()} for i, p, n in columns]
    write_lines(path, [{"items": key}, *own_lines])
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
    for batch in track(_batches(missing, wanted, sampling), f"Writing {benchmark}"):
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
        append(path, "".join(_line({"prompt": p, "texts": own[p]}) for p in batch))
        found |= own
    left = {prompt: iter(texts) for prompt, texts in found.items()}
    return [[next(left[prompt]) for _ in range(sampling.n)] for prompt in prompts]


def _batches(prompts: Sequence[str], wanted: Counter[str], sampling: Sampling) -> list[list[str]]:
    """Prompts of similar length, with about `batch_size` texts each."""
    batches: list[list[str]] = []
    room = 0
    for prompt in sorted(prompts, key=lambda p: (len(p), p)):
        if room <= 0:
            batches.append([])
            room = sampling.batch_size
        batches[-1].append(prompt)
        room -= wanted[prompt] * sampling.n
    return batches


def _opened(path: Path, key: str) -> dict[str, list[str]]:
    """Prompt → its texts; a file with another key is overwritten, an incomplete last line cut."""
    content = path.read_bytes() if path.is_file() else b""
    end = content.rfind(b"\n") + 1
    lines = [line for _, line in json_records(content[:end], path)]
    if not lines or lines[0].get("drawn") != key:
        write_lines(path, [{"drawn": key}])
        return {}
    if end < len(content):
        os.truncate(path, end)
    return {line["prompt"]: line["texts"] for line in lines[1:]}
