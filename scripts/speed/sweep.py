"""Speed of a sweep against the naive loop, its memory, and its growth.

    python scripts/speed/sweep.py [gpt2|whole|costs|scaling|testbed]

`gpt2`: GPT-2 with 124 million random weights, 12 layers × {INLP 8, RLACE 1, LEACE, preserving}, log
P on Appendix A, CounterGen's stereotypes and its double bind (`pip install countergen==1.1.0`). The
naive loop captures, fits and evaluates every candidate from the tokens: as a plain loop over pairs
of prompt and output, and with this package's scoring, which runs equal prompts once. Two layers are
measured and extrapolated to all; `whole` runs all 48 candidates. Seconds are of processor time.
`costs`: processor time per token at two sizes, for docs/large_models.md. `scaling`: wall time
against layers and prompts, with a plot. `testbed`: a whole sweep of the shipped model in its own
process.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch

from countergen_edit.core.conf_path import read_config
from countergen_edit.data.axis import Axis
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.sources import load_set
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import BaseEraser, fitting_threads, make_eraser
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel, from_pretrained_objects, resuming
from countergen_edit.runs.fit_data import FitData, capture_sites
from countergen_edit.testbed import load_axis, load_truth

ERASERS = {"inlp": {"rank": 8}, "rlace": {"rank": 1}, "leace": {}, "preserving": {}}
STRETCH_LAYERS = (2, 9)
EVERY = 24
"""The plain loop scores one pair in so many."""
BATCH = 32


def tokenizer(texts: Sequence[str]) -> Any:
    """Byte-level BPE trained on the texts: about one token per word, as GPT-2's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=20_000,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, bos_token=end)


def gpt2(texts: Sequence[str], **size: int) -> LanguageModel:
    """GPT-2's architecture with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(**size, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():
        if parameter.ndim == 2:  # larger than an initialisation's, so that groups differ
            torch.nn.init.normal_(parameter, std=0.05)
    # Counted before it is wrapped: the bridge keeps query, key and value apart as well.
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} million weights")
    return from_pretrained_objects("gpt2-random", model, tokenizer(texts))


def paper_sets() -> tuple[CounterfactualSet, list[CounterfactualSet]]:
    """Appendix A, and the sets on which R is measured."""
    config = read_config("axis", "gender")
    axis = Axis.from_config(config)
    words = Substitution.from_config(axis, config["substitution"])

    def load(content: dict[str, Any], split: Any) -> CounterfactualSet:
        return load_set({"source": "countergen", **content}, axis, words, split)

    fit = load(read_config("dataset", "appendix_a"), "fit")
    stereotypes = {"name": "stereotypes", "set": ["female_stereotypes", "male_stereotypes"]}
    kinds = ("positive", "negative", "likable", "unlikable")
    vignettes = {"name": "doublebind", "set": [f"doublebind_{kind}" for kind in kinds]}
    return fit, [fit, load(stereotypes, "test"), load(vignettes, "test")]


def texts_of(sets: Sequence[CounterfactualSet]) -> list[str]:
    return [v.text + o for d in sets for s in d.samples for v in s.variations for o in s.outputs]


class Subject:
    """A model with its data."""

    def __init__(self, model: LanguageModel, fit: CounterfactualSet, sets: list[Any]) -> None:
        truth, gender = load_truth(), load_axis("gender")
        self.model, self.sets = model, sets
        keep = load_set({"source": "testbed_agreement"}, gender, None, "fit")
        self.fitting = ([fit], [keep], truth.neutral_texts()[:40])
        self.once = 0.0
        """When the last sweep had done what it does once."""

    def sweep(self, layers: Sequence[int], erasers: Sequence[str]) -> dict[tuple[int, str], list]:
        """One capture; every edit resumes at its layer."""
        data = self.capture(layers)
        model = resuming(self.model, layers)
        for d in self.sets:
            score(model, d)  # the unedited model, whose states every cell goes on from
        self.once = time.process_time()
        return {
            (layer, name): self.cell(model, data, layer, name)
            for layer in layers
            for name in erasers
        }

    def capture(self, layers: Sequence[int]) -> FitData:
        return capture_sites(
            self.model, *self.fitting, sites=["resid_post"], layers=layers, positions="outputs"
        )["resid_post"]

    def cell(self, model: LanguageModel, data: FitData, layer: int, name: str) -> list[np.ndarray]:
        edit = fitted(data, make_eraser(name, **ERASERS[name]), layer)
        with applied(model, edit):
            return [score(model, d).log_p for d in self.sets]

    def from_tokens(self, layer: int, name: str) -> list[np.ndarray]:
        """A candidate from the tokens with this package's scoring."""
        return self.cell(self.model, self.capture([layer]), layer, name)

    def pair_by_pair(self, layer: int, name: str) -> tuple[float, float, np.ndarray]:
        """A candidate as a plain loop: seconds to fit, seconds per pair, and the values."""
        began = time.process_time()
        data = self.capture([layer])
        edit = fitted(data, make_eraser(name, **ERASERS[name]), layer)
        fit_seconds = time.process_time() - began
        some = list(self.pairs())[::EVERY]
        began = time.process_time()
        with applied(self.model, edit):
            values = plain_scores(self.model, some)
        return fit_seconds, (time.process_time() - began) / len(some), values

    def pairs(self) -> Iterator[tuple[str, str]]:
        for d in self.sets:
            for s in d.samples:
                for o in s.outputs:
                    for group in d.groups:
                        yield from ((v.text, o) for v in s.of(group))


