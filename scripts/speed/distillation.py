"""Speed of distillation, as a ratio in the same run.

    python scripts/speed/distillation.py [MODEL]

Peer: plain `peft` training with the same configuration, forward and backward through the whole
model on the same rows with fixed targets of the whole vocabulary. Ratio of steps per second of
processor time; wall time is printed too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from peft import get_peft_model

import countergen_edit as ce
from countergen_edit.edits import UNCHANGED
from countergen_edit.edits.checkpoints.stock import stock_model
from countergen_edit.erasers.distilled import Distilled
from countergen_edit.models.language_model import read_logits
from countergen_edit.runs.distillation import Distillation, Limits
from countergen_edit.runs.portions import divergence, some_rows
from countergen_edit.runs.student import Student, Unedited

STEPS = 10


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


def main(name: str) -> None:
    """Print the ratio."""
    model = ce.load(name)
    data = "contexts" if name == "testbed" else "natural"
    task = ce.task("gender", data, texts="testbed" if name == "testbed" else "natural")
    settings = Distilled(contexts=64, steps=STEPS)
    with tempfile.TemporaryDirectory() as folder:
        training = Distillation(model, task, settings, Limits(), UNCHANGED, Path(folder))
        student = Student(model, settings, UNCHANGED)
        plain = get_peft_model(stock_model(model), student.peft.peft_config["default"])
        targets = whole_vocabulary(training, student, STEPS)
        training.prepare(student)

    def ours(step: int) -> None:
        student.peft.zero_grad()
        training.backward(student, training.pool[step])

    def peer(step: int) -> None:
        plain.zero_grad()
        for given in targets[step]:
            inputs = model.inputs(given.portion.ids, given.portion.mask)
            after = read_logits(plain, inputs, given.portion.at).float().log_softmax(-1)
            torch.autograd.backward(divergence(given.log_probs, after))

    peer(0)  # a warm start for both
    times = {"ours": timed(ours), "peft": timed(peer)}
    for who, (wall, cpu) in times.items():
        print(f"{who}: {wall:.2f} s a step (wall), {cpu:.2f} s (processor)")
    print(f"steps per second, ours / peft: {times['peft'][1] / times['ours'][1]:.2f}")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["testbed"]))
