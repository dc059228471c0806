"""Checks of a configuration that need no torch: files, folders and the task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import nearest_to, yaml_mapping
from countergen_edit.data.task import Task
from countergen_edit.runs.files import require_free

READ = ("run", "runs", "saved_edit", "checkpoint")
"""Settings that name a folder that must exist; `runs` may name a log of another tool."""


def require_inputs(config: Mapping[str, Any]) -> None:
    """Refuse a configuration whose files or folders are missing or hold something else."""
    for key in READ:
        value = config.get(key) or ()
        for folder in [value] if isinstance(value, str) else value:
            path = Path(folder).expanduser()
            if not (path.is_dir() or (key == "runs" and path.is_file())):
                problem = "is a file, not a folder" if path.exists() else "is not there"
                raise UserError(f"{key}: {folder!r} {problem}{nearest_to(path)}")
    if config.get("run_dir"):
        require_free(Path(config["run_dir"]))
    push = config.get("push")
    if push is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", push):
        raise UserError(f"push={push!r} names no repository: write USER/NAME")
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


def require_task(config: Mapping[str, Any]) -> None:
    """Refuse axes and data that do not make a task."""
    texts = dict(config["texts"])
    if texts.get("neutral") == "written":
        del texts["neutral"]
    Task.from_config(
        config_of("axis", config["axis"]),
        config_of("data", config["data"]),
        groups=config["groups"],
        texts=texts,
        names=config["names"],
        seed=config["seed"],
    )
