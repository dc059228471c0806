"""A model that skips blocks which no attached edit can reach.

The unedited outputs of blocks are kept for each batch, and a pass resumes below the lowest attached
hook. Skipping happens within the model's own forward pass, in any family.
"""

from __future__ import annotations

import functools
import hashlib
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.models.language_model import Cells, LanguageModel, Logits, Mask, TokenIds

_T = TypeVar("_T")
_States = dict[int, Callable[[], Any]]
"""Block → its output, read when it is called."""
_BLOCK_HOOK = re.compile(r"blocks\.(\d+)\.(hook_out$|hook_resid_post$)?")


@dataclass
class Scratch:
    """Arrays in memory up to `budget` bytes, then in temporary files of `directory`."""

    budget: int = 2 * 2**30
    directory: Path | None = None
    used: int = field(default=0, init=False)

    def empty(self, shape: tuple[int, ...], dtype: type | np.dtype) -> np.ndarray:
        """An uninitialised array; `UserError` if the disk has no room for it."""
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if self.used + size <= self.budget or size == 0:
            self.used += size
            return np.empty(shape, dtype)
        try:
            if self.directory is not None:
                self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.directory) as file:
                # Claimed now: on a full disk a later write kills the process.
                os.posix_fallocate(file.fileno(), 0, size)
                return np.memmap(file, dtype, "r+", shape=shape)
        except OSError as error:
            raise UserError(
                f"no room for {size / 2**30:.2f} GiB of activations in "
                f"{self.directory or tempfile.gettempdir()}: {error.strerror}: free some, or name "
                "another folder by $TMPDIR"
            ) from error


@dataclass(frozen=True, eq=False)
class ResumingModel(LanguageModel):
    """A model that resumes each batch at the lowest edit; made by `resuming`."""

    scratch: Scratch = field(default_factory=Scratch)
    boundaries: frozenset[int] = frozenset()
    _states: dict[bytes, _States] = field(default_factory=dict, repr=False)
    _memo: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def differentiable_logits(self, ids: TokenIds, mask: Mask, at: Cells | None = None) -> Logits:
        intact = last_intact_block(self)
        states = self._states.setdefault(_digest(ids, mask), {})
        resumed = max((b for b in states if b <= intact), default=None)
        missing = [b for b in self.boundaries - states.keys() if b <= intact]
        with ExitStack() as stack:
            if resumed is not None:
                output = states[resumed]()
                for block in list(self.bridge.blocks)[: resumed + 1]:
                    stack.enter_context(forward_replaced(block.original_component, output))
            for b in missing:
                block = self.bridge.blocks[b].original_component
                hook = functools.partial(self._remember, states, b)
                stack.callback(block.register_forward_hook(hook).remove)
            return super().differentiable_logits(ids, mask, at)

    def memo(self, key: Hashable, make: Callable[[], _T]) -> _T:
        key = (self.preface, self.chat, key)
        if key not in self._memo:
            self._memo[key] = make()
        return cast(_T, self._memo[key])

    def _remember(self, states: _States, b: int, module: Any, inputs: Any, output: Any) -> None:
        """Keep hidden states as bytes, as NumPy has no bfloat16, and more of a tuple."""
        hidden, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        raw = hidden.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy()
        data = self.scratch.empty(raw.shape, np.uint8)
        data[:] = raw
        _unload(data)
        dtype, shape, device = hidden.dtype, hidden.shape, hidden.device

        def again() -> Any:
            hidden = torch.from_numpy(np.array(data)).view(dtype).view(shape).to(device)
            _unload(data)
            return hidden if rest is None else (hidden, *rest)

        states[b] = again


def _unload(data: np.ndarray) -> None:
    """Leave a file to the system's cache: mapped pages count as memory of a process."""
    mapped: Any = data.base
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)


def resuming(
    lm: LanguageModel, after: Iterable[int], scratch: Scratch | None = None
) -> ResumingModel:
    """The same model, keeping the outputs of the blocks `after` (from 0) and of the last one.

    Scores through `logits` gain; generation and capture run as before. Hooks on either model act in
    both. The weights must not change while this is used.
    """
    boundaries = frozenset(b for b in after if 0 <= b < lm.n_layers) | {lm.n_layers - 1}
    fields = (lm.name, lm.bridge, lm.tokenizer, lm.preface, lm.chat)
    return ResumingModel(*fields, scratch=scratch or Scratch(), boundaries=boundaries)


def last_intact_block(lm: LanguageModel) -> int:
    """The last block whose output no attached hook can have changed, or -1."""
    last = lm.n_layers - 1
    for name in lm.bridge.list_hooks(dir="fwd"):
        block = _BLOCK_HOOK.match(name)
        if block is None:
            return -1  # it may reach every block
        last = min(last, int(block[1]) - (block[2] is None))  # of its output, or inside
    return last


@contextmanager
def forward_replaced(module: Any, output: Any) -> Iterator[None]:
    """Let a module return `output` whatever it is given."""
    earlier: Callable[..., Any] | None = module.__dict__.get("forward")  # accelerate sets one

    @functools.wraps(module.forward)  # the bridge reads the signature
    def forward(*args: Any, **kwargs: Any) -> Any:
        return output

    module.forward = forward
    try:
        yield
    finally:
        if earlier is None:
            del module.forward
        else:
            module.forward = earlier


def _digest(ids: TokenIds, mask: Mask) -> bytes:
    sha = hashlib.sha256(repr(tuple(ids.shape)).encode())
    for tensor in (ids, mask):
        sha.update(tensor.cpu().contiguous().numpy().tobytes())
    return sha.digest()
