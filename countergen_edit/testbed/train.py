"""Train the testbed reproducibly: corpus → tokenizer → weights; under half an hour on two cores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from jaxtyping import Int64
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from countergen_edit.core.seeds import generator, unit_seed
from countergen_edit.data.axis import Axis
from countergen_edit.models.progress import track
from countergen_edit.testbed.corpus import documents, people
from countergen_edit.testbed.files import TRUTH
from countergen_edit.testbed.truth import Truth

END = "<|endoftext|>"
VOCABULARY = 4000
CONTEXT = 256
BATCH_TOKENS = 2048
PEAK_LEARNING_RATES = {"matrices": 2e-2, "rest": 3e-3}
WARMUP = 0.03
FUSED_GELU, GELU = "gelu_pytorch_tanh", "gelu_new"
"""One function under two names: the first is the faster to train, the second is GPT-2's."""


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
    corpus = list(documents(truth, gender, truth.seed))
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
    (directory / TRUTH).write_text(truth.text, "utf-8")
