"""Where the shipped configuration lies: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from countergen_edit.errors import unknown


def conf_dir() -> Path:
    """The folder of the config groups."""
    package = Path(__file__).parent
    shipped = package / "conf"
    return shipped if shipped.is_dir() else package.parent / "conf"


def read_config(group: str, name: str) -> dict[str, Any]:
    """One file of a config group as a plain mapping.

    Raises:
        UserError: the group has no such file.
    """
    path = conf_dir() / group / f"{name}.yaml"
    if not path.is_file():
        raise unknown(group, name, sorted(p.stem for p in path.parent.glob("*.yaml")))
    content: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return content
