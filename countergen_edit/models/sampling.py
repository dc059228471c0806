"""Nucleus sampling in which every row has its own random numbers.

In: next-token logits, and a seed for each row. Out: the sampled tokens, as logits that leave no
other choice. The noise of a token is a function of the row's seed, the step and the token, so a
row's text depends on no other row, on no batch size and on no order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

_AT_ONCE = 1 << 20  # tokens whose noise is drawn together


def _signed(word: int) -> int:
    """A 64-bit word as torch holds it."""
    return word - (1 << 64) if word >> 63 else word


_TOKEN = _signed(0x9E3779B97F4A7C15)
_STEP = 0x632BE59BD9B4E019
_MIX = (_signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB))


class RowSampler:
    """A logits processor that samples from the smallest set of tokens that holds `top_p`.

    With Gumbel noise g, argmax(log p + g) is an exact draw from p, and over a subset an exact draw
    from p restricted to it (Gumbel 1954; Maddison et al. 2014). Hence `generate` runs greedily, no
    vocabulary is sorted, and a rounding error in the logits changes a token only where two noisy
    logits all but coincide.

    Args:
        seeds: One for each row of the batch.
        top_p: In (0, 1]; 1 samples from all tokens.
        temperature: Divides the logits.
    """

    def __init__(self, seeds: Sequence[int], *, top_p: float, temperature: float) -> None:
        self.seeds = torch.tensor(seeds, dtype=torch.long)
        self.top_p = top_p
        self.temperature = temperature
        self.step = 0

    def __call__(
        self, input_ids: Int[Tensor, "row time"], scores: Float[Tensor, "row vocab"]
    ) -> Float[Tensor, "row vocab"]:
        """Logits of 0 for each row's sampled token and of minus infinity for all others."""
        scores = scores.float() / self.temperature
        self.seeds = self.seeds.to(scores.device)
        noisy = gumbel(self.seeds, self.step, scores.shape[-1]).add_(scores)
        self.step += 1
        token = noisy.argmax(-1, keepdim=True)
        if self.top_p < 1:
            p = scores.softmax(-1)
            waiting = torch.arange(len(p), device=p.device)
            while True:
                mine = p[waiting]
                above = mine * (mine > mine.gather(1, token[waiting]))
                waiting = waiting[above.sum(-1) >= self.top_p]  # outside the nucleus: draw again
                if not len(waiting):
                    break
                noisy[waiting, token[waiting, 0]] = -torch.inf
                token[waiting] = noisy[waiting].argmax(-1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)


def gumbel(seeds: Int[Tensor, " row"], step: int, count: int) -> Float[Tensor, "row count"]:
    """Standard Gumbel noise of `count` tokens, a function of seed, step and token alone.

    The finaliser of SplitMix64 (Steele, Lea and Flood 2014) scatters the three.
    """
    token = torch.arange(count, device=seeds.device) * _TOKEN
    starts = seeds + step * _STEP % 2**62
    rows = max(1, _AT_ONCE // count)  # what stays in the cache is done sooner
    parts = range(0, len(starts), rows)
    return torch.cat([_noise(starts[i : i + rows, None] + token) for i in parts])


def _noise(x: Int[Tensor, "row token"]) -> Float[Tensor, "row token"]:
    for shift, factor in zip((30, 27), _MIX, strict=True):
        x ^= (x >> shift).bitwise_and_((1 << (64 - shift)) - 1)  # unsigned, as the words are
        x *= factor
    x ^= (x >> 31).bitwise_and_((1 << 33) - 1)
    # The upper 31 bits as a uniform. Its small values make the large noise, which decides, and
    # float32 holds small ones to full precision.
    u = (x >> 33).bitwise_and_(0x7FFFFFFF).float().add_(0.5).mul_(2.0**-31)
    return u.clamp_(max=1 - 2.0**-24).neg_().log1p_().neg_().log_().neg_()
