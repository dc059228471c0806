"""The forms of a checkpoint: stock weights that an edit is folded into, an adapter, carried code.

The embedding alone, one point of the residual stream, limits and gates do not fold; a projection at
every point of the stream does (`stock`). An adapter holds the change of linear layers as a
low-rank update. A carried checkpoint holds the stock weights, the erasures' tensors, and
`modeling_edited.py` of this package with the names of the stock classes filled in.

With y = W x + b the output of the last matrix of an attention layer or an MLP, the erasure
y - L R (y - m) is itself an affine map of x:

    W' = (I - L R) W        b' = (I - L R) b + L R m

That of a head stands before the matrix. With W_h its columns for the head:

    W_h' = W_h (I - L R)    b' = b + W_h L R m
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import ADAPTER, without_places
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import require
from countergen_edit.core.writing import write_json
from countergen_edit.edits import Edit, LowRankUpdate, Placement
from countergen_edit.edits.checkpoints import modeling_edited
from countergen_edit.edits.checkpoints.stock import (
    UNTIED,
    empty_stock_model,
    module_name,
    projection_name,
    stock_classes,
    stock_model,
    stream_writers,
)
from countergen_edit.edits.edit import Factors
from countergen_edit.edits.record import FACTORS
from countergen_edit.erasers import AffineErasure
from countergen_edit.erasers.affine import constants, erase_tensor
from countergen_edit.models import LanguageModel
from countergen_edit.models.capture import EVERYWHERE, features, head_of

INSTEAD = "save it with form=carried"
CODE = "modeling_edited.py"
Read = Callable[[str], Tensor]
"""An unedited parameter by its name, in float64, from memory or files."""


class EditedWeights(dict[str, Callable[[Read], Tensor]]):
    """The parameters that an edit changes, computed in float64 when called."""

    def __init__(self, plain: Any, update: LowRankUpdate | None) -> None:
        """The matrices of a stock model with an update B A added."""
        for name, factors in update.factors.items() if update else ():
            is_turned = not isinstance(plain.get_submodule(name), nn.Linear)
            self[f"{name}.weight"] = partial(_updated, f"{name}.weight", factors, is_turned)

    def __missing__(self, name: str) -> Callable[[Read], Tensor]:
        return lambda read: read(name)

    def erase(self, name: str, axis: int, erasure: AffineErasure) -> None:
        """Erase the vectors along an axis of a parameter."""
        old = self[name]

        def erased(read: Read) -> Tensor:
            rows = old(read).movedim(axis, -1)
            return erase_tensor(rows, constants(erasure, rows), None).movedim(-1, axis)

        self[name] = erased

    def erase_inputs(
        self, matrix: str, axis: int, erasure: AffineErasure, of: slice, *, bias: bool
    ) -> None:
        """Fold an erasure of inputs along an axis of a matrix into it and its bias."""
        old_weight, old_bias = self[f"{matrix}.weight"], self[f"{matrix}.bias"]

        def erased(read: Read) -> Tensor:
            weight = old_weight(read).movedim(axis, -1).clone()
            left, right, _ = constants(erasure, weight)
            weight[..., of] -= weight[..., of] @ left @ right
            return weight.movedim(-1, axis)

        def shifted(read: Read) -> Tensor:
            weight = old_weight(read).movedim(axis, -1)
            left, _, offset = constants(erasure, weight)
            return old_bias(read) + weight[..., of] @ left @ offset

        self[f"{matrix}.weight"] = erased
        if bias:
            self[f"{matrix}.bias"] = shifted


def _updated(name: str, factors: Factors, is_turned: bool, read: Read) -> Tensor:
    weight = read(name)
    a, b = (torch.tensor(part, dtype=weight.dtype).to(weight.device) for part in factors)
    return weight + ((b @ a).T if is_turned else b @ a)


@dataclass(frozen=True)
class Patch:
    """The changes of a source: parameters, further tensors, and the config."""

    plain: Any
    """The stock model with unedited weights."""
    weights: EditedWeights
    added: Mapping[str, Tensor]
    config: Mapping[str, Any]
    code: str = ""
    """Content of `modeling_edited.py`."""

    @property
    def variant(self) -> str | None:
        """The variant of the names of weight files."""
        return modeling_edited.VARIANT if self.code else None

    def applied(self) -> Any:
        """The stock model with the changed weights, which replace its own."""
        state = self.plain.state_dict()
        for name, value in self.weights.items():
            new = value(lambda key: state[key].double()).to(state[name].dtype).contiguous()
            owner, _, leaf = name.rpartition(".")
            parameter = nn.Parameter(new, requires_grad=False)
            setattr(self.plain.get_submodule(owner), leaf, parameter)
        return self.plain


def fold(model: LanguageModel, edit: Edit) -> Any:
    """A stock model with the edit in its weights; `UserError` if it does not fold."""
    return folded_patch(model, edit).applied()


def folded_patch(model: LanguageModel, edit: Edit) -> Patch:
    """The weights that hold an edit; `UserError` as `fold`."""
    stock_classes(model)
    folds = [(placement, _matrix(model, placement)) for placement in edit.placements]
    switches: dict[str, bool] = {}
    for placement, name in folds:
        switches |= _bias_switch(model, placement, name) if name else UNTIED
    plain = stock_model(model, **switches)
    weights = EditedWeights(plain, edit.update)
    stream = None if all(name for _, name in folds) else stream_writers(model, plain)
    folds.sort(key=lambda pair: head_of(pair[0].site) is None)  # maps before a matrix come first
    for placement, name in folds:
        erasure = cast(AffineErasure, placement.erasure)
        if stream is not None and not name:
            scaled = replace(erasure, mean=erasure.mean / stream.scale)
            weights.erase(stream.embedding, 1, scaled)
            for writer, axis in stream.others.items():
                weights.erase(writer, axis, erasure.linear)
            continue
        module = plain.get_submodule(name)
        # Conv1D keeps its matrix transposed, output last.
        outputs = 0 if isinstance(module, nn.Linear) else 1
        has_bias = module.bias is not None
        if head_of(placement.site) is not None:
            of = features(model, placement.site)
            weights.erase_inputs(name, 1 - outputs, erasure, of, bias=has_bias)
        else:
            weights.erase(f"{name}.weight", outputs, erasure.linear)
            if has_bias:
                weights.erase(f"{name}.bias", 0, erasure)
    return Patch(plain, weights, {}, switches)


def _matrix(model: LanguageModel, placement: Placement) -> str:
    """The module that a placement folds into; empty for all writers of the stream."""
    if placement.site == EVERYWHERE:
        return ""
    reasons = {
        "resid_post": ": the residual stream also comes along the skip path, which no weight sees "
        "(edit.layers=everywhere folds)",
        "embed": ": the embedding may also be the output matrix, which the edit must not change",
    }
    alike = ", which treat every token alike, while the edit "
    reason = reasons.get(placement.site)
    if placement.limit is not None:
        reason = reason or f"{alike}skips attention sinks"
    elif placement.erasure.gate is not None:
        reason = reason or f"{alike}has a gate"
    if reason:
        raise UserError(
            f"an edit at site {placement.site} does not fold into weights{reason}; {INSTEAD}"
        )
    return projection_name(model, placement.site, placement.layer)


def _bias_switch(model: LanguageModel, placement: Placement, name: str) -> dict[str, bool]:
    """The switch of the config that gives a module the bias an edit needs."""
    key = f"{name}.bias"
    erasure = cast(AffineErasure, placement.erasure)
    keys = set(empty_stock_model(model).state_dict())
    if key in keys or not np.any(erasure.left @ erasure.offset):
        return {}
    for switch, value in model.bridge.original_model.config.to_dict().items():
        if value is False and "bias" in switch:
            added = set(empty_stock_model(model, **{switch: True}).state_dict()) - keys
            if key in added and all(k.endswith(".bias") for k in added):
                return {switch: True}
    raise UserError(
        f"an edit at site {placement.site} moves the mean, and {name} of {model.name} has no bias "
        f"to hold it, nor does its config have a switch for one; {INSTEAD}"
    )


def as_update(model: LanguageModel, edit: Edit) -> tuple[LowRankUpdate, dict[str, Tensor]]:
    """An edit as a low-rank update of linear layers, and the changes of their biases.

    A projection W' = W - L (R W) is one. `UserError` as `fold`, or if more than these change.
    """
    if edit.update is not None and not edit.placements:
        return edit.update, {}
    patch = folded_patch(model, edit)
    if patch.config:
        need = ", ".join(f"{key}={value}" for key, value in patch.config.items())
        raise UserError(
            f"an adapter changes linear layers alone, and this edit of {model.name} also needs "
            f"{need} in its config: save it with form=folded"
        )
    state = patch.plain.state_dict()
    factors: dict[str, Factors] = {}
    biases: dict[str, Tensor] = {}
    rank = edit.rank + (edit.update.rank if edit.update else 0)
    for key, value in patch.weights.items():
        name, _, leaf = key.rpartition(".")
        change = (value(lambda k: state[k].double()) - state[key].double()).cpu()
        if leaf == "bias":
            biases[name] = change.float().contiguous()
            continue
        if not isinstance(patch.plain.get_submodule(name), nn.Linear):
            change = change.T  # of Conv1D
        # The range of a change of this rank, by products (Halko et al. 2011, section 4.1).
        probes = generator(0, key).normal(size=(change.shape[1], rank))
        basis, _ = torch.linalg.qr(change @ torch.from_numpy(probes))
        factors[name] = ((basis.T @ change).float().numpy(), basis.float().numpy())
    return LowRankUpdate(factors), biases


def write_adapter(
    model: LanguageModel, update: LowRankUpdate, folder: Path, biases: Mapping[str, Tensor]
) -> None:
    """Write an update and biases as a PEFT adapter; ranks are padded with 0."""
    from peft import LoraConfig

    folder.mkdir(exist_ok=True)
    rank = update.rank
    state: dict[str, np.ndarray] = {}
    names = sorted(update.factors)
    for name in names:
        a, b = update.factors[name]
        missing = rank - len(a)
        parts = (np.pad(a, ((0, missing), (0, 0))), np.pad(b, ((0, 0), (0, missing))))
        for part, array in zip(FACTORS, parts, strict=True):
            state[f"base_model.model.{name}.{part}.weight"] = np.ascontiguousarray(array)
        if biases:
            shift = biases.get(name, torch.zeros(len(b)))
            state[f"base_model.model.{name}.{FACTORS[1]}.bias"] = shift.numpy()
    save_file(state, folder / "adapter_model.safetensors")
    LoraConfig(
        r=rank,
        lora_alpha=rank,
        lora_bias=bool(biases),
        target_modules=names,
        fan_in_fan_out=not isinstance(stock_model(model).get_submodule(names[0]), nn.Linear),
        base_model_name_or_path=without_places(model.name),
        task_type="CAUSAL_LM",
    ).save_pretrained(str(folder))
    # peft writes a set, in the order of the process.
    write_json(folder / ADAPTER, json_mapping(folder / ADAPTER) | {"target_modules": names})


def carried_patch(model: LanguageModel, edit: Edit) -> Patch:
    """The tensors of an edit, and a class that attaches it; `UserError` as `fold`."""
    config_class, model_class = stock_classes(model)
    plain = stock_model(model)
    wide = torch.promote_types(model.dtype, torch.float32)
    places: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for placement in edit.placements:
        module = module_name(model, placement.site, placement.layer)
        erasure = cast(AffineErasure, placement.erasure)
        gate = erasure.gate
        parts = {
            "left": erasure.left,
            "right": erasure.right,
            "offset": erasure.offset,
            "limit": torch.inf if placement.limit is None else placement.limit,
            "gate_weight": np.zeros(erasure.d) if gate is None else gate.weight,
            "gate_bias": 1.0 if gate is None else gate.bias,
        }
        for part, value in parts.items():
            tensors[f"{module}.erasure.{part}"] = torch.tensor(value, dtype=wide).contiguous()
        places.append({"module": module, "width": erasure.d, "rank": erasure.rank})
    config = {
        "architectures": ["EditedForCausalLM"],
        "auto_map": {
            "AutoConfig": "modeling_edited.EditedConfig",
            "AutoModelForCausalLM": "modeling_edited.EditedForCausalLM",
        },
        "erasures": places,
        "stock_model_type": plain.config.model_type,
        "original_architecture": model_class,  # by which TransformerBridge finds its adapter
        "model_type": modeling_edited.EditedConfig.model_type,
    }
    code = Path(modeling_edited.__file__).read_text("utf-8")
    code = code.replace("import GPT2Config as", f"import {config_class} as")
    code = code.replace("import GPT2LMHeadModel as", f"import {model_class} as")
    return Patch(plain, EditedWeights(plain, edit.update), tensors, config, code)


PATCHES: dict[str, Callable[[LanguageModel, Edit], Any]] = {
    "folded": folded_patch,
    "adapter": as_update,
    "carried": carried_patch,
}
"""The change by each form; `UserError` for an edit that it cannot hold."""


def write_stock_config(source: Path, target: Path) -> None:
    """Write the stock architecture's config from that of a carried checkpoint."""
    config = json_mapping(source)
    for key in ("stock_model_type", "original_architecture"):
        require(str, config.get(key), f"{source}: {key}")
    config["model_type"] = config.pop("stock_model_type")
    config["architectures"] = [config.pop("original_architecture")]
    write_json(target, {k: v for k, v in config.items() if k not in ("auto_map", "erasures")})
