"""Classifiers and masked language models with hooks at their blocks, to which edits attach.

The input of the first block is the site `embed`, the output of each block `resid_post`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.models.capture import hook_name
from countergen_edit.models.language_model import LanguageModel, weights_hash
from countergen_edit.models.overflow import require_finite
from countergen_edit.models.progress import track

ReadTokens = Literal["outputs", "all"]
"""`outputs`: those that the head reads; `all`: every one."""
AT_ONCE = 128
"""Texts run together."""
Hook = Callable[..., Tensor | None]


class Hooks:
    """Hook points of a `transformers` encoder, named as by a `TransformerBridge`.

    `UserError` if the model has no list of its blocks.
    """

    def __init__(self, name: str, hf_model: Any) -> None:
        self.original_model, config = hf_model, hf_model.config
        count = getattr(config, "num_hidden_layers", None)
        lists = (m for m in hf_model.base_model.modules() if isinstance(m, nn.ModuleList))
        blocks = next((blocks for blocks in lists if len(blocks) == count), None)
        if blocks is None or getattr(config, "is_encoder_decoder", False):
            raise UserError(
                f"{name} ({type(hf_model).__name__}) has no list of its {count} blocks to edit at: "
                "give an encoder such as BERT, RoBERTa or DistilBERT"
            )
        self.cfg = SimpleNamespace(n_layers=count, d_model=int(config.hidden_size))
        self.hook_dict: dict[str, Callable[..., Any]] = {
            f"blocks.{i}.hook_out": block.register_forward_hook for i, block in enumerate(blocks)
        }
        self.hook_dict["embed.hook_out"] = blocks[0].register_forward_pre_hook

    @contextmanager
    def hooks(self, fwd_hooks: Sequence[tuple[str, Hook]]) -> Iterator[None]:
        """Let functions read or change activations within the block."""
        with ExitStack() as stack:
            for name, change in fwd_hooks:
                stack.callback(self.hook_dict[name](partial(_changed, change)).remove)
            yield


def _changed(change: Hook, module: nn.Module, *states: Any) -> Any:
    """The output of a block, or its inputs where it has none yet, with the first tensor changed."""
    first, *rest = states[-1] if isinstance(states[-1], tuple) else states[-1:]
    changed = change(first, hook=None)
    if changed is None or not isinstance(states[-1], tuple):
        return changed
    return (changed, *rest)


@dataclass(frozen=True, eq=False)
class Encoder(LanguageModel):
    """A bidirectional model, which neither continues nor scores texts."""

    def activations(
        self,
        rows: Sequence[Mapping[str, Sequence[int]]],
        *,
        site: str,
        layer: int | None = None,
        tokens: ReadTokens = "outputs",
        read: Sequence[int] | None = None,
        progress: str | None = None,
    ) -> tuple[Float32[np.ndarray, "row d_model"], Int[np.ndarray, " row"]]:
        """Activations of encoded texts under the attached edits, and the text of each row.

        `tokens="outputs"` takes the token `read` of each text, or those that the head reads.
        """
        name, values, texts = hook_name(self, site, layer), list[np.ndarray](), list[np.ndarray]()
        for begin in track(range(0, len(rows), AT_ONCE), progress):
            padded = [dict(row) for row in rows[begin : begin + AT_ONCE]]
            batch = self.tokenizer.pad(padded, return_tensors="pt").to(self.device)
            real = batch["attention_mask"]
            if tokens == "all":
                wanted = real.bool()
            elif read is None:
                wanted = self._read_by_head(batch)
            else:
                first = real.int().argmax(dim=1)  # later where a tokenizer pads on the left
                at = first + torch.tensor(read[begin : begin + AT_ONCE], device=real.device)
                wanted = torch.arange(real.shape[1], device=real.device) == at[:, None]

            def keep(x: Float[Tensor, "text time d_model"], hook: Any, at: Any = wanted) -> None:
                values.append(x[at].float().cpu().numpy())

            with torch.inference_mode(), self.bridge.hooks([(name, keep)]):
                self.bridge.original_model(**batch)
            texts.append(begin + np.nonzero(wanted.cpu().numpy())[0])
        return np.concatenate(values), np.concatenate(texts)

    def _read_by_head(self, batch: Any) -> Bool[Tensor, "text time"]:
        """The tokens of the last block with a gradient from the logits."""
        held: list[Tensor] = []

        def hold(x: Float[Tensor, "text time d_model"], hook: Any) -> Tensor:
            held.append(x.detach().requires_grad_())
            return held[-1]

        last = f"blocks.{self.n_layers - 1}.hook_out"
        with torch.enable_grad(), self.bridge.hooks([(last, hold)]):
            logits = self.bridge.original_model(**batch).logits
            # Squares, as the sum of the logits may be constant.
            [slopes] = torch.autograd.grad(logits.square().sum(), held)
        is_real: Bool[Tensor, "text time"] = batch["attention_mask"].bool()
        return slopes.ne(0).any(dim=-1) & is_real


@dataclass(frozen=True, eq=False)
class HeadModel:
    """A `transformers` model with a head, put in eval mode, and its tokenizer."""

    batch_tokens: ClassVar[int] = 8192
    """Most tokens run together."""
    name: str
    hf_model: Any
    tokenizer: Any

    def __post_init__(self) -> None:
        self.hf_model.requires_grad_(False).eval()

    def logits(
        self, rows: Sequence[Mapping[str, Sequence[int]]], progress: str | None = None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """The head's logits of encoded texts, those of similar length together, by their numbers.

        `UserError` if they are not finite.
        """
        lengths = [len(row["input_ids"]) for row in rows]
        batches: list[list[int]] = []
        for i in sorted(range(len(rows)), key=lambda i: -lengths[i]):
            if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > self.batch_tokens:
                batches.append([])
            batches[-1].append(i)
        for batch in track(batches, progress):
            padded = self.tokenizer.pad([dict(rows[i]) for i in batch], return_tensors="pt")
            padded = padded.to(self.hf_model.device)
            with torch.inference_mode():
                logits = self.hf_model(**padded).logits
            require_finite(logits, partial(_only, padded), self.hf_model, self)
            yield batch, logits

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of config and weights."""
        return weights_hash(self.hf_model)

    @cached_property
    def encoder(self) -> Encoder:
        """The hook points of edits; an attached edit changes the output of the head."""
        return Encoder(self.name, Hooks(self.name, self.hf_model), self.tokenizer)


def _only(inputs: Mapping[str, Tensor], i: int) -> dict[str, Tensor]:
    return {key: value[[i]] for key, value in inputs.items()}
