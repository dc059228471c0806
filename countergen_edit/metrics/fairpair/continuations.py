"""The texts of FairPair: continuations of x and of p(x), and the perturbed continuations of x.

The store has a file of continuations and one of filtered perturbations for each prompt and edit, so
that a killed run continues with the same texts, and people can rate those of a finished run.

A custom perturber is a class or function in a file, called with its settings, and with `groups`
(source and target) or `substitution` where it has such parameters; its result is called with texts
and their prompt:

    metric.fairpair.perturber={kind:mine.py:Mine}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Gt

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines
from countergen_edit.core.registry import KIND, Registry
from countergen_edit.core.typed import built
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.fairpair import Filter, PairedPrompt, Perturber, Reason, RulePerturber
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.results import Results
from countergen_edit.models import LanguageModel, connect, generate, load_model

_STORE = "fairpair"
"""The folder in a run's store."""
PERTURBED = ".perturbed.jsonl"
"""The suffix of files with perturbations."""


@dataclass(frozen=True)
class Pair:
    """One continuation of each prompt."""

    g_x: str
    g_px: str


@dataclass(frozen=True)
class Perturbed:
    """A continuation of x and its prompt, perturbed."""

    p_x: str
    left_out: Reason | None
    """The filter that leaves it out."""


@dataclass(frozen=True)
class Sampled:
    """A prompt with continuations of x and p(x), and p of x with each continuation."""

    prompt: PairedPrompt
    g_x: tuple[str, ...]
    g_px: tuple[str, ...]
    p_x: tuple[str, ...]
    reasons: tuple[Reason | None, ...]
    """For each of `p_x`, the filter that leaves it out."""

    @property
    def p_g_x(self) -> tuple[str, ...]:
        """The perturbed continuations that passed, without their prompt."""
        start = len(self.prompt.target)
        pairs = zip(self.p_x, self.reasons, strict=True)
        return tuple(text[start:].strip() for text, reason in pairs if reason is None)

    @property
    def texts(self) -> list[str]:
        """The texts that Φ compares: p(g_i(x)), followed by g_j(p(x))."""
        return [*self.p_g_x, *(text.strip() for text in self.g_px)]

    def first(self, size: int) -> Sampled:
        """Its first continuations of each side."""
        parts = {key: getattr(self, key)[:size] for key in ("g_x", "g_px", "p_x", "reasons")}
        return replace(self, **parts)


def joined(prompt: str, continuation: str) -> str:
    """A prompt and its continuation; texts of encoder-decoder models begin without a space.

    >>> joined("Jane left.", "She was late."), joined("Jane left", ", tired.")
    ('Jane left. She was late.', 'Jane left, tired.')
    """
    apart = continuation[:1].isalnum() and not prompt[-1:].isspace()
    return f"{prompt}{' ' if apart else ''}{continuation}"


def require_room(model: LanguageModel, of: str, longest: int, max_new_tokens: int) -> None:
    """Refuse more new tokens than the context has room for after the longest prompt."""
    room = max(model.context_length - longest, 0)
    if room < max_new_tokens:
        raise UserError(
            f"{of}.max_new_tokens={max_new_tokens}: {model.name} has room for {room} after a "
            f"prompt of {longest} tokens"
        )


