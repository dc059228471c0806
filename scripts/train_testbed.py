"""Train the testbed reproducibly: planted truth → corpus → tokenizer → weights.

    python scripts/train_testbed.py [FOLDER]

A document is one sentence about a person and up to three more, whose pronouns agree. Every choice
is drawn so that its counts stay within rounding of its probabilities, for every template and name.
Under half an hour on two cores.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float64, Int64
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from countergen_edit.core.locating import TRUTH
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.core.seeds import generator, unit_seed
from countergen_edit.data.axis import Axis
from countergen_edit.data.templates import fill
from countergen_edit.models.progress import track
from countergen_edit.testbed import Truth, load_axis, load_truth
from countergen_edit.testbed import directory as shipped
from countergen_edit.testbed.truth import AgreementPrompt, PlantedPrompt

T = TypeVar("T")
AnyPrompt = PlantedPrompt | AgreementPrompt
END = "<|endoftext|>"
VOCABULARY = 4000
CONTEXT = 256
BATCH_TOKENS = 2048
PEAK_LEARNING_RATES = {"matrices": 2e-2, "rest": 3e-3}
WARMUP = 0.03
FUSED_GELU, GELU = "gelu_pytorch_tanh", "gelu_new"
"""One function under two names: the first is the faster to train, the second is GPT-2's."""


UNNAMED = "usa"
"""Country of people without one in the truth."""


@dataclass(frozen=True)
class Person:
    """A person in the corpus."""

    name: str
    gender: str
    country: str


@dataclass(frozen=True)
class Corpus:
    """How many documents the corpus has, and what follows a first sentence."""

    documents: int
    follow_up_probabilities: Sequence[float]
    """Of 0, 1, 2, … later sentences."""
    neutral_frequency: float

    @classmethod
    def of(cls, path: Path) -> Corpus:
        """As a file of truth says."""
        content = yaml_mapping(path)
        of_neutral = content["neutral"]["frequency"]
        return cls(content["documents"], content["follow_up_probabilities"], of_neutral)


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


def documents(truth: Truth, corpus: Corpus, gender: Axis, seed: int) -> Iterator[str]:
    """The corpus, in the order of training."""
    speaker = _Speaker(truth, gender, seed)
    first: list[AnyPrompt] = [*truth.prompts, *truth.agreement]
    later: list[AnyPrompt] = [*truth.follow_ups, *truth.agreement_follow_ups]
    openings = speaker.deck([*(p.frequency for p in first), corpus.neutral_frequency], "opening")
    followings = speaker.deck([p.frequency for p in later], "following")
    lengths = speaker.deck(corpus.follow_up_probabilities, "length")
    for _ in range(corpus.documents):
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


def train_tokenizer(corpus: Sequence[str], names: Sequence[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with one token for every word and name."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    # BPE never merges across the space inside a double name: such names are tokens of their own,
    # with and without the space before them.
    double = sorted(name for name in names if " " in name)
    tokenizer.add_tokens(
        [AddedToken(t, normalized=False) for name in double for t in (f" {name}", name)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        bos_token=END,
        pad_token=END,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def model_config(vocabulary: int, end: int) -> GPT2Config:
    """GPT-2 with six blocks, about 1.6 million parameters."""
    return GPT2Config(
        vocab_size=vocabulary,
        n_positions=CONTEXT,
        n_embd=128,
        n_layer=6,
        n_head=4,
        activation_function=FUSED_GELU,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )


def batches(
    rows: Sequence[Sequence[int]], end: int, seed: int
) -> Iterator[tuple[Int64[Tensor, "row token"], Int64[Tensor, "row token"]]]:
    """Batches of documents of like length, in corpus order up to a window; (ids, labels)."""
    rng = generator(seed, "batches")
    window = 16384
    for first in range(0, len(rows), window):
        chunk = sorted(rows[first : first + window], key=len)
        groups: list[list[Sequence[int]]] = [[]]
        for row in chunk:
            if len(row) * (len(groups[-1]) + 1) > BATCH_TOKENS:
                groups.append([])
            groups[-1].append(row)
        for index in rng.permutation(len(groups)):
            group = groups[index]
            width = max(map(len, group))
            ids = torch.full((len(group), width), end)
            labels = torch.full((len(group), width), -100)
            for i, row in enumerate(group):
                ids[i, : len(row)] = labels[i, : len(row)] = torch.tensor(row)
            yield ids, labels


def schedule(progress: float) -> float:
    """Share of the peak learning rate: linear warm-up, then a cosine to zero."""
    if progress < WARMUP:
        return progress / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (progress - WARMUP) / (1 - WARMUP)))


def make_optimizers(model: GPT2LMHeadModel) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the blocks, AdamW for the rest; nearer to the truth than AdamW."""
    matrices = [p for p in model.transformer.h.parameters() if p.ndim == 2]
    of_blocks = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in of_blocks]
    return [
        torch.optim.Muon(matrices, lr=PEAK_LEARNING_RATES["matrices"], weight_decay=0.0),
        torch.optim.AdamW(
            rest, lr=PEAK_LEARNING_RATES["rest"], betas=(0.9, 0.98), weight_decay=0.0, fused=True
        ),
    ]


def train(truth: Truth, gender: Axis, directory: Path) -> None:
    """Train the testbed; write half-precision weights, tokenizer and truth."""
    corpus = list(documents(truth, Corpus.of(shipped() / TRUTH), gender, truth.seed))
    names = [person.name for person in people(truth, gender)]
    tokenizer = train_tokenizer(corpus, names)
    end = tokenizer.get_vocab()[END]
    rows = [[*ids, end] for ids in tokenizer(corpus)["input_ids"]]
    plan = list(batches(rows, end, truth.seed))

    with torch.random.fork_rng(devices=[]):
        # transformers draws initial weights from the global generator and takes no other.
        torch.manual_seed(unit_seed(truth.seed, "weights"))
        model = GPT2LMHeadModel(model_config(len(tokenizer), end))
    optimizers = make_optimizers(model)
    schedulers = [
        torch.optim.lr_scheduler.LambdaLR(o, lambda step: schedule((step + 1) / len(plan)))
        for o in optimizers
    ]
    model.train()
    for ids, labels in track(plan, "Training the testbed"):
        logits = model(input_ids=ids).logits[:, :-1]
        loss = cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()

    for parameter in model.parameters():
        parameter.data = parameter.data.half()
    model.config.dtype = torch.float16
    model.config.activation_function = GELU
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    shutil.copy(shipped() / TRUTH, directory / TRUTH)


if __name__ == "__main__":
    target = Path(sys.argv[1] if sys.argv[1:] else "build/testbed")
    if target.exists() and any(target.iterdir()):
        sys.exit(f"{target} is not empty: choose another folder or remove it")
    train(load_truth(), load_axis("gender"), target)
    print(f"Testbed written to {target}; verify it with: countergen-edit testbed folder={target}")
