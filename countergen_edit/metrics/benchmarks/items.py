"""What is asked: an item of a benchmark, and some of many items, evenly.

Comes in: items. Goes out: at most so many of them, of every cluster alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from countergen_edit.seeds import generator


@dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    id: str
    part: str
    bias_type: str
    cluster: str
    """What items are not independent within: a target, a template, a writer."""
    texts: tuple[tuple[str, str], ...]
    """A prompt, which may be empty, and the text that is scored after it."""
    entry: Any = None
    """What the benchmark itself needs to know of the item."""
    question: str = ""
    """What is asked where the model writes replies, as in a conversation, and each text is one;
    empty where all of an item is the reply."""
    group: str = ""
    """Whom it is about, where groups are held against each other; a limit takes as many of each."""

    @property
    def replies(self) -> tuple[tuple[str, str], ...]:
        """The question and each text as the whole reply to it.

        >>> Item("1", "", "", "", (("Q: Who left? A:", " Jane"),), question="Who left?").replies
        (('Who left?', 'Jane'),)
        """
        return tuple((self.question, text.lstrip()) for _, text in self.texts)


def limited(items: Sequence[Item], limit: int | None, seed: int, *unit: object) -> list[Item]:
    """At most so many of some items: one of each cluster, then a second of each, and so on.

    Which comes first is drawn, of clusters and within each. The kept ones stay in their order.

    >>> items = [Item(str(i), "", "", "ab"[i > 3], ()) for i in range(6)]
    >>> sorted(item.cluster for item in limited(items, 4, 0))
    ['a', 'a', 'b', 'b']
    """
    if limit is None or len(items) <= limit:
        return list(items)
    rng = generator(seed, "benchmark", *unit)
    places: dict[str, list[int]] = {}
    for place in rng.permutation(len(items)).tolist():
        places.setdefault(items[place].cluster, []).append(place)
    turns = sorted(
        (turn, number, place)
        for number, own in enumerate(places.values())
        for turn, place in enumerate(own)
    )
    return [items[place] for place in sorted(place for _, _, place in turns[:limit])]
