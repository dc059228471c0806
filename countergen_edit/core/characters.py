"""Characters that cannot be stored, which are refused, or shown, which are replaced."""

from __future__ import annotations

import json
from typing import Any

from countergen_edit.core.errors import UserError


def require_encodable(content: Any, where: str = "") -> None:
    """Refuse a text, or nested content with one, that UTF-8 cannot store.

    The `UserError` begins with `where` and the text around the character.
    """
    try:
        json.dumps(content, ensure_ascii=False, default=str, skipkeys=True).encode()
    except UnicodeEncodeError as error:
        around = error.object[max(0, error.start - 20) : error.end + 20]
        raise UserError(
            f"{where}{around!r}: {error.object[error.start]!r} is half of a character or a "
            "byte that is not UTF-8: write the whole character"
        ) from None
    except ValueError as error:  # content that holds itself
        raise UserError(f"{where}{error}") from None


def printable(text: str) -> str:
    """A text without control characters, which could command a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
