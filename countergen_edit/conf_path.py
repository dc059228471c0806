"""Where the shipped configuration lies, and how it and files of one's own are read.

It lies inside the wheel, or beside the package in a checkout. Refused: a name or file that is not
there, a file that holds no mapping.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.errors import unknown
from countergen_edit.reading import shipped_yaml, yaml_mapping

PROMPT_FILES = (".jsonl", ".csv")
CONFIG_FILES = (".yaml", ".yml")
PATHS = ("path", "file")
"""Keys of a config file that hold a path."""
MAYBE_PATHS = {
    "data": (*CONFIG_FILES, *PROMPT_FILES),
    "axis": CONFIG_FILES,
    "texts": CONFIG_FILES,
    "cross": CONFIG_FILES,
    "neutral": (".txt", ".md"),
}
"""Keys that hold a path where it ends so, and a name of ours otherwise."""
OWN_CODE = re.compile(r"(.*\.py)(:\w+)")
"""Code of the user's own: a file, and what in it."""


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
    paths = {path.stem: path for path in sorted((conf_dir() / group).glob("*.yaml"))}
    if name not in paths:
        raise unknown(group, name, paths)
    content: dict[str, Any] = shipped_yaml(paths[name])
    return content


def config_of(group: str, value: object) -> dict[str, Any]:
    """What a config of a group holds, which is named, lies in a file, or is given.

    A mapping with a `file` takes what that holds where it says nothing else. Data may be prompts of
    one's own (`.jsonl`, `.csv`), which are measured; what is not named in a file of data is called
    after it. Paths in a file are relative to where it lies.

    Raises:
        UserError: there is no such name or file, or the file holds no mapping.
    """
    if isinstance(value, Mapping):
        rest = {key: entry for key, entry in value.items() if key != "file"}
        return (config_of(group, str(value["file"])) | rest) if "file" in value else rest
    path = Path(str(value)).expanduser()
    if group == "data" and path.suffix in PROMPT_FILES:
        prompts = {"source": path.suffix[1:], "path": str(value)}
        return read_config("data", "prompts") | {"test": [prompts]}
    if path.suffix not in CONFIG_FILES:
        return read_config(group, str(value))
    content: dict[str, Any] = _found_from(path.parent, yaml_mapping(path))
    return {"name": path.stem, **content} if group == "data" else content


def _found_from(folder: Path, content: Any, key: str = "") -> Any:
    """What a file in a folder holds, with its relative paths as they are from here.

    >>> _found_from(Path("a"), {"test": [{"source": "f.py:make", "path": "b.csv", "axis": "age"}]})
    {'test': [{'source': 'a/f.py:make', 'path': 'a/b.csv', 'axis': 'age'}]}
    """
    if isinstance(content, Mapping):
        return {own: _found_from(folder, value, str(own)) for own, value in content.items()}
    if isinstance(content, list):
        return [_found_from(folder, value, key) for value in content]
    if not isinstance(content, str):
        return content
    if key == "source" and (code := OWN_CODE.fullmatch(content)):
        return _found_from(folder, code[1], PATHS[0]) + code[2]
    if key in PATHS or content.endswith(MAYBE_PATHS.get(key, ())):
        return str(folder / Path(content).expanduser())
    return content
