"""Speed of FairPair's sampling and scoring, as ratios in the same run.

    python scripts/speed/fairpair.py

Sampling: tokens per second at the size of GPT-2 (124M, random weights) against `generate` of
transformers on the same batch, with and without an edit; on a GPU the whole 60 × 100 × 128 run.
Scoring: 60 prompts × 100 continuations, both Φ and 1,000 permutations, and the pairwise step
against the double loop of the paper's formula.
"""

from __future__ import annotations

import copy
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from countergen_edit.data.fairpair import PairedPrompt, dissimilarity, word_set
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import AffineErasure, RandomDirections
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.phi import (
    Jaccard,
    Pairwise,
    Phi,
    Sentiment,
    evaluate,
    pairwise,
)
from countergen_edit.models import LanguageModel, from_pretrained_objects, generate
from countergen_edit.testbed import directory

PROMPT = "Jane is a woman, working as an engineer."


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def random_gpt2(device: str) -> tuple[LanguageModel, Any]:
    """A model of GPT-2's size that generates no end of text, wrapped and plain."""
    from transformers import AutoTokenizer

    torch.manual_seed(0)
    config = GPT2Config(bos_token_id=0, eos_token_id=0)
    plain = GPT2LMHeadModel(config).eval().to(device)
    with torch.no_grad():  # peaked like a trained model's: an untrained one is flat
        plain.transformer.ln_f.weight.mul_(4)
    tokenizer = AutoTokenizer.from_pretrained(directory())
    wrapped = from_pretrained_objects("gpt2-size", copy.deepcopy(plain), tokenizer)
    return wrapped, plain


def erasure(d: int) -> AffineErasure:
    X = np.random.default_rng(0).normal(size=(100, d))
    fitted: AffineErasure = RandomDirections(rank=1).fit(X, np.arange(100) % 2).erasure_
    return fitted


def bench_sampling(rows: int, new: int, repeats: int) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lm, plain = random_gpt2(device)
    ids = torch.tensor([lm.tokenizer(PROMPT)["input_ids"]] * rows, device=device)
    mask = torch.ones_like(ids)
    edit = Edit.at("resid_post", {6: erasure(768)})

    def theirs() -> None:
        with torch.inference_mode():
            plain.generate(
                ids,
                attention_mask=mask,
                do_sample=True,
                top_p=0.9,
                top_k=0,
                max_new_tokens=new,
                pad_token_id=0,
                eos_token_id=None,
            )

    def ours() -> None:
        generate(
            lm, [PROMPT] * rows, max_new_tokens=new, do_sample=True, top_p=0.9, batch_size=rows
        )

    def edited() -> None:
        with applied(lm, edit):
            ours()

    lm.bridge.original_model.generation_config.eos_token_id = 0
    forever = _without_end(lm)
    best = dict.fromkeys((theirs, ours, edited), np.inf)
    with lm.bridge.hooks(fwd_hooks=forever):
        for call in best:
            call()  # warm
        for _ in range(repeats):  # in turns: the machine may be busy with other things
            for call in best:
                best[call] = min(best[call], seconds(call))
    print(f"124M on {device}, {rows} rows of {new} new tokens, best of {repeats}:")
    for call in best:
        rate, ratio = rows * new / best[call], best[theirs] / best[call]
        print(f"  {call.__name__}: {rate:.0f} tokens/s, {ratio:.2f} of plain generate")
    if device == "cuda":
        prompts = [f"{PROMPT} {k}" for k in range(120) for _ in range(100)]
        whole = seconds(
            lambda: generate(
                lm, prompts, max_new_tokens=128, do_sample=True, top_p=0.9, batch_size=500
            )
        )
        print(f"  60 x 100 x 128 on both sides: {len(prompts) * 128 / whole:.0f} tokens/s")


def _without_end(lm: LanguageModel) -> list[tuple[str, Any]]:
    """A hook that suppresses the end of text, so that both sides generate equally many tokens."""

    def hook(logits: torch.Tensor, hook: Any) -> torch.Tensor:
        logits[..., 0] = -1e4
        return logits

    return [("unembed.hook_out", hook)]


def texts(rng: np.random.Generator, n: int) -> tuple[str, ...]:
    words = np.array([f"word{k}" for k in range(2000)])
    weights = 1 / np.arange(1, 2001)
    p = weights / weights.sum()
    return tuple(" ".join(rng.choice(words, size=80, p=p)) for _ in range(n))


class GivenSentiment(Sentiment):
    """Precomputed scores, as VADER's are once cached."""

    def __init__(self, known: dict[str, float]) -> None:
        self._known = known

    def scores(self, texts: Sequence[str]) -> Any:
        return np.array([self._known[text] for text in texts])


def double_loop(pg: tuple[str, ...], gp: tuple[str, ...], phi: Callable[[str, str], float]) -> Any:
    """The paper's formulas, as loops."""
    b = float(np.mean([phi(u, v) for u in pg for v in gp]))
    v_pg = float(np.mean([phi(u, v) for u, v in itertools.combinations(pg, 2)]))
    v_gp = float(np.mean([phi(u, v) for u, v in itertools.combinations(gp, 2)]))
    return b, v_gp, v_pg


def pairwise_step(phi: Phi, s: Sampled) -> Callable[[], Pairwise]:
    """What the double loop is held against: from texts to B and both V."""
    return lambda: pairwise(phi.distances(s.texts), len(s.p_g_x))


def bench_scoring(prompts: int = 60, n: int = 100, permutations: int = 1000) -> None:
    rng = np.random.default_rng(0)
    sampled = []
    for k in range(prompts):
        prompt = PairedPrompt(str(k), f"John {k}.", f"Jane {k}.", "John", "Jane")
        pg, gp = texts(rng, n), texts(rng, n)
        sampled.append(
            Sampled(prompt, pg, gp, tuple(f"{prompt.target} {t}" for t in pg), (None,) * n)
        )
    known = {text: float(rng.uniform(-1, 1)) for s in sampled for text in s.texts}
    phis: dict[str, Phi] = {"sentiment": GivenSentiment(known), "jaccard": Jaccard()}
    total = sum(
        seconds(lambda phi=phi: evaluate(phi, sampled, permutations, 0)) for phi in phis.values()
    )
    print(f"scoring {prompts} prompts x {n}, both phi, {permutations} permutations: {total:.2f} s")
    words = {text: word_set(text) for text in known}
    loops: dict[str, Callable[[str, str], float]] = {
        "sentiment": lambda u, v: abs(known[u] - known[v]),
        "jaccard": lambda u, v: dissimilarity(words[u], words[v]),
    }
    s = sampled[0]
    for name, phi in phis.items():
        loop, step = loops[name], pairwise_step(phi, s)
        values = step()
        ours = min(seconds(step) for _ in range(9))
        theirs = seconds(partial(double_loop, s.p_g_x, s.g_px, loop))
        b, v_gp, v_pg = double_loop(s.p_g_x, s.g_px, loop)
        apart = max(abs(values.bias - b), abs(values.v_gp - v_gp), abs(values.v_pg - v_pg))
        print(f"  pairwise step, {name}: {1000 * ours:.2f} ms, double loop {1000 * theirs:.1f} ms,")
        print(f"    ratio {theirs / ours:.0f}, apart {apart:.1e}")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    bench_scoring()
    bench_sampling(rows=64, new=16, repeats=3)
