"""Check values from configs and files against type annotations by pydantic, strictly, as JSON."""

from __future__ import annotations

import ast
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeVar

from pydantic_core import CoreConfig, SchemaValidator, ValidationError

from countergen_edit.core.characters import require_encodable
from countergen_edit.core.errors import UserError, unknown

_T = TypeVar("_T")
_LONGEST = 80
_SHOULD_BE = "Input should be "


def require(hint: Any, value: object, where: str) -> None:
    """Check a value against a type annotation; `UserError` names the innermost wrong entry."""
    validator = _validator(hint)
    if validator is None:
        return
    try:
        validator.validate_json(json.dumps(value), strict=True)
    except (TypeError, RecursionError):
        return  # not a JSON value: given in Python
    except ValidationError as error:
        require_encodable(value, f"{where}=")
        choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
        if choices and isinstance(value, str):
            raise unknown(where, value, choices) from error
        raise _refusal(value, where, error) from error


def require_keys(content: Mapping[str, Any], types: Mapping[str, Any], kind: str, at: str) -> None:
    """Check the keys of a mapping and the types of their values.

    `UserError` for an unknown `kind` or a wrong type; places are `at` and the key.
    """
    for key, value in content.items():
        if key not in types:
            raise unknown(kind, key, types)
        require(types[key], value, f"{at}{key}")


def require_arguments(thing: Callable[..., Any], arguments: Mapping[str, Any], where: str) -> None:
    """Check arguments against the annotations of a class or function."""
    hints = hints_of(thing.__init__ if inspect.isclass(thing) else thing)
    for name, value in arguments.items():
        if name in hints:
            require(hints[name], value, f"{where}.{name}")


def built(cls: Callable[..., _T], content: object, where: str) -> _T:
    """A dataclass instance, with nested ones, from JSON content."""
    validator = _validator(cls)
    assert validator is not None, cls
    try:
        instance: _T = validator.validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "missing":
            raise UserError(f"{where}{place} is missing") from error
        reason = first["msg"].removeprefix("Input ")
        raise UserError(f"{where}{place} {_short(first['input'])} {reason}") from error
    return instance


def hints_of(thing: Any) -> dict[str, Any]:
    """The annotations of a function or class, with ranges; empty if they cannot be resolved."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except (NameError, TypeError):  # names that are imported for the type checker alone
        return {}


@cache
def _validator(hint: Any) -> SchemaValidator | None:
    from pydantic import PydanticUserError, TypeAdapter  # late: help needs none of it

    try:
        schema = TypeAdapter(hint).core_schema
    except PydanticUserError:
        return None
    return SchemaValidator(schema, CoreConfig(allow_inf_nan=False))


def _refusal(value: object, where: str, error: ValidationError) -> UserError:
    """The messages about the innermost wrong entry."""
    details: list[tuple[list[str], Any, str]] = []
    for detail in error.errors():
        place, entry = [where], value
        for part in detail["loc"]:  # some parts name members of unions
            try:
                entry = entry[part]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                continue
            place.append(str(part))
        missing = detail["type"] == "missing" and isinstance(detail["loc"][-1], int)
        details.append((place, entry, f"{_SHOULD_BE}longer" if missing else detail["msg"]))
    inner, entry, _ = max(details, key=lambda detail: len(detail[0]))
    first, *more = dict.fromkeys(message for place, _, message in details if place == inner)
    joined = " or ".join([first, *(message.removeprefix(_SHOULD_BE) for message in more)])
    return UserError(f"{'.'.join(inner)}={_short(entry)}: {joined}")


def _short(value: object) -> str:
    written = repr(value)
    return written if len(written) <= _LONGEST else f"{written[:_LONGEST]}…"


def parameters_of(thing: Any) -> dict[str, str]:
    """The parameters of a class or function with their descriptions, one sentence each.

    They come from its docstring and from those below the fields of a class and its bases.
    """
    doc = inspect.getdoc(thing) or ""
    _, _, section = doc.partition("\nParameters\n")
    if not section:  # of Google's style
        section = re.sub(r"(?m)^ {4}(\w[\w, ]*):", r"\1 :", doc.partition("\nArgs:\n")[2])
    texts: dict[str, str] = {}
    entry = re.compile(r"(?m)^(\w[\w, ]*) :(.*)((?:\n {4,}.+)*)")
    for names, first, more in entry.findall(section.partition("\n\n")[0]):
        is_sentence = re.match(r'\s*[A-Z"‖]', more)  # after a type
        texts |= dict.fromkeys(names.split(", "), more if is_sentence else first + more)
    for cls in getattr(thing, "__mro__", (object,))[:-1]:
        body = getattr(ast.parse(inspect.getsource(cls).strip()).body[0], "body", [])
        for field, below in pairwise(body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    texts.setdefault(name, text)
    plain = {key: " ".join(text.replace("`", "").split()) for key, text in texts.items()}
    return {key: re.split(r"\.(?:\s|$)", text)[0] for key, text in plain.items()}
