"""Classifiers and masked language models with hooks at their blocks, to which edits attach.

The input of the first block is the site `embed`, the output of each block `resid_post`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.models.capture import Activations, has_layers, hook_name
from countergen_edit.models.language_model import LanguageModel, weights_hash
from countergen_edit.models.overflow import require_finite
from countergen_edit.models.progress import track

Tokens = Literal["outputs", "all"]
"""`outputs`: those that the head reads; `all`: every one."""
ROWS = 128
"""Texts run together."""
Change = Callable[..., Tensor | None]


class Hooks:
    """Hook points of a `transformers` model, named as by a `TransformerBridge`."""

    def __init__(self, name: str, hf_model: Any) -> None:
        self.original_model = hf_model
        blocks = _blocks(name, hf_model)
        self.cfg = SimpleNamespace(n_layers=len(blocks), d_model=int(hf_model.config.hidden_size))
        self.hook_dict: Mapping[str, tuple[nn.Module, bool]] = {
            "embed.hook_out": (blocks[0], True),
            **{f"blocks.{i}.hook_out": (block, False) for i, block in enumerate(blocks)},
        }

    @contextmanager
    def hooks(self, fwd_hooks: Sequence[tuple[str, Change]]) -> Iterator[None]:
        """Let functions read or change activations within the block."""
        with ExitStack() as stack:
            for name, change in fwd_hooks:
                module, before = self.hook_dict[name]
                if before:
                    handle = module.register_forward_pre_hook(_on_input(change), with_kwargs=True)
                else:
                    handle = module.register_forward_hook(_on_output(change))
                stack.callback(handle.remove)
            yield


def _blocks(name: str, hf_model: Any) -> nn.ModuleList:
    """The first module list as long as the config has layers; `UserError` if there is none."""
    config = hf_model.config
    count = getattr(config, "num_hidden_layers", None)
    if not getattr(config, "is_encoder_decoder", False):
        for module in hf_model.base_model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == count:
                return module
    raise UserError(
        f"{name} ({type(hf_model).__name__}) has no list of its {count} blocks to edit at: give an "
        "encoder such as BERT, RoBERTa or DistilBERT"
    )


def _on_input(change: Change) -> Callable[..., Any]:
    """A hook on a module's input, positional or by name."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        changed = change(args[0] if args else kwargs["hidden_states"], hook=None)
        if changed is None:
            return None
        return ((changed, *args[1:]), kwargs) if args else ((), kwargs | {"hidden_states": changed})

    return hook


def _on_output(change: Change) -> Callable[..., Any]:
    """A hook on a module's output, a tensor or a tuple that begins with one."""

    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, Tensor):
            return change(output, hook=None)
        changed = change(output[0], hook=None)
        return None if changed is None else (changed, *output[1:])

    return hook


@dataclass(frozen=True, eq=False)
class Encoder(LanguageModel):
    """A bidirectional model, which neither continues nor scores texts."""

    def _require_causal(self) -> None:
        raise UserError(f"{self.name} answers texts and does not continue them")

    def activations(
        self,
        rows: Sequence[Mapping[str, Sequence[int]]],
        *,
        site: str,
        layers: Sequence[int],
        tokens: Tokens = "outputs",
        read: Sequence[int] | None = None,
        progress: str | None = None,
    ) -> Activations:
        """Activations of encoded texts (`input_ids` and other inputs), attached edits included.

        `tokens="outputs"` takes the token `read` of each text, or those that the head reads.
        """
        if tokens not in get_args(Tokens):
            raise unknown("edit.positions", tokens, get_args(Tokens))
        places: list[int | None] = [*layers] if has_layers(site) else [None]
        names = [hook_name(self, site, layer) for layer in places]
        parts, texts = [], []
        for begin in track(range(0, len(rows), ROWS), progress):
            some = [dict(row) for row in rows[begin : begin + ROWS]]
            batch = self.tokenizer.pad(some, return_tensors="pt").to(self.device)
            real = batch["attention_mask"]
            if tokens == "all":
                wanted = real.bool()
            elif read is None:
                wanted = self._read_by_head(batch)
            else:
                first = real.int().argmax(dim=1)  # later where a tokenizer pads on the left
                at = first + torch.tensor(read[begin : begin + ROWS], device=real.device)
                wanted = torch.arange(real.shape[1], device=real.device) == at[:, None]
            found: list[np.ndarray] = []
            keep = functools.partial(_keep, found, wanted)
            with torch.inference_mode(), self.bridge.hooks([(name, keep) for name in names]):
                self.bridge.original_model(**batch)
            parts.append(np.stack(found))
            texts.append(begin + np.nonzero(wanted.cpu().numpy())[0])
        values = np.concatenate(parts, axis=1)
        norms = {site: np.linalg.norm(values, axis=-1)}
        return Activations({site: values}, np.concatenate(texts), norms)

    def _read_by_head(self, batch: Any) -> Bool[Tensor, "text time"]:
        """The tokens of the last block with a gradient from the logits."""
        last = f"blocks.{self.n_layers - 1}.hook_out"
        held: list[Tensor] = []

        def hold(x: Float[Tensor, "text time d_model"], hook: Any) -> Tensor:
            held.append(x.detach().requires_grad_())
            return held[-1]

        with torch.enable_grad(), self.bridge.hooks([(last, hold)]):
            logits = self.bridge.original_model(**batch).logits
            # Squares, as the sum of the logits may be constant.
            [slopes] = torch.autograd.grad(logits.square().sum(), held)
        is_real: Bool[Tensor, "text time"] = batch["attention_mask"].bool()
        return slopes.ne(0).any(dim=-1) & is_real


def _keep(
    found: list[np.ndarray],
    wanted: Bool[Tensor, "text time"],
    x: Float[Tensor, "text time d_model"],
    hook: Any,
) -> None:
    found.append(x[wanted].float().cpu().numpy())


@dataclass(frozen=True, eq=False)
class HeadModel:
    """A `transformers` model with a head, in eval mode, and its tokenizer."""

    name: str
    hf_model: Any
    tokenizer: Any

    def logits(self, batch: Any) -> Any:
        """The head's logits of padded texts; `UserError` if they are not finite."""
        batch = batch.to(self.hf_model.device)
        logits = self.hf_model(**batch).logits
        require_finite(logits, lambda i: {k: v[[i]] for k, v in batch.items()}, self.hf_model, self)
        return logits

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of config and weights."""
        return weights_hash(self.hf_model)

    @functools.cached_property
    def encoder(self) -> Encoder:
        """The hook points of edits; an attached edit changes the output of the head."""
        return Encoder(self.name, Hooks(self.name, self.hf_model), self.tokenizer)
