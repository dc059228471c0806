"""Running text about nobody: what an edit should leave as it was.

Comes in: a config. Goes out: texts by split: those of `fit` may be weighed by erasers and stand for
validation data too, those of `test` are measured on. Refused: too few texts to part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.data.axis import Split
from countergen_edit.errors import UserError
from countergen_edit.registry import Registry

FIT_EVERY = 5
"""One text in so many is for fitting and choosing, the others are for measuring."""

TextsBySplit = Mapping[Split, tuple[str, ...]]

NEUTRAL: Registry[Callable[..., TextsBySplit]] = Registry(
    "neutral text",
    "countergen_edit.neutral",
    {
        "testbed_neutral": "countergen_edit.testbed.sources:testbed_neutral",
        "file": "countergen_edit.data.neutral:file",
        "texts": "countergen_edit.data.neutral:texts",
    },
)
"""Every source of neutral text by its name in a data config."""


def parted(every: Sequence[str]) -> TextsBySplit:
    """Texts by split; validation has those of fitting, which no test figure is taken of.

    Raises:
        UserError: there are fewer than two.
    """
    if len(every) < 2:
        raise UserError(f"neutral text: {len(every)} text(s) cannot be parted: give two or more")
    fit = tuple(every[::FIT_EVERY])
    rest = tuple(text for i, text in enumerate(every) if i % FIT_EVERY)
    return {"fit": fit, "validation": fit, "test": rest}


def texts(texts: Sequence[str]) -> TextsBySplit:
    """Texts given in the config itself."""
    return parted([str(text) for text in texts])


def file(path: str) -> TextsBySplit:
    """A text file, a text a line.

    Raises:
        UserError: it cannot be read as UTF-8.
    """
    try:
        content = Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read neutral text {path}: {error}") from error
    return parted([line.strip() for line in content.splitlines() if line.strip()])


def from_config(content: Mapping[str, Any]) -> TextsBySplit:
    """The texts that a config with a `source` names."""
    settings = {key: value for key, value in content.items() if key != "source"}
    return NEUTRAL.make(str(content.get("source")), settings)  # type: ignore[no-any-return]
