"""Natural text of a language: neutral text, agreement, legitimate differences, and families.

A family's prompts are templates crossed with contents, in which a person is mentioned: "My aunt
writes that Jane works as a". A cell is one template with one content. No template, content or
person comes back before all have had their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt

from countergen_edit.core.conf_path import MAYBE_PATHS
from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import text_of
from countergen_edit.core.registry import Registry
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import require
from countergen_edit.data.axis import ENGLISH, SPLITS, Axis, DoesNotFitError, NoFormsError, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.language import language_of
from countergen_edit.data.sources import Request
from countergen_edit.data.templates import Template, fill, slot_names

CELLS: Mapping[Split, int] = {"fit": 24, "validation": 12, "test": 48}
"""Cells of a split unless `templates` is given."""
PEOPLE_OF_SPLIT: Mapping[Split, int] = {"fit": 10, "validation": 4, "test": 2}
"""People of each group in a cell, unless `names` of the split are fewer."""
_PRONOUNS = ("{subject}",)
_TURNS: tuple[Split, ...] = (
    *("fit", "validation", "test", "fit", "fit", "test"),
    *("fit", "validation", "fit", "test", "fit"),
)
"""Splits of successive texts: six to fit, two to validate, three to test."""

TextsBySplit = Mapping[Split, tuple[str, ...]]
NEUTRAL: Registry[Callable[..., TextsBySplit]] = Registry(
    "neutral text",
    "countergen_edit.neutral",
    {
        "natural": "countergen_edit.data.natural:neutral",
        "testbed_neutral": "countergen_edit.testbed:testbed_neutral",
        "file": "countergen_edit.data.natural:file",
        "texts": "countergen_edit.data.natural:split_texts",
    },
)
"""Sources of neutral text by their names in a data config."""


def neutral(*, language: str = ENGLISH) -> TextsBySplit:
    """Texts of one to three sentences that mention nobody."""
    return split_texts(text_of(language_of(language).folder / "neutral.txt").splitlines())


def split_texts(texts: Sequence[str]) -> TextsBySplit:
    """Distinct texts by split, in turn."""
    distinct = [*dict.fromkeys(map(str, texts))]
    if len(distinct) < len(SPLITS):
        raise UserError(
            f"neutral text: {len(distinct)} text(s) cannot be split into {', '.join(SPLITS)}: "
            f"give {len(SPLITS)} or more"
        )
    turns = [*zip(distinct, cycle(_TURNS), strict=False)]
    return {split: tuple(text for text, turn in turns if turn == split) for split in SPLITS}


def file(path: str) -> TextsBySplit:
    """A text file with one text per line."""
    return split_texts([line.strip() for line in text_of(path).splitlines() if line.strip()])


def neutral_of(content: Any, language: str = ENGLISH) -> TextsBySplit:
    """The texts of a config: a source with its settings, a source's name, or a file's path.

    A source with a parameter `language` has texts of that language.
    """
    require(Mapping[str, Any] | str, content, "neutral")
    if isinstance(content, str):
        is_file = Path(content).suffix in MAYBE_PATHS["neutral"]
        content = {"source": "file", "path": content} if is_file else {"source": content}
    settings = dict(content)
    name = str(settings.pop("source", None))
    if "language" in signature(NEUTRAL.get(name)).parameters:
        settings.setdefault("language", language)
    return NEUTRAL.make(name, settings)  # type: ignore[no-any-return]


def agreement(request: Request) -> CounterfactualSet:
    """Prompts of a split whose i-th output is the form that agrees with the i-th group.

    An output is a form of the axis, or a word with slots for forms, such as `cansad{ending}`.
    """
    slots, telling = slots_of(request, request.axis)
    sides = [request.axis.groups[group] for group in request.groups]
    agreeing = language_of(request.axis.language).read("agreement", request.split)
    templates = [
        Template(text, tuple(f" {fill(output, group, None)[0]}" for group in sides))
        for form, texts in agreeing.items()
        if slot_names(output := form if "{" in form else f"{{{form}}}") & telling - {"name"}
        for text in texts
        if slot_names(text) <= slots
    ]
    if not templates:
        raise NoFormsError(request.axis.name, request.groups)
    return request.expand(f"natural_agreement_{request.split}", templates)


def slots_of(request: Request, axis: Axis) -> tuple[set[str], set[str]]:
    """The slots that both groups can fill, and those of them that tell the groups apart."""
    a, b = (axis.groups[group] for group in request.groups)
    telling = {form for form in a.forms if a.forms[form] != b.forms[form]}
    if not a.names.get(request.split):
        return {*a.forms}, telling
    # Groups of crossed axes may have the same names.
    return {*a.forms, "name"}, telling | ({"name"} if a.names != b.names else set())


def legitimate_differences(request: Request) -> CounterfactualSet:
    """Factual differences between groups of an axis, such as the voices that people sing with."""
    axes = language_of(request.axis.language).read("legitimate_differences")
    if request.axis.name not in axes:
        raise DoesNotFitError(
            f"no natural legitimate differences are on record for axis {request.axis.name!r}, only "
            f"for {', '.join(axes)}"
        )
    templates = [
        Template(text, tuple(f" {output}" for output in kind["outputs"]))
        for kind in axes[request.axis.name]
        for text in kind[request.split]
    ]
    return request.expand(f"natural_facts_{request.split}", templates)


def natural(
    request: Request,
    *,
    family: str,
    templates: Annotated[int, Gt(0)] | None = None,
    people: Annotated[int, Gt(0)] | None = None,
    anew: bool = True,
) -> CounterfactualSet:
    """A set of the prompts of a family, a key of `families` in `families.yaml`.

    `templates` is the number of cells (`CELLS` unless given), `people` that of people of each group
    in a cell (`PEOPLE_OF_SPLIT`). Without `anew` all cells have the same people, whom contrasts of
    several groups need. `NoFormsError` if no mention of a person tells the groups apart.
    """
    read = language_of(request.axis.language).read
    families = read("families", "families")
    require_known("family of natural prompts", family, families)
    entry = families[family]
    frames = read("templates", entry["templates"], request.split)
    contents = []
    for kind, key in entry["contents"].items():
        outputs = read("families", "outputs", key)
        if isinstance(outputs, Mapping):
            require_known("axis with natural stereotypes", request.axis.name, outputs)
            outputs = outputs[request.axis.name]
        spaced = tuple(f" {output}" for output in outputs)
        contents += [(text, spaced) for text in read("contents", kind, request.split)]
    mentions = _mentions(entry.get("mentions"), request)
    default = PEOPLE_OF_SPLIT[request.split]
    count = people or min(default, request.draw.counts.get(request.split) or default)
    cells = min(templates or CELLS[request.split], len(frames) * len(contents))
    rng = generator(request.draw.seed, "natural", family, request.split)
    frame_order, content_order = rng.permutation(len(frames)), rng.permutation(len(contents))
    groups = [request.whole.groups[group] for group in request.groups]
    listed = [len(g.names.get(request.split, ())) for g in request.whole.groups.values()]
    named = any("name" in slot_names(mention) for mention in mentions)
    size = min(listed) if named else len(mentions)
    # Distinct people for each cell; fewer people, or cells, are among more.
    order, steps = rng.permutation(size), rng.permutation(size)[:count]
    samples = []
    for k in range(cells):
        # Each pass over the contents meets other templates.
        frame = frames[frame_order[(k + k // len(contents)) % len(frames)]]
        content, outputs = contents[content_order[k % len(contents)]]
        variations = []
        for group in groups:
            for place in order[((k if anew else 0) + steps) % size].tolist():
                mention = mentions[place % len(mentions)]
                whom = "{object}" if mention == _PRONOUNS[0] else mention
                who = content.replace("{who}", mention).replace("{whom}", whom)
                name = group.names[request.split][place] if "{name}" in mention else None
                text, start = fill(_filled(frame, who), group, name)
                phrase = mention if name is None else None
                variations.append(Variation(group.name, text, name, start, phrase))
        template = _filled(frame, content)
        samples.append(Sample(template, outputs, tuple(variations), content, frame))
    return request.make(f"{family}_{request.split}", samples)


def _mentions(kind: str | None, request: Request) -> Sequence[str]:
    """Names of the axis, or noun phrases where it has none, that tell its groups apart."""
    slots, telling = slots_of(request, request.whole)
    phrases = language_of(request.whole.language).read("mentions")
    kinds: dict[str, Sequence[Sequence[str]]] = {
        "names": [["{name}"]],
        "pronouns": [] if "was" in telling else [_PRONOUNS],  # "they works" would not agree
        "described": [phrases.get("described", {}).get(request.split, ())],
        "words": [phrases[key][request.split] for key in phrases if key != "described"],
    }
    for tried in [kinds[kind]] if kind else [kinds["names"], kinds["words"]]:
        fit = [
            [m for m in mentions if slot_names(m) <= slots and slot_names(m) & telling]
            for mentions in tried
        ]
        if any(fit):
            return max(fit, key=len)
    raise NoFormsError(request.axis.name, request.groups, f"{kind or 'names or words'} of people")


def _filled(frame: str, content: str) -> str:
    """The template with a content.

    >>> _filled('He said: "{Content}', "{who} works as a")
    'He said: "{Who} works as a'
    """
    first = 1 if content.startswith("{") else 0
    capital = content[:first] + content[first : first + 1].upper() + content[first + 1 :]
    return frame.replace("{content}", content).replace("{Content}", capital)
