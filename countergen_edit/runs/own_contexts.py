"""Contexts that the model writes itself, after a person of one of the groups.

The unedited model continues fitting prompts, their beginnings up to a person, and neutral sentences
with a person after them. The text after the person is cut at random, before the first word that
tells the group (a form such as "she", a gendered noun, a name): up to there the person can be
exchanged in a context to erase; up to the word itself it is a context to keep.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

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


class OwnContext(NamedTuple):
    """A text with a person of a group, and the text after the person up to a cut."""

    before: str
    group: str
    person: str
    after: str

    @property
    def text(self) -> str:
        return f"{self.before}{self.person}{self.after}"


@dataclass
class OwnContexts:
    """Contexts that a model wrote, by use, and counts of those refused, by reason."""

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
                {"text": context.text, "use": use}
                for use, contexts in (("erase", self.erase), ("keep", self.keep))
                for context in contexts[: _EXAMPLES // 2]
            ],
        }

    def portion_to_erase(self, model: LanguageModel, rng: np.random.Generator) -> Portion | None:
        """A drawn context with people of two groups, read at every token after the person.

        None without contexts, or where another person splits the text after it into other tokens.
        """
        if not self.erase:
            return None
        context = self.erase[int(rng.integers(len(self.erase)))]
        pair = sorted(rng.choice(len(self.people), 2, replace=False))
        first, second = ([*self.people.values()][i] for i in pair)
        rows, is_first, tails = [], [], set()
        for people in (first, second):
            for person in rng.choice(people, min(_PEOPLE, len(people)), replace=False):
                prefix = f"{context.before}{person}"
                [encoding] = encode(model, [prefix + context.after])
                tails.add(tuple(encoding.ids[k] for k in encoding.after(len(prefix))))
                rows.append(torch.tensor(encoding.ids))
                is_first.append(people is first)
        if len(tails) != 1:
            return None
        ids, mask, last = padded(rows)
        reads = len(tails.pop()) + 1
        row = torch.arange(len(rows)).repeat_interleave(reads)
        column = (last[:, None] - torch.arange(reads - 1, -1, -1)).reshape(-1)
        return Portion("erase", ids, mask, (row, column), torch.tensor(is_first))

    def portion_to_keep(self, model: LanguageModel, rng: np.random.Generator) -> Portion | None:
        """Drawn contexts before a word that tells the group; None without any."""
        if not self.keep:
            return None
        drawn = rng.choice(len(self.keep), min(KEPT, len(self.keep)), replace=False)
        return ends(model, [self.keep[i].text for i in drawn])


def written(model: LanguageModel, task: Task, count: int, seed: int) -> OwnContexts:
    """`count` continuations of the unedited model, cut and sorted.

    None where the fitting prompts mention people of fewer than two groups.
    """
    rng = generator(seed, "own contexts", task.name)
    people = people_of(task)
    groups = [*people]
    prompts = [*_mentions(task)]
    openings = _openings(task)
    contexts = OwnContexts(people)
    if len(groups) < 2:
        return contexts
    drawn = []
    for i in range(count):
        if i % 2:  # a whole prompt
            drawn.append(prompts[int(rng.integers(len(prompts)))])
        else:
            group = groups[i // 2 % len(groups)]
            person = people[group][int(rng.integers(len(people[group])))]
            opening = openings[int(rng.integers(len(openings)))]
            drawn.append(OwnContext(opening, group, person, ""))
    texts = generate(
        model,
        [context.text for context in drawn],
        max_new_tokens=NEW_TOKENS,
        do_sample=True,
        top_p=_TOP_P,
        seed=seed,
        progress="Contexts of the model's own",
    )
    telling = _telling(task)
    for context, text in zip(drawn, texts, strict=True):
        after = context.after + text
        words = [*_WORD.finditer(after)]
        tells = next((m.start() for m in words if m[0].lower() in telling), None)
        if tells is not None:
            after = after[:tells].rstrip()
        most = min(sum(m.end() <= len(after) for m in words), MOST_WORDS)
        if tells is not None and most < MOST_WORDS:
            contexts.keep.append(context._replace(after=after))
        if "\n" in after:
            contexts.refused["a new line"] += 1
        elif most == 0:
            contexts.refused["tells the group at once" if tells is not None else "empty"] += 1
        else:
            cut = words[int(rng.integers(most))].end()
            contexts.erase.append(context._replace(after=after[:cut]))
    return contexts


def people_of(task: Task) -> dict[str, tuple[str, ...]]:
    """Group with people → its names or noun phrases in the fitting sets."""
    people: dict[str, dict[str, None]] = {group: {} for group in task.groups}
    for prompt in _mentions(task):
        if len(prompt.person.split()) <= LONGEST_PERSON:
            people[prompt.group][prompt.person] = None
    return {group: tuple(names) for group, names in people.items() if names}


def _openings(task: Task) -> list[str]:
    """Beginnings of fitting prompts up to their person, and neutral sentences."""
    openings = dict.fromkeys(prompt.before for prompt in _mentions(task))
    for text in task.weighed:
        sentence = re.split(r"(?<=[.!?])\s", text)[0]
        if sentence.endswith((".", "!", "?")) and len(sentence.split()) <= MOST_OPENING:
            openings[f"{sentence} "] = None
    return [*openings]


def _mentions(task: Task) -> Iterator[OwnContext]:
    """Every fitting prompt; the prompts of a sample differ in the person."""
    for data in task.fit:
        for sample in data.samples:
            texts = [variation.text for variation in sample.variations]
            letters = zip(*(reversed(text) for text in texts), strict=False)
            shared = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, letters))
            for variation, text in zip(sample.variations, texts, strict=True):
                start, name = variation.start, variation.name
                if name and not text.startswith(name, start):
                    continue  # other words show the group before the name does
                space = text.find(" ", len(text) - shared)
                end = start + len(name) if name else space if space >= 0 else len(text)
                if person := text[start:end].strip():
                    yield OwnContext(text[:start], variation.group, person, text[end:])


def _telling(task: Task) -> set[str]:
    """Words that tell a group, in small letters."""
    words = set[str]() if task.substitution is None else {*task.substitution.lexicon_words}
    for group in (task.axis.groups[name] for name in task.groups):
        words.update(form.lower() for form in group.forms.values())
        words.update(word for name in group.all_names() for word in name.lower().split())
    return words
