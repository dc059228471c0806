"""Texts that are run together, and the places at which their output is read.

A portion to erase holds one context with people of two groups; a portion to keep several contexts,
read where the model should not change; a portion of running text is read at every token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from countergen_edit.data.counterfactual import CounterfactualSet, Variation
from countergen_edit.data.task import Task
from countergen_edit.models import LanguageModel, encode, first_read
from countergen_edit.models.batching import Tree
from countergen_edit.models.language_model import Mask
from countergen_edit.runs.fit_data import beginnings, following, texts_by_context

_ROWS = 16
"""Texts of a portion of contexts to keep."""
_TEXTS = 2
"""Texts of a portion of running text."""
_LONGEST = 64
"""Tokens of a running text."""
PASS = 512
"""Tokens of a pass of portions, with padding; activations are kept for gradients."""


@dataclass(frozen=True, eq=False)
class Portion:
    """Texts that are run together, and the places at which output is read."""

    kind: str
    """`erase`, `keep` or `neutral`."""
    ids: Int[Tensor, "row time"]
    mask: Int[Tensor, "row time"]
    at: tuple[Int[Tensor, " read"], Int[Tensor, " read"]]
    """Rows and columns; of a context to erase, equally many of every row, row by row."""
    is_first: Bool[Tensor, " row"] | None = None
    """Of a context to erase: whether the text is about the first group."""
    outputs: Int[Tensor, " output"] | None = None
    """Of a context to erase: the next token of each output, where they are known."""
    choices: Int[Tensor, "read output"] | None = None
    """Of a context to keep: the next token of each output, where they are known."""
    side: Int[Tensor, " row"] | None = None
    """Of a context to keep whose first choice agrees: the number of its group."""

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms of an objective that it has a part in."""
        if self.kind == "erase":
            return "bias", "people"
        if self.choices is None:
            return (self.kind,)
        return self.kind, "legitimate" if self.side is None else "agreement"

    def renumbered(self, numbers: Callable[[Tensor], Tensor]) -> Portion:
        """With other numbers of the tokens that are read."""
        outputs, choices = (x if x is None else numbers(x) for x in (self.outputs, self.choices))
        return replace(self, outputs=outputs, choices=choices)

    @property
    def reads(self) -> int:
        """Of each row of a context to erase."""
        return len(self.at[0]) // len(self.ids)


def some_rows(portion: Portion, chosen: Int[Tensor, " row"]) -> Portion:
    """Some rows of a context to erase."""
    assert portion.is_first is not None
    reads = portion.reads
    mask = portion.mask[chosen]
    longest = int(mask.sum(1).max())
    column = portion.at[1].view(-1, reads)[chosen].reshape(-1)
    return replace(
        portion,
        ids=portion.ids[chosen, :longest],
        mask=mask[:, :longest],
        at=(torch.arange(len(chosen)).repeat_interleave(reads), column),
        is_first=portion.is_first[chosen],
    )


def in_passes(portions: Sequence[Portion]) -> list[list[int]]:
    """Numbers of portions of similar lengths to run together, up to `PASS` tokens."""
    passes: list[list[int]] = []
    rows = longest = 0
    for i in sorted(range(len(portions)), key=lambda i: -portions[i].ids.shape[1]):
        count, length = portions[i].ids.shape
        if not passes or (rows + count) * longest > PASS:
            passes.append([])
            longest = length
            rows = 0
        passes[-1].append(i)
        rows += count
    return passes


@dataclass(frozen=True, eq=False)
class Joined:
    """Portions that are run together, and where their tokens are.

    All are in one row, in which a common beginning is once and a token attends to its own text;
    for a model that cannot run such a row, each text is one.
    """

    ids: Int[Tensor, "row time"]
    mask: Mask
    place: Int[np.ndarray, "2 token"]
    """Text and column of every token, text by text."""
    cell: Int[np.ndarray, "2 token"]
    """Row and time at which it is run."""
    reads: Int[np.ndarray, " read"]
    """Numbers of the tokens that are read."""


def one_pass(portions: Sequence[Portion], *, branch: bool) -> Joined:
    """Portions in their order; `branch` for one row."""
    lengths = [n for portion in portions for n in portion.mask.sum(1).tolist()]
    rows = [row for portion in portions for row in portion.ids]
    texts = [tuple(row[:n].tolist()) for row, n in zip(rows, lengths, strict=True)]
    starts = np.cumsum([0, *lengths])
    row = np.repeat(np.arange(len(texts)), lengths)
    place = np.stack([row, np.arange(len(row)) - starts[row]])
    reads, begin = list[np.ndarray](), 0
    for portion in portions:
        reads.append(starts[portion.at[0].numpy() + begin] + portion.at[1].numpy())
        begin += len(portion.ids)
    if not branch:
        ids, mask, _ = padded([torch.tensor(text) for text in texts])
        return Joined(ids, mask, place, place, np.concatenate(reads))
    tree = Tree.of(texts)
    column = np.concatenate([tree.columns[text] for text in texts])
    cell = np.stack([np.zeros_like(column), column])
    return Joined(torch.tensor([tree.ids]), tree.sees[None], place, cell, np.concatenate(reads))


