"""What is refused before torch is imported, as all that it takes is at hand: files and folders.

Comes in: a composed config. Goes out: nothing. Refused, within a second: a model's directory or a
folder of a run, an edit or a checkpoint that is not there, a run_dir that holds something else, a
layer that the model's config does not count, and axes and data of which no task is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping, nearest_to, yaml_mapping
from countergen_edit.data.axis_data import OF_AXIS
from countergen_edit.data.sources.inputs import read_inputs
from countergen_edit.data.task import Task
from countergen_edit.models.locating import located_here
from countergen_edit.runs.folder import MANIFEST, require_free
from countergen_edit.testbed.files import SHIPPED, TESTBED

FOLDERS = ("run", "runs", "saved_edit", "checkpoint")
"""Settings that name a folder which must be there."""
FILES_TOO = ("runs",)
"""Of these, settings that may name a file: a log of another tool."""
MADE = ("run_dir", "save", "folder", "csv", "sheets", "directory", "page")
"""Settings that name a file or folder which may be made."""
COMPARE = "compare"
"""What `cid` does with two prompts."""
COUNTS = ("num_hidden_layers", "n_layer", "num_layers")
"""What the config of a model calls the number of its blocks; of two stacks it is not one number."""
ONCE = "embed"
"""The site that no layer numbers."""
WRITTEN = "written"
"""The neutral text that the model itself writes."""


def require_at_hand(config: Mapping[str, Any]) -> None:
    """Refuse a config of which files or folders are missing or hold something else.

    Raises:
        UserError: the first of them.
    """
    for key in FOLDERS:
        value = config.get(key) or ()
        for folder in [value] if isinstance(value, str) else value:
            path = Path(folder).expanduser()
            if not (path.is_dir() or (key in FILES_TOO and path.is_file())):
                what = "is a file, not a folder" if path.exists() else "is not there"
                raise UserError(f"{key}: {folder!r} {what}{nearest_to(path)}")
    for key in MADE:
        value = config.get(key)
        if isinstance(value, str) and (value.isdecimal() or "${" in value):
            raise UserError(
                f"{key}={value} is taken as it stands, and is hardly a name: write a path, such as "
                f"./{''.join(c for c in value if c.isalnum()) or 'run'}"
            )
    place = Path(config.get("run_dir") or "runs")
    several = [*place.glob(f"*/{MANIFEST}")]  # models, each with a folder within
    if config.get("run_dir") and not several:
        require_free(place)
    push = config.get("push")
    if push is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", push):
        raise UserError(f"push={push!r} names no repository: write USER/NAME")
    model = config.get("model")
    if isinstance(model, Mapping) and "served_name" not in model and model.get("name"):
        require_layers(config, str(model["name"]))
    if config.get("action") == COMPARE:
        require_two(config["prompts"])
    if "perturbation" in config:
        config_of("perturbation", config["perturbation"])
    if config.get("template_file"):
        yaml_mapping(config["template_file"])
    if "inputs" in config:
        read_inputs(config["inputs"])
    if "data" in config:
        require_task(config)


def require_two(prompts: Any) -> None:
    """Refuse other than two prompts to compare.

    Raises:
        UserError: saying how many there are.
    """
    count = len(prompts) if isinstance(prompts, list) else 1
    if count != 2:
        raise UserError(
            f'cid compares two prompts, not {count}: countergen-edit cid "PROMPT" "PROMPT"'
        )


def require_layers(config: Mapping[str, Any], model: str) -> None:
    """Refuse layers that are numbers and that the model has not, where its directory is at hand.

    Raises:
        UserError: naming the first, or that no model is there.
    """
    here = SHIPPED if model == TESTBED else located_here(model)
    place = config.get("edit") or {}
    site, layers = place.get("site"), config.get("layers", place.get("layers"))
    if here is None or site == ONCE or not isinstance(layers, int | list):
        return
    path = Path(str(here)) / "config.json"
    about = json_mapping(path) if path.is_file() else {}
    counts = [about[key] for key in COUNTS if isinstance(about.get(key), int)]
    if len(counts) != 1 or counts[0] < 1 or about.get("is_encoder_decoder"):
        return
    for layer in layers if isinstance(layers, list) else [layers]:
        if isinstance(layer, int) and not 0 <= layer < counts[0]:
            raise UserError(
                f"unknown layer {layer} of {model} for site {site}: valid are 0..{counts[0] - 1}"
            )


def require_task(config: Mapping[str, Any]) -> None:
    """Refuse axes and data of which no task is made.

    Raises:
        UserError: as `Task.from_config`.
    """
    texts = config_of("texts", config["texts"])
    if texts.get("neutral") == WRITTEN:
        texts = {key: value for key, value in texts.items() if key != "neutral"}
    pairs = config.get("axes") or {}
    if not isinstance(pairs, Mapping):
        return  # refused where it is read
    for axis, data in [*pairs.items()] or [(config["axis"], config["data"])]:
        Task.from_config(
            config_of("axis", axis),
            config_of("data", OF_AXIS if data is None else data),
            groups=config["groups"],
            texts=texts,
            names=config["names"],
            seed=config["seed"],
        )
