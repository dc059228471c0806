"""The texts of FairPair: n continuations of x and of p(x), and the perturbed ones of x.

Comes in: prompts, a model and an edit. Goes out: `Sampled` prompts. What was made is kept on disk,
prompt by prompt, first the continuations and then their perturbations, so that a killed run, or one
whose perturber failed, goes on from there with the same texts. An edit has a folder of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines
from countergen_edit.core.typed import built
from countergen_edit.core.writing import whole
from countergen_edit.data.fairpair import Filter, PairedPrompt, Perturber, Reason
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import generate

STORE = "fairpair"
"""What the metric calls its folder in a run's store."""
PERTURBED = ".perturbed.jsonl"
"""Ends the names of files with perturbations; they lie beside the continuations they are of."""


@dataclass(frozen=True)
class Prompts:
    """What a file of continuations begins with."""

    prompt: str
    perturbed_prompt: str


@dataclass(frozen=True)
class Pair:
    """A continuation of either prompt."""

    g_x: str
    g_px: str


@dataclass(frozen=True)
class _Perturbed:
    p_x: str


@dataclass(frozen=True)
class Sampling:
    """How continuations are drawn."""

    n: int
    max_new_tokens: int
    top_p: float
    temperature: float
    batch_size: int
    asked: bool = False
    """Whether prompts are a user's messages in the chat template, and continuations the replies."""


@dataclass(frozen=True)
class Sampled:
    """A prompt with its continuations, and those of x as p has them."""

    prompt: PairedPrompt
    g_x: tuple[str, ...]
    """Continuations of x."""
    g_px: tuple[str, ...]
    """Continuations of p(x)."""
    p_x: tuple[str, ...]
    """p of x and each of its continuations together, before the filters."""
    reasons: tuple[Reason | None, ...]
    """Why a perturbation is left out, for each of `p_x`."""

    @property
    def p_g_x(self) -> tuple[str, ...]:
        """The perturbed continuations that passed, without their prompt."""
        start = len(self.prompt.target)
        pairs = zip(self.p_x, self.reasons, strict=True)
        return tuple(text[start:].strip() for text, reason in pairs if reason is None)

    @property
    def texts(self) -> list[str]:
        """What Φ compares: p(g_i(x)), followed by g_j(p(x))."""
        return [*self.p_g_x, *(text.strip() for text in self.g_px)]


def joined(prompt: str, continuation: str) -> str:
    """The text of a prompt with what follows; a decoder's text begins without its space.

    >>> joined("Jane left.", "She was late."), joined("Jane left", ", tired.")
    ('Jane left. She was late.', 'Jane left, tired.')
    """
    apart = continuation[:1].isalnum() and not prompt[-1:].isspace()
    return f"{prompt}{' ' if apart else ''}{continuation}"


def sample(
    context: EvaluationContext,
    edit: NamedEdit | None,
    prompts: Sequence[PairedPrompt],
    sampling: Sampling,
    folder: Path,
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Continuations of x and of p(x) for each prompt, from the folder where they are there.

    Args:
        bench: The model.
        edit: Attached while sampling.
        prompts: Each is sampled `n` times on either side.
        sampling: How.
        folder: Of this edit.
    """
    files = [folder / f"{_key(prompt, sampling, context.seed)}.jsonl" for prompt in prompts]
    missing = [i for i, file in enumerate(files) if not file.is_file()]
    at_once = max(1, sampling.batch_size // (2 * sampling.n))
    for start in range(0, len(missing), at_once):
        part = missing[start : start + at_once]
        with context.under(edit) as model:
            texts = generate(
                model,
                [t for i in part for t in (prompts[i].source, prompts[i].target) * sampling.n],
                chat=sampling.asked,
                max_new_tokens=sampling.max_new_tokens,
                do_sample=True,
                top_p=sampling.top_p,
                temperature=sampling.temperature,
                seed=context.seed,
                batch_size=sampling.batch_size,
            )
        for k, i in enumerate(part):
            own = texts[2 * k * sampling.n : 2 * (k + 1) * sampling.n]
            about = {"prompt": prompts[i].source, "perturbed_prompt": prompts[i].target}
            pairs = zip(own[::2], own[1::2], strict=True)
            _write(files[i], [about, *({"g_x": a, "g_px": b} for a, b in pairs)])
    sides = []
    for file in files:
        _, drawn = read_pairs(file)
        sides.append((tuple(pair.g_x for pair in drawn), tuple(pair.g_px for pair in drawn)))
    return sides


def perturbed(
    prompts: Sequence[PairedPrompt],
    continuations: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    perturber: Perturber,
    passes: Filter,
    sampling: Sampling,
    seed: int,
    folder: Path,
) -> list[Sampled]:
    """Perturb and filter every continuation of x; what a perturber wrote is kept in the folder."""
    results = []
    for prompt, (g_x, g_px) in zip(prompts, continuations, strict=True):
        originals = [joined(prompt.source, text) for text in g_x]
        file = folder / f"{_key(prompt, sampling, seed)}{PERTURBED}"
        if not file.is_file():
            _write(file, [{"p_x": text} for text in perturber(originals, prompt)])
        p_x = read_perturbed(file)
        reasons = tuple(
            passes.reason(original, text, prompt)
            for original, text in zip(originals, p_x, strict=True)
        )
        results.append(Sampled(prompt, g_x, g_px, p_x, reasons))
    return results


def _key(prompt: PairedPrompt, sampling: Sampling, seed: int) -> str:
    """Names the file of a prompt by all that its texts depend on, but for the model and edit."""
    parts = (
        prompt.source,
        prompt.target,
        sampling.n,
        sampling.max_new_tokens,
        sampling.top_p,
        sampling.temperature,
        sampling.asked,
        seed,
    )
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


def _write(file: Path, lines: Sequence[dict[str, str]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with whole(file) as temporary:
        temporary.write_text(text, "utf-8")


def read_pairs(file: Path) -> tuple[Prompts, list[Pair]]:
    """A prompt and its perturbation, and their continuations in pairs.

    Raises:
        UserError: a line holds something else; the message names it.
    """
    lines = list(json_lines(file))
    if not lines:
        raise UserError(f"{file} holds no continuations: run the audit anew")
    (where, first), *others = lines
    return built(Prompts, first, where), [built(Pair, line, where) for where, line in others]


def read_perturbed(file: Path) -> tuple[str, ...]:
    """The perturbed continuations of x.

    Raises:
        UserError: a line holds something else; the message names it.
    """
    return tuple(built(_Perturbed, line, where).p_x for where, line in json_lines(file))
