"""Names that tell an audit's sets apart: rows and what metrics keep know a set by its name alone.

Comes in: the sets of every split, with the files that some of them are called after. Goes out: the
same sets, those of files under more of their path where two would share a name. Refused: two
contents of one name that no path tells apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet


@dataclass(frozen=True)
class Given:
    """A set as an audit was given it."""

    split: Split
    data: CounterfactualSet
    path: str | None = None
    """The file it is called after; None where it has none, or its config names it."""
    free: bool = False
    """Whether nobody named it."""


def distinctly_named(sets: Sequence[Given]) -> list[Given]:
    """The sets in their order, none of them called as another of different content.

    Validation and test sets may share a name: a family is called the same in both, and no row is
    of both.

    Raises:
        UserError: two sets share a name, and are not from different files.
    """
    by_name: dict[str, list[Given]] = defaultdict(list)
    for one in sets:
        by_name[one.data.name].append(one)
    renamed: dict[str, str] = {}
    for name, alike in by_name.items():
        if any(_clash(*pair) for pair in combinations(alike, 2)):
            others = {name for one in alike if one.path is None}
            renamed |= _short_names([one.path for one in alike if one.path], others)
    renamed_sets = _numbered(
        [
            replace(one, data=replace(one.data, name=renamed.get(one.path or "", one.data.name)))
            for one in sets
        ]
    )
    for pair in combinations(renamed_sets, 2):
        if _clash(*pair):
            where = " and ".join(dict.fromkeys(f"data.{one.split}" for one in pair))
            raise UserError(
                f"two different sets of {where} are called {pair[0].data.name!r}, by which their "
                "figures are named: give one of them a name of its own (name: …)"
            )
    return renamed_sets


def _numbered(sets: Sequence[Given]) -> list[Given]:
    """The sets, those that nobody named called after their split and number where they clash."""
    taken = Counter[str]()
    named = []
    for one in sets:
        if one.free and any(_clash(one, other) for other in sets):
            name = f"{one.data.name}_{one.split}"
            taken[name] += 1
            number = f"_{taken[name]}" if taken[name] > 1 else ""
            one = replace(one, data=replace(one.data, name=name + number))
        named.append(one)
    return named


def _clash(a: Given, b: Given) -> bool:
    together = a.split == b.split or "fit" in (a.split, b.split)
    return together and a.data.name == b.data.name and a.data != b.data


def _short_names(paths: Sequence[str], others: Set[str]) -> dict[str, str]:
    """For each path the shortest part of it that tells its file apart from those of the others.

    >>> _short_names(["/x/a/pairs.jsonl", "/x/b/pairs.jsonl"], set())
    {'/x/a/pairs.jsonl': 'a/pairs', '/x/b/pairs.jsonl': 'b/pairs'}
    >>> _short_names(["/x/pairs.csv", "/x/pairs.jsonl"], set())
    {'/x/pairs.csv': 'pairs.csv', '/x/pairs.jsonl': 'pairs.jsonl'}
    """
    files = {path: Path(path).expanduser().absolute() for path in paths}
    for names in _ever_longer(set(files.values())):
        if len({*others, *names.values()}) == len(others) + len(names):
            return {path: names[file] for path, file in files.items()}
    return {}


def _ever_longer(files: Set[Path]) -> Iterator[dict[Path, str]]:
    """Ends of paths without the files' endings, then with them."""
    for ending in (False, True):
        parts = {f: (f if ending else f.with_suffix("")).parts[1:] for f in files}
        for depth in range(1, max(map(len, parts.values()), default=0) + 1):
            yield {file: "/".join(own[-depth:]) for file, own in parts.items()}
