"""Names and plain descriptions of objects given in Python, the same in every process."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from countergen_edit.core.registry import Registry
from countergen_edit.core.writing import digest

PACKAGE = Path(__file__).parents[1]


def named(things: Any, registry: Registry[Any]) -> dict[str, Any]:
    """Objects by their names in a run; a second `rlace` becomes `rlace_2`.

    >>> [*named([4.5, "real", 2.5], Registry("number", "numbers", {"real": "builtins:float"}))]
    ['real', 'real_2', 'real_3']
    """
    if isinstance(things, Mapping):
        return {k: registry.make(v) if isinstance(v, str) else v for k, v in things.items()}
    several = things if isinstance(things, Iterable) and not isinstance(things, str) else [things]
    by_name: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for thing in several:
        own = registry.make(thing) if isinstance(thing, str) else thing
        name = registry.name_of(own).rpartition(":")[2]
        counts[name] += 1
        by_name[name if counts[name] == 1 else f"{name}_{counts[name]}"] = own
    return by_name


def described(value: Any, without: Collection[str] = ()) -> Any:
    """A value as plain JSON; an object becomes its class and settings.

    >>> described({"ranks": (1, 2), "place": Path("runs")})
    {'ranks': [1, 2], 'place': 'runs'}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
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
    if hasattr(value, "get_params"):
        settings = value.get_params(deep=False)
    else:
        settings = getattr(value, "__dict__", {})
    return {"class": f"{kind.__module__}:{kind.__qualname__}"} | described(settings, without)


def own_code(things: Iterable[Any]) -> dict[str, str]:
    """SHA-256 of the files outside this package in which the classes of objects are defined."""
    code = {}
    for kind in dict.fromkeys(map(type, things)):
        name = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if name and PACKAGE not in (file := Path(name).resolve()).parents:
            code[f"{file.name}:{kind.__qualname__}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return code
