"""Check values from configs and files against type annotations, strictly, as JSON values."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic_core import CoreConfig, SchemaValidator, ValidationError

from countergen_edit.core.errors import UserError, unknown

T = TypeVar("T")
_LONGEST = 80
_BOUNDS = {
    "gt": "above",
    "ge": "from",
    "lt": "below",
    "le": "up to",
    "min_length": "no shorter than",
}
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "null",
}


def require(hint: Any, value: object, where: str) -> None:
    """Check a value against a type annotation.
    Raises:
        UserError: wrong type.

    >>> require(float, 3, "penalty")
    >>> require(int | None, True, "rank")
    Traceback (most recent call last):
        ...
    countergen_edit.core.errors.UserError: rank=True: write a whole number or null
    """
    validator = _validator(hint)
    if validator is None:
        return
    try:
        validator.validate_json(json.dumps(value), strict=True)
    except (TypeError, RecursionError):
        return  # not a JSON value: given in Python
    except ValidationError as error:
        raise _refusal(hint, value, where) from error


def require_keys(content: Mapping[str, Any], types: Mapping[str, Any], kind: str, at: str) -> None:
    """Check the keys of a mapping and the types of their values.

    Raises:
        UserError: an unknown `kind` or a wrong type; places are `at` and the key.
    """
    for key, value in content.items():
        if key not in types:
            raise unknown(kind, key, types)
        require(types[key], value, f"{at}{key}")


def require_arguments(thing: Callable[..., Any], arguments: Mapping[str, Any], where: str) -> None:
    """Check arguments against the annotations of a class or function.

    Raises:
        UserError: wrong type.
    """
    hints = hints_of(thing.__init__ if inspect.isclass(thing) else thing)
    for name, value in arguments.items():
        if name in hints:
            require(hints[name], value, f"{where}.{name}")


def built(cls: Callable[..., T], content: object, where: str) -> T:
    """A dataclass instance, with nested ones, from JSON content.
    Raises:
        UserError: a field is missing or has the wrong type.
    """
    validator = _validator(cls)
    assert validator is not None, cls
    try:
        made: T = validator.validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise UserError(f"{where}{place} is missing") from error
        reason = first["msg"].removeprefix("Input ")
        raise UserError(f"{where}{place} {_short(first['input'])} {reason}") from error
    return made


def hints_of(thing: Any) -> dict[str, Any]:
    """The annotations of a function or class, with ranges; empty if they cannot be resolved."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except (NameError, TypeError):  # names that are imported for the type checker alone
        return {}


def expected(hint: Any) -> str:
    """A type in words.

    >>> expected(int | None), expected(Sequence[float]), expected(Literal["a", "b"])
    ('a whole number or null', 'a list of numbers', 'a or b')
    >>> from annotated_types import Gt, Le
    >>> expected(Annotated[float, Gt(0), Le(1)])
    'a number above 0 and up to 1'
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return f"{expected(inner[0])} {_bounds(inner[1:])}"
    if origin in (typing.Union, types.UnionType):
        return _listed(expected(part) for part in inner)
    if origin is Literal:
        return _listed(str(choice) for choice in inner)
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return "a mapping such as {name: value}"
    if inspect.isclass(origin) and issubclass(origin, Sequence):
        kinds = {_several(part) for part in inner if part is not ...}
        kind = kinds.pop() if len(kinds) == 1 else "values"
        size = f"{len(inner)} " if origin is tuple and ... not in inner else ""
        return f"a list of {size}{kind}"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _bounds(limits: Iterable[object]) -> str:
    return " and ".join(
        f"{word} {getattr(limit, key)}"
        for limit in limits
        for key, word in _BOUNDS.items()
        if hasattr(limit, key)
    )


def _several(hint: Any) -> str:
    """A type in words, plural.

    >>> _several(str), _several(list[str]), _several(float | None)
    ('texts', 'lists of texts', 'values')
    """
    if typing.get_origin(hint) is Annotated:
        base, *limits = typing.get_args(hint)
        return f"{_several(base)} {_bounds(limits)}"
    noun = expected(hint).removeprefix("a ")
    if " or " in noun:
        return "values"
    first, _, rest = noun.partition(" ")
    return f"{first}s {rest}" if first in ("list", "mapping") else f"{noun}s"


@cache
def _validator(hint: Any) -> SchemaValidator | None:
    from pydantic import PydanticUserError, TypeAdapter  # late: help needs none of it

    try:
        schema = TypeAdapter(hint).core_schema
    except PydanticUserError:
        return None
    return SchemaValidator(schema, CoreConfig(allow_inf_nan=False))


def _refusal(hint: Any, value: object, where: str) -> UserError:
    within = _mapping_in(hint)
    if within is not None and isinstance(value, Mapping):
        for key, entry in value.items():
            require(within, entry, f"{where}.{key}")
    choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
    if choices and isinstance(value, str):
        return unknown(where, value, choices)
    return UserError(f"{where}={_short(value)}: write {expected(hint)}")


def _mapping_in(hint: Any) -> Any:
    """The value type of the mapping that a type is or allows; None otherwise."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return inner[1]
    parts = inner if origin in (typing.Union, types.UnionType) else ()
    return next((found for part in parts if (found := _mapping_in(part)) is not None), None)


def _short(value: object) -> str:
    written = repr(value)
    return written if len(written) <= _LONGEST else f"{written[:_LONGEST]}…"


def _listed(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last
