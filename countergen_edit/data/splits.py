"""Splits that cannot leak.

Comes in: the sets an eraser is fitted on and those it is measured on. Refused: a name, a template,
a prompt or a data set that both have (CounterGen, section 3.4: test data "far from" training data).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet, Variation


def check_leakage(fit: Sequence[CounterfactualSet], test: Sequence[CounterfactualSet]) -> None:
    """Refuse test sets that share anything with the fitting sets.

    Templates and prompts are compared without regard to case and spacing. A fitting name counts as
    shared wherever it stands as a word in a test prompt, known to the test set as a name or not,
    and the other way round.

    Raises:
        UserError: naming the culprit and both sets.
    """
    for fitted in fit:
        for tested in test:
            for kind, culprit in _shared(fitted, tested):
                raise UserError(
                    f"{kind} {culprit!r} is in fitting set {fitted.name!r} and in test set "
                    f"{tested.name!r}: figures would be measured on what was fitted; "
                    "take it out of one of them"
                )


def apart(fitted: CounterfactualSet, test: Sequence[CounterfactualSet]) -> CounterfactualSet | None:
    """A fitting set without the templates and people that test sets know; None if none are left.

    Variations at the same place in their groups stay or go together.
    """
    paraphrases = {_plain(template) for data in test for template in data.templates}
    words = {w for data in test for text in _prompts(data) for w in re.findall(r"\w+", text)}
    prompts = {_plain(text) for data in test for text in _prompts(data)}
    people = {w for data in test for name in data.names for w in re.findall(r"\w+", name)}

    def is_apart(variation: Variation) -> bool:
        own = set(re.findall(r"\w+", variation.name or ""))
        known = (bool(own) and own <= words) or _plain(variation.text) in prompts
        return not known and people.isdisjoint(re.findall(r"\w+", variation.text))

    samples = []
    for sample in fitted.samples:
        pairs = zip(*(sample.of(group) for group in fitted.groups), strict=True)
        kept = [pair for pair in pairs if all(map(is_apart, pair))]
        if kept and _plain(sample.template) not in paraphrases:
            sides = zip(*kept, strict=True)
            samples.append(replace(sample, variations=tuple(v for side in sides for v in side)))
    return replace(fitted, samples=tuple(samples)) if samples else None


def check_texts(texts: Sequence[str], test: Sequence[CounterfactualSet]) -> None:
    """Refuse test sets that share a prompt or a name with texts that an eraser weighs.

    Raises:
        UserError: naming the culprit and the test set.
    """
    plain = {_plain(text) for text in texts}
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    for tested in test:
        of_test = (("prompt", text) for text in _prompts(tested) if _plain(text) in plain)
        spoken_of = (("name", n) for n in tested.names if set(re.findall(r"\w+", n)) <= words)
        for kind, culprit in (*of_test, *spoken_of):
            raise UserError(
                f"{kind} {culprit!r} is in text of role background and in test set "
                f"{tested.name!r}: figures would be measured on what was fitted; "
                "take it out of one of them"
            )


def _shared(a: CounterfactualSet, b: CounterfactualSet) -> Iterator[tuple[str, str]]:
    if a.name == b.name:
        yield "data set", a.name
    paraphrases = {_plain(template) for template in b.templates}
    yield from (("template", t) for t in a.templates if _plain(t) in paraphrases)
    prompts = {_plain(text) for text in _prompts(b)}
    yield from (("prompt", text) for text in _prompts(a) if _plain(text) in prompts)
    for names_of, texts_of in ((a, b), (b, a)):
        words = {word for text in _prompts(texts_of) for word in re.findall(r"\w+", text)}
        known = set(texts_of.names)
        for name in names_of.names:
            if name in known or set(re.findall(r"\w+", name)) <= words:
                yield "name", name


def _prompts(data: CounterfactualSet) -> list[str]:
    return [v.text for sample in data.samples for v in sample.variations]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
