"""Characters that cannot be stored, which are refused, or shown, which are replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from countergen_edit.core.errors import UserError

_SURROGATE = re.compile("[\ud800-\udfff]")


def require_encodable(content: Any, where: str = "") -> None:
    """Refuse a text, or nested content with one, that UTF-8 cannot store.

    Raises:
        UserError: begins with `where` and the keys.
    """
    entries = [("", content)]
    for place, value in entries:  # grows
        if isinstance(value, Mapping | list | tuple):
            for key, entry in value.items() if isinstance(value, Mapping) else enumerate(value):
                entries += [(place, str(key)), (f"{place}.{key}".lstrip("."), entry)]
        elif isinstance(value, str) and (found := _SURROGATE.search(value)):
            around = value[max(0, found.start() - 20) : found.end() + 20]
            raise UserError(
                f"{where}{place or 'text'}={around!r}: {found[0]!r} is half of a character or a "
                "byte that is not UTF-8: write the whole character"
            )


def printable(text: str) -> str:
    """A text without control characters, which could command a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
