"""Sources of counterfactual sets: a dataset config becomes a `CounterfactualSet`."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from annotated_types import Gt

from countergen_edit.core.conf_path import PROMPT_FILES
from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.core.typed import require_arguments, require_keys
from countergen_edit.data.axis import Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.subsets import NameDraw
from countergen_edit.data.templates import Template, expand, require_same_slots
from countergen_edit.data.text.substitution import Substitution


@dataclass(frozen=True)
class Request:
    """The arguments of every source, besides the keys of its config."""

    axis: Axis
    split: Split
    groups: tuple[str, str]
    substitution: Substitution
    name: str | None
    """The set's name in the config; None takes the source's default."""
    whole: Axis
    """The axis with all of its names."""
    draw: NameDraw
    """How many names of a split are drawn, and the seed of draws."""

    def expand(self, name: str, templates: Sequence[Template]) -> CounterfactualSet:
        """The templates crossed with the names of the split."""
        return expand(self.name or name, templates, self.axis, self.split, self.groups)

    def make(self, name: str, samples: Sequence[Sample]) -> CounterfactualSet:
        """The set, under the config's name or else `name`."""
        return CounterfactualSet(self.name or name, self.axis.name, self.groups, tuple(samples))


Source = Callable[..., CounterfactualSet]
"""`source(request, **keys)`: its keyword-only parameters are the keys of its dataset config."""

SOURCES: Registry[Source] = Registry(
    "data source",
    "countergen_edit.sources",
    {
        "templates": "countergen_edit.data.sources:templates",
        **{end[1:]: "countergen_edit.data.sources.files:prompts" for end in PROMPT_FILES},
        "countergen": "countergen_edit.data.sources.files:countergen",
        "testbed": "countergen_edit.testbed:family_set",
        "testbed_agreement": "countergen_edit.testbed:testbed_agreement",
        "natural_agreement": "countergen_edit.data.natural:agreement",
        "natural": "countergen_edit.data.natural:natural",
        "natural_facts": "countergen_edit.data.natural:legitimate_differences",
    },
)
"""Sources by their names in a dataset config; `SOURCES.register` adds one."""

_SHARED: Mapping[str, Any] = {
    "source": str,
    "name": str | None,
    "first_names": Annotated[int, Gt(0)] | None,
    "sum_outputs": bool | None,
}
"""Keys of every dataset config, with their types."""


def load_set(
    config: Mapping[str, Any],
    axis: Axis,
    substitution: Substitution | None,
    split: Split,
    names: NameDraw | None = None,
    groups: Sequence[str] | None = None,
) -> CounterfactualSet:
    """Build the set of a dataset config, with names of a split.

    `config` is as in `conf/dataset/*.yaml`: `source`, the keys of that source, and optionally
    `name`, `first_names` (takes the first names of the axis's lists instead of drawing `names`) and
    `sum_outputs` (P is summed over the outputs of a prompt).
    `substitution` makes variations of texts; None uses the axis's names and forms alone. `groups`
    are two of the axis, by default those of the substitution.

    `UserError` if the config is wrong, or its files cannot be read.
    """
    source_name = config.get("source")
    if source_name is None:
        raise UserError(f"a data set needs a 'source'; this one has {[*config]}")
    source = SOURCES.get(str(source_name))
    label = f"data source {source_name!r}"
    parameters = inspect.signature(source).parameters
    keys = {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    types = {**dict.fromkeys(keys, Any), **_SHARED}
    require_keys(config, types, f"key of {label}:", f"{label}.")
    for key, default in keys.items():
        if default is inspect.Parameter.empty and config.get(key) is None:
            raise UserError(f"{label} needs {key!r}; this one has {[*config]}")
    words = substitution or Substitution.from_config(axis, groups=groups)
    words = words if groups is None else words.between(groups)
    first = config.get("first_names")
    draw = (names or NameDraw()) if first is None else NameDraw()
    drawn = draw.draw(axis)
    if first is not None:
        drawn = axis.with_names(lambda group, split: group.names[split][:first])
    request = Request(drawn, split, words.groups, words, config.get("name"), axis, draw)
    arguments = {k: v for k, v in config.items() if k not in _SHARED}
    require_arguments(source, arguments, label)
    data = replace(source(request, **arguments), sum_outputs=bool(config.get("sum_outputs")))
    return draw.thin(data, axis) if split == "fit" else data


def templates(request: Request, *, templates: object, outputs: object) -> CounterfactualSet:
    """Templates crossed with the names of a split; a list is an original with its paraphrases."""
    continuations = as_texts(outputs, "outputs")
    entries = templates if isinstance(templates, list) else as_texts(templates, "templates")
    parsed = []
    for entry in entries or as_texts(entries, "templates"):
        original, *paraphrases = as_texts(entry, "templates")
        require_same_slots(original, paraphrases)
        content = original if paraphrases else None
        parsed += [Template(text, continuations, content) for text in (original, *paraphrases)]
    return request.expand("templates", parsed)


def samples_of_text(text: str, outputs: Sequence[str], request: Request) -> list[Sample]:
    """Samples made by substitution, one for each form that outputs need: "his" book, "him" and."""
    by_sides: dict[tuple[str, str], list[str]] = {}
    for output in outputs:
        by_sides.setdefault(request.substitution.pair(text, output), []).append(output)
    samples = []
    for sides, continuations in by_sides.items():
        texts = {group: [side] for group, side in zip(request.groups, sides, strict=True)}
        samples.append(sample_of_variations(sides[0], continuations, texts, request))
    return samples


def sample_of_variations(
    text: str, outputs: Sequence[str], texts: Mapping[str, Sequence[str]], request: Request
) -> Sample:
    """A sample from variations by group."""
    variations = []
    for group, other in (request.groups, request.groups[::-1]):
        for variation in texts.get(group, ()):
            names = request.substitution.names_in(variation)
            start = min((first_difference(variation, t) for t in texts.get(other, ())), default=0)
            variations.append(Variation(group, variation, names[0] if names else None, start))
    sample = Sample(request.substitution.template(text), tuple(outputs), tuple(variations))
    request.make("sample", [sample])  # refuses sides that are alike
    return sample


def first_difference(a: str, b: str) -> int:
    """The start of the first word in which two texts differ.

    >>> first_difference("Ask the man.", "Ask the men.")
    8
    """
    pairs = enumerate(zip(a, b, strict=False))
    i = next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))
    while i > 0 and a[i - 1].isalnum():
        i -= 1
    return i


def as_texts(value: Any, key: str) -> tuple[str, ...]:
    """A config value as one text or more."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not texts:
        raise UserError(f"{key!r} holds no texts: {value!r}")
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise UserError(f"{key!r} must hold texts, in quotes; got {text!r}")
    return tuple(texts)


def fingerprint(sets: Sequence[CounterfactualSet]) -> str:
    """SHA-256 of sets in any order: the data hash of a run's manifest."""
    contents = sorted(json.dumps(asdict(s), sort_keys=True, ensure_ascii=False) for s in sets)
    return hashlib.sha256(json.dumps(contents, ensure_ascii=False).encode()).hexdigest()
