"""A model that does not compute twice what an edit leaves as it is.

In: a `LanguageModel`. Out: one that gives the same logits, and remembers for every batch what left
the blocks while nothing was edited. An edit after block L changes nothing up to L, so the batch
goes on from there: the blocks below are not run. Which blocks those are is read off the hooks that
are attached, so no caller can get it wrong, and the skipping happens inside the model's own forward
pass, whose masks and rotary tables stay its own affair: no family needs a branch.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from countergen_edit.models.language_model import LanguageModel, Mask
from countergen_edit.models.scratch import Scratch

T = TypeVar("T")
_OUTPUT_HOOK = re.compile(r"blocks\.(\d+)\.(hook_out|hook_resid_post)")
_BLOCK_HOOK = re.compile(r"blocks\.(\d+)\.")


@dataclass(frozen=True)
class _State:
    """What left a block: its hidden states as bytes, and how the block hands them on."""

    data: np.ndarray
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    rest: tuple[Any, ...] | None
    """What a block that returns a tuple has after the hidden states; None for a plain tensor."""

    def output(self) -> Any:
        flat = torch.from_numpy(self.data).view(self.dtype)
        hidden = flat.view(self.shape).to(self.device)
        return hidden if self.rest is None else (hidden, *self.rest)


@dataclass(frozen=True, eq=False)
class ResumingModel(LanguageModel):
    """A `LanguageModel` that resumes each batch at the lowest edit.

    It shares bridge and tokenizer with the model it was made from; made by `resuming`.

    Attributes:
        scratch: Where hidden states are kept.
        boundaries: The blocks after which they are kept.
    """

    scratch: Scratch = field(default_factory=Scratch)
    boundaries: frozenset[int] = frozenset()
    _states: dict[bytes, dict[int, _State]] = field(default_factory=dict, repr=False)
    _memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def differentiable_logits(
        self,
        ids: Int[Tensor, "row time"],
        mask: Mask,
        at: tuple[Int[Tensor, " read"], Int[Tensor, " read"]] | None = None,
    ) -> Float[Tensor, "row time vocab"] | Float[Tensor, "read vocab"]:
        """As of a `LanguageModel`, running only the blocks that an attached hook can reach."""
        intact = last_intact_block(self)
        states = self._states.setdefault(_digest(ids, mask), {})
        resumed = max((b for b in states if b <= intact), default=None)
        missing = [b for b in self.boundaries - states.keys() if b <= intact]
        with ExitStack() as stack:
            if resumed is not None:
                stack.enter_context(self._skipping(resumed, states[resumed]))
            for b in missing:
                stack.enter_context(self._remembering(b, states))
            return super().differentiable_logits(ids, mask, at)

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """Tokens and batches of a text are made once after each preface, whatever is edited."""
        key = (self.preface, self.chat, key)
        if key not in self._memo:
            self._memo[key] = make()
        content: T = self._memo[key]
        return content

    @contextmanager
    def _skipping(self, last: int, state: _State) -> Iterator[None]:
        """Every block up to `last` passes on the output of that one, without computing anything."""
        output = state.output()
        with ExitStack() as stack:
            for block in list(self.bridge.blocks)[: last + 1]:
                stack.enter_context(_forward_replaced(block.original_component, output))
            yield

    @contextmanager
    def _remembering(self, b: int, states: dict[int, _State]) -> Iterator[None]:
        def remember(module: Any, inputs: Any, output: Any) -> None:
            hidden, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
            raw = hidden.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy()
            data = self.scratch.empty(raw.shape, np.uint8)
            data[:] = raw
            states[b] = _State(data, hidden.shape, hidden.dtype, hidden.device, rest)

        handle = self.bridge.blocks[b].original_component.register_forward_hook(remember)
        try:
            yield
        finally:
            handle.remove()


def resuming(
    lm: LanguageModel, after: Iterable[int], scratch: Scratch | None = None
) -> ResumingModel:
    """The same model, remembering what leaves the blocks `after`, and the last one.

    Everything that scores through `logits` (continuations, texts, distributions) gains; generation
    and capture run as ever. Hooks attached to either model act in both.

    Args:
        lm: Its weights must not change while this is used.
        after: Blocks, from 0; an edit after any other resumes at the nearest below it.
        scratch: Memory and disk for what is remembered.
    """
    boundaries = frozenset(b for b in after if 0 <= b < lm.n_layers) | {lm.n_layers - 1}
    return ResumingModel(
        name=lm.name,
        bridge=lm.bridge,
        tokenizer=lm.tokenizer,
        preface=lm.preface,
        chat=lm.chat,
        scratch=scratch or Scratch(),
        boundaries=boundaries,
    )


def last_intact_block(lm: LanguageModel) -> int:
    """The last block whose own output no attached hook can have changed; -1 if there is none.

    A hook on the output of block L acts after the block; one inside L, or one on its input, leaves
    only the blocks below it intact. A hook outside of all blocks is taken to reach every one.
    """
    last = lm.n_layers - 1
    for name in lm.bridge.list_hooks(dir="fwd"):
        output, inside = _OUTPUT_HOOK.fullmatch(name), _BLOCK_HOOK.match(name)
        if output:
            last = min(last, int(output[1]))
        elif inside:
            last = min(last, int(inside[1]) - 1)
        else:
            return -1
    return last


@contextmanager
def _forward_replaced(module: Any, output: Any) -> Iterator[None]:
    """Let a module return `output` whatever it is given."""
    own: Callable[..., Any] | None = module.__dict__.get("forward")  # accelerate sets one

    @functools.wraps(module.forward)  # the bridge reads the signature
    def forward(*args: Any, **kwargs: Any) -> Any:
        return output

    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def _digest(ids: Int[Tensor, "row time"], mask: Mask) -> bytes:
    digest = hashlib.blake2b(repr(tuple(ids.shape)).encode(), digest_size=16)
    for tensor in (ids, mask):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.digest()
