"""What a log of another tool says, in words of ours: scores of items, and what they are scores of.

A reader is one file: how its tool's logs are told from other files, and how one becomes a `Log`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import built
from countergen_edit.metrics.items import Item

T = TypeVar("T")


@dataclass(frozen=True)
class Log:
    """What a tool measured of one model."""

    tool: str
    """With its version."""
    model: str
    items: tuple[Item, ...]
    versions: Mapping[str, Mapping[str, str]]
    """Of each task what must be the same for its scores to be comparable, by what it is called."""
    prompts: Mapping[tuple[str, str], str]
    """By task and item what stands for the text that the model read, where the log tells."""
    unread: tuple[str, ...]
    """Tasks and metrics whose items have no score that is a number."""


class Reader(ABC):
    """Reads the logs of one tool."""

    @abstractmethod
    def knows(self, path: Path) -> bool:
        """Whether a file or folder is a log of the tool."""

    @abstractmethod
    def read(self, path: Path, cluster: str | None) -> Log:
        """What it says.

        Args:
            path: one that it knows.
            cluster: the column of an item's own data that names its cluster.

        Raises:
            UserError: it is damaged, unfinished, or without the scores of single items.
        """


def cluster_in(columns: object, cluster: str | None, where: str) -> str | None:
    """The cluster of an item.

    Args:
        columns: the item's own data.
        cluster: the column that names it; None where none was asked for.
        where: the item's place, to begin a message with.

    Raises:
        UserError: there is no such column.
    """
    if cluster is None:
        return None
    own = columns if isinstance(columns, Mapping) else {}
    if cluster not in own:
        raise UserError(f"{where}{unknown('cluster', cluster, own)}")
    return str(own[cluster])


def named(parts: Iterable[object]) -> str:
    """The name of a metric of several parts, as tables have it.

    >>> named(["exact_match", "none", ""]), named(["exact_match", "strict"])
    ('exact_match', 'exact_match, strict')
    """
    return ", ".join(str(part) for part in parts if part not in ("", "none"))


def part(cls: type[T], content: object, where: str) -> T:
    """What of a record has a field in a dataclass, and nothing else of it, which may be most of it.

    Raises:
        UserError: a field is missing, or of another type.
    """
    if isinstance(content, Mapping):
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        content = {name: content[name] for name in names if name in content}
    made: T = built(cls, content, where)
    return made
