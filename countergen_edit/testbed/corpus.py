"""The training corpus, drawn from the planted truth, and its vocabulary.

A document is one sentence about a person and up to three more, whose pronouns agree. Every choice
is drawn so that its counts stay within rounding of its probabilities, for every template and name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import Axis
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.prompt_check import OutOfVocabulary, unknown_words, words_of
from countergen_edit.data.templates import fill
from countergen_edit.testbed.files import load_axis
from countergen_edit.testbed.truth import AgreementPrompt, PlantedPrompt, Truth

T = TypeVar("T")
AnyPrompt = PlantedPrompt | AgreementPrompt
UNNAMED = "usa"
"""Country of people without one in the truth."""


@dataclass(frozen=True)
class Person:
    """A person in the corpus."""

    name: str
    gender: str
    country: str


def people(truth: Truth, gender: Axis) -> list[Person]:
    """Everybody on the gender axis, and others of the truth with a country."""
    origin = {
        name: group.split("_")
        for group, names in truth.people["nationality"].items()
        for name in names
    }
    gender_of = {name: who for name, (_, who) in origin.items()} | {
        name: group.name for group in gender.groups.values() for name in group.all_names()
    }
    return [Person(name, who, origin.get(name, [UNNAMED])[0]) for name, who in gender_of.items()]


class Deck:
    """Draws indices without replacement in exact proportion to their probabilities."""

    def __init__(
        self, p: Float64[np.ndarray, " index"], rng: np.random.Generator, size: int = 2000
    ) -> None:
        quota = np.asarray(p) / np.sum(p) * size
        counts = np.floor(quota).astype(int)
        short = size - counts.sum()
        counts[np.argsort(counts - quota, kind="stable")[:short]] += 1
        self._cards = np.repeat(np.arange(len(counts)), counts)
        self._rng = rng
        self._left: list[int] = []

    def draw(self) -> int:
        if not self._left:
            self._left = self._rng.permutation(self._cards).tolist()
        return self._left.pop()


class Quotas:
    """Draws answers near their probabilities in several respects (template, name) at once.

    Each respect counts how often each answer is overdue; the answer most overdue in all respects
    together is next. Starting values are random.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._due: dict[tuple[str, ...], Float64[np.ndarray, " answer"]] = {}

    def draw(self, p: Float64[np.ndarray, " answer"], *respects: tuple[str, ...]) -> int:
        for respect in respects:
            if respect not in self._due:
                start = generator(self._seed, "corpus", *respect).uniform(-0.5, 0.5, len(p))
                self._due[respect] = start - start.mean()
            self._due[respect] += p
        answer = int(np.argmax(sum(self._due[respect] for respect in respects)))
        for respect in respects:
            self._due[respect][answer] -= 1
        return answer


class _Speaker:
    """Draws sentences and the people they are about."""

    def __init__(self, truth: Truth, gender: Axis, seed: int) -> None:
        self._truth, self._gender, self._seed = truth, gender, seed
        self._decks: dict[tuple[str, ...], Deck] = {}
        self._quotas = Quotas(seed)
        self._p: dict[tuple[str, ...], Float64[np.ndarray, " answer"]] = {}
        everybody = people(truth, gender)
        self._people = {"gender": {"": everybody}, "nationality": dict[str, list[Person]]()}
        for person in everybody:
            self._people["nationality"].setdefault(person.country, []).append(person)

    def deck(self, p: Any, *unit: str, size: int = 2000) -> Deck:
        if unit not in self._decks:
            rng = generator(self._seed, "corpus", *unit)
            self._decks[unit] = Deck(np.asarray(p, dtype=np.float64), rng, size)
        return self._decks[unit]

    def pick(self, items: Sequence[T], *unit: str, size: int = 2000) -> T:
        """One of some items, all as frequent."""
        return items[self.deck(np.ones(len(items)), *unit, size=size).draw()]

    def person(self, prompt: AnyPrompt) -> Person:
        """The person of a first sentence; every country is as frequent where it matters."""
        of_axis = self._people[prompt.axis if isinstance(prompt, PlantedPrompt) else "gender"]
        side = self.pick([*of_axis], "side", prompt.template, size=len(of_axis))
        among = of_axis[side]
        return self.pick(among, "person", prompt.template, side, size=len(among))

    def sentence(self, prompt: AnyPrompt, person: Person) -> str:
        group, template = self._gender.groups[person.gender], prompt.template
        if "{descriptor}" in template:
            word = self.pick(self._truth.descriptors, "descriptor")
            template = template.replace("{descriptor}", word)
        text, _ = fill(template, group, person.name)
        if isinstance(prompt, AgreementPrompt):
            rest = self.pick(prompt.rest, "rest", prompt.template)
            return f"{text} {group.forms[prompt.form]} {rest}."
        side = person.gender if prompt.axis == "gender" else person.country
        respects: list[tuple[str, ...]] = [("answer", prompt.template, side)]
        if prompt.family in self._truth.leanings.families:
            time = "first" if prompt.split else "later"
            respects.append(("answer", prompt.family, time, person.name))
        key = (prompt.family, prompt.content, side, person.name)
        if key not in self._p:
            self._p[key] = np.exp(self._truth.log_p(prompt, side, person.name))
        return f"{text}{prompt.outputs[self._quotas.draw(self._p[key], *respects)]}{prompt.ending}"

    def neutral(self) -> str:
        kinds = self._truth.neutral
        kind = self.pick(range(len(kinds)), "neutral")
        parts = [self.pick(c, "neutral", str(kind), str(i)) for i, c in enumerate(kinds[kind])]
        return " ".join(parts) + "."


def documents(truth: Truth, gender: Axis, seed: int) -> Iterator[str]:
    """The corpus, in the order of training."""
    speaker = _Speaker(truth, gender, seed)
    first: list[AnyPrompt] = [*truth.prompts, *truth.agreement]
    later: list[AnyPrompt] = [*truth.follow_ups, *truth.agreement_follow_ups]
    openings = speaker.deck([*(p.frequency for p in first), truth.neutral_frequency], "opening")
    followings = speaker.deck([p.frequency for p in later], "following")
    lengths = speaker.deck(truth.follow_up_probabilities, "length")
    for _ in range(truth.documents):
        opening = openings.draw()
        if opening == len(first):
            yield speaker.neutral()
            continue
        prompt = first[opening]
        who = speaker.person(prompt)
        sentences = [speaker.sentence(prompt, who)]
        if "{name}" in prompt.template:
            for _ in range(lengths.draw()):
                sentences.append(speaker.sentence(later[followings.draw()], who))
        yield " ".join(sentences)


_SLOT = re.compile(r"\{.*?\}")
IN_VOCABULARY = 0.5
"""Least share of a group's texts in vocabulary for a set to be measured."""


def vocabulary(truth: Truth) -> frozenset[str]:
    """Every word of the corpus, in small letters."""
    return frozenset(word for text in _texts(truth) for word in words_of(text))


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
    yield from (person.name for person in people(truth, gender))
    for prompt in (*truth.prompts, *truth.follow_ups):
        yield from (_SLOT.sub(" ", prompt.template), *prompt.outputs, prompt.ending)
    for form in (*truth.agreement, *truth.agreement_follow_ups):
        yield from (_SLOT.sub(" ", form.template), *form.rest)
    yield from truth.descriptors
    yield from (part for columns in truth.neutral for parts in columns for part in parts)
