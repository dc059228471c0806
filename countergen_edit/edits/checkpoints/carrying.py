"""Carried checkpoints: the stock weights, the erasures' tensors, and a file that applies them.

The file is `modeling_edited.py` of this package with the names of the stock classes filled in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import require
from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints import modeling_edited
from countergen_edit.edits.checkpoints.stock import module_name, stock_classes, stock_model
from countergen_edit.models import LanguageModel

MODEL_TYPE = "countergen_edited"
CODE = "modeling_edited.py"
_PLACEHOLDERS = {"import GPT2Config as": "config", "import GPT2LMHeadModel as": "model"}


def write_carried(model: LanguageModel, edit: Edit, folder: Path) -> None:
    """Write weights, the edit's tensors, config and modelling file."""
    stock = dict(zip(("config", "model"), stock_classes(model), strict=True))
    plain = stock_model(model)
    state = dict(plain.state_dict())
    wide = torch.promote_types(model.dtype, torch.float32)
    places: list[dict[str, Any]] = []
    for placement in edit.placements:
        module, erasure = module_name(model, placement.site, placement.layer), placement.erasure
        # Several at one module follow each other, the next a child of the one before it.
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
    _rewrite_config(folder / "config.json", stock["model"], places)
    code = Path(modeling_edited.__file__).read_text("utf-8")
    for placeholder, kind in _PLACEHOLDERS.items():
        code = code.replace(placeholder, f"import {stock[kind]} as")
    (folder / CODE).write_text(code, "utf-8")


def _rewrite_config(path: Path, architecture: str, places: list[dict[str, Any]]) -> None:
    config = json.loads(path.read_text("utf-8"))
    config |= {
        "architectures": ["EditedForCausalLM"],
        "auto_map": {
            "AutoConfig": "modeling_edited.EditedConfig",
            "AutoModelForCausalLM": "modeling_edited.EditedForCausalLM",
        },
        "erasures": places,
        "stock_model_type": config["model_type"],
        "original_architecture": architecture,  # by which TransformerBridge finds its adapter
        "model_type": MODEL_TYPE,
    }
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")


def stock_file(name: str) -> str:
    """The name of a file with weights in a folder that the stock class loads.

    >>> stock_file("model.edited.safetensors"), stock_file("model.safetensors.index.edited.json")
    ('model.safetensors', 'model.safetensors.index.json')
    """
    return name.replace(f".{modeling_edited.VARIANT}.", ".")


def write_stock_config(source: Path, target: Path) -> None:
    """Write the stock architecture's config from that of a carried checkpoint."""
    config = json_mapping(source)
    for key in ("stock_model_type", "original_architecture"):
        require(str, config.get(key), f"{source}: {key}")
    config["model_type"] = config.pop("stock_model_type")
    config["architectures"] = [config.pop("original_architecture")]
    config = {key: value for key, value in config.items() if key not in ("auto_map", "erasures")}
    target.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
