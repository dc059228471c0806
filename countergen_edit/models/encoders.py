"""Models that answer instead of continuing, with hooks at their blocks: what edits attach to.

In: the `transformers` model of a classifier or masked language model. Out: an `Encoder`, to which
an edit attaches as to any `LanguageModel`, and its activations `[layer, row, d_model]`. Blocks are
found by their number, whatever the family: what the first of them is given is the site `embed`,
what each gives is `resid_post`. Refused: a model whose blocks cannot be told, such as one that
shares a block between layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor, nn

from countergen_edit.errors import UserError, unknown
from countergen_edit.models.capture import Activations
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.sites import has_layers, hook_name

Tokens = Literal["outputs", "all"]
"""`outputs`: those that the head reads to answer; `all`: every one."""
ROWS = 128
"""Texts run together."""
Change = Callable[..., Tensor | None]


@dataclass(frozen=True)
class _Size:
    """What a bridge of TransformerLens calls its `cfg`."""

    n_layers: int
    d_model: int


class Hooks:
    """The hook points of a model of `transformers`, named as a `TransformerBridge` names them.

    Args:
        name: what the model is called.
        hf_model: the model.

    Raises:
        UserError: its blocks cannot be told.
    """

    def __init__(self, name: str, hf_model: Any) -> None:
        self.original_model = hf_model
        blocks = _blocks(name, hf_model)
        self.cfg = _Size(len(blocks), int(hf_model.config.hidden_size))
        self.hook_dict: Mapping[str, tuple[nn.Module, bool]] = {
            "embed.hook_out": (blocks[0], True),
            **{f"blocks.{i}.hook_out": (block, False) for i, block in enumerate(blocks)},
        }

    @contextmanager
    def hooks(self, fwd_hooks: Sequence[tuple[str, Change]]) -> Iterator[None]:
        """Let functions read or change activations while the block runs; they are then removed."""
        with ExitStack() as stack:
            for name, change in fwd_hooks:
                module, before = self.hook_dict[name]
                if before:
                    handle = module.register_forward_pre_hook(_given(change), with_kwargs=True)
                else:
                    handle = module.register_forward_hook(_gives(change))
                stack.callback(handle.remove)
            yield


def _blocks(name: str, hf_model: Any) -> nn.ModuleList:
    """The list of blocks: the first that is as long as the config says there are layers."""
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


def _given(change: Change) -> Callable[..., Any]:
    """A hook on what a module is given, which comes by its place or by its name."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            changed = change(args[0], hook=None)
            return None if changed is None else ((changed, *args[1:]), kwargs)
        changed = change(kwargs["hidden_states"], hook=None)
        return None if changed is None else (args, kwargs | {"hidden_states": changed})

    return hook


def _gives(change: Change) -> Callable[..., Any]:
    """A hook on what a module gives: a tensor, or a tuple that begins with it."""

    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, Tensor):
            return change(output, hook=None)
        changed = change(output[0], hook=None)
        return None if changed is None else (changed, *output[1:])

    return hook


@dataclass(frozen=True, eq=False)
class Encoder(LanguageModel):
    """A model that reads a text from both sides; it continues none, and scores none."""

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
        """What the model holds at the wanted tokens, an edit that is attached included.

        Args:
            rows: encoded texts, each `input_ids` and whatever else the model is given.
            site: `embed` or `resid_post`.
            layers: from 0; `embed` has none.
            tokens: which of them become rows.
            read: of each text the token that is read; None finds those that the head reads.
            progress: description of a progress bar.

        Raises:
            UserError: there is no such site or layer.
        """
        if tokens not in get_args(Tokens):
            raise unknown("edit.positions", tokens, get_args(Tokens))
        places: list[int | None] = [*layers] if has_layers(site) else [None]
        names = [hook_name(self, site, layer) for layer in places]
        parts: list[Float32[np.ndarray, "_layer row d_model"]] = []
        texts: list[Int[np.ndarray, " row"]] = []
        for begin in track(range(0, len(rows), ROWS), progress):
            some = rows[begin : begin + ROWS]
            batch = self.tokenizer.pad([dict(row) for row in some], return_tensors="pt")
            batch = batch.to(self.device)
            if tokens == "all":
                wanted = batch["attention_mask"].bool()
            elif read is not None:
                wanted = torch.zeros_like(batch["attention_mask"], dtype=torch.bool)
                # Where a tokenizer pads on the left, texts begin later.
                first = batch["attention_mask"].int().argmax(dim=1)
                at = torch.tensor(read[begin : begin + ROWS], device=wanted.device)
                wanted[torch.arange(len(some)), first + at] = True
            else:
                wanted = self._read_by_head(batch)
            parts.append(self._values(batch, names, wanted))
            texts.append(begin + np.nonzero(wanted.cpu().numpy())[0])
        values = np.concatenate(parts, axis=1)
        return Activations(
            {site: values}, np.concatenate(texts), {site: np.linalg.norm(values, axis=-1)}
        )

    def _values(
        self, batch: Any, names: Sequence[str], wanted: Bool[Tensor, "text time"]
    ) -> Float32[np.ndarray, "_layer row d_model"]:
        found: list[np.ndarray] = []

        def keep(x: Float[Tensor, "text time d_model"], hook: Any = None) -> None:
            found.append(x[wanted].float().cpu().numpy())

        with torch.inference_mode(), self.bridge.hooks([(name, keep) for name in names]):
            self.bridge.original_model(**batch)
        return np.stack(found)

    def _read_by_head(self, batch: Any) -> Bool[Tensor, "text time"]:
        """The tokens whose last hidden state has any influence on the logits."""
        last = f"blocks.{self.n_layers - 1}.hook_out"
        held: list[Tensor] = []

        def hold(x: Float[Tensor, "text time d_model"], hook: Any = None) -> Tensor:
            held.append(x.detach().requires_grad_())
            return held[-1]

        with torch.enable_grad(), self.bridge.hooks([(last, hold)]):
            logits = self.bridge.original_model(**batch).logits
            # Squares, as the sum of what a softmax is taken of may not depend on anything.
            [slopes] = torch.autograd.grad(logits.square().sum(), held)
        is_real: Bool[Tensor, "text time"] = batch["attention_mask"].bool()
        return slopes.ne(0).any(dim=-1) & is_real