@dataclass(frozen=True, eq=False)
class Context:
    """A context to erase with its people of two groups, tokenised when drawn."""

    first: str
    """The first group."""
    people: list[tuple[Variation, str]] = field(default_factory=list)
    """Prompts, and the beginning of an output after each."""
    outputs: set[int] = field(default_factory=set)
    """The next token of each output."""

    def portion(self, model: LanguageModel) -> Portion:
        """Its texts, read at their ends."""
        portion = ends(model, [v.text + beginning for v, beginning in self.people])
        is_first = torch.tensor([v.group == self.first for v, _ in self.people])
        outputs = torch.tensor(sorted(self.outputs))
        return replace(portion, kind="erase", is_first=is_first, outputs=outputs)


def to_erase(model: LanguageModel, data: CounterfactualSet) -> list[Context]:
    """Every context, with the people of every two groups."""
    tokens = [following(model, sample) for sample in data.samples]
    contexts: dict[tuple[str, str, str], Context] = {}
    for a, b in data.pairs:
        for sample, after in zip(data.samples, tokens, strict=True):
            people = (*sample.of(a), *sample.of(b))
            for beginning in beginnings(sample, after):
                key = a, b, f"{sample.template}{beginning}"
                context = contexts.setdefault(key, Context(a))
                context.people.extend((v, beginning) for v in people)
                context.outputs.update(after[beginning])
    return [*contexts.values()]


def to_keep(
    model: LanguageModel, data: CounterfactualSet, rng: np.random.Generator
) -> list[Portion]:
    """Portions of texts after several contexts, read at their ends, in random order."""
    tokens, agrees = _choices(model, data), agreement_like(data)
    sides = {v.text: data.groups.index(v.group) for s in data.samples for v in s.variations}
    by_count: dict[int, list[str]] = {}
    texts = texts_by_context(model, data)
    for text in (texts[i] for i in rng.permutation(len(texts))):
        by_count.setdefault(len(tokens.get(text, ())), []).append(text)
    portions = []
    for count, alike in by_count.items():
        for begin in range(0, len(alike), _ROWS):
            batch = alike[begin : begin + _ROWS]
            choices = torch.tensor([tokens[text] for text in batch]) if count else None
            side = torch.tensor([sides[text] for text in batch]) if count and agrees else None
            portions.append(replace(ends(model, batch), choices=choices, side=side))
    return portions


def ends(model: LanguageModel, texts: Sequence[str]) -> Portion:
    """A portion to keep, read at the ends of its texts."""
    ids, mask, last = padded(_ids(model, texts))
    return Portion("keep", ids, mask, (torch.arange(len(ids)), last))


def agreement_like(data: CounterfactualSet) -> bool:
    """Whether the i-th output of each prompt is the form of the i-th group."""
    return all(len(sample.outputs) == len(data.groups) for sample in data.samples)


def running(model: LanguageModel, texts: Sequence[str]) -> list[Portion]:
    """Portions of running text, read at every token."""
    portions = []
    for begin in range(0, len(texts), _TEXTS):
        first = first_read(model)
        ids, mask, _ = padded(_ids(model, texts[begin : begin + _TEXTS], first + _LONGEST))
        row, position = mask[:, first:].nonzero(as_tuple=True)
        portions.append(Portion("neutral", ids, mask, (row, position + first)))
    return portions


def padded(
    rows: Sequence[Int[Tensor, " _"]],
) -> tuple[Int[Tensor, "row time"], Int[Tensor, "row time"], Int[Tensor, " row"]]:
    """Token ids and mask, padded on the right, and the last column of each row."""
    ids = pad_sequence([*rows], batch_first=True)
    mask = pad_sequence([*map(torch.ones_like, rows)], batch_first=True)
    return ids, mask, mask.sum(1) - 1


def telling_tokens(model: LanguageModel, task: Task) -> Int[Tensor, " token"]:
    """Tokens of forms that agree, of outputs of sets to keep, and of gendered words of one."""
    words = sorted(task.substitution.lexicon_words) if task.substitution else []
    single = [e.ids[-1] for e in encode(model, [f" {w}" for w in words]) if len(e.after(0)) == 1]
    outputs = [o for data in task.keep for sample in data.samples for o in sample.outputs]
    groups = [task.axis.groups[name] for name in task.groups]
    outputs += [f" {form}" for group in groups for form in group.forms.values()]
    first = [e.ids[e.after(0)[0]] for e in encode(model, [*dict.fromkeys(outputs)])]
    return torch.tensor(sorted({*single, *first}), dtype=torch.long)


def mean_divergence(
    p: Float[Tensor, "*read vocab"], q: Float[Tensor, "*read vocab"]
) -> Float[Tensor, ""]:
    """Mean KL(p ‖ q) of log-probabilities, nats."""
    return (p.exp() * (p - q)).sum(-1).mean()


def _ids(
    model: LanguageModel, texts: Sequence[str], most: int | None = None
) -> list[Int[Tensor, " time"]]:
    return [torch.tensor(encoding.ids[:most]) for encoding in encode(model, texts)]


def _choices(model: LanguageModel, data: CounterfactualSet) -> dict[str, list[int]]:
    """Prompt → the next tokens of its outputs; of forms that agree, the right one first."""
    choices: dict[str, list[int]] = {}
    for sample in data.samples:
        for side, group in enumerate(data.groups):
            for prompt in (variation.text for variation in sample.of(group)):
                encodings = encode(model, [prompt + output for output in sample.outputs])
                choices[prompt] = [e.ids[e.after(len(prompt))[0]] for e in encodings]
                if agreement_like(data):
                    choices[prompt].insert(0, choices[prompt].pop(side))
    return choices
