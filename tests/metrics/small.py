"""Sets, edits and plain likelihoods of a tiny model that several tests share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, EditRecord, NamedEdit, Place
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, load_model
from tests.made_benchmarks import long_context_dir

NAMES = {"female": ("Jane", "Emily"), "male": ("John", "Ahmed")}
TEST = [{"source": "templates", "templates": ["{name} ran the"], "outputs": [" shop"]}]
LEACE = EditRecord("e", "leace", {}, (Place("resid_post", 3, 1),))
CONTROL = EditRecord("c", "random", {}, LEACE.places, baseline=True)


def set_of(
    name: str,
    templates: Sequence[str],
    outputs: Sequence[Sequence[str]],
    people: Mapping[str, Sequence[str]] = NAMES,
) -> CounterfactualSet:
    """Every template, with outputs of its own, of everybody."""
    called = [(group, person) for group, names in people.items() for person in names]
    samples = tuple(
        Sample(t, tuple(o), tuple(Variation(g, t.format(person), person) for g, person in called))
        for t, o in zip(templates, outputs, strict=True)
    )
    return CounterfactualSet(name, "gender", tuple(people), samples)


def a_task() -> Task:
    """About gender, with one small set."""
    return Task.from_config("gender", {"test": TEST, "other_axes": None})


def rows_of(rows: Sequence[Row], metric: str) -> list[Row]:
    """Those of a metric."""
    return [row for row in rows if row.metric == metric]


def one_line(words: str) -> str:
    """What an error of one line with these words matches."""
    return f"^.*{re.escape(words)}.*$"


def edit_of(seed: int = 0, layer: int = 0, shift: float = 0.0, **record: Any) -> NamedEdit:
    """One random direction is erased."""
    direction = np.random.default_rng(seed).normal(size=(1, 32))
    direction /= np.linalg.norm(direction)
    erasure = AffineErasure(direction.T, direction, shift * direction[0])
    return NamedEdit.of(Edit.at("resid_post", {layer: erasure}), "any", **record)


def chat_model(folder: Path, instruction: str | None = None) -> LanguageModel:
    """Its template writes every message of a user in brackets, and replies as they are."""
    tokenizer = load_model(long_context_dir("qwen2", folder)).tokenizer
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'user' %}<{{ m['content'] }}>\n"
        "{% else %}{{ m['content'] }}{% endif %}{% endfor %}"
    )
    tokenizer.save_pretrained(folder)
    settings = {"instruction": instruction} if instruction else {}
    return load_model(folder, template="chat", **settings)


def log_softmax(model: LanguageModel, text: str) -> tuple[torch.Tensor, torch.Tensor]:
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    return ids[0], model.logits(ids, torch.ones_like(ids))[0].double().log_softmax(-1)


def log_p(model: LanguageModel, text: str, output: str) -> float:
    ids, table = log_softmax(model, text + output)
    first = len(model.tokenizer(text).input_ids)
    return sum(float(table[t, ids[t + 1]]) for t in range(first - 1, len(ids) - 1))


@torch.no_grad()
def plain_log_p(lm: Any, ids: Sequence[int], first: int) -> float:
    """Of the tokens from `first` on, by `transformers` alone."""
    table = lm(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return sum(float(table[t - 1, ids[t]]) for t in range(first, len(ids)))
