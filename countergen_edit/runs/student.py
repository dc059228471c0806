"""The student of a distillation: the stock model with a low-rank update by `peft`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from countergen_edit.core.errors import require_known
from countergen_edit.core.seeds import unit_seed
from countergen_edit.edits import UNCHANGED, LowRankUpdate
from countergen_edit.edits.checkpoints.forms import fold
from countergen_edit.edits.checkpoints.stock import linear_modules
from countergen_edit.erasers import Distilled
from countergen_edit.models import LanguageModel
from countergen_edit.models.batching import runs_trees
from countergen_edit.models.language_model import read_logits, stock_name
from countergen_edit.models.resumption import forward_replaced
from countergen_edit.runs.portions import Portion, in_passes, one_pass, some_rows

_ROWS = 4
"""Texts of a group after a context to erase in a step."""
WARM_UP = 10
_LAST = 0.1
"""Share of the learning rate at the last step."""
LARGEST_NORM = 1.0
"""Of the gradient."""
READING = (("attn", "q"), ("attn", "k"), ("mlp", "gate"))
"""Roles of matrices that are not updated by default: they select inputs."""


@dataclass(frozen=True, eq=False)
class Unedited:
    """A portion with the output of the unedited model."""

    portion: Portion
    log_probs: Float[Tensor, "read vocab"]
    below: Any
    """Output of the last block below the update; None where all blocks are updated."""
    difference: Float[Tensor, "column vocab"] | None = None
    half: Float[Tensor, "column vocab"] | None = None
    """The group difference after a context to erase, and its half in a person's target."""

    def of_rows(self, rows: Int[Tensor, " row"]) -> Unedited:
        """Some rows of a context to erase."""
        portion = some_rows(self.portion, rows)
        cells = self.log_probs.view(len(self.portion.ids), self.portion.reads, -1)
        return replace(
            self,
            portion=portion,
            log_probs=cells[rows.to(cells.device)].flatten(0, 1),
            below=_rows_of(self.below, rows, portion.ids.shape[1]),
        )

    def cast(self, dtype: torch.dtype) -> Unedited:
        """With log-probabilities and differences of a type."""
        if self.log_probs.dtype == dtype:
            return self
        names = ("log_probs", "difference", "half")
        parts = {name: part for name in names if (part := getattr(self, name)) is not None}
        return replace(self, **{name: part.to(dtype) for name, part in parts.items()})


def few_rows(portion: Portion, rng: np.random.Generator) -> Int[Tensor, " row"]:
    """At most `_ROWS` rows of either group, of a context to erase."""
    drawn = []
    assert portion.is_first is not None
    for side in (portion.is_first, ~portion.is_first):
        rows = side.nonzero()[:, 0].numpy()
        drawn.append(rng.choice(rows, min(_ROWS, len(rows)), replace=False))
    return torch.from_numpy(np.sort(np.concatenate(drawn)))


def _rows_of(below: Any, rows: Int[Tensor, " row"] | slice, longest: int) -> Any:
    """A copy of some rows of a block's output, up to a length."""
    return None if below is None else _of_hidden(below, lambda x: x[rows, :longest].clone())


def _together(below: Sequence[Any], longest: int) -> Any:
    """The outputs of a block for several portions, as for one."""
    if below[0] is None or len(below) == 1:
        return below[0]
    states = [output[0] if isinstance(output, tuple) else output for output in below]
    parts = [pad(state, (0, 0, 0, longest - state.shape[1])) for state in states]
    return _of_hidden(below[0], lambda _: torch.cat(parts))


def _of_hidden(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A module's output, a tensor or a tuple that begins with it, with that changed."""
    return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)


