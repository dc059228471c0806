"""Plain descriptions of objects given in Python, the same in every process."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Collection, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import countergen_edit
from countergen_edit.core.writing import digest

_PACKAGE = Path(__file__).parents[1]
_PACKAGES = ("torch", "transformers", "transformer-lens", "numpy", "scipy", "scikit-learn", "cvxpy")


def versions() -> dict[str, str]:
    """The versions of this package and of those that its figures and weights depend on."""
    found = {name: metadata.version(name) for name in _PACKAGES}
    return found | {"countergen-edit": countergen_edit.__version__}


def described(value: Any, without: Collection[str] = ()) -> Any:
    """A value as plain JSON; an object becomes its class and settings.

    >>> described({"ranks": (1, 2), "place": Path("runs")})
    {'ranks': [1, 2], 'place': 'runs'}
    """
    if value is None or isinstance(value, bool | int | float | str | Path):
        return str(value) if isinstance(value, Path) else value
    if isinstance(value, Mapping):
        return {str(key): described(entry) for key, entry in value.items() if key not in without}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted((described(entry) for entry in value), key=repr)
    if hasattr(value, "tolist"):
        return digest(value.tolist())
    if inspect.isclass(value) or inspect.isroutine(value):
        return f"{value.__module__}:{value.__qualname__}"
    kind = type(value)
    own = getattr(value, "__dict__", {})
    settings = value.get_params(deep=False) if hasattr(value, "get_params") else own
    return {"class": f"{kind.__module__}:{kind.__qualname__}"} | described(settings, without)


def own_code(things: Iterable[Any]) -> dict[str, str]:
    """SHA-256 of the files outside this package in which the classes of objects are defined."""
    code = {}
    for kind in dict.fromkeys(map(type, things)):
        name = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if name and _PACKAGE not in (file := Path(name).resolve()).parents:
            code[f"{file.name}:{kind.__qualname__}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return code
