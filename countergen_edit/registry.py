"""One registry for each kind of thing that is chosen by name, so that a user's own is one of ours.

Comes in: a name and settings. Goes out: what is registered under the name, or an instance of it. A
name is one of ours, one that a decorator or an installed package's entry point has entered, or
`path/to/file.py:Name`. Refused: a name that nothing has, a setting that the signature lacks, a name
that something else has taken.

Ours are named by where they are, and imported when they are asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from countergen_edit.errors import UserError, unknown

T = TypeVar("T", bound=Callable[..., Any])
Registered = TypeVar("Registered", bound=Callable[..., Any])
KIND = "kind"
"""The setting that says which thing is meant where it stands under a name of the user's choice."""


class Registry(Generic[T]):
    """What is registered of one kind.

    Args:
        kind: what messages call it, such as `eraser`.
        group: the entry-point group under which an installed package enters its own.
        ours: name → `module:attribute`, in the order in which names are listed.
    """

    def __init__(self, kind: str, group: str, ours: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._ours = dict(ours)
        self._entered: dict[str, T] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._ours, *self._entered, *self._installed()]))

    def __contains__(self, name: object) -> bool:
        return name in [*self]

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Enter a class or function under `name`.

        Raises:
            UserError: the name is taken by another.

        >>> shelf = Registry("shape", "shapes", {})
        >>> @shelf.register("square")
        ... class Square: ...
        >>> [*shelf], shelf.get("square") is Square
        (['square'], True)
        """

        def enter(thing: Registered) -> Registered:
            taken = self._entered.get(name)
            where = f"{thing.__module__}:{thing.__qualname__}"
            known = f"{taken.__module__}:{taken.__qualname__}" if taken else self._ours.get(name)
            if known not in (None, where):
                raise UserError(f"{self.kind} name {name!r} is taken by {known}: choose another")
            self._entered[name] = thing  # type: ignore[assignment]
            return thing

        return enter

    def get(self, name: str) -> T:
        """What is registered under a name.

        Raises:
            UserError: nothing is, with the nearest name; or a file that is named lacks it.
        """
        if name in self._entered:
            return self._entered[name]
        if name in self._ours:
            module, _, attribute = self._ours[name].partition(":")
            found: T = getattr(importlib.import_module(module), attribute)
            return found
        if name in (installed := self._installed()):
            return self._load(name, installed[name].load)
        path, colon, attribute = str(name).rpartition(":")
        if colon and path.endswith(".py"):
            return self._load(name, lambda: _from_file(Path(path), attribute))
        raise unknown(self.kind, name, self)

    def make(self, name: str, settings: Mapping[str, Any] | None = None, **given: Any) -> Any:
        """An instance of what is registered under a name.

        Args:
            name: as it stands in a config; the setting `kind` says what is meant where the name is
                the user's own choice.
            settings: the user's; each must be in the signature.
            given: what the program adds, under names that a user cannot set.

        Raises:
            UserError: no such name; a setting that the signature lacks, with the nearest one; one
                that is needed and missing.
        """
        params = dict(settings or {})
        kind = str(params.pop(KIND, name))
        thing = self.get(kind)
        takes = {k: p for k, p in inspect.signature(thing).parameters.items() if k not in given}
        if not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
            for setting in params:
                if setting not in takes:
                    raise unknown(f"setting of {self.kind} {kind}", setting, [*takes, KIND])
        plain = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        needed = [k for k, p in takes.items() if p.default is p.empty and p.kind not in plain]
        missing = [key for key in needed if key not in params]
        if missing:
            raise UserError(
                f"{self.kind} {name} needs {', '.join(missing)}: give {name}.{missing[0]}"
            )
        return thing(**params, **given)

    def name_of(self, thing: Any) -> str:
        """The name under which a class, or that of an instance, is registered.

        What is registered nowhere is named as a file would name it, so that it is found again.

        >>> Registry("number", "numbers", {"real": "builtins:float"}).name_of(0.5)
        'real'
        """
        cls = thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
        where = f"{cls.__module__}:{cls.__qualname__}"
        for name, entered in self._entered.items():
            if entered is cls:
                return name
        for name, ours in self._ours.items():
            if ours.rpartition(":")[2] == cls.__qualname__ and self.get(name) is cls:
                return name
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        return f"{file}:{cls.__qualname__}" if file else where

    def _installed(self) -> dict[str, Any]:
        return _installed(self.group)

    def _load(self, name: str, load: Callable[[], Any]) -> T:
        try:
            found: T = load()
        except UserError:
            raise
        except Exception as error:  # somebody else's code, which fails in its own way
            raise UserError(
                f"cannot load {self.kind} {name!r}: {type(error).__name__}: {error}"
            ) from error
        self._entered[name] = found
        return found


@cache
def _installed(group: str) -> dict[str, Any]:
    """What installed packages enter under a group."""
    return {point.name: point for point in entry_points(group=group)}


def _from_file(path: Path, attribute: str) -> Any:
    """A name of a Python file, which is run once however many of its names are asked for."""
    if not path.is_file():
        raise UserError(f"no such file: {path}")
    where = path.resolve()
    module_name = f"countergen_edit_own_{where.stem}_{zlib.crc32(bytes(where)):08x}"
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, where)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
    if not hasattr(module, attribute):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise unknown(f"name in {path}:", attribute, public)
    return getattr(module, attribute)
