"""What may befall a file: any of its bytes, or any of the values of its JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

ODD: list[Any] = [None, True, -1, 0, 3.5, 10**30, "", "abc", "\u2028", [], [1], {}, {"a": 1}]
"""What belongs nowhere, or nearly."""


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Cut off, overwritten, or with something put in."""
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(start + 8, len(content))))
    rest = draw(st.sampled_from([content[end:], b""]))
    return content[:start] + draw(st.binary(max_size=8)) + rest


@st.composite
def damaged_json(draw: st.DrawFn, content: bytes) -> bytes:
    """With a value that is another, or gone, at any depth of the file or of one of its lines."""
    text = content.decode()
    parts = [text] if text.startswith("{\n") else text.removesuffix("\n").split("\n")
    i = draw(st.integers(0, len(parts) - 1))
    root = [json.loads(parts[i])]
    holder, key = draw(st.sampled_from(list(_places(root))))
    if draw(st.booleans()):
        holder[key] = draw(st.sampled_from(ODD))
    else:
        del holder[key]
    parts[i] = json.dumps(root[0]) if root else ""
    return "\n".join(parts).encode() + b"\n"


def _places(holder: Any) -> Any:
    """Every container, with every key of it."""
    for key in holder if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], (dict, list)):
            yield from _places(holder[key])


def damaged(content: bytes, is_json: bool) -> st.SearchStrategy[bytes]:
    """Either kind of damage; of JSON the second as a rule."""
    return damaged_bytes(content) | damaged_json(content) if is_json else damaged_bytes(content)
