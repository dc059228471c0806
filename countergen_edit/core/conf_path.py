"""Find and read the shipped configuration (in the wheel or the checkout) and users' files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import require_known
from countergen_edit.core.reading import shipped_yaml, yaml_mapping

PROMPT_FILES = (".jsonl", ".json", ".csv", ".tsv", ".xlsx")
CONFIG_FILES = (".yaml", ".yml")
PATHS = ("path", "file")
"""Config keys that hold a path."""
MAYBE_PATHS = {
    "data": (*CONFIG_FILES, *PROMPT_FILES),
    "axis": CONFIG_FILES,
    "texts": CONFIG_FILES,
    "cross": CONFIG_FILES,
    "neutral": (".txt", ".md"),
}
"""Config keys that hold a path if the value has one of these suffixes, and a name otherwise."""
OWN_CODE = re.compile(r"(.*\.py)(:\w+)")


def conf_dir() -> Path:
    """The folder of the config groups."""
    package = Path(__file__).parents[1]
    shipped = package / "conf"
    return shipped if shipped.is_dir() else package.parent / "conf"


def prompt_source(path: Path | str) -> str:
    """The source of a file of prompts, by its suffix; empty for a name or a YAML file."""
    if (suffix := Path(path).suffix.lower()) in ("", *CONFIG_FILES):
        return ""
    require_known("kind of prompt file", suffix, PROMPT_FILES)
    return suffix[1:]


@cache
def component_table() -> dict[str, dict[str, dict[str, Any]]]:
    """Config group → its choices that have no file → settings, and what it `says` in help."""
    return dict(shipped_yaml(conf_dir() / "components.yaml"))


def names_of(group: str) -> list[str]:
    """The shipped choices of a config group."""
    files = {path.stem for path in (conf_dir() / group).glob("*.yaml")}
    return sorted(files | {*component_table().get(group, ())})


def read_config(group: str, name: str) -> dict[str, Any]:
    """The content of a shipped choice of a config group."""
    require_known(group, name, names_of(group))
    if settings := component_table().get(group, {}).get(name):
        return {name: {key: value for key, value in settings.items() if key != "says"}}
    return dict(shipped_yaml(conf_dir() / group / f"{name}.yaml"))


def config_of(group: str, value: object) -> dict[str, Any]:
    """The content of a config of a group, given by name, file or mapping.

    A mapping with a `file` extends that file. Data may be a file of prompts (`PROMPT_FILES`); the
    default name of data is the file's. Paths in a file are relative to its folder.
    """
    if isinstance(value, Mapping):
        base = config_of(group, str(value["file"])) if "file" in value else {}
        return base | {key: entry for key, entry in value.items() if key != "file"}
    path = Path(str(value)).expanduser()
    if group == "data" and (source := prompt_source(path)):
        prompts = {"source": source, "path": str(value)}
        return read_config("data", "prompts") | {"test": [prompts]}
    if path.suffix not in CONFIG_FILES:
        return read_config(group, str(value))
    content: dict[str, Any] = _resolved(path.parent, yaml_mapping(path))
    return {"name": path.stem, **content} if group == "data" else content


def _resolved(folder: Path, content: Any, key: str = "") -> Any:
    """The content of a file in a folder, with its relative paths resolved.

    >>> _resolved(Path("a"), {"test": [{"source": "f.py:make", "path": "b.csv", "axis": "age"}]})
    {'test': [{'source': 'a/f.py:make', 'path': 'a/b.csv', 'axis': 'age'}]}
    """
    if isinstance(content, Mapping):
        return {name: _resolved(folder, value, str(name)) for name, value in content.items()}
    if isinstance(content, list):
        return [_resolved(folder, value, key) for value in content]
    if not isinstance(content, str):
        return content
    if key == "source" and (code := OWN_CODE.fullmatch(content)):
        return _resolved(folder, code[1], PATHS[0]) + code[2]
    is_folder = key == "language" and (folder / content).is_dir()
    if key in PATHS or content.endswith(MAYBE_PATHS.get(key, ())) or is_folder:
        return str(folder / Path(content).expanduser())
    return content
