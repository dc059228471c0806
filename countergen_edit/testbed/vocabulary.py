"""The vocabulary of the testbed's training corpus, and the sets that lie outside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.prompt_check import OutOfVocabulary, small_words, unknown_words
from countergen_edit.testbed.files import load_axis
from countergen_edit.testbed.truth import Truth

_SLOT = re.compile(r"\{.*?\}")
IN_VOCABULARY = 0.5
"""Least share of a group's texts in vocabulary for a set to be measured."""


def vocabulary(truth: Truth) -> frozenset[str]:
    """Every word of the corpus, in small letters."""
    return frozenset(word for text in _texts(truth) for word in small_words(text))


def in_vocabulary_share(words: frozenset[str], data: CounterfactualSet) -> float:
    """The share of prompts with outputs in vocabulary, of the group with fewest."""
    shares = []
    for group in data.groups:
        texts = [v.text + output for s in data.samples for v in s.of(group) for output in s.outputs]
        shares.append(sum(not unknown_words(words, text) for text in texts) / len(texts))
    return min(shares)


def out_of_vocabulary(words: frozenset[str], data: CounterfactualSet) -> OutOfVocabulary | None:
    """The out-of-vocabulary words of a set; None where `IN_VOCABULARY` of it is in vocabulary."""
    share = in_vocabulary_share(words, data)
    if share >= IN_VOCABULARY:
        return None
    found = [
        [w for s in data.samples for v in s.of(group) for w in unknown_words(words, v.text)]
        for group in data.groups
    ]
    shared = set.intersection(*map(set, found))
    telling = [word for own in found for word in own if word not in shared]
    outputs = [w for s in data.samples for o in s.outputs for w in unknown_words(words, o)]
    every = [*telling, *outputs, *(word for own in found for word in own)]
    return OutOfVocabulary(data, share, tuple(dict.fromkeys(every)))


def _texts(truth: Truth) -> Iterator[str]:
    gender = load_axis("gender")
    for group in gender.groups.values():
        yield from group.forms.values()
        yield from group.all_names()
    yield from (name for groups in truth.people.values() for own in groups.values() for name in own)
    for prompt in (*truth.prompts, *truth.follow_ups):
        yield from (_SLOT.sub(" ", prompt.template), *prompt.outputs, prompt.ending)
    for form in (*truth.agreement, *truth.agreement_follow_ups):
        yield from (_SLOT.sub(" ", form.template), *form.rest)
    yield from truth.descriptors
    yield from (part for columns in truth.neutral for parts in columns for part in parts)
