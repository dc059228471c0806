"""Speed and memory at the shapes of real models, with random weights, as ratios in the same run.

    python scripts/speed/scale.py [SHAPE ...] [--stages STAGE,...] [--tokenizer DIR] [--texts N]

Shapes are `tiny`, `1b` (Llama 3.2 1B), `7b` (Mistral 7B) and `70b_layer` (a block of Llama 3 70B);
bfloat16 on a GPU, else float32 on the CPU. The peer is plain `transformers` with its default
attention, on the same weights and rows. Rates are per second of wall time on a GPU, and of
processor time on the CPU, which may be busy with other things. `audit` is the whole `audit
metric=r` on natural prompts of gender, of at most `--passes` test prompts.
`--limit` takes at most so many prompts of each set. A stage that fails is named, and the next one
runs.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from distillation import whole_vocabulary
from peft import get_peft_model
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
)

import countergen_edit as ce
from countergen_edit.data.task import Task
from countergen_edit.edits.checkpoints.stock import stock_model
from countergen_edit.erasers import Distilled
from countergen_edit.models import (
    LanguageModel,
    capture,
    continuation_log_probs,
    encode,
    from_pretrained_objects,
    generate,
)
from countergen_edit.models.language_model import Cells, Logits, Mask, read_logits
from countergen_edit.runs.distillation import Distillation, limits_of
from countergen_edit.runs.portions import mean_divergence
from countergen_edit.runs.student import Student

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 8192,
    },
    "1b": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "tie_word_embeddings": True,
    },
    "7b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
    },
    "70b_layer": {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 1,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 8192,
    },
}
CONTEXT = 8192
WORDS = 8000
"""Tokens of a tokenizer that is trained on the texts, unless another is given."""
ON_GPU = torch.cuda.is_available()
DEVICE, DTYPE = ("cuda", torch.bfloat16) if ON_GPU else ("cpu", torch.float32)
TEXTS = 2048 if ON_GPU else 32
"""Texts to score and to capture, unless given."""
ROWS, NEW = (64, 64) if ON_GPU else (8, 8)
"""Prompts to continue, and new tokens."""
STEPS, CONTEXTS = (10, 64) if ON_GPU else (2, 8)
"""Steps of a training, and contexts that the model writes for it."""
REPEATS = 3 if ON_GPU else 1
SQUARE = 8192 if ON_GPU else 4096
"""Rows of the matrices whose product measures the peak."""
WHOLE_TRAINING = Distilled().steps
say = partial(print, flush=True)


def synchronize() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def seconds(call: Callable[[], Any]) -> float:
    clock = time.perf_counter if ON_GPU else time.process_time
    synchronize()
    began = clock()
    call()
    synchronize()
    return clock() - began


def in_turns(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The least seconds of each call, in turns after a warm-up."""
    for call in calls.values():
        call()
    rounds = [{name: seconds(call) for name, call in calls.items()} for _ in range(REPEATS)]
    return {name: min(times[name] for times in rounds) for name in calls}


def compare(times: Mapping[str, float], count: int, what: str) -> None:
    """A line for each side, with its ratio to `ours`."""
    for name, own in times.items():
        ratio = "" if name == "ours" else f", ours / this {own / times['ours']:.3f}"
        say(f"  {name}: {count / own:,.1f} {what} a second, {own:.3f} s{ratio}")


@dataclass(frozen=True, eq=False)
class Recording(LanguageModel):
    """The same model; keeps the rows that are run, and where logits are read."""

    passes: list[tuple[Any, Any, Any]] = field(default_factory=list)

    def logits(self, ids: Any, mask: Mask, at: Cells | None = None) -> Logits:
        self.passes.append((ids, mask, at))
        return super().logits(ids, mask, at)

    def run_blocks(self, ids: Any, mask: Mask) -> None:
        self.passes.append((ids, mask, None))
        super().run_blocks(ids, mask)


