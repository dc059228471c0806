"""The two forms of a checkpoint: edits folded into weights, and edits carried beside them.

With y = W x + b the output of the last matrix of an attention layer or an MLP, the erasure
y - L R (y - m) is itself an affine map of x:

    W' = (I - L R) W        b' = (I - L R) b + L R m

That of a head stands before the matrix. With W_h its columns for the head:

    W_h' = W_h (I - L R)    b' = b + W_h L R m

The embedding alone, one point of the residual stream, limits and gates do not fold; a projection at
every point of the stream does (`stream`). A carried checkpoint holds the stock weights, the
erasures' tensors, and `modeling_edited.py` of this package with the names of the stock classes
filled in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import require
from countergen_edit.edits import Edit, LowRankUpdate, Placement
from countergen_edit.edits.checkpoints import modeling_edited
from countergen_edit.edits.checkpoints.stock import (
    empty_stock_model,
    module_name,
    projection_name,
    stock_classes,
    stock_model,
)
from countergen_edit.edits.checkpoints.stream import (
    UNTIED,
    fold_everywhere,
    replace_parameter,
    stream_writers,
)
from countergen_edit.edits.files import FACTORS
from countergen_edit.erasers import AffineErasure
from countergen_edit.erasers.affine import constants
from countergen_edit.models import LanguageModel
from countergen_edit.models.capture import EVERYWHERE, features, head_of

INSTEAD = "save it with form=carried"
MODEL_TYPE = "countergen_edited"
CODE = "modeling_edited.py"


def fold(model: LanguageModel, edit: Edit) -> Any:
    """Return a stock model with the edit in its weights; `model` itself is not changed.

    Raises a `UserError` if the edit does not fold exactly, or the architecture is not from
    transformers.
    """
    stock_classes(model)
    names, switches = _switches(model, edit)
    plain = merged(stock_model(model, **switches), edit.update)
    stream = None if all(names) else stream_writers(model, plain)
    both = [*zip(edit.placements, names, strict=True)]
    heads = [pair for pair in both if head_of(pair[0].site) is not None]
    # Of maps before a matrix the last is next to it.
    for placement, name in (*heads[::-1], *(pair for pair in both if pair not in heads)):
        erasure = cast(AffineErasure, placement.erasure)
        if stream is not None and not name:
            fold_everywhere(plain, stream, erasure)
        elif head_of(placement.site) is not None:
            _fold_before(plain, name, erasure, features(model, placement.site))
        else:
            module = plain.get_submodule(name)
            # Conv1D keeps its matrix transposed, output last.
            axis = 0 if isinstance(module, nn.Linear) else 1
            replace_parameter(plain, f"{name}.weight", axis, erasure.linear)
            if module.bias is not None:
                replace_parameter(plain, f"{name}.bias", 0, erasure)
    return plain


def can_fold(model: LanguageModel, edit: Edit) -> bool:
    """Whether `fold` would succeed."""
    try:
        _switches(model, edit)
    except UserError:
        return False
    return True


def _switches(model: LanguageModel, edit: Edit) -> tuple[list[str], dict[str, bool]]:
    """The module that each placement folds into, and switches of the config that this needs."""
    names = [_matrix(model, placement) for placement in edit.placements]
    switches: dict[str, bool] = {}
    for placement, name in zip(edit.placements, names, strict=True):
        switches |= _bias_switch(model, placement, name) if name else UNTIED
    return names, switches


def _matrix(model: LanguageModel, placement: Placement) -> str:
    """The module that a placement folds into; empty for all that write the residual stream."""
    if placement.site == EVERYWHERE:
        return ""
    reasons = {
        "resid_post": ": the residual stream also comes along the skip path, which no weight sees "
        "(edit.layers=everywhere folds)",
        "embed": ": the embedding may also be the output matrix, which the edit must not change",
    }
    alike, reason = ", which treat every token alike, while the edit ", reasons.get(placement.site)
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
    key, erasure = f"{name}.bias", cast(AffineErasure, placement.erasure)
    has = set(empty_stock_model(model).state_dict())
    if key in has or not np.any(erasure.left @ erasure.offset):
        return {}
    for switch, value in model.bridge.original_model.config.to_dict().items():
        if value is False and "bias" in switch:
            more = set(empty_stock_model(model, **{switch: True}).state_dict()) - has
            if key in more and all(added.endswith(".bias") for added in more):
                return {switch: True}
    raise UserError(
        f"an edit at site {placement.site} moves the mean, and {name} of {model.name} has no bias "
        f"to hold it, nor does its config have a switch for one; {INSTEAD}"
    )


def merged(plain: Any, update: LowRankUpdate | None) -> Any:
    """A stock model with an update added to its own copies of the matrices, in float64."""
    for name, factors in update.factors.items() if update else ():
        module = plain.get_submodule(name)
        a, b = (torch.tensor(part, device=module.weight.device).double() for part in factors)
        change = b @ a if isinstance(module, nn.Linear) else (b @ a).T
        weight = (module.weight.double() + change).to(module.weight.dtype)
        module.weight = nn.Parameter(weight, requires_grad=False)
    return plain


def write_adapter(model: LanguageModel, update: LowRankUpdate, folder: Path) -> None:
    """Write an update as a PEFT adapter of the unedited model; smaller ranks are padded with 0."""
    from peft import LoraConfig

    folder.mkdir()
    rank, state = update.rank, {}
    for name, (a, b) in update.factors.items():
        more = rank - len(a)
        parts = (np.pad(a, ((0, more), (0, 0))), np.pad(b, ((0, 0), (0, more))))
        for part, array in zip(FACTORS, parts, strict=True):
            state[f"base_model.model.{name}.{part}.weight"] = np.ascontiguousarray(array)
    save_file(state, folder / "adapter_model.safetensors")
    names = [*update.factors]
    LoraConfig(
        r=rank,
        lora_alpha=rank,
        target_modules=names,
        fan_in_fan_out=not isinstance(stock_model(model).get_submodule(names[0]), nn.Linear),
        base_model_name_or_path=model.directory,
        task_type="CAUSAL_LM",
    ).save_pretrained(str(folder))


def _fold_before(plain: Any, name: str, erasure: AffineErasure, of: slice) -> None:
    """Fold an erasure of some inputs of a matrix into it and its bias, in float64."""
    module = plain.get_submodule(name)
    axis = 1 if isinstance(module, nn.Linear) else 0
    weight = module.weight.double().movedim(axis, -1).clone()
    left, right, offset = constants(erasure, weight)
    moved = weight[:, of] @ left
    weight[:, of] -= moved @ right
    new = {"weight": weight.movedim(-1, axis)}
    if module.bias is not None:
        new["bias"] = module.bias.double() + moved @ offset
    for leaf, value in new.items():
        value = value.to(module.weight.dtype).contiguous()
        setattr(module, leaf, nn.Parameter(value, requires_grad=False))


def write_carried(model: LanguageModel, edit: Edit, folder: Path) -> None:
    """Write weights, the edit's tensors, config and modelling file."""
    config_class, model_class = stock_classes(model)
    plain = merged(stock_model(model), edit.update)
    state = dict(plain.state_dict())
    wide = torch.promote_types(model.dtype, torch.float32)
    places: list[dict[str, Any]] = []
    for placement in edit.placements:
        module = module_name(model, placement.site, placement.layer)
        erasure = cast(AffineErasure, placement.erasure)
        # Several at one module follow each other, each a child of the one before it.
        before = sum(place["module"] == module for place in places)
        name = ".".join([module, "erasure", *["then"] * before])
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
            state[f"{name}.{part}"] = torch.tensor(value, dtype=wide).contiguous()
        places.append({"module": module, "width": erasure.d, "rank": erasure.rank})
    # Custom classes get no conversion of keys when they are loaded: write the names they have.
    options = {"save_original_format": False, "variant": modeling_edited.VARIANT}
    plain.save_pretrained(folder, state_dict=state, **options)
    config = json_mapping(folder / "config.json")
    config |= {
        "architectures": ["EditedForCausalLM"],
        "auto_map": {
            "AutoConfig": "modeling_edited.EditedConfig",
            "AutoModelForCausalLM": "modeling_edited.EditedForCausalLM",
        },
        "erasures": places,
        "stock_model_type": config["model_type"],
        "original_architecture": model_class,  # by which TransformerBridge finds its adapter
        "model_type": MODEL_TYPE,
    }
    _write_config(folder / "config.json", config)
    code = Path(modeling_edited.__file__).read_text("utf-8")
    code = code.replace("import GPT2Config as", f"import {config_class} as")
    code = code.replace("import GPT2LMHeadModel as", f"import {model_class} as")
    (folder / CODE).write_text(code, "utf-8")


def write_stock_config(source: Path, target: Path) -> None:
    """Write the stock architecture's config from that of a carried checkpoint."""
    config = json_mapping(source)
    for key in ("stock_model_type", "original_architecture"):
        require(str, config.get(key), f"{source}: {key}")
    config["model_type"] = config.pop("stock_model_type")
    config["architectures"] = [config.pop("original_architecture")]
    _write_config(target, {k: v for k, v in config.items() if k not in ("auto_map", "erasures")})


def _write_config(path: Path, config: dict[str, Any]) -> None:
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