def fitted(data: FitData, eraser: BaseEraser, layer: int) -> Edit:
    with fitting_threads(data.at(layer)):
        return Edit.at("resid_post", {layer: data.fit(eraser, layer).erasure_})


def plain_scores(model: LanguageModel, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """log P of each output by whole batches and whole logits."""
    values = []
    for start in range(0, len(pairs), BATCH):
        part = pairs[start : start + BATCH]
        rows = [model.tokenizer(p + o, return_offsets_mapping=True) for p, o in part]
        width = max(len(r["input_ids"]) for r in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
            mask[i, : len(row["input_ids"])] = 1
        log_p = model.logits(ids, mask).log_softmax(-1)
        for i, ((prompt, _), row) in enumerate(zip(part, rows, strict=True)):
            span = [k for k, (_, end) in enumerate(row["offset_mapping"]) if end > len(prompt)]
            values.append(sum(float(log_p[i, k - 1, row["input_ids"][k]]) for k in span))
    return np.array(values)


def gpt2_subject() -> Subject:
    fit, sets = paper_sets()
    texts = texts_of([*sets, load_truth().agreement_set("fit", load_axis("gender"))])
    return Subject(gpt2([*texts, *load_truth().neutral_texts()]), fit, sets)


def bench_gpt2(swept: Sequence[int] = STRETCH_LAYERS) -> None:
    subject, names = gpt2_subject(), list(ERASERS)
    n_pairs = sum(1 for _ in subject.pairs())
    layers, n_cells = subject.model.n_layers, subject.model.n_layers * len(names)
    began = time.process_time()
    cells = subject.sweep(swept, names)
    once, of_cells = subject.once - began, time.process_time() - subject.once
    ours = once + of_cells * layers / len(swept)
    how = "run whole" if len(swept) == layers else f"extrapolated from {len(cells)} cells"
    print(f"sweep of {n_cells} cells: {ours:.0f} s ({how}): {once:.0f} s once and")
    print(f"  {of_cells / len(cells):.1f} s a cell; peak memory {peak_gb():.2f} GB")
    layer, name = STRETCH_LAYERS[-1], names[-1]
    began = time.process_time()
    values = subject.from_tokens(layer, name)
    own = time.process_time() - began
    fit_seconds, each, some = subject.pair_by_pair(layer, name)
    plain = fit_seconds + each * n_pairs
    flat = np.concatenate([v.reshape(-1) for v in cells[layer, name]])
    apart = np.abs(flat[np.isfinite(flat)][::EVERY] - some).max()
    for a, b in zip(cells[layer, name], values, strict=True):
        assert np.nanmax(np.abs(np.nan_to_num(a - b))) < 1e-5
    print(f"naive, plain loop over {n_pairs} pairs: {plain:.0f} s a cell (one pair in {EVERY}),")
    ratio = cells * plain / ours
    print(f"  {cells * plain:.0f} s in all, ratio {ratio:.1f}; values {apart:.1e} nats apart")
    print(f"naive, own scoring: {own:.1f} s a cell (one run), {cells * own:.0f} s in all,")
    print(f"  ratio {cells * own / ours:.1f}")


def bench_costs() -> None:
    """Processor time per token of the steps of a sweep, at two sizes."""
    texts = load_truth().neutral_texts()
    sizes = {"30M": {"n_layer": 8, "n_embd": 384, "n_head": 6}, "124M": {}}
    for size in sizes.values():
        model = gpt2(texts, **size)
        n = 12 * model.n_layers * model.d_model**2
        ids = torch.randint(0, 1000, (16, 64), generator=torch.Generator().manual_seed(0))
        mask = torch.ones_like(ids)
        last = (torch.arange(16), torch.full((16,), 63))

        model.run_blocks(ids, mask)  # warm
        began = time.process_time()
        model.run_blocks(ids, mask)
        forward = (time.process_time() - began) / ids.numel()
        every = model.n_layers
        print(f"  {n / 1e6:.0f} million weights in {every} blocks: {1e3 * forward:.2f} ms a token")
        resumed = resuming(model, range(every))
        resumed.logits(ids, mask, last)
        for layer in (0, every // 2 - 1, every - 2):
            hook = (f"blocks.{layer}.hook_out", lambda x, hook: x * 1.0)
            with model.bridge.hooks(fwd_hooks=[hook]):
                began = time.process_time()
                resumed.logits(ids, mask, last)
                cell = (time.process_time() - began) / ids.numel()
            share = (every - layer - 1) / every
            print(f"  a cell at layer {layer}: {cell / forward:.2f} of that ({share:.2f} expected)")


def bench_scaling() -> None:
    fit, sets = paper_sets()
    texts = [*texts_of(sets), *load_truth().neutral_texts()]
    model = gpt2(texts, n_layer=24, n_embd=128, n_head=4, vocab_size=20_000)
    whole = Subject(model, fit, sets)
    whole.sweep([0], ["leace"])  # warm

    def seconds(subject: Subject, layers: Sequence[int]) -> float:
        began = time.process_time()
        subject.sweep(layers, ["leace", "rlace"])
        return time.process_time() - began

    counts = (3, 6, 12, 24)
    by_layer = [seconds(whole, range(0, 24, 24 // n)) for n in counts]
    shares = (1, 2, 4)
    by_prompt = []
    for share in shares:
        cut = [replace(d, samples=d.samples[: len(d.samples) * share // 4]) for d in sets]
        by_prompt.append(seconds(Subject(model, fit, cut), range(0, 24, 4)))
    prompts = [share * sum(len(d.samples) for d in sets) // 4 for share in shares]
    for what, x, y in (("layers", counts, by_layer), ("samples", prompts, by_prompt)):
        slope = np.polyfit(np.log(x), np.log(y), 1)[0]
        times = ", ".join(f"{a}: {b:.1f} s" for a, b in zip(x, y, strict=True))
        print(f"time against {what}: {times}; exponent {slope:.2f}")
    from countergen_edit.reports.blocks import Figure
    from countergen_edit.reports.panels import Panel, Series
    from countergen_edit.reports.render.figures import write

    panels = (
        Panel("24 blocks", "layers swept", "seconds", (Series("sweep", counts, tuple(by_layer)),)),
        Panel(
            "6 layers", "samples", "seconds", (Series("sweep", tuple(prompts), tuple(by_prompt)),)
        ),
    )
    figure = Figure("sweep-scaling", "Wall time of a sweep", panels, "")
    target = Path("build") / "benchmarks"
    target.mkdir(parents=True, exist_ok=True)
    print("  plotted in", *write(figure, target / figure.name, (".svg",)))


def bench_testbed() -> None:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "countergen_edit.cli.main",
            "sweep",
            f"run_dir={folder}/run",
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        wall = time.perf_counter() - began
        figures = len(list(Path(folder, "run", "figures").glob("*.svg")))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"testbed's whole sweep: {wall:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of processor"
    )
    print(f"  {figures} figures;", " ".join(run.stdout.split("Best: ")[-1].split("•")[0].split()))


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def bench_whole() -> None:
    bench_gpt2(range(12))


BENCHES = {"gpt2": bench_gpt2, "scaling": bench_scaling, "testbed": bench_testbed}
ON_REQUEST = {"whole": bench_whole, "costs": bench_costs}

if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    for name in sys.argv[1:] or BENCHES:
        (BENCHES | ON_REQUEST)[name]()
        print(f"  load {', '.join(f'{x:.1f}' for x in os.getloadavg())}")
