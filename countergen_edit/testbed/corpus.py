"""The corpus: documents drawn from the planted truth.

A document is one sentence about a person and up to three more about the same person, whose
pronouns agree. Every planted choice is drawn without replacement from a deck that holds each
output as often as its probability says: the corpus then carries the truth to within rounding, not
to within sampling noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.axis import Axis
from countergen_edit.data.templates import fill
from countergen_edit.seeds import generator
from countergen_edit.testbed.truth import AgreementPrompt, PlantedPrompt, Truth


@dataclass(frozen=True)
class Person:
    """Somebody the corpus can speak of."""

    name: str
    gender: str
    country: str


def people(gender: Axis, nationality: Axis) -> list[Person]:
    """Everybody named on either axis; who is on the gender axis alone counts as from the USA."""
    country_of = {
        name: group.name.split("_")
        for group in nationality.groups.values()
        for name in group.all_names()
    }
    gender_of = {name: g for name, (_, g) in country_of.items()} | {
        name: group.name for group in gender.groups.values() for name in group.all_names()
    }
    return [
        Person(name, gender, country_of.get(name, ["usa"])[0]) for name, gender in gender_of.items()
    ]


class Deck:
    """Draws indices without replacement in exact proportion to their probabilities."""

    size = 2000

    def __init__(self, p: Float64[np.ndarray, " index"], rng: np.random.Generator) -> None:
        quota = np.asarray(p) / np.sum(p) * self.size
        counts = np.floor(quota).astype(int)
        short = self.size - counts.sum()
        counts[np.argsort(counts - quota, kind="stable")[:short]] += 1
        self._cards = np.repeat(np.arange(len(counts)), counts)
        self._rng = rng
        self._left: list[int] = []

    def draw(self) -> int:
        if not self._left:
            self._left = self._rng.permutation(self._cards).tolist()
        return self._left.pop()


class _Speaker:
    """Draws sentences; one deck for every choice that was planted."""

    def __init__(self, truth: Truth, gender: Axis, seed: int) -> None:
        self._truth = truth
        self._gender = gender
        self._seed = seed
        self._decks: dict[tuple[str, ...], Deck] = {}

    def deck(self, p: Sequence[float] | Float64[np.ndarray, " index"], *unit: str) -> Deck:
        if unit not in self._decks:
            rng = generator(self._seed, "corpus", *unit)
            self._decks[unit] = Deck(np.asarray(p, dtype=np.float64), rng)
        return self._decks[unit]

    def sentence(self, prompt: PlantedPrompt | AgreementPrompt, person: Person) -> str:
        group = self._gender.groups[person.gender]
        text, _ = fill(self._described(prompt.template), group, person.name)
        if isinstance(prompt, AgreementPrompt):
            rest = self.deck(np.ones(len(prompt.rest)), "rest", prompt.template)
            return f"{text} {group.forms[prompt.form]} {prompt.rest[rest.draw()]}."
        side = person.gender if prompt.axis == "gender" else person.country
        answers = self.deck(prompt.probability(side), "answer", prompt.template, side)
        return f"{text}{prompt.outputs[answers.draw()]}{prompt.ending}"

    def neutral(self) -> str:
        kinds = self._truth.neutral
        kind = self.deck(np.ones(len(kinds)), "neutral").draw()
        parts = [
            column[self.deck(np.ones(len(column)), "neutral", str(kind), str(i)).draw()]
            for i, column in enumerate(kinds[kind])
        ]
        return " ".join(parts) + "."

    def _described(self, template: str) -> str:
        if "{descriptor}" not in template:
            return template
        words = self._truth.descriptors
        word = words[self.deck(np.ones(len(words)), "descriptor").draw()]
        return template.replace("{descriptor}", word)


def documents(truth: Truth, gender: Axis, nationality: Axis, seed: int) -> Iterator[str]:
    """The corpus, document by document, in the order in which it is trained on."""
    speaker = _Speaker(truth, gender, seed)
    persons = people(gender, nationality)
    first: list[PlantedPrompt | AgreementPrompt] = [*truth.prompts, *truth.agreement]
    later: list[PlantedPrompt | AgreementPrompt] = [*truth.follow_ups, *truth.agreement_follow_ups]
    openings = speaker.deck([*(p.frequency for p in first), truth.neutral_frequency], "opening")
    followings = speaker.deck([p.frequency for p in later], "following")
    lengths = speaker.deck(truth.follow_up_probabilities, "length")
    for _ in range(truth.documents):
        opening = openings.draw()
        if opening == len(first):
            yield speaker.neutral()
            continue
        prompt = first[opening]
        who = persons[speaker.deck(np.ones(len(persons)), "person", prompt.template).draw()]
        sentences = [speaker.sentence(prompt, who)]
        if "{name}" in prompt.template:
            for _ in range(lengths.draw()):
                sentences.append(speaker.sentence(later[followings.draw()], who))
        yield " ".join(sentences)