class Student:
    """The stock model with a trainable low-rank update; it shares all other weights.

    `layers` are the updated blocks, by default those from `settings.first_layer` on. Matrices are
    multiplied in bfloat16 where the device does so faster; the update itself is float32.
    """

    def __init__(
        self, model: LanguageModel, settings: Distilled, layers: Sequence[int] | None = None
    ) -> None:
        from peft import LoraConfig, get_peft_model

        plain = fold(model, UNCHANGED)
        names = block_names(model)
        layers = layers or range(settings.first_block(len(names)), len(names))
        targets = matrices(model, [names[i] for i in layers], settings.target_modules)
        device = str(model.device.type)
        self._bfloat16 = partial(
            torch.autocast, device, torch.bfloat16, enabled=multiplies_bfloat16(device)
        )
        if multiplies_bfloat16(device):
            in_bfloat16(plain, device)
        turned = not isinstance(plain.get_submodule(targets[0]), nn.Linear)
        rank = settings.rank
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, fan_in_fan_out=turned)
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            # peft reads a property that transformers deprecates, and draws from global state.
            warnings.simplefilter("ignore", FutureWarning)
            torch.manual_seed(unit_seed(settings.random_state, "distilled", "initial"))
            self.peft = get_peft_model(plain, config).eval()
        self.plain = plain
        self._model = model
        self._device = device
        self._index: Int[Tensor, " token"] | None = None
        self.first = min(layers)
        self._shared = [plain.get_submodule(name) for name in names[: self.first]]

    def restrict(self, tokens: Int[Tensor, " token"]) -> None:
        """Compute the logits of some tokens alone; log-probabilities are then among these.

        Tokens of portions must be among them; `unedited` numbers them anew.
        """
        output = self.plain.get_output_embeddings()
        self._index = torch.full((len(output.weight),), -1)
        self._index[tokens] = torch.arange(len(tokens))
        width = output.weight.shape[1]
        has_bias = output.bias is not None
        restricted = nn.Linear(width, len(tokens), bias=has_bias, device="meta")
        for name, whole in output.named_parameters():
            part = whole.detach()[tokens.to(whole.device)]
            setattr(restricted, name, nn.Parameter(part, requires_grad=False))
        if multiplies_bfloat16(self._device):
            unrounded(restricted, self._device)
        self.plain.set_output_embeddings(restricted)

    @property
    def vocab_size(self) -> int:
        """The number of tokens whose logits are computed."""
        return len(self.plain.get_output_embeddings().weight)

    def numbers(self, tokens: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The numbers of tokens among those whose logits are computed."""
        return tokens if self._index is None else self._index.to(tokens.device)[tokens]

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.peft.named_parameters() if p.requires_grad}

    def unedited(self, portions: Sequence[Portion]) -> list[Unedited]:
        """Log-probabilities without the update, and the output of the blocks below it."""
        unedited: dict[int, Unedited] = {}
        for numbers in in_passes(portions):
            with torch.no_grad(), self._without_update():
                log_probs, states = self._run([portions[i] for i in numbers])
            begin = 0
            for i, of_portion in zip(numbers, log_probs, strict=True):
                portion = portions[i].renumbered(self.numbers)
                rows = slice(begin, begin + len(portion.ids))
                below = _rows_of(states, rows, portion.ids.shape[1])
                unedited[i] = Unedited(portion, of_portion, below)
                begin = rows.stop
        return [unedited[i] for i in range(len(portions))]

    def passes(
        self, given: Sequence[Unedited]
    ) -> Iterator[list[tuple[Unedited, Float[Tensor, "_ vocab"]]]]:
        """Log-probabilities with gradients, pass by pass, from the first updated block on."""
        for numbers in in_passes([before.portion for before in given]):
            together = [given[i].cast(torch.float32) for i in numbers]
            portions = [before.portion for before in together]
            longest = max(portion.ids.shape[1] for portion in portions)
            below = _together([before.below for before in together], longest)
            log_probs, _ = self._run(portions, below)
            yield [*zip(together, log_probs, strict=True)]

    def _run(
        self, portions: Sequence[Portion], below: Any = None
    ) -> tuple[list[Float[Tensor, "_ vocab"]], Any]:
        """Log-probabilities, and the output of the last block below the update, row by row.

        With `below`, that output, the blocks below are not run.
        """
        longest = max(p.ids.shape[1] for p in portions)
        tokens = sum(int(p.mask.sum()) for p in portions)  # a row has at most so many
        joined = one_pass(portions, branch=runs_trees(self._model, tokens))
        states = list[Any]()
        with ExitStack() as stack:
            if below is not None:
                of_cell = np.zeros((2, *joined.ids.shape), np.int64)
                of_cell[:, *joined.cell] = joined.place
                output = _of_hidden(below, itemgetter((*of_cell,)))
                for block in self._shared:
                    stack.enter_context(forward_replaced(block, output))
            elif self._shared:
                hook = self._shared[-1].register_forward_hook(lambda m, i, out: states.append(out))
                stack.callback(hook.remove)
            stack.enter_context(self._bfloat16())
            row, column = torch.from_numpy(joined.cell[:, joined.reads])
            inputs = self._model.inputs(joined.ids, joined.mask)
            logits = read_logits(self.plain, inputs, (row, column))

        def by_row(hidden: Float[Tensor, "row time d"]) -> Float[Tensor, "text column d"]:
            texts = hidden.new_zeros((joined.place[0].max() + 1, longest, hidden.shape[-1]))
            texts[*joined.place] = hidden[*joined.cell]
            return texts

        parts = torch.split(logits, [len(p.at[0]) for p in portions])
        log_probs = [part.float().log_softmax(-1) for part in parts]
        return log_probs, _of_hidden(states[0], by_row) if states else None

    @property
    def update(self) -> LowRankUpdate:
        factors = {}
        for name, layer in self._layers.items():
            a, b = (part.detach().float().cpu().numpy().copy() for part in _factors(layer))
            factors[name] = (a, b * layer.scaling["default"])
        return LowRankUpdate(factors)

    @update.setter
    def update(self, update: LowRankUpdate) -> None:
        for name, layer in self._layers.items():
            a, b = update.factors[name]
            for part, array in zip(_factors(layer), (a, b / layer.scaling["default"]), strict=True):
                part.data.copy_(torch.from_numpy(array))

    @contextmanager
    def _without_update(self) -> Iterator[None]:
        """`disable_adapter` of peft without its checks, which are as slow as a small model."""
        for layer in self._layers.values():
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in self._layers.values():
                layer.enable_adapters(True)

    @cached_property
    def _layers(self) -> dict[str, Any]:
        from peft.tuners.lora import LoraLayer

        modules = self.plain.named_modules()
        return {name: module for name, module in modules if isinstance(module, LoraLayer)}


def _factors(layer: Any) -> tuple[nn.Parameter, nn.Parameter]:
    """A and B of an updated matrix."""
    return layer.lora_A["default"].weight, layer.lora_B["default"].weight


def multiplies_bfloat16(device: str) -> bool:
    """Whether a device multiplies matrices in bfloat16 faster than in float32."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())


def in_bfloat16(plain: Any, device: str) -> None:
    """Put matrices in bfloat16, except for the output's: logits would be rounded."""
    from transformers.pytorch_utils import Conv1D

    output = plain.get_output_embeddings()
    for module in plain.modules():
        if isinstance(module, nn.Linear | Conv1D) and module is not output:
            module.weight = nn.Parameter(module.weight.to(torch.bfloat16), requires_grad=False)
    unrounded(output, device)


def unrounded(output: Any, device: str) -> None:
    """Let an output matrix multiply in its own type under autocast."""
    dtype = output.weight.dtype
    output.register_forward_pre_hook(lambda module, inputs: (inputs[0].to(dtype), *inputs[1:]))
    output.forward = torch.autocast(device, enabled=False)(output.forward)


def block_names(model: LanguageModel) -> list[str]:
    """The stock names of a model's blocks."""
    by_module = {
        id(module): stock_name(name)
        for name, module in model.bridge.original_model.named_modules(remove_duplicate=False)
    }
    return [by_module[id(block)] for block in model.bridge.blocks]


def matrices(
    model: LanguageModel, blocks: Sequence[str], endings: Sequence[str] | None
) -> list[str]:
    """The linear modules of blocks, by the ends of their names.

    None takes all but queries, keys and gates. `UserError` where no module has such a name.
    """
    reading = {
        id(getattr(component, "original_component", None))
        for block in model.bridge.blocks
        for part, role in READING
        if (component := getattr(getattr(block, part, None), role, None)) is not None
    }
    linear = {
        name: name.rpartition(".")[2]
        for name, module in linear_modules(model).items()
        if name.startswith(tuple(f"{block}." for block in blocks))
        and not (endings is None and id(module) in reading)
    }
    for ending in endings or ():
        require_known("target module", ending, sorted({*linear.values()}))
    return [name for name, ending in linear.items() if not endings or ending in endings]


def pace(step: int, steps: int) -> float:
    """Share of the learning rate at a step: a linear warm-up, then a cosine."""
    cosine = 0.5 * (1.0 + np.cos(np.pi * step / steps))
    return float(min(1.0, (step + 1) / WARM_UP) * (_LAST + (1.0 - _LAST) * cosine))


@contextmanager
def stepping(adam: torch.optim.Adam, learning_rate: float) -> Iterator[None]:
    """A step along the gradient that the block accumulates, of norm `LARGEST_NORM` at most."""
    for group in adam.param_groups:
        group["lr"] = learning_rate
    adam.zero_grad()
    yield
    parameters = [p for group in adam.param_groups for p in group["params"]]
    nn.utils.clip_grad_norm_(parameters, LARGEST_NORM)
    adam.step()
