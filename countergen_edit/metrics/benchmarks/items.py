"""Scores of the items of a benchmark: likelihoods of their texts, or sentiment of sampled ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, islice, zip_longest

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.benchmarks import Benchmark, BenchmarkItem
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import joined
from countergen_edit.metrics.fairpair.phi import Sentiment
from countergen_edit.models import LanguageModel, generate, lengths

_LONGEST = 20
"""Texts of each benchmark whose length is checked before a run."""


def limited(
    items: Sequence[BenchmarkItem], limit: int | None, seed: int, *unit: object
) -> list[BenchmarkItem]:
    """At most `limit` items, in order: a random one of each cluster, then a second of each, ….

    >>> items = [BenchmarkItem(str(i), "", "", "ab"[i > 3], ()) for i in range(6)]
    >>> sorted(item.cluster for item in limited(items, 4, 0))
    ['a', 'a', 'b', 'b']
    """
    if limit is None or len(items) <= limit:
        return list(items)
    by_cluster = defaultdict(list)
    for place in generator(seed, "benchmark", *unit).permutation(len(items)).tolist():
        by_cluster[items[place].cluster].append(place)
    turns = chain.from_iterable(zip_longest(*by_cluster.values()))
    kept = islice((place for place in turns if place is not None), limit)
    return [items[place] for place in sorted(kept)]


def check(model: LanguageModel, benchmark: Benchmark, items: Sequence[BenchmarkItem]) -> None:
    """Raise a `UserError` where the context has no room for one of the longest texts."""
    if not benchmark.sampling:
        texts = {prompt + text for item in items for prompt, text in item.texts}
        lengths(model, sorted(texts, key=len)[-_LONGEST:])
    elif not model.is_encoder_decoder:
        prompts = sorted({item.entry["prompt"] for item in items}, key=len)[-_LONGEST:]
        longest = max(lengths(model, prompts), default=0)
        room, wanted = max(model.context_length - longest, 0), benchmark.sampling["max_new_tokens"]
        if room < wanted:
            raise UserError(
                f"{benchmark.name}.max_new_tokens={wanted}: {model.name} has room for {room} after "
                f"a prompt of {longest} tokens"
            )


def likelihoods(
    context: EvaluationContext,
    edit: NamedEdit | None,
    benchmark: Benchmark,
    items: Sequence[BenchmarkItem],
) -> list[list[float]]:
    """The log-probability of each text of the items, or its mean over tokens."""
    asked = is_asked(context.model, items)
    texts = [pair for item in items for pair in (item.replies if asked else item.texts)]
    found = context.texts(texts, edit, f"Scoring {benchmark.name}", asked)
    is_mean = benchmark.normalise == "mean"
    values = iter((found.log_p / found.tokens if is_mean else found.log_p).tolist())
    return [[next(values) for _ in item.texts] for item in items]


def is_asked(model: LanguageModel, items: Sequence[BenchmarkItem]) -> bool:
    """Whether the model replies to the items as questions."""
    return model.chat.is_on and all(item.question for item in items)


def sampled_texts(
    context: EvaluationContext,
    edit: NamedEdit | None,
    benchmark: Benchmark,
    items: Sequence[BenchmarkItem],
) -> list[list[str]]:
    """Texts that begin with the prompt of each item."""
    how = {"do_sample": True, "seed": context.seed, **benchmark.sampling}
    n = how.pop("n")
    prompts = [item.entry["prompt"] for item in items for _ in range(n)]
    with context.under(edit) as model:
        new = generate(model, prompts, progress=f"Writing {benchmark.name}", **how)
    texts = [joined(prompt, text) for prompt, text in zip(prompts, new, strict=True)]
    return [texts[start : start + n] for start in range(0, len(texts), n)]


def sentiment(texts: Sequence[Sequence[str]]) -> list[list[float]]:
    """VADER's compound score of each text."""
    scores = iter(Sentiment().scores([text for own in texts for text in own]).tolist())
    return [[next(scores) for _ in own] for own in texts]
