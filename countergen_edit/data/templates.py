"""Templates with slots, and their expansion over the groups of an axis.

A template is text with slots in braces: `{name}`, and the word forms of the axis (`{subject}`,
`{possessive}`, `{parent}`, …). `{Subject}` yields a capitalised word; `a/an` before a slot becomes
the article of its word. A word may have forms (`{verb:past}`, `{person:reflexive}`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from countergen_edit.core.errors import UserError, require_known, unknown
from countergen_edit.data.axis import Axis, DoesNotFitError, Group, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.text.grammar import vowel_sound

_ARTICLE = re.compile(r"\b([Aa])/[Aa]n $")


@dataclass(frozen=True)
class Template:
    """A template and the continuations to be compared after it."""

    text: str
    outputs: tuple[str, ...] = ()
    content: str | None = None
    """Templates of one content are paraphrases of each other."""


def _parsed(text: str) -> list[tuple[str, str | None, str | None]]:
    """Literal text, the slot after it, and the form of that slot."""
    try:
        return [part[:3] for part in string.Formatter().parse(text)]
    except ValueError as error:
        raise UserError(
            f"template {text!r}: {error}; a slot is written {{name}}, a brace itself {{{{ or }}}}"
        ) from None


def _small(slot: str) -> str:
    return slot[:1].lower() + slot[1:]


def slot_names(text: str) -> frozenset[str]:
    """The slots of a template without form and capitals.

    >>> sorted(slot_names("{Person:possessive} mood is {state}."))
    ['person', 'state']
    """
    return frozenset(_small(field) for _, field, _ in _parsed(text) if field is not None)


def render(
    text: str, words: Mapping[str, Mapping[str, str]]
) -> tuple[str, dict[str, tuple[int, int]]]:
    """Fill the slots of a template.

    >>> render("A/An {job:base} saw {name}.", {"job": {"base": "actor"}, "name": {"base": "Eve"}})
    ('An actor saw Eve.', {'job': (0, 8), 'name': (13, 16)})

    Returns the text, and slot → characters of its first word, the article included. `words` maps
    slot → form → word; `base` is the form of a slot that names none.

    `UserError` if `words` lacks a slot or form of the template.
    """
    out, spans = "", dict[str, tuple[int, int]]()
    for literal, field, form in _parsed(text):
        if field is None:
            out += literal
            continue
        slot, form = field if field in words else _small(field), form or "base"
        if slot not in words:
            raise unknown(f"slot in template {text!r}:", field, words)
        require_known(f"form of slot {slot!r} in template {text!r}:", form, words[slot])
        word = words[slot][form]
        word = word if slot == field else word[:1].upper() + word[1:]
        article = _ARTICLE.search(literal)
        out += literal[: article.start()] if article else literal
        start = len(out)
        if article:
            out += article[1] + ("n " if vowel_sound(word) else " ")
        out += word
        spans.setdefault(slot, (start, len(out)))
    return out, spans


def fill(text: str, group: Group, name: str | None) -> tuple[str, int]:
    """A template filled for one name of a group, and the character at which the group first shows.

    >>> jane = Group("female", {}, {"possessive": "her"})
    >>> fill("Does {name} like {possessive} job?", jane, "Jane")
    ('Does Jane like her job?', 5)
    """
    words = {**group.forms, "name": name or ""}
    out, spans = render(text, {slot: {"base": word} for slot, word in words.items()})
    if not spans:
        raise UserError(f"template {text!r} has no slot: both groups would get the same prompt")
    return out, min(start for start, _ in spans.values())


def require_same_slots(original: str, paraphrases: Sequence[str]) -> None:
    """Refuse a paraphrase with other slots than its original."""
    for text in paraphrases:
        if missing := slot_names(original) - slot_names(text):
            raise UserError(
                f"paraphrase {text!r} drops the slot {{{min(missing)}}} of {original!r}: "
                "it would not compare the same thing"
            )
        if added := slot_names(text) - slot_names(original):
            raise UserError(
                f"paraphrase {text!r} has a slot {{{min(added)}}} that {original!r} lacks"
            )


def expand(
    set_name: str,
    templates: Sequence[Template],
    axis: Axis,
    split: Split,
    groups: Sequence[str] | None = None,
) -> CounterfactualSet:
    """Templates crossed with the names of a split; without `{name}`, one variation a group."""
    pair = axis.pair(groups)
    samples = tuple(crossed(template, axis, split, pair) for template in templates)
    return CounterfactualSet(set_name, axis.name, (pair[0].name, pair[1].name), samples)


def crossed(template: Template, axis: Axis, split: Split, pair: Sequence[Group]) -> Sample:
    """A template crossed with every name of a split, whether or not it tells the groups apart."""
    variations = []
    for group in pair:
        names: Sequence[str | None] = [None]
        if "name" in slot_names(template.text):
            names = group.names.get(split, ())
            if not names:
                raise DoesNotFitError(
                    f"axis {axis.name!r}: group {group.name!r} has no names in the "
                    f"{split!r} split, which {template.text!r} needs"
                )
        for name in names:
            text, start = fill(template.text, group, name)
            variations.append(Variation(group.name, text, name, start))
    return Sample(template.text, template.outputs, tuple(variations), template.content)
