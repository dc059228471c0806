"""The words that a model with a planted truth was taught, and what it cannot be asked.

Comes in: a truth, and sets. Goes out: of a set, the share of its texts that are in those words. A
text with another word in it is one that the model spells out in pieces which mean nothing to it, so
that its figures would say how pieces are spelled and not what it holds of people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.templates import slots
from countergen_edit.data.untaught import Untaught, unknown_words, words_of
from countergen_edit.testbed.corpus import people
from countergen_edit.testbed.files import load_axis
from countergen_edit.testbed.truth import Truth

TAUGHT = 0.5
"""Share of a group's texts that must be in words that the model was taught, to ask it at all."""


def vocabulary(truth: Truth) -> frozenset[str]:
    """Every word of the corpus, in small letters."""
    return frozenset(word for text in _texts(truth) for word in words_of(text))


def taught_share(words: frozenset[str], data: CounterfactualSet) -> float:
    """The share of prompts with outputs that are in those words, of the group with fewest."""
    shares = []
    for group in data.groups:
        texts = [v.text + output for s in data.samples for v in s.of(group) for output in s.outputs]
        known = [not unknown_words(words, text) for text in texts]
        shares.append(sum(known) / len(known))
    return min(shares)


def untaught(words: frozenset[str], data: CounterfactualSet) -> Untaught | None:
    """What a model that was taught those words lacks to be asked a set; None where it can be."""
    share = taught_share(words, data)
    return None if share >= TAUGHT else Untaught(data, share, tuple(_unknown(words, data)))


def _unknown(words: frozenset[str], data: CounterfactualSet) -> Sequence[str]:
    """The words of a set that are not known, those that tell its groups apart first."""
    found = [
        dict.fromkeys(
            word
            for sample in data.samples
            for variation in sample.of(group)
            for word in unknown_words(words, variation.text)
        )
        for group in data.groups
    ]
    shared = set.intersection(*map(set, found))
    telling = (word for own in found for word in own if word not in shared)
    outputs = (w for s in data.samples for o in s.outputs for w in unknown_words(words, o))
    others = (word for own in found for word in own)
    return [*dict.fromkeys([*telling, *outputs, *others])]


def _texts(truth: Truth) -> Iterator[str]:
    gender = load_axis("gender")
    for group in gender.groups.values():
        yield from group.forms.values()
    yield from (person.name for person in people(truth, gender))
    for prompt in (*truth.prompts, *truth.follow_ups):
        yield from (_without_slots(prompt.template), *prompt.outputs, prompt.ending)
    for wording in (*truth.agreement, *truth.agreement_follow_ups):
        yield from (_without_slots(wording.template), *wording.rest)
    yield from truth.descriptors
    yield from (part for columns in truth.neutral for parts in columns for part in parts)


def _without_slots(template: str) -> str:
    for slot in slots(template):
        template = template.replace(f"{{{slot}}}", " ")
    return template
