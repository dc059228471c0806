"""A registry for each kind of component that is chosen by name: built-in or the user's own.

A name is built in (stored as `module:attribute`, imported on first use), registered by a decorator
or by an installed package's entry point, or `path/to/file.py:Name`.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import require_arguments

_T = TypeVar("_T", bound=Callable[..., Any])
Registered = TypeVar("Registered", bound=Callable[..., Any])
KIND = "kind"
"""The setting that names the component where the user chose its name in the run."""


@dataclass(eq=False)
class Registry(Generic[_T]):
    """The registered components of one kind."""

    kind: str
    """The word for it in messages, such as `eraser`."""
    group: str
    """The entry-point group of installed packages."""
    ours: Mapping[str, str]
    """Built-in names → `module:attribute`, in listing order."""
    base: type | None = None
    """The required base class, if any."""
    _entered: dict[str, _T] = field(default_factory=dict, init=False)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.ours, *self._entered, *_installed(self.group)]))

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Register a class or function under a name; `UserError` if another one has it.

        >>> shapes = Registry("shape", "shapes", {})
        >>> @shapes.register("square")
        ... class Square: ...
        >>> [*shapes], shapes.get("square") is Square
        (['square'], True)
        """

        def enter(thing: Registered) -> Registered:
            place = _where(self._entered[name]) if name in self._entered else self.ours.get(name)
            if place not in (None, _where(thing)):
                raise UserError(f"{self.kind} name {name!r} is taken by {place}: choose another")
            self._entered[name] = thing  # type: ignore[assignment]
            return thing

        return enter

    def get(self, name: str) -> _T:
        """The component of a name, of ours first; `UserError` if unknown or not to be imported."""
        if name in self._entered:
            return self._entered[name]
        if name in self.ours:
            thing: _T = resolve_name(self.ours[name])
            return thing
        if name in (installed := _installed(self.group)):
            return self._load(name, installed[name].load)
        path, colon, attribute = str(name).rpartition(":")
        if colon and path.endswith(".py"):
            return self._load(name, lambda: _from_file(Path(path), attribute))
        if str(name).endswith(".py"):
            raise UserError(f"{self.kind} {name!r} is a file: say what in it, {name}:Name")
        raise unknown(self.kind, name, self)

    def make(self, name: str, settings: Mapping[str, Any] | None = None, **fixed: Any) -> Any:
        """An instance of a component; `UserError` for an unknown, missing or ill-typed setting."""
        params = dict(settings or {})
        kind = str(params.pop(KIND, name))
        thing = self.get(kind)
        signature = inspect.signature(thing).parameters.values()
        valid = {p.name: p for p in signature if p.kind in _BY_NAME and p.name not in fixed}
        is_open = any(p.kind is p.VAR_KEYWORD for p in signature)
        for setting in params:
            if setting in fixed or not (is_open or setting in valid):
                raise unknown(f"setting of {self.kind} {kind}", setting, [*valid, KIND])
        missing = [k for k, p in valid.items() if p.default is p.empty and k not in params]
        if missing:
            raise UserError(
                f"{self.kind} {name} needs {', '.join(missing)}: give {name}.{missing[0]}"
            )
        require_arguments(thing, params, f"{self.kind} {name}")
        return thing(**params, **fixed)

    def name_of(self, thing: Any) -> str:
        """The name of a class or of an instance's class.

        An unregistered class is named by its file, so that another process can load it.

        >>> Registry("number", "numbers", {"real": "builtins:float"}).name_of(0.5)
        'real'
        """
        cls = thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
        for name, entry in self._entered.items():
            if entry is cls:
                return name
        for name, place in self.ours.items():
            module, _, attribute = place.partition(":")
            # A module that was never imported cannot have defined the class.
            if attribute == cls.__qualname__ and module in sys.modules and self.get(name) is cls:
                return name
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        return f"{file}:{cls.__qualname__}" if file else _where(cls)

    def named(self, things: Any) -> dict[str, Any]:
        """Objects or names by their names in a run; a second `rlace` becomes `rlace_2`.

        >>> [*Registry("number", "numbers", {"real": "builtins:float"}).named([4.5, "real"])]
        ['real', 'real_2']
        """
        if isinstance(things, Mapping):
            return {k: self.make(v) if isinstance(v, str) else v for k, v in things.items()}
        is_one = isinstance(things, str) or not isinstance(things, Iterable)
        by_name: dict[str, Any] = {}
        counts: Counter[str] = Counter()
        for thing in [things] if is_one else things:
            component = self.make(thing) if isinstance(thing, str) else thing
            name = self.name_of(component).rpartition(":")[2]
            counts[name] += 1
            by_name[name if counts[name] == 1 else f"{name}_{counts[name]}"] = component
        return by_name

    def _load(self, name: str, load: Callable[[], Any]) -> _T:
        try:
            thing: _T = load()
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # somebody else's code, which fails in its own way
            reason = (str(error).strip() or "no reason given").splitlines()[0]
            raise UserError(
                f"cannot load {self.kind} {name!r}: {type(error).__name__}: {reason}"
            ) from error
        if not callable(thing):
            raise UserError(f"{self.kind} {name!r} is not a class or function, but {thing!r}")
        if self.base and not (inspect.isclass(thing) and issubclass(thing, self.base)):
            raise UserError(f"{self.kind} {name!r} is not derived from {_where(self.base)}")
        self._entered[name] = thing
        return thing


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _where(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


@cache
def _installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, by name."""
    return {point.name: point for point in entry_points(group=group)}


def _from_file(path: Path, attribute: str) -> Any:
    """An attribute of a Python file, which is run once in a process."""
    where = path.expanduser().resolve()
    if not where.is_file():
        raise UserError(f"no such file: {path}")
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
