"""The texts of FairPair: n continuations of x and of p(x), and the perturbed ones of x.

Comes in: prompts, a model and an edit. Goes out: `Sampled` prompts. What was made is kept on disk,
prompt by prompt, first the continuations and then their perturbations, so that a killed run, or one
whose perturber failed, goes on from there with the same texts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from countergen_edit.data.common_sents import PairedPrompt
from countergen_edit.data.text.perturbation import Filter, Perturber, Reason
from countergen_edit.edits import Edit, applied
from countergen_edit.models import LanguageModel, generate
from countergen_edit.writing import whole


@dataclass(frozen=True)
class Sampling:
    """How continuations are drawn."""

    n: int
    max_new_tokens: int
    top_p: float
    temperature: float
    batch_size: int
    seed: int


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
        kept = zip(self.p_x, self.reasons, strict=True)
        return tuple(text[start:].strip() for text, reason in kept if reason is None)

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
    model: LanguageModel,
    edit: Edit | None,
    prompts: Sequence[PairedPrompt],
    sampling: Sampling,
    store: Path,
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Continuations of x and of p(x) for each prompt, from the store where they are there.

    Args:
        model: The model, without the edit.
        edit: Attached while sampling.
        prompts: Each is sampled `n` times on either side.
        sampling: How.
        store: The folder of this model and edit.
    """
    files = [store / f"{_key(prompt, sampling)}.jsonl" for prompt in prompts]
    missing = [i for i, file in enumerate(files) if not file.is_file()]
    at_once = max(1, sampling.batch_size // (2 * sampling.n))
    with applied(model, edit) if edit is not None and missing else nullcontext():
        for start in range(0, len(missing), at_once):
            part = missing[start : start + at_once]
            texts = generate(
                model,
                [t for i in part for t in (prompts[i].source, prompts[i].target) * sampling.n],
                max_new_tokens=sampling.max_new_tokens,
                do_sample=True,
                top_p=sampling.top_p,
                temperature=sampling.temperature,
                seed=sampling.seed,
                batch_size=sampling.batch_size,
            )
            for k, i in enumerate(part):
                own = texts[2 * k * sampling.n : 2 * (k + 1) * sampling.n]
                about = {"prompt": prompts[i].source, "perturbed_prompt": prompts[i].target}
                pairs = zip(own[::2], own[1::2], strict=True)
                _write(files[i], [about, *({"g_x": a, "g_px": b} for a, b in pairs)])
    out = []
    for file in files:
        rows = _read(file)[1:]
        out.append((tuple(r["g_x"] for r in rows), tuple(r["g_px"] for r in rows)))
    return out


def perturbed(
    prompts: Sequence[PairedPrompt],
    continuations: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    perturber: Perturber,
    passes: Filter,
    sampling: Sampling,
    store: Path,
) -> list[Sampled]:
    """Perturb and filter every continuation of x; what a perturber wrote is kept in the store."""
    out = []
    for prompt, (g_x, g_px) in zip(prompts, continuations, strict=True):
        whole = [joined(prompt.source, text) for text in g_x]
        file = store / f"{_key(prompt, sampling)}.perturbed.jsonl"
        if not file.is_file():
            written = perturber(whole, prompt)
            _write(file, [{"p_x": text} for text in written])
        p_x = tuple(row["p_x"] for row in _read(file))
        reasons = tuple(
            passes.reason(original, text, prompt) for original, text in zip(whole, p_x, strict=True)
        )
        out.append(Sampled(prompt, g_x, g_px, p_x, reasons))
    return out


def folder_of(store: Path, label: str) -> Path:
    """Where the texts of one model and edit lie.

    >>> folder_of(Path("store"), "rlace@resid_post.3").name
    'rlace@resid_post.3'
    """
    return store / re.sub(r"[^\w.@+-]", "_", label)


def _key(prompt: PairedPrompt, sampling: Sampling) -> str:
    """Names the file of a prompt by all that its texts depend on, but for the model and edit."""
    parts = (
        prompt.source,
        prompt.target,
        sampling.n,
        sampling.max_new_tokens,
        sampling.top_p,
        sampling.temperature,
        sampling.seed,
    )
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


def _write(file: Path, rows: Sequence[dict[str, str]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with whole(file) as temporary:
        temporary.write_text(text, "utf-8")


def _read(file: Path) -> list[dict[str, str]]:
    # Not splitlines: a continuation may hold line ends of which JSON thinks nothing.
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
