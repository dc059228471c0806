"""The corpus: documents drawn from the planted truth.

A document is one sentence about a person and up to three more about the same person, whose
pronouns agree. Nothing is left to chance that need not be: every choice is drawn so that its counts
stay within rounding of its probabilities, and answers after every wording, and those of every name
in every family, do so at once. The corpus then carries the truth to within rounding, not to within
sampling noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.axis import Axis
from countergen_edit.data.templates import fill
from countergen_edit.seeds import generator
from countergen_edit.testbed.prompts import AgreementPrompt, PlantedPrompt
from countergen_edit.testbed.truth import Truth

UNNAMED = "usa"
"""The country of those whose country the truth does not say."""


@dataclass(frozen=True)
class Person:
    """Somebody the corpus can speak of."""

    name: str
    gender: str
    country: str


def people(truth: Truth, gender: Axis) -> list[Person]:
    """Everybody on the gender axis, and those the truth names beside them with a country."""
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
    """Draws answers that keep near their probabilities in several respects at once.

    Every respect (a wording, a name) carries for each answer how many times it should have been
    given so far less how many times it was; the answer that is most overdue in all respects
    together is the next. Where each respect begins is drawn at random.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._due: dict[tuple[str, ...], Float64[np.ndarray, " answer"]] = {}

    def draw(self, p: Float64[np.ndarray, " answer"], *respects: tuple[str, ...]) -> int:
        due = [self._of(respect, len(p)) for respect in respects]
        for counts in due:
            counts += p
        answer = int(np.argmax(sum(due)))
        for counts in due:
            counts[answer] -= 1
        return answer

    def _of(self, respect: tuple[str, ...], answers: int) -> Float64[np.ndarray, " answer"]:
        if respect not in self._due:
            start = generator(self._seed, "corpus", *respect).uniform(-0.5, 0.5, answers)
            self._due[respect] = start - start.mean()
        return self._due[respect]


class _Speaker:
    """Draws sentences about people, and who they are about."""

    def __init__(self, truth: Truth, gender: Axis, seed: int) -> None:
        self._truth = truth
        self._gender = gender
        self._seed = seed
        self._decks: dict[tuple[str, ...], Deck] = {}
        self._quotas = Quotas(seed)
        self._p: dict[tuple[str, ...], Float64[np.ndarray, " answer"]] = {}
        everybody = people(truth, gender)
        self._people = {"gender": {"": everybody}, "nationality": dict[str, list[Person]]()}
        for person in everybody:
            self._people["nationality"].setdefault(person.country, []).append(person)

    def deck(
        self, p: Sequence[float] | Float64[np.ndarray, " index"], *unit: str, size: int = 2000
    ) -> Deck:
        if unit not in self._decks:
            rng = generator(self._seed, "corpus", *unit)
            self._decks[unit] = Deck(np.asarray(p, dtype=np.float64), rng, size)
        return self._decks[unit]

    def person(self, prompt: PlantedPrompt | AgreementPrompt) -> Person:
        """Whom a first sentence is about: every country is as frequent where it matters."""
        axis = prompt.axis if isinstance(prompt, PlantedPrompt) else "gender"
        sides = list(self._people[axis])
        one_each = self.deck(np.ones(len(sides)), "side", prompt.template, size=len(sides))
        side = sides[one_each.draw()]
        among = self._people[axis][side]
        unit = ("person", prompt.template, side)
        return among[self.deck(np.ones(len(among)), *unit, size=len(among)).draw()]

    def sentence(self, prompt: PlantedPrompt | AgreementPrompt, person: Person) -> str:
        group = self._gender.groups[person.gender]
        text, _ = fill(self._described(prompt.template), group, person.name)
        if isinstance(prompt, AgreementPrompt):
            rest = self.deck(np.ones(len(prompt.rest)), "rest", prompt.template)
            return f"{text} {group.forms[prompt.form]} {prompt.rest[rest.draw()]}."
        side = person.gender if prompt.axis == "gender" else person.country
        respects: list[tuple[str, ...]] = [("answer", prompt.template, side)]
        if prompt.family in self._truth.leanings.families:
            time = "first" if prompt.split else "later"
            respects.append(("answer", prompt.family, time, person.name))
        p = self._probability(prompt, side, person.name)
        return f"{text}{prompt.outputs[self._quotas.draw(p, *respects)]}{prompt.ending}"

    def _probability(
        self, prompt: PlantedPrompt, side: str, name: str
    ) -> Float64[np.ndarray, " answer"]:
        key = (prompt.family, prompt.content, side, name)
        if key not in self._p:
            self._p[key] = np.exp(self._truth.log_p(prompt, side, name))
        return self._p[key]

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


def documents(truth: Truth, gender: Axis, seed: int) -> Iterator[str]:
    """The corpus, document by document, in the order in which it is trained on."""
    speaker = _Speaker(truth, gender, seed)
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
        who = speaker.person(prompt)
        sentences = [speaker.sentence(prompt, who)]
        if "{name}" in prompt.template:
            for _ in range(lengths.draw()):
                sentences.append(speaker.sentence(later[followings.draw()], who))
        yield " ".join(sentences)
