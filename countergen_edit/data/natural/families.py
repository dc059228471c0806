"""Families of natural prompts: templates crossed with contents, and people drawn for each.

A prompt is a template with a content, in which a person is mentioned: "My aunt writes that Jane
works as a". A cell is one template with one content. Cells are drawn so that no template or content
comes back before all have had their turn; every cell has people of its own, who come back as late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import Group, NoFormsError, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.sources import Request
from countergen_edit.data.templates import fill, slot_names

CELLS: Mapping[Split, int] = {"fit": 24, "validation": 12, "test": 48}
"""Cells of a split unless `templates` is given."""
PEOPLE: Mapping[Split, int] = {"fit": 10, "validation": 4, "test": 2}
"""People of each group in a cell, unless `names` of the split are fewer."""
NAMED = ("{name}",)
PRONOUNS = ("{subject}",)


def natural(
    request: Request,
    *,
    family: str,
    templates: int | None = None,
    people: int | None = None,
    anew: bool = True,
) -> CounterfactualSet:
    """A set of a family's prompts.

    Args:
        request: the axis, its names, and the split.
        family: a key of `families` in `families.yaml`.
        templates: number of cells; `CELLS` unless given.
        people: people of each group in a cell; `PEOPLE` unless given.
        anew: whether each cell has people of its own; else all have the same, whom contrasts of
            several groups need.

    Raises:
        NoFormsError: no mention of a person tells the groups of the axis apart.
        UserError: an unknown family, or a number below 1.
    """
    spec = _read("families")
    require_known("family of natural prompts", family, spec["families"])
    own = spec["families"][family]
    frames = _read("templates")[own["templates"]][request.split]
    contents = [
        (text, tuple(f" {output}" for output in _outputs(spec["outputs"][outputs], request)))
        for kind, outputs in own["contents"].items()
        for text in _read("contents")[kind][request.split]
    ]
    mentions = _mentions(own.get("mentions"), request)
    default = PEOPLE[request.split]
    drawn = request.draw.of(request.split)
    count = people or (default if drawn is None else min(default, drawn))
    cells = CELLS[request.split] if templates is None else templates
    cells = min(cells, len(frames) * len(contents))
    if cells < 1 or count < 1:
        raise UserError(f"family {family!r}: templates={cells}, people={count}: 1 or more of each")
    rng = generator(request.draw.seed, "natural", family, request.split)
    pairs = _cells(rng.permutation(len(frames)), rng.permutation(len(contents)), cells)
    groups = [request.whole.groups[group] for group in request.groups]
    listed = [len(g.names.get(request.split, ())) for g in request.whole.groups.values()]
    named = any("name" in slot_names(mention) for mention in mentions)
    turns = _turns(min(listed) if named else len(mentions), count, cells if anew else 1, rng)
    every = [*turns] * (1 if anew else cells)
    samples = [
        _sample(
            frames[f],
            *contents[c],
            [(mentions[i % len(mentions)], i) for i in own_turn],
            groups,
            request.split,
        )
        for (f, c), own_turn in zip(pairs, every, strict=True)
    ]
    return request.make(f"{family}_{request.split}", samples)


def _outputs(outputs: Any, request: Request) -> Sequence[str]:
    if not isinstance(outputs, Mapping):
        return outputs  # type: ignore[no-any-return]
    require_known("axis with natural stereotypes", request.axis.name, outputs)
    return outputs[request.axis.name]  # type: ignore[no-any-return]


def _mentions(kind: str | None, request: Request) -> Sequence[str]:
    """The mentions of a person that the axis can fill and that tell its groups apart.

    The names of the axis, or noun phrases where it has none.
    """
    a, b = (request.whole.groups[group] for group in request.groups)
    telling = {form for form in a.forms if a.forms[form] != b.forms[form]}
    known = {*a.forms}
    if a.names.get(request.split):
        known.add("name")
        telling |= {"name"} if a.names != b.names else set()
    phrases = _read("mentions")
    nouns = [own for key, own in phrases.items() if key != "described"]
    kinds: dict[str, Sequence[Sequence[str]]] = {
        "names": [NAMED],
        "pronouns": [PRONOUNS],
        "described": [phrases["described"][request.split]],
        "words": [own[request.split] for own in nouns],
    }
    for tried in [kinds[kind]] if kind else [kinds["names"], kinds["words"]]:
        fit = [
            [m for m in mentions if slot_names(m) <= known and slot_names(m) & telling]
            for mentions in tried
        ]
        if any(fit):
            return max(fit, key=len)
    raise NoFormsError(request.axis.name, request.groups, f"{kind or 'names or words'} of people")


def _cells(
    frames: Sequence[int] | np.ndarray, contents: Sequence[int] | np.ndarray, count: int
) -> Iterator[tuple[int, int]]:
    """Pairs of a template and a content; each pass over the contents meets other templates."""
    for k in range(count):
        yield int(frames[(k + k // len(contents)) % len(frames)]), int(contents[k % len(contents)])


def _turns(count: int, each: int, cells: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Distinct people for each cell; fewer people, or cells, are among more."""
    order, steps = rng.permutation(count), rng.permutation(count)[:each]
    for k in range(cells):
        yield order[(k + steps) % count].tolist()


def _sample(
    frame: str,
    content: str,
    outputs: tuple[str, ...],
    people: Sequence[tuple[str, int]],
    groups: Sequence[Group],
    split: Split,
) -> Sample:
    variations = []
    for group in groups:
        for mention, place in people:
            pattern = _filled(frame, _mentioning(content, mention))
            name = group.names[split][place] if "{name}" in mention else None
            text, start = fill(pattern, group, name)
            variations.append(Variation(group.name, text, name, start, None if name else mention))
    return Sample(_filled(frame, content), outputs, tuple(variations), content, frame)


def _mentioning(content: str, mention: str) -> str:
    """The content with a mention of a person; a pronoun has its form as an object."""
    other = "{object}" if mention == PRONOUNS[0] else mention
    return content.replace("{who}", mention).replace("{whom}", other)


def _filled(frame: str, content: str) -> str:
    """The template with a content.

    >>> _filled('He said: "{Content}', "{who} works as a")
    'He said: "{Who} works as a'
    """
    first = 1 if content.startswith("{") else 0
    capital = content[:first] + content[first : first + 1].upper() + content[first + 1 :]
    return frame.replace("{content}", content).replace("{Content}", capital)


@cache
def _read(file: str) -> dict[str, Any]:
    content: dict[str, Any] = shipped_yaml(Path(__file__).parent / f"{file}.yaml")
    return content