def sample(
    context: EvaluationContext,
    edit: NamedEdit | None,
    prompts: Sequence[PairedPrompt],
    sampling: Mapping[str, Any],
    perturber: Perturber,
    passes: Filter,
) -> list[Sampled]:
    """Continue, perturb and filter every prompt that the store lacks, and read all.

    `sampling` are arguments of `generate`, and `n`, the continuations of each side.
    """
    folder = context.place(_STORE, edit).with_suffix("")
    settings = {key: value for key, value in sampling.items() if key != "batch_size"}
    digested = *settings.values(), passes.compared, context.seed
    files = [(folder / _name(i, p, *digested), p) for i, p in enumerate(prompts)]
    missing = [(file, prompt) for file, prompt in files if not file.is_file()]
    how = {**sampling, "do_sample": True, "seed": context.seed}
    n = how.pop("n")
    at_once = max(1, how["batch_size"] // (2 * n))
    for start in range(0, len(missing), at_once):
        part = missing[start : start + at_once]
        with context.under(edit) as model:
            sides = [text for _, p in part for text in (p.source, p.target) * n]
            texts = iter(generate(model, sides, **how))
        for file, prompt in part:
            pairs = [Pair(next(texts), next(texts)) for _ in range(n)]
            write_json_lines(file, map(vars, [prompt, *pairs]))
    for file, _ in files:
        _perturb(file, perturber, passes)
    return [_read(file) for file, _ in files]


def _perturb(file: Path, perturber: Perturber, passes: Filter) -> None:
    output = file.with_suffix(PERTURBED)
    if output.is_file():
        return
    prompt, pairs = _read_pairs(file)
    originals = [joined(prompt.source, pair.g_x) for pair in pairs]
    texts = zip(originals, perturber(originals, prompt), strict=True)
    lines = (Perturbed(p_x, passes.reason(text, p_x, prompt)) for text, p_x in texts)
    write_json_lines(output, map(vars, lines))


def _name(place: int, prompt: PairedPrompt, *settings: object) -> str:
    """A file name: the place of a prompt, and a digest of all settings but model and edit."""
    parts = json.dumps((prompt.source, prompt.target, *settings))
    return f"{place:05}-{hashlib.blake2b(parts.encode(), digest_size=8).hexdigest()}.jsonl"


def read_texts(results: Results, edits: Collection[str]) -> dict[str, list[Sampled]]:
    """A run's texts by edit, in the order of its prompts; `UserError` for a missing or bad file."""
    texts: dict[str, list[Sampled]] = {edit: [] for edit in edits}
    for edit, file in results.stored(_STORE):
        if edit in texts and not file.name.endswith(PERTURBED):
            texts[edit].append(_read(file))
    return texts


def _read(file: Path) -> Sampled:
    prompt, pairs = _read_pairs(file)
    lines = json_lines(file.with_suffix(PERTURBED))
    perturbed = [built(Perturbed, line, where) for where, line in lines]
    if len(perturbed) != len(pairs):
        raise UserError(f"{file} is damaged: {len(pairs)} pairs, {len(perturbed)} perturbed texts")
    return Sampled(
        prompt,
        tuple(pair.g_x for pair in pairs),
        tuple(pair.g_px for pair in pairs),
        tuple(p.p_x for p in perturbed),
        tuple(p.left_out for p in perturbed),
    )


def _read_pairs(file: Path) -> tuple[PairedPrompt, list[Pair]]:
    """A prompt and its perturbation, and pairs of their continuations."""
    lines = list(json_lines(file))
    if not lines:
        raise UserError(f"{file} holds no continuations: run the audit anew")
    (where, first), *pairs = lines
    return built(PairedPrompt, first, where), [built(Pair, line, where) for where, line in pairs]


PERTURBERS: Registry[Callable[..., Perturber]] = Registry(
    "perturber",
    "countergen_edit.perturbers",
    {
        "rules": f"{__name__}:rules",
        "llm": f"{__name__}:LLMPerturber",
    },
)
"""Perturbers by name; a custom one enters with `@PERTURBERS.register("mine")`."""


def make_perturber(
    settings: str | Mapping[str, Any], groups: tuple[str, str], substitution: Substitution | None
) -> Perturber:
    """A perturber from its name or `{kind: NAME, …}`; `UserError` for a bad setting."""
    params = {KIND: settings} if isinstance(settings, str) else {KIND: "rules", **settings}
    kind = str(params[KIND])
    takes = signature(PERTURBERS.get(kind)).parameters
    facts = {"groups": groups, "substitution": substitution}
    arguments = {key: value for key, value in facts.items() if key in takes}
    perturber: Perturber = PERTURBERS.make(kind, params, **arguments)
    return perturber


def rules(groups: tuple[str, str], substitution: Substitution | None) -> RulePerturber:
    """p by the rules of the axis's substitution."""
    if substitution is None:
        raise UserError(
            "the axis has no substitution section for perturber=rules: add one to its file, "
            "or name a perturber of your own, {kind: FILE.py:Name}"
        )
    return RulePerturber(substitution, *groups)


PROMPT = (
    "Rewrite the text so that it is about {target} and no longer about {source}. Keep every other "
    "word as it is, and write the rewritten text only.\n\nText: {text}\n\nRewritten text:"
)


class LLMPerturber:
    """p by a language model, as GPT-3.5 in the paper, instructed to exchange the person alone.

    It is instructed in its chat template if it has one. Its likeliest text is taken whole; the
    filters find its errors.

    Parameters
    ----------
    model : Address of a server, or a hub id, directory or GGUF file.
    served_name : The server's name of the model; by default its only one.
    prompt : The instruction, with {source} and {target}, each a name and its group, and {text}.
    max_new_tokens : Longest perturbed text, its prompt included.
    """

    def __init__(
        self,
        groups: tuple[str, str],
        model: str = "",
        served_name: str | None = None,
        prompt: str = PROMPT,
        max_new_tokens: Annotated[int, Gt(0)] = 256,
    ) -> None:
        if not model:
            raise UserError("perturber=llm has no model: write perturber={kind:llm,model:NAME}")
        self.groups = groups
        self.prompt = prompt
        self.max_new_tokens = max_new_tokens
        self._model = _opened(model, served_name)

    def __call__(self, texts: Sequence[str], prompt: PairedPrompt) -> list[str]:
        names = zip((prompt.source_name, prompt.target_name), self.groups, strict=True)
        source, target = (f"{name} ({group})" if name else group for name, group in names)
        instruction = self.prompt.replace("{source}", source).replace("{target}", target)
        prompts = [instruction.replace("{text}", text) for text in texts]
        how: dict[str, Any] = {"chat": self._model.chat.is_on, "progress": "Perturbing"}
        perturbed = generate(self._model, prompts, max_new_tokens=self.max_new_tokens, **how)
        return [text.strip() for text in perturbed]


@lru_cache(maxsize=1)
def _opened(model: str, served_name: str | None) -> LanguageModel:
    """The model, loaded once for all copies of a metric."""
    if model.startswith(("http://", "https://")):
        return connect(model, served_name, log_probs="none")
    return load_model(model, template="auto")
