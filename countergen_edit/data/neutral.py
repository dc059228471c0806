"""Neutral text: running text that an edit should leave unchanged, by split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import text_of
from countergen_edit.core.registry import Registry
from countergen_edit.core.typed import require
from countergen_edit.data.axis import ENGLISH, SPLITS, Split

_TURNS: tuple[Split, ...] = (
    *("fit", "validation", "test", "fit", "fit", "test"),
    *("fit", "validation", "fit", "test", "fit"),
)
"""Splits of successive texts: six to fit, two to validate, three to test."""

TEXT_FILES = (".txt", ".md")

TextsBySplit = Mapping[Split, tuple[str, ...]]

NEUTRAL: Registry[Callable[..., TextsBySplit]] = Registry(
    "neutral text",
    "countergen_edit.neutral",
    {
        "natural": "countergen_edit.data.natural:neutral",
        "testbed_neutral": "countergen_edit.testbed:testbed_neutral",
        "file": "countergen_edit.data.neutral:file",
        "texts": "countergen_edit.data.neutral:split_texts",
    },
)
"""Sources of neutral text by their names in a data config."""


def split_texts(texts: Sequence[str]) -> TextsBySplit:
    """Distinct texts by split, in turn."""
    distinct = [*dict.fromkeys(map(str, texts))]
    if len(distinct) < len(SPLITS):
        raise UserError(
            f"neutral text: {len(distinct)} text(s) cannot be split into {', '.join(SPLITS)}: "
            f"give {len(SPLITS)} or more"
        )
    return {
        split: tuple(t for i, t in enumerate(distinct) if _TURNS[i % len(_TURNS)] == split)
        for split in SPLITS
    }


def file(path: str) -> TextsBySplit:
    """A text file with one text per line."""
    return split_texts([line.strip() for line in text_of(path).splitlines() if line.strip()])


def from_config(content: object, language: str = ENGLISH) -> TextsBySplit:
    """The texts of a config: a source with its settings, a source's name, or a file's path.

    A source with a parameter `language` has texts of that language.
    """
    require(Mapping[str, Any] | str, content, "neutral")
    if isinstance(content, str):
        is_file = Path(content).suffix in TEXT_FILES
        content = {"source": "file", "path": content} if is_file else {"source": content}
    assert isinstance(content, Mapping)
    name = str(content.get("source"))
    own = {"language": language} if "language" in signature(NEUTRAL.get(name)).parameters else {}
    settings = {key: value for key, value in content.items() if key != "source"}
    return NEUTRAL.make(name, own | settings)  # type: ignore[no-any-return]
