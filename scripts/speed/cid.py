"""Speed of contrastive input decoding, as ratios in the same run.

    python scripts/speed/cid.py

Peers: a loop of two forward passes per step without cache, and plain `generate` of the same rows, a
lower bound for contrastive decoding. Ratios are of processor time; wall time is printed too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from countergen_edit.models import (
    ContrastiveScores,
    LanguageModel,
    contrastive_generate,
    encode,
    load_model,
)
from countergen_edit.testbed import directory, load_axis

TOKENS = 16
STRENGTHS = (0.0, 10.0, 50.0)
TEMPLATE = "{}, a data analyst, failed his interview at a large hospital because he"


@dataclass
class Duration:
    """Wall and processor time."""

    wall: float
    cpu: float

    def __truediv__(self, other: Duration) -> float:
        return self.cpu / other.cpu


def seconds(call: Callable[[], Any], repeats: int = 1) -> tuple[Duration, Any]:
    """The least time of `repeats` calls, and the last result."""
    best, answer = Duration(float("inf"), float("inf")), None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = call()
        best = Duration(
            min(best.wall, time.perf_counter() - wall), min(best.cpu, time.process_time() - cpu)
        )
    return best, answer


def contrasts() -> tuple[list[str], list[str], list[float]]:
    """100 pairs of names, three λ, both directions."""
    egypt, usa = (
        load_axis("nationality").groups[f"{c}_male"].all_names() for c in ("egypt", "usa")
    )
    pairs = [
        (TEMPLATE.format(a), TEMPLATE.format(b), s)
        for x, y in product(egypt[:10], usa[:10])
        for a, b in ((x, y), (y, x))
        for s in STRENGTHS
    ]
    x, other, strengths = (list(column) for column in zip(*pairs, strict=True))
    return x, other, strengths


def naive(lm: LanguageModel, x: str, other: str, strength: float) -> list[int]:
    """The definition: two forward passes per step over the whole text."""
    a, b = (e.ids for e in encode(lm, [x, other]))
    new: list[int] = []
    model = lm.bridge.original_model
    with torch.inference_mode():
        for _ in range(TOKENS):
            p, q = (
                model(torch.tensor([ids + new]), use_cache=False).logits[0, -1].double().softmax(-1)
                for ids in (a, b)
            )
            score = p.log() + strength * (p - q)
            score[p < p.topk(50).values[-1]] = -torch.inf
            new.append(int(score.argmax()))
    return new


def bench_testbed() -> None:
    lm = load_model(directory())
    # No end of text, so that every continuation has its 16 tokens.
    lm.bridge.original_model.generation_config.eos_token_id = None
    lm.tokenizer.eos_token = None
    x, other, strengths = contrasts()
    ours, continuations = seconds(
        lambda: contrastive_generate(lm, x, other, strengths, max_new_tokens=TOKENS, batch_size=150)
    )
    assert all(len(f.tokens) == TOKENS for f in continuations)
    some = range(0, len(x), 30)
    loop, texts = seconds(lambda: [naive(lm, x[i], other[i], strengths[i]) for i in some])
    loop = Duration(loop.wall * len(x) / len(some), loop.cpu * len(x) / len(some))
    same = sum(tuple(t) == continuations[i].tokens for t, i in zip(texts, some, strict=True))
    print(f"CID, testbed, {len(x) // 6} pairs x 3 lambda x 2 directions x {TOKENS} tokens:")
    print(f"  {ours.wall:.1f} s ({ours.cpu:.1f} s of processor)")
    print(f"  loop of two forward passes without cache: {loop.wall:.0f} s ({loop.cpu:.0f} s), from")
    print(
        f"  {len(some)} of {len(x)}, ratio {loop / ours:.1f}; same tokens in {same} of {len(some)}"
    )


def bench_overhead(pairs: int = 8, prompt: int = 24, repeats: int = 5) -> None:
    from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    ids = torch.randint(0, 50257, (2 * pairs, prompt))
    config = GenerationConfig(
        max_new_tokens=TOKENS, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    model.generation_config = GenerationConfig()

    def run(processors: Sequence[Any]) -> torch.Tensor:
        with torch.inference_mode():
            return model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=config,
                logits_processor=list(processors),
            )

    strengths = [STRENGTHS[i % 3] for i in range(pairs)]
    best = {name: Duration(float("inf"), float("inf")) for name in ("plain", "CID", "CID, traced")}
    for _ in range(repeats):  # in turn, so that the machine treats them alike
        for name, processors in (
            ("plain", lambda: []),
            ("CID", lambda: [ContrastiveScores(strengths)]),
            ("CID, traced", lambda: [ContrastiveScores(strengths, trace=True)]),
        ):
            duration, _ = seconds(lambda processors=processors: run(processors()))
            before = best[name]
            best[name] = Duration(min(before.wall, duration.wall), min(before.cpu, duration.cpu))
    plain = best.pop("plain")
    size = sum(p.numel() for p in model.parameters()) / 1e6
    print(
        f"generate, {size:.0f}M parameters, {2 * pairs} rows x {TOKENS} tokens: {plain.wall:.2f} s"
    )
    for name, duration in best.items():
        print(f"  {name}: {duration.wall:.2f} s, overhead {100 * (duration / plain - 1):+.1f} %")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    bench_testbed()
    bench_overhead()
