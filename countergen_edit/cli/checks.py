"""Checks of a configuration that need no torch: files, folders, layers and the task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import located_here
from countergen_edit.core.reading import json_mapping, nearest_to, yaml_mapping
from countergen_edit.data.axis_config import OF_AXIS
from countergen_edit.data.task import Task
from countergen_edit.runs.files import MANIFEST, require_free
from countergen_edit.testbed.files import SHIPPED, TESTBED

READ = ("run", "runs", "saved_edit", "checkpoint")
"""Settings that name a folder that must exist; `runs` may name a log of another tool."""
WRITTEN = ("run_dir", "save", "folder")
"""Settings that name a folder that is written."""
LAYER_COUNTS = ("num_hidden_layers", "n_layer", "num_layers")
"""Keys of a model's config for its number of layers."""


def require_inputs(config: Mapping[str, Any]) -> None:
    """Refuse a configuration whose files or folders are missing or hold something else."""
    for key in READ:
        value = config.get(key) or ()
        for folder in [value] if isinstance(value, str) else value:
            path = Path(folder).expanduser()
            if not (path.is_dir() or (key == "runs" and path.is_file())):
                problem = "is a file, not a folder" if path.exists() else "is not there"
                raise UserError(f"{key}: {folder!r} {problem}{nearest_to(path)}")
    for key in WRITTEN:
        value = config.get(key)
        if isinstance(value, str) and (value.isdecimal() or "${" in value):
            raise UserError(
                f"{key}={value} is taken as it stands, and is hardly a name: write a path, such as "
                f"./{''.join(c for c in value if c.isalnum()) or 'run'}"
            )
    run_dir = Path(config.get("run_dir") or "runs")
    if config.get("run_dir") and not [*run_dir.glob(f"*/{MANIFEST}")]:  # not of several models
        require_free(run_dir)
    model = config.get("model")
    if isinstance(model, Mapping) and "served_name" not in model and model.get("name"):
        require_layers(config, str(model["name"]))
    if config.get("action") == "compare":
        prompts = config["prompts"]
        if (count := len(prompts) if isinstance(prompts, list) else 1) != 2:
            raise UserError(
                f'cid compares two prompts, not {count}: countergen-edit cid "PROMPT" "PROMPT"'
            )
    if "perturbation" in config:
        config_of("perturbation", config["perturbation"])
    if config.get("template_file"):
        yaml_mapping(config["template_file"])
    if "data" in config:
        require_task(config)


def require_layers(config: Mapping[str, Any], model: str) -> None:
    """Refuse layers that a model on this machine lacks."""
    here = SHIPPED if model == TESTBED else located_here(model)
    place = config.get("edit") or {}
    site, layers = place.get("site"), config.get("layers", place.get("layers"))
    if here is None or site == "embed" or not isinstance(layers, int | list):
        return
    path = Path(str(here)) / "config.json"
    about = json_mapping(path) if path.is_file() else {}
    counts = [about[key] for key in LAYER_COUNTS if isinstance(about.get(key), int)]
    if len(counts) != 1 or counts[0] < 1 or about.get("is_encoder_decoder"):
        return
    for layer in layers if isinstance(layers, list) else [layers]:
        if isinstance(layer, int) and not 0 <= layer < counts[0]:
            raise UserError(
                f"unknown layer {layer} of {model} for site {site}: valid are 0..{counts[0] - 1}"
            )


def require_task(config: Mapping[str, Any]) -> None:
    """Refuse axes and data that do not make a task."""
    pairs = config.get("axes") or {}
    if not isinstance(pairs, Mapping):
        return  # refused where it is read
    for axis, data in [*pairs.items()] or [(config["axis"], config["data"])]:
        Task.from_config(
            config_of("axis", axis),
            config_of("data", OF_AXIS if data is None else data),
            groups=config["groups"],
            texts=config["texts"],
            names=config["names"],
            seed=config["seed"],
        )
