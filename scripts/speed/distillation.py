"""Speed of distillation, as a ratio in the same run.

    python scripts/speed/distillation.py [MODEL [VOCAB_SIZE ...]]

Peer: plain `peft` training with the same configuration, forward and backward through the whole
model on the same rows with fixed targets of the whole vocabulary. Ratios of processor time per
step; wall time is printed too. With sizes, the peer is the same model with random weights and a
vocabulary of the first size, on the same texts; a size is at least the tokenizer's.
Exits with 1 where a step takes more than `MOST_OF_PEFT` of the peer's time, or `MOST_OF_FIRST` of
the time with the first size.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from peft import get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import countergen_edit as ce
from countergen_edit.edits.checkpoints.stock import stock_model
from countergen_edit.erasers.distilled import Distilled
from countergen_edit.models.language_model import read_logits
from countergen_edit.runs.distillation import Distillation, limits_of
from countergen_edit.runs.own_contexts import OwnContexts
from countergen_edit.runs.portions import mean_divergence, some_rows
from countergen_edit.runs.student import Student, Unedited

STEPS = 10
MOST_OF_PEFT = 0.7
MOST_OF_FIRST = 1.15


def timed(step: Callable[[int], None]) -> tuple[float, float]:
    """Wall and processor seconds per step."""
    wall, cpu = time.perf_counter(), time.process_time()
    for i in range(STEPS):
        step(i)
    return (time.perf_counter() - wall) / STEPS, (time.process_time() - cpu) / STEPS


def whole_vocabulary(training: Distillation, student: Student, steps: int) -> list[list[Unedited]]:
    """The texts of every step with the unedited output of all tokens."""
    return [
        student.unedited([p if rows is None else some_rows(p, rows) for p, rows in drawn.items()])
        for drawn in map(training.drawn, range(steps))
    ]


def prepared(model: ce.LanguageModel, steps: int) -> tuple[Distillation, Student]:
    """A training on the default task of a model, before its first step."""
    is_testbed = model.name == "testbed"
    data, texts = ("contexts", "testbed") if is_testbed else ("natural", "natural")
    task = ce.task("gender", data, texts=texts)
    settings = Distilled(contexts=64, steps=steps)
    with tempfile.TemporaryDirectory() as folder:
        training = Distillation(model, task, settings, limits_of({}), Path(folder))
        student = Student(model, settings)
        return training, student


def step_of(training: Distillation, student: Student) -> Callable[[int], None]:
    """A step, but for the optimiser's."""

    def step(i: int) -> None:
        student.peft.zero_grad()
        training.backward(student, training.pool[i])

    return step


def beside_peft(name: str) -> bool:
    """Print the ratio to plain training; whether it is at most `MOST_OF_PEFT`."""
    model = ce.load(name)
    training, student = prepared(model, STEPS)
    plain = get_peft_model(stock_model(model), student.peft.peft_config["default"])
    targets = whole_vocabulary(training, student, STEPS)
    training.prepare(student)

    def peer(step: int) -> None:
        plain.zero_grad()
        for given in targets[step]:
            inputs = model.inputs(given.portion.ids, given.portion.mask)
            after = read_logits(plain, inputs, given.portion.at).float().log_softmax(-1)
            torch.autograd.backward(mean_divergence(given.log_probs, after))

    peer(0)  # a warm start for both
    times = {"ours": timed(step_of(training, student)), "peft": timed(peer)}
    for who, (wall, cpu) in times.items():
        print(f"{who}: {wall:.2f} s a step (wall), {cpu:.2f} s (processor)")
    ratio = times["ours"][1] / times["peft"][1]
    print(f"time of a step, ours / peft: {ratio:.2f}")
    return ratio <= MOST_OF_PEFT


def by_vocabulary(name: str, sizes: Sequence[int]) -> bool:
    """Print the time of a step with vocabularies of some sizes, as a ratio to the first.

    Whether all ratios are at most `MOST_OF_FIRST`.
    """
    config, times = AutoConfig.from_pretrained(name), list[float]()
    contexts: OwnContexts | None = None
    for size in sizes:
        config.vocab_size = size
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            AutoModelForCausalLM.from_config(config).save_pretrained(folder)
            AutoTokenizer.from_pretrained(name).save_pretrained(folder)
            training, student = prepared(ce.load(folder), STEPS)
            contexts = training.contexts = contexts or training.contexts
            training.prepare(student)
        step = step_of(training, student)
        step(0)
        wall, cpu = timed(step)
        times.append(cpu)
        print(f"{size} tokens: {wall:.2f} s a step (wall), {cpu:.2f} s; x {cpu / times[0]:.2f}")
    return all(seconds <= MOST_OF_FIRST * times[0] for seconds in times)


def main(name: str, *sizes: str) -> int:
    """Print the ratios; the exit code."""
    held = [beside_peft(name), by_vocabulary(name, [int(size) for size in sizes])]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ["testbed"])))
