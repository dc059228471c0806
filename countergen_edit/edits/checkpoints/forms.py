"""The two forms of a checkpoint: edits folded into weights, and edits carried beside them.

With y = W x + b the output of the last matrix of an attention layer or an MLP, the erasure
y - L R (y - m) is itself an affine map of x:

    W' = (I - L R) W        b' = (I - L R) b + L R m

An erasure of an embedding acts on each of its rows. The residual stream, limits and gates do not
fold. A carried checkpoint holds the stock weights, the erasures' tensors, and
`modeling_edited.py` of this package with the names of the stock classes filled in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import require
from countergen_edit.edits import Edit, Placement, Shift
from countergen_edit.edits.checkpoints import modeling_edited
from countergen_edit.edits.checkpoints.stock import (
    empty_stock_model,
    module_name,
    projection_name,
    stock_classes,
    stock_model,
)
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel

INSTEAD = "save it with form=carried"
_SCALE_TOLERANCE = 1e-5
"""An embedding that multiplies its rows by a constant does so in its own precision."""
MODEL_TYPE = "countergen_edited"
CODE = "modeling_edited.py"


def fold(model: LanguageModel, edit: Edit) -> Any:
    """Return a stock model with the edit in its weights; `model` itself is not changed.

    Raises a `UserError` if the edit does not fold exactly, or the architecture is not from
    transformers.
    """
    stock_classes(model)
    places = [(placement, _find(model, placement)) for placement in edit.placements]
    changes: dict[str, Any] = {}
    for placement, name in places:
        changes |= _changes(model, placement, name)
    plain = stock_model(model, **changes)
    for placement, name in places:
        _require_unshared(plain, name)
        module = plain.get_submodule(name)
        if isinstance(module, nn.Embedding):
            _fold_embedding(module, placement.erasure, model)
        else:
            _fold_matrix(module, placement.erasure)
    return plain


def can_fold(model: LanguageModel, edit: Edit) -> bool:
    """Whether `fold` would succeed."""
    try:
        for placement in edit.placements:
            _changes(model, placement, _find(model, placement))
    except UserError:
        return False
    return True


def _find(model: LanguageModel, placement: Placement) -> str:
    """The module that a placement folds into."""
    from transformers.pytorch_utils import Conv1D

    reason = None
    if placement.site == "resid_post":
        reason = ": the residual stream also comes along the skip path, which no weight sees"
    elif placement.limit is not None:
        reason = ", which treat every token alike, while the edit skips attention sinks"
    elif placement.erasure.gate is not None:
        reason = ", which treat every token alike, while the edit has a gate"
    if reason:
        raise UserError(
            f"an edit at site {placement.site} does not fold into weights{reason}; {INSTEAD}"
        )
    kinds = (nn.Embedding,) if placement.site == "embed" else (nn.Linear, Conv1D)
    return projection_name(model, placement.site, placement.layer, kinds)


def _changes(model: LanguageModel, placement: Placement, name: str) -> dict[str, Any]:
    """Changes of the config: an output matrix of its own, a bias."""
    config = model.bridge.original_model.config
    if placement.site == "embed":
        # The output matrix keeps the rows that the embedding loses.
        return {"tie_word_embeddings": False} if config.tie_word_embeddings else {}
    key = f"{name}.bias"
    has = set(empty_stock_model(model).state_dict())
    if key in has or not np.any(_offset(placement.erasure)):
        return {}
    for switch, value in config.to_dict().items():
        if value is False and "bias" in switch:
            more = set(empty_stock_model(model, **{switch: True}).state_dict()) - has
            if key in more and all(added.endswith(".bias") for added in more):
                return {switch: True}
    raise UserError(
        f"an edit at site {placement.site} moves the mean, and {name} of {model.name} has no bias "
        f"to hold it, nor does its config have a switch for one; {INSTEAD}"
    )


def _require_unshared(plain: Any, name: str) -> None:
    """Refuse to change a weight that is also used elsewhere."""
    weight = plain.get_submodule(name).weight
    parameters = plain.named_parameters(remove_duplicate=False)
    users = [key for key, parameter in parameters if parameter is weight]
    if len(users) > 1:
        raise UserError(
            f"the weight of {name} is also {', '.join(users[1:])}, which the edit must not "
            f"change; {INSTEAD}"
        )


def _offset(erasure: AffineErasure | Shift) -> Float[np.ndarray, " d"]:
    offset: Float[np.ndarray, " d"] = erasure.left @ erasure.offset
    return offset


def _tensors(erasure: AffineErasure | Shift, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    left, right, offset = (
        torch.tensor(a, dtype=torch.float64, device=like.device)
        for a in (erasure.left, erasure.right, _offset(erasure))
    )
    return left, right, offset


def _fold_matrix(module: Any, erasure: AffineErasure | Shift) -> None:
    left, right, offset = _tensors(erasure, module.weight)
    # Conv1D keeps its matrix transposed, output last.
    transposed = not isinstance(module, nn.Linear)
    weight = module.weight.double()
    weight = weight.T if transposed else weight
    weight = weight - left @ (right @ weight)
    weight = weight.T if transposed else weight
    dtype = module.weight.dtype
    module.weight = nn.Parameter(weight.contiguous().to(dtype), requires_grad=False)
    if module.bias is not None:
        bias = module.bias.double()
        bias = bias - left @ (right @ bias) + offset
        module.bias = nn.Parameter(bias.to(dtype), requires_grad=False)


def _fold_embedding(
    module: nn.Embedding, erasure: AffineErasure | Shift, model: LanguageModel
) -> None:
    # Measured, as some families multiply the rows by a constant.
    original = model.bridge.original_model.get_input_embeddings()
    with torch.inference_mode():
        every = torch.arange(module.num_embeddings, device=module.weight.device)
        output = getattr(original, "original_component", original)(every).double()
    before = original.weight.double()  # `module` may hold an edit already
    scale = (output * before).sum() / (before * before).sum()
    if (output - scale * before).abs().max() > _SCALE_TOLERANCE * output.abs().max():
        raise UserError(
            f"the embedding of {model.name} is more than a table of rows; an edit of it does not "
            f"fold exactly: {INSTEAD}"
        )
    left, right, offset = _tensors(erasure, module.weight)
    rows = scale * module.weight.double()
    rows = (rows - rows @ right.T @ left.T + offset) / scale
    module.weight = nn.Parameter(rows.to(module.weight.dtype), requires_grad=False)


def write_carried(model: LanguageModel, edit: Edit, folder: Path) -> None:
    """Write weights, the edit's tensors, config and modelling file."""
    config_class, model_class = stock_classes(model)
    plain = stock_model(model)
    state = dict(plain.state_dict())
    wide = torch.promote_types(model.dtype, torch.float32)
    places: list[dict[str, Any]] = []
    for placement in edit.placements:
        module, erasure = module_name(model, placement.site, placement.layer), placement.erasure
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


def stock_file(name: str) -> str:
    """The name of a file with weights in a folder that the stock class loads.

    >>> stock_file("model.edited.safetensors"), stock_file("model.safetensors.index.edited.json")
    ('model.safetensors', 'model.safetensors.index.json')
    """
    return name.replace(f".{modeling_edited.VARIANT}.", ".")
