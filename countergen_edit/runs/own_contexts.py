"""Contexts that the model writes itself, after a person of one of the groups.

The unedited model continues fitting prompts, their beginnings up to a person, and sentences of
neutral text with a person after them. The text after the person is cut at random, at the latest
before the first word that tells the group (a form such as "she", a gendered noun, a name): in the
part before it, the person can be exchanged for any other, so that it is a context to erase; where
the next word is such a form, it is also a context to keep.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import torch

from countergen_edit.core.seeds import generator
from countergen_edit.data.task import Task
from countergen_edit.models import LanguageModel, encode, generate
from countergen_edit.runs.portions import Portion, ends, padded

NEW_TOKENS = 24
MOST_WORDS = 16
"""Of a continuation that is kept."""
_TOP_P = 0.95
LONGEST_PERSON = 4
"""Words of a noun phrase for a person."""
_PEOPLE = 8
"""Of each group in a context."""
MOST_OPENING = 12
"""Words of a sentence of neutral text before a person."""
KEPT = 4
"""Contexts to keep in a portion."""
_EXAMPLES = 10
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class OwnContext:
    """A beginning, a person of a group, and the continuation up to a cut."""

    before: str
    person: str
    group: str
    said: str

    @property
    def text(self) -> str:
        return f"{self.before}{self.person}{self.said}"


@dataclass
class OwnContexts:
    """The contexts that a model wrote, by use, and the number of those refused, by reason."""

    people: dict[str, tuple[str, ...]]
    erase: list[OwnContext] = field(default_factory=list)
    keep: list[OwnContext] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def summary(self) -> dict[str, Any]:
        """Counts, and examples of both uses."""
        return {
            "to_erase": len(self.erase),
            "to_keep": len(self.keep),
            "refused": dict(self.refused),
            "examples": [
                {"text": one.text, "use": use}
                for use, own in (("erase", self.erase), ("keep", self.keep))
                for one in own[: _EXAMPLES // 2]
            ],
        }

    def portion_to_erase(self, model: LanguageModel, rng: np.random.Generator) -> Portion | None:
        """A drawn context with people of two groups, read at every token after the person.

        None where the continuation is split into other tokens after another person, or without
        contexts.
        """
        if not self.erase:
            return None
        context = self.erase[int(rng.integers(len(self.erase)))]
        a, b = sorted(rng.choice(len(self.people), 2, replace=False))
        groups = [list(self.people)[i] for i in (a, b)]
        rows, is_first, tails = [], [], set()
        for side, group in enumerate(groups):
            own = self.people[group]
            for i in rng.choice(len(own), min(_PEOPLE, len(own)), replace=False):
                prefix = f"{context.before}{own[i]}"
                [encoding] = encode(model, [prefix + context.said])
                tails.add(tuple(encoding.ids[k] for k in encoding.after(len(prefix))))
                rows.append(torch.tensor(encoding.ids))
                is_first.append(side == 0)
        if len(tails) != 1:
            return None
        ids, mask, last = padded(rows)
        reads = len(tails.pop()) + 1
        row = torch.arange(len(rows)).repeat_interleave(reads)
        column = (last[:, None] - torch.arange(reads - 1, -1, -1)).reshape(-1)
        return Portion("erase", ids, mask, (row, column), torch.tensor(is_first))

    def portion_to_keep(self, model: LanguageModel, rng: np.random.Generator) -> Portion | None:
        """Some drawn contexts before a word that tells the group; None without any."""
        if not self.keep:
            return None
        drawn = rng.choice(len(self.keep), min(KEPT, len(self.keep)), replace=False)
        texts = [self.keep[i].text for i in drawn]
        return ends([torch.tensor(encoding.ids) for encoding in encode(model, texts)])


def written(model: LanguageModel, task: Task, count: int, seed: int) -> OwnContexts:
    """`count` continuations of the unedited model, cut and sorted.

    There are none where the fitting prompts mention people of fewer than two groups.
    """
    rng = generator(seed, "own contexts", task.name)
    people, prompts = people_of(task), [*_mentions(task)]
    before, groups = _before(task), [*people]
    if len(groups) < 2:
        return OwnContexts(people)
    drawn = []
    for i in range(count):
        if i % 2:  # a whole prompt
            drawn.append(prompts[int(rng.integers(len(prompts)))])
        else:
            group = groups[i // 2 % len(groups)]
            person = people[group][int(rng.integers(len(people[group])))]
            drawn.append((before[int(rng.integers(len(before)))], group, person, ""))
    texts = generate(
        model,
        [first + person + rest for first, _, person, rest in drawn],
        max_new_tokens=NEW_TOKENS,
        do_sample=True,
        top_p=_TOP_P,
        seed=seed,
        progress="Contexts of the model's own",
    )
    own, telling = OwnContexts(people), _telling(task)
    for (first, group, person, rest), text in zip(drawn, texts, strict=True):
        text = rest + text
        words = [*_WORD.finditer(text)]
        tells = next((m.start() for m in words if m[0].lower() in telling), None)
        said = text if tells is None else text[:tells].rstrip()
        most = min(sum(m.end() <= len(said) for m in words), MOST_WORDS)
        if tells is not None and most < MOST_WORDS:
            own.keep.append(OwnContext(first, person, group, said))
        if "\n" in said:
            own.refused["a new line"] += 1
        elif most == 0:
            own.refused["tells the group at once" if tells is not None else "empty"] += 1
        else:
            cut = words[int(rng.integers(most))].end()
            own.erase.append(OwnContext(first, person, group, said[:cut]))
    return own


def people_of(task: Task) -> dict[str, tuple[str, ...]]:
    """Group with people → its names in the fitting sets, or noun phrases in their place."""
    people: dict[str, dict[str, None]] = {group: {} for group in task.groups}
    for _, group, person, _ in _mentions(task):
        if len(person.split()) <= LONGEST_PERSON:
            people[group][person] = None
    return {group: tuple(own) for group, own in people.items() if own}


def _before(task: Task) -> list[str]:
    """The beginnings of fitting prompts up to their person, and sentences of neutral text."""
    found = dict.fromkeys(before for before, _, _, _ in _mentions(task))
    for text in task.weighed:
        sentence = re.split(r"(?<=[.!?])\s", text)[0]
        if sentence.endswith((".", "!", "?")) and len(sentence.split()) <= MOST_OPENING:
            found[f"{sentence} "] = None
    return [*found]


def _mentions(task: Task) -> Iterator[tuple[str, str, str, str]]:
    """Every fitting prompt: text before a person, group, person, and the rest.

    The person is the part in which the prompts of a sample differ.
    """
    for data in task.fit:
        for sample in data.samples:
            texts = [variation.text for variation in sample.variations]
            letters = zip(*(reversed(text) for text in texts), strict=False)
            shared = sum(1 for _ in takewhile(lambda own: len({*own}) == 1, letters))
            for variation, text in zip(sample.variations, texts, strict=True):
                start, name = variation.start, variation.name
                if name and not text.startswith(name, start):
                    continue  # other words show the group before the name does
                space = text.find(" ", len(text) - shared)
                end = start + len(name) if name else space if space >= 0 else len(text)
                if person := text[start:end].strip():
                    yield text[:start], variation.group, person, text[end:]


def _telling(task: Task) -> frozenset[str]:
    """Words that tell a group, in small letters."""
    forms = {f.lower() for group in task.groups for f in task.axis.groups[group].forms.values()}
    names = {
        word.lower()
        for group in task.groups
        for name in task.axis.groups[group].all_names()
        for word in name.split()
    }
    lexicon: Sequence[str] = [] if task.substitution is None else [*task.substitution.lexicon_words]
    return frozenset({*forms, *names, *lexicon})