@dataclass(frozen=True)
class Settings:
    """What the command line gives."""

    tokenizer: str | None
    texts: int
    passes: int | None
    limit: int | None


def trained_tokenizer(texts: Sequence[str]) -> Any:
    """Byte-level BPE of about one token per word, which begins texts with BOS as Llama's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    bpe, bos, end = Tokenizer(models.BPE()), "<s>", "</s>"
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS,
        special_tokens=[bos, end],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, bpe.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=bos, eos_token=end)


class Subject:
    """A model of a shape, plain and wrapped, and its texts."""

    def __init__(self, shape: str, settings: Settings) -> None:
        self.shape, self.settings = shape, settings
        self.task = ce.task("gender", "natural", texts="natural")
        self.pairs = [
            (variation.text, output)
            for data in self.task.test
            for sample in data.samples
            for output in sample.outputs
            for variation in sample.variations
        ][: settings.texts]
        self.prompts = [*dict.fromkeys(text for data in self.task.test for text in data.texts)]
        if settings.tokenizer:
            tokenizer = AutoTokenizer.from_pretrained(settings.tokenizer)
        else:
            tokenizer = trained_tokenizer([*self.prompts, *self.task.neutral["fit"]])
        config = LlamaConfig(
            **SHAPES[shape],
            max_position_embeddings=CONTEXT,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.eos_token_id,
        )
        torch.manual_seed(0)
        with torch.device(DEVICE):
            hf_model = AutoModelForCausalLM.from_config(config, dtype=DTYPE)
        self.weights = hf_model.num_parameters()
        self.in_blocks = sum(p.numel() for p in hf_model.model.layers.parameters())
        self.model = from_pretrained_objects(shape, hf_model, tokenizer)

    @property
    def task_or_try(self) -> Task:
        limit = self.settings.limit
        return self.task if limit is None else self.task.limited(limit)

    def plain(self, attention: str = "sdpa") -> Any:
        """The stock model with the same weights."""
        plain = stock_model(self.model)
        plain.set_attn_implementation(attention)
        plain.generation_config = GenerationConfig()
        return plain

    @cached_property
    def peak(self) -> float:
        """Operations a second of a product of two large matrices."""
        a, b = torch.randn(2, SQUARE, SQUARE, device=DEVICE, dtype=DTYPE)
        a @ b  # a warm start
        return 2 * SQUARE**3 / min(seconds(lambda: a @ b) for _ in range(3))

    def recording(self) -> Recording:
        own = self.model
        return Recording(own.name, own.bridge, own.tokenizer, own.preface, own.chat)

    def operations(self, passes: Sequence[tuple[Any, Any, Any]]) -> float:
        """Of the blocks, attention and the output matrix, as run, padding included."""
        shape, total = SHAPES[self.shape], 0.0
        for ids, _, at in passes:
            total += 2 * self.in_blocks * ids.numel()
            total += 4 * ids.numel() * ids.shape[1] * self.model.d_model * self.model.n_layers
            if at is not None:
                total += 2 * len(at[0]) * self.model.d_model * shape["vocab_size"]
        return total

    def count(self, texts: Sequence[str]) -> int:
        return sum(len(encoding.ids) for encoding in encode(self.model, texts))


@torch.inference_mode()
def read(subject: Subject, plain: Any, passes: Sequence[tuple[Any, Any, Any]]) -> None:
    """Log-probabilities of a token at each position that is read."""
    for ids, mask, at in passes:
        logits = read_logits(plain, subject.model.inputs(ids, mask), at)
        logits.float().log_softmax(-1)[:, 0].cpu()


@torch.inference_mode()
def run(subject: Subject, plain: Any, passes: Sequence[tuple[Any, Any, Any]]) -> None:
    for ids, mask, _ in passes:
        plain.base_model(**subject.model.inputs(ids, mask))


def scoring(subject: Subject) -> None:
    plain, eager, pairs = subject.plain(), subject.plain("eager"), subject.pairs
    score = partial(continuation_log_probs, progress=None)
    shared, each = subject.recording(), subject.recording()
    score(shared, *zip(*pairs, strict=True))
    with patch("countergen_edit.models.scoring.runs_trees", lambda lm, length: False):
        score(each, *zip(*pairs, strict=True))
    rows = {name: sum(len(p[0]) for p in r.passes) for name, r in (("o", shared), ("e", each))}
    say(f"  {len(pairs):,} texts, {rows['o']:,} rows with shared beginnings, {rows['e']:,} without")
    times = in_turns(
        {
            "ours": lambda: score(subject.model, *zip(*pairs, strict=True)),
            "plain, our rows": lambda: read(subject, plain, shared.passes),
            "plain with eager attention, our rows": lambda: read(subject, eager, shared.passes),
            "plain, a row a text": lambda: read(subject, plain, each.passes),
        }
    )
    compare(times, subject.count([p + o for p, o in pairs]), "tokens of texts")
    for name, recorded in zip(times, (shared, shared, shared, each), strict=True):
        rate = subject.operations(recorded.passes) / times[name]
        say(f"  {name}: {rate / 1e12:.3f} TFLOP/s, {rate / subject.peak:.1%} of the peak")


def sampling(subject: Subject) -> None:
    model, prompts = subject.model, subject.prompts[:ROWS]
    plain, eager = subject.plain(), subject.plain("eager")
    ids = [torch.tensor(encoding.ids) for encoding in encode(model, prompts)]
    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    inputs = {
        "input_ids": pad(ids).to(DEVICE),
        "attention_mask": pad([*map(torch.ones_like, ids)]).to(DEVICE),
    }

    def theirs(plain: Any, top_p: float) -> None:
        how = GenerationConfig(
            do_sample=True, top_k=0, top_p=top_p, max_new_tokens=NEW, pad_token_id=0
        )
        with torch.inference_mode():
            plain.generate(**inputs, generation_config=how)

    def ours(top_p: float) -> None:
        generate(model, prompts, max_new_tokens=NEW, do_sample=True, top_p=top_p, batch_size=ROWS)

    for top_p in (1.0, 0.9):
        say(f"  {len(prompts)} prompts, {NEW} new tokens, top_p {top_p}")
        sides = {
            "ours": partial(ours, top_p),
            "plain": partial(theirs, plain, top_p),
            "plain with eager attention": partial(theirs, eager, top_p),
        }
        compare(in_turns(sides), len(prompts) * NEW, "new tokens")


def captured(subject: Subject) -> None:
    texts, plain = subject.prompts[: subject.settings.texts], subject.plain()
    recorded = subject.recording()
    capture(recorded, texts)
    times = in_turns(
        {
            "ours": lambda: capture(subject.model, texts),
            "plain, our rows": lambda: run(subject, plain, recorded.passes),
        }
    )
    say(f"  {len(texts):,} texts, all {subject.model.n_layers} layers")
    compare(times, subject.count(texts), "tokens of texts")


def audit(subject: Subject) -> None:
    model, settings = subject.model, subject.settings
    say(f"  SHA-256 of the weights: {seconds(lambda: model.fingerprint):.1f} s")
    began = time.perf_counter()
    task = subject.task_or_try
    if settings.limit is None:
        task = ce.design(model, task, passes=settings.passes)
    designed = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        ce.audit(model, task, metrics=["r"], folder=Path(folder) / "run")
    synchronize()
    ended = time.perf_counter()
    samples = [sample for data in task.test for sample in data.samples]
    prompts = sum(len(sample.variations) for sample in samples)
    outputs = sum(len(sample.variations) * len(sample.outputs) for sample in samples)
    say(f"  design {(designed - began) / 60:.2f} min, audit {(ended - designed) / 60:.2f} min")
    say(f"  {prompts:,} test prompts with {outputs:,} outputs")


def training(subject: Subject) -> None:
    model, settings = subject.model, Distilled(contexts=CONTEXTS, steps=STEPS)
    with tempfile.TemporaryDirectory() as folder:
        task = subject.task_or_try
        training = Distillation(model, task, settings, limits_of({}), Path(folder))
        student = Student(model, settings)
        plain = get_peft_model(subject.plain(), student.peft.peft_config["default"])
        began = time.perf_counter()
        targets = whole_vocabulary(training, student, STEPS)
        training.prepare(student)
    synchronize()
    say(f"  contexts and unedited outputs: {time.perf_counter() - began:.1f} s")

    def ours() -> None:
        for step in range(STEPS):
            student.peft.zero_grad()
            training.backward(student, training.pool[step])

    def peer() -> None:
        for step in range(STEPS):
            plain.zero_grad()
            for given in targets[step]:
                inputs = model.inputs(given.portion.ids, given.portion.mask)
                after = read_logits(plain, inputs, given.portion.at).float().log_softmax(-1)
                torch.autograd.backward(mean_divergence(given.log_probs, after))

    times = in_turns({"ours": ours, "peft": peer})
    compare(times, STEPS, "steps")
    minutes = times["ours"] / STEPS * WHOLE_TRAINING / 60
    say(f"  {WHOLE_TRAINING} steps in {minutes:.1f} min, without looks at held-out texts")


STAGES: dict[str, Callable[[Subject], None]] = {
    "scoring": scoring,
    "sampling": sampling,
    "capture": captured,
    "training": training,
    "audit": audit,
}


def attempt(name: str, call: Callable[[], Any]) -> Any:
    """The result of a call and its peak memory, or a line on why it failed."""
    if ON_GPU:
        torch.cuda.reset_peak_memory_stats()
    say(f"{name}:")
    began = time.perf_counter()
    try:
        return call()
    except Exception as error:  # of any type: one run reports on every stage
        line = (str(error).strip().splitlines() or [""])[0]
        say(f"  failed: {type(error).__name__}: {line}")
    finally:
        if ON_GPU:
            peak = torch.cuda.max_memory_allocated()
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        gc.collect()
        say(f"  took {time.perf_counter() - began:.1f} s, peak memory {peak / 2**30:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=["tiny"], help=", ".join(SHAPES))
    parser.add_argument("--stages", default=",".join(STAGES), help=f"of {', '.join(STAGES)}")
    parser.add_argument("--tokenizer", help="a folder of a tokenizer of transformers")
    parser.add_argument("--texts", type=int, default=TEXTS, help="to score and to capture")
    parser.add_argument("--passes", type=int, help="most prompts of the audit's test sets")
    parser.add_argument("--limit", type=int, help="most prompts of each set, for a quick try")
    given = parser.parse_args()
    stages = given.stages.split(",")
    for name, known in ((given.shapes, SHAPES), (stages, STAGES)):
        if unknown := [*dict.fromkeys(one for one in name if one not in known)]:
            parser.error(f"unknown {', '.join(unknown)}: known are {', '.join(known)}")
    settings = Settings(given.tokenizer, given.texts, given.passes, given.limit)
    name = torch.cuda.get_device_name() if ON_GPU else f"{torch.get_num_threads()} threads"
    say(f"{DEVICE} ({name}), {DTYPE}, torch {torch.__version__}")
    for shape in given.shapes:
        subject = attempt(f"{shape}, load", partial(Subject, shape, settings))
        if subject is None:
            continue
        say(f"  {subject.weights / 1e9:.2f} billion weights")
        say(f"  peak of a product of matrices: {subject.peak / 1e12:.3f} TFLOP/s")
        for stage in stages:
            attempt(f"{shape}, {stage}", partial(STAGES[stage], subject))
            if ON_GPU:
                torch.cuda.empty_cache()
        del subject
        gc.collect()


if __name__ == "__main__":
    main()
