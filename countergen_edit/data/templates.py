"""Templates with slots, expanded over the groups of an axis.

A template is ordinary text with slots in braces: `{name}`, and the word forms of the axis
(`{subject}`, `{possessive}`, `{parent}`, …). A slot that starts with a capital (`{Subject}`) yields
a capitalised word.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

from countergen_edit.data.axis import Axis, Group, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.errors import UserError, unknown

_FORMATTER = string.Formatter()


@dataclass(frozen=True)
class Template:
    """One wording and the continuations to be compared after it."""

    text: str
    outputs: tuple[str, ...] = ()


def slots(text: str) -> tuple[str, ...]:
    """The slots of a template in order.

    >>> slots("{name} lost {possessive}")
    ('name', 'possessive')
    """
    return tuple(field for _, field, _, _ in _FORMATTER.parse(text) if field is not None)


def _capitalised(word: str) -> str:
    return word[:1].upper() + word[1:]


def fill(text: str, group: Group, name: str | None) -> tuple[str, int]:
    """Fill every slot for one person; also say at which character the group first shows.

    >>> jane = Group("female", {}, {"possessive": "her"})
    >>> fill("Does {name} like {possessive} job?", jane, "Jane")
    ('Does Jane like her job?', 5)

    Raises:
        UserError: the template has a slot that the axis does not provide, or no slot at all.
    """
    words = dict(group.forms)
    if name is not None:
        words["name"] = name
    words |= {_capitalised(slot): _capitalised(word) for slot, word in words.items()}
    out, start = "", None
    for literal, slot, _, _ in _FORMATTER.parse(text):
        out += literal
        if slot is None:
            continue
        if slot not in words:
            raise unknown(f"slot in template {text!r}:", slot, words)
        start = len(out) if start is None else start
        out += words[slot]
    if start is None:
        raise UserError(f"template {text!r} has no slot: both groups would get the same prompt")
    return out, start


def expand(
    set_name: str,
    templates: Sequence[Template],
    axis: Axis,
    split: Split,
    groups: Sequence[str] | None = None,
) -> CounterfactualSet:
    """Cross every template with every name of a split.

    Templates without a `{name}` slot get one variation per group.

    Raises:
        UserError: a group has no names in the split, or the groups differ in size.
    """
    pair = axis.pair(groups)
    samples = []
    for template in templates:
        variations = []
        for group in pair:
            names: Sequence[str | None] = [None]
            if {"name", "Name"} & set(slots(template.text)):
                names = group.names.get(split, ())
                if not names:
                    raise UserError(
                        f"axis {axis.name!r}: group {group.name!r} has no names in the "
                        f"{split!r} split, which {template.text!r} needs"
                    )
            for name in names:
                text, start = fill(template.text, group, name)
                variations.append(Variation(group.name, text, name, start))
        samples.append(Sample(template.text, template.outputs, tuple(variations)))
    return CounterfactualSet(set_name, axis.name, (pair[0].name, pair[1].name), tuple(samples))
