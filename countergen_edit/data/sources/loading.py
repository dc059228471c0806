"""The one door through which data comes in: a dataset config becomes a `CounterfactualSet`.

A config is flat: `source`, the source's own keys, and optionally `name`, `split` (whose names to
take, where it is not that of the call), `groups`, `names` (the user's own name map) and
`first_names` (so many from the front of the axis's lists, whatever is drawn elsewhere). Refused: an
unknown source or key, a key that is missing.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import require, require_arguments
from countergen_edit.data.axis import SPLITS, Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.people import People, first_names
from countergen_edit.data.sources.base import SOURCES, Request, Source, as_texts
from countergen_edit.data.templates import Template, expand, require_same_slots
from countergen_edit.data.text.substitution import Substitution

_SHARED: Mapping[str, Any] = {
    "source": str,
    "name": str | None,
    "split": str,
    "groups": Sequence[str] | None,
    "names": Mapping[str, str] | None,
    "first_names": int | None,
}
"""Keys that every source has, and what they hold."""


def templates(request: Request, *, templates: object, outputs: object) -> CounterfactualSet:
    """Templates crossed with the names of a split; every template has the same outputs.

    A list in place of a template holds an original and its paraphrases.
    """
    continuations = as_texts(outputs, "outputs")
    entries = templates if isinstance(templates, list) else as_texts(templates, "templates")
    parsed = []
    for entry in entries or as_texts(entries, "templates"):
        original, *paraphrases = as_texts(entry, "templates")
        require_same_slots(original, paraphrases)
        content = original if paraphrases else None
        parsed += [Template(text, continuations, content) for text in (original, *paraphrases)]
    name = request.name or "templates"
    return expand(name, parsed, request.axis, request.split, request.groups)


def load_set(
    config: Mapping[str, Any],
    axis: Axis,
    substitution: Substitution | None,
    split: Split,
    people: People | None = None,
) -> CounterfactualSet:
    """Build the set that a dataset config describes.

    Args:
        config: As in `conf/dataset/*.yaml`.
        axis: The axis on which groups are compared.
        substitution: Makes the variations of texts; None where the axis's own names and forms are
            all there is to substitute.
        split: Whose names the templates are crossed with, unless the config says otherwise.
        people: How many names are drawn; None takes all.

    Raises:
        UserError: the config is wrong, or what it names cannot be read.
    """
    source_name = config.get("source")
    if source_name is None:
        raise UserError(f"a data set needs a 'source'; this one has {[*config]}")
    source = SOURCES.get(str(source_name))
    needed, optional = _keys(source)
    for key in config:
        if key not in (*_SHARED, *needed, *optional):
            raise unknown(
                f"key of data source {source_name!r}:", key, [*needed, *optional, *_SHARED]
            )
        require(_SHARED.get(key, Any), config[key], f"data source {source_name!r}.{key}")
    for key in needed:
        if config.get(key) is None:
            raise UserError(f"data source {source_name!r} needs {key!r}; this one has {[*config]}")
    own_split = config.get("split", split)
    if own_split not in SPLITS:
        raise unknown("split", own_split, SPLITS)
    substitution = substitution or Substitution.from_config(axis, groups=config.get("groups"))
    if config.get("groups") is not None:
        substitution = substitution.between(config["groups"])
    if config.get("names"):
        substitution = substitution.with_names(config["names"])
    first = config.get("first_names")
    if first is not None and (isinstance(first, bool) or not isinstance(first, int) or first < 1):
        raise UserError(f"first_names={first!r}: write how many names of a group")
    draw = (people or People()) if first is None else People()
    chosen = draw.drawn(axis) if first is None else first_names(axis, first)
    request = Request(chosen, own_split, substitution.groups, substitution, config.get("name"))
    arguments = {k: v for k, v in config.items() if k not in _SHARED}
    require_arguments(source, arguments, f"data source {source_name!r}")
    data = source(request, **arguments)
    return draw.thinned(data, axis) if split == "fit" else data


def fingerprint(sets: Sequence[CounterfactualSet], texts: Sequence[str] = ()) -> str:
    """SHA-256 of sets and texts, whatever their order: the data hash of a run's manifest."""
    every = [*map(asdict, sets), *texts]
    contents = sorted(json.dumps(one, sort_keys=True, ensure_ascii=False) for one in every)
    return hashlib.sha256(json.dumps(contents, ensure_ascii=False).encode()).hexdigest()


def _keys(source: Source) -> tuple[list[str], list[str]]:
    """The keys a source needs and those it may be given: its keyword-only parameters."""
    own = [p for p in inspect.signature(source).parameters.values() if p.kind is p.KEYWORD_ONLY]
    needed = [p.name for p in own if p.default is p.empty]
    return needed, [p.name for p in own if p.default is not p.empty]
