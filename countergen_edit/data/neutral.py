"""Running neutral text: what an edit should leave as it was.

Comes in: a config. Goes out: texts by split, no text in two: those of `fit` may be weighed by
erasers, edits are chosen by those of `validation`, and those of `test` are measured on.
Refused: too few texts to part, a file that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import text_of
from countergen_edit.core.registry import Registry
from countergen_edit.core.typed import require
from countergen_edit.data.axis import SPLITS, Split

TURNS: tuple[Split, ...] = (
    *("fit", "validation", "test", "fit", "fit", "test"),
    *("fit", "validation", "fit", "test", "fit"),
)
"""Whose each text is, in turn: six to fit, two to validate, three to test."""

TEXT_FILES = (".txt", ".md")

TextsBySplit = Mapping[Split, tuple[str, ...]]

NEUTRAL: Registry[Callable[..., TextsBySplit]] = Registry(
    "neutral text",
    "countergen_edit.neutral",
    {
        "natural": "countergen_edit.data.natural:neutral",
        "testbed_neutral": "countergen_edit.testbed.files:testbed_neutral",
        "file": "countergen_edit.data.neutral:file",
        "texts": "countergen_edit.data.neutral:texts",
    },
)
"""Every source of neutral text by its name in a data config."""


def parted(every: Sequence[str]) -> TextsBySplit:
    """Texts by split, in turn; a text that stands twice counts once.

    Raises:
        UserError: there are too few for one in each split.
    """
    distinct = [*dict.fromkeys(every)]
    if len(distinct) < len(SPLITS):
        raise UserError(
            f"neutral text: {len(distinct)} text(s) cannot be parted into {', '.join(SPLITS)}: "
            f"give {len(SPLITS)} or more"
        )
    return {
        split: tuple(t for i, t in enumerate(distinct) if TURNS[i % len(TURNS)] == split)
        for split in SPLITS
    }


def texts(texts: Sequence[str]) -> TextsBySplit:
    """Texts given in the config itself."""
    return parted([str(text) for text in texts])


def file(path: str) -> TextsBySplit:
    """A text file, a text a line.

    Raises:
        UserError: it cannot be read as UTF-8.
    """
    content = text_of(path)
    return parted([line.strip() for line in content.splitlines() if line.strip()])


def from_config(content: object) -> TextsBySplit:
    """The texts that a config names: a source with its settings, a source alone, or a file.

    Raises:
        UserError: there is no such source or file.
    """
    require(Mapping[str, Any] | str, content, "neutral")
    if isinstance(content, str):
        is_file = Path(content).suffix in TEXT_FILES
        content = {"source": "file", "path": content} if is_file else {"source": content}
    assert isinstance(content, Mapping)
    settings = {key: value for key, value in content.items() if key != "source"}
    return NEUTRAL.make(str(content.get("source")), settings)  # type: ignore[no-any-return]
