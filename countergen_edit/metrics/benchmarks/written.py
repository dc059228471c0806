"""What a model wrote after prompts, kept in the run: a killed run writes no text twice.

Comes in: prompts, and a bench to have them continued on. Goes out: the continuations of each. Each
edit has a file of each benchmark under the run's store, a line for each prompt, put there as soon
as its texts are made. A text depends on the run's seed, its prompt and how often that came before,
on nothing that is made with it. Texts that were drawn otherwise are made anew.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.bench import Bench
from countergen_edit.metrics.benchmarks.kept import STORE
from countergen_edit.metrics.fairpair.continuations import Sampling
from countergen_edit.models import generate
from countergen_edit.models.progress import track
from countergen_edit.reading import json_records
from countergen_edit.writing import append, digest, whole

TEXTS = ".texts.jsonl"
"""Ends the names of such files, beside those of what was scored."""


def written(
    bench: Bench, edit: NamedEdit | None, benchmark: str, prompts: Sequence[str], how: Sampling
) -> list[list[str]]:
    """So many continuations of each prompt, from the store where they are there."""
    name = benchmark.rpartition(":")[2]
    path = bench.place(STORE, edit).with_suffix("") / f"{name}{TEXTS}"
    drawn = asdict(how)
    del drawn["n"], drawn["batch_size"]  # which change no text
    found = _opened(path, digest([drawn, bench.seed]))
    wanted = Counter(prompts)
    missing = [p for p, times in wanted.items() if len(found.get(p, ())) < times * how.n]
    for part in track(_parts(missing, wanted, how), f"Writing {name}"):
        copies = [p for p in part for _ in range(wanted[p] * how.n)]
        with bench.under(edit) as model:
            texts = generate(
                model,
                copies,
                max_new_tokens=how.max_new_tokens,
                do_sample=True,
                top_p=how.top_p,
                temperature=how.temperature,
                seed=bench.seed,
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
    """Prompts of similar length, as many as are continued at a time; those of a prompt together."""
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
    """Prompt → its texts, of a file that begins with the key; else the file is begun anew.

    What a killed process left of a line is cut off.
    """
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
