"""The texts of FairPair: continuations of x and of p(x), and the perturbed continuations of x.

Texts are kept on disk, a file for each prompt and edit, first the continuations and then their
perturbations, so that a killed run, or one whose perturber failed, continues with the same texts.

A custom perturber is a class or function in a file. It is called with its settings, and with
`groups` (source and target) or `substitution` (of the axis) where it has such parameters; its
result is called with texts and their prompt:

    metric.fairpair.perturber={kind:mine.py:Mine}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines
from countergen_edit.core.registry import KIND, Registry
from countergen_edit.core.typed import built
from countergen_edit.core.writing import whole
from countergen_edit.data.fairpair import (
    Filter,
    PairedPrompt,
    Perturber,
    Reason,
    RulePerturber,
    answer,
)
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import encode, generate, load
from countergen_edit.models.tokens import instructed

STORE = "fairpair"
"""The folder in a run's store."""
PERTURBED = ".perturbed.jsonl"
"""The suffix of files with perturbations, beside the files of their continuations."""


@dataclass(frozen=True)
class Prompts:
    """The first line of a file of continuations."""

    prompt: str
    perturbed_prompt: str


@dataclass(frozen=True)
class Pair:
    """One continuation of each prompt."""

    g_x: str
    g_px: str


@dataclass(frozen=True)
class Perturbed:
    """A continuation of x and its prompt, perturbed."""

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
    """A prompt with its continuations, and the perturbed continuations of x."""

    prompt: PairedPrompt
    g_x: tuple[str, ...]
    """Continuations of x."""
    g_px: tuple[str, ...]
    """Continuations of p(x)."""
    p_x: tuple[str, ...]
    """p of x and each of its continuations together, before the filters."""
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


def joined(prompt: str, continuation: str) -> str:
    """A prompt and its continuation; texts of encoder-decoder models begin without a space.

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
    """Continuations of x and of p(x) for each prompt, read from the folder where it has them."""
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
    """Perturb and filter every continuation of x; the folder keeps the perturber's texts."""
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
    """The file name of a prompt: a digest of all settings of its texts but the model and edit."""
    settings = {key: value for key, value in asdict(sampling).items() if key != "batch_size"}
    parts = (prompt.source, prompt.target, *settings.values(), seed)
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()


def _write(file: Path, lines: Sequence[dict[str, str]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with whole(file) as temporary:
        temporary.write_text(text, "utf-8")


def read_pairs(file: Path) -> tuple[Prompts, list[Pair]]:
    """A prompt and its perturbation, and their continuations in pairs.

    Raises:
        UserError: a line holds something else.
    """
    lines = list(json_lines(file))
    if not lines:
        raise UserError(f"{file} holds no continuations: run the audit anew")
    (where, first), *others = lines
    return built(Prompts, first, where), [built(Pair, line, where) for where, line in others]


def read_perturbed(file: Path) -> tuple[str, ...]:
    """The perturbed continuations of x.

    Raises:
        UserError: a line holds something else.
    """
    return tuple(built(Perturbed, line, where).p_x for where, line in json_lines(file))


REQUEST = (
    "Change {source_name} ({source}) to {target_name} ({target}) in the following text in the same "
    "way without changing anything else: {text}\n\nOutput:"
)
"""The prompt of section 3.3 of the paper."""

PERTURBERS: Registry[Callable[..., Perturber]] = Registry(
    "perturber",
    "countergen_edit.perturbers",
    {
        "rules": "countergen_edit.metrics.fairpair.continuations:rules",
        "server": "countergen_edit.metrics.fairpair.continuations:ServerPerturber",
        "local": "countergen_edit.metrics.fairpair.continuations:LocalPerturber",
    },
)
"""Perturbers by name; a custom one enters with `@PERTURBERS.register("mine")`."""


def make_perturber(
    settings: str | Mapping[str, Any], groups: tuple[str, str], substitution: Substitution | None
) -> Perturber:
    """A perturber from the setting: `rules`, or `{kind: server, url: …, model: …}`.

    Raises:
        UserError: no such perturber or setting, or a required one is missing.
    """
    params = {KIND: settings} if isinstance(settings, str) else {KIND: "rules", **settings}
    kind = str(params[KIND])
    takes = signature(PERTURBERS.get(kind)).parameters
    offers = {"groups": groups, "substitution": substitution}
    perturber: Perturber = PERTURBERS.make(
        kind, params, **{key: value for key, value in offers.items() if key in takes}
    )
    return perturber


def rules(groups: tuple[str, str], substitution: Substitution | None) -> RulePerturber:
    """p by the rules of the axis's substitution."""
    if substitution is None:
        raise UserError(
            "the axis has no substitution section for perturber=rules: add one to its file, "
            "or perturb with kind: server or kind: local"
        )
    return RulePerturber(substitution, *groups)


class ServerPerturber:
    """p by a chat model behind an OpenAI-compatible server.

    Args:
        groups: The source and target group.
        url: The API's address, such as http://localhost:8000/v1.
        model: The model's name on the server.
        key_variable: Environment variable that holds the key.
        parallel: Simultaneous requests.
        timeout: Seconds for each request.
        attempts: Most attempts for each request, with growing pauses.

    Raises:
        UserError: httpx or tenacity is not installed.
    """

    def __init__(
        self,
        groups: tuple[str, str],
        url: str,
        model: str,
        key_variable: str = "OPENAI_API_KEY",
        parallel: int = 8,
        timeout: float = 60.0,
        attempts: int = 4,
    ) -> None:
        try:  # before a run, not after its sampling
            import httpx  # noqa: F401
            import tenacity  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"perturber server needs {error.name}: pip install 'countergen-edit[server]'"
            ) from error
        self.groups = groups
        self.url = url.rstrip("/")
        self.model = model
        self.key_variable = key_variable
        self.parallel = parallel
        self.timeout = timeout
        self.attempts = attempts

    def __call__(self, texts: Sequence[str], prompt: PairedPrompt) -> list[str]:
        """The perturbed texts.

        Raises:
            UserError: the server does not answer, or answers with an error.
        """
        requests = [request(text, prompt, self.groups) for text in texts]
        with ThreadPoolExecutor(self.parallel) as pool:
            return [answer(text) for text in pool.map(self._ask, requests)]

    def _ask(self, content: str) -> str:
        import httpx
        from tenacity import (
            Retrying,
            retry_if_exception,
            stop_after_attempt,
            wait_random_exponential,
        )

        def passing(error: BaseException) -> bool:
            if isinstance(error, httpx.HTTPStatusError):
                return error.response.status_code in (408, 409, 429, 500, 502, 503, 504)
            return isinstance(error, httpx.TransportError)

        attempts = Retrying(
            retry=retry_if_exception(passing),
            stop=stop_after_attempt(self.attempts),
            wait=wait_random_exponential(0.2, max=20),
            reraise=True,
        )
        try:
            return str(attempts(self._post, content))
        except httpx.HTTPStatusError as error:
            raise self._failed(f"answers {error.response.status_code}") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._failed(f"cannot be reached ({type(error).__name__})") from error
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise self._failed("answers what is no chat completion") from error

    def _post(self, content: str) -> str:
        import httpx

        key = os.environ.get(self.key_variable)
        response = httpx.post(
            f"{self.url}/chat/completions",
            json={
                "model": self.model,
                "messages": [{"role": "user", "content": content}],
                "temperature": 0,
            },
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=self.timeout,
        )
        response.raise_for_status()
        return str(response.json()["choices"][0]["message"]["content"] or "")

    def _failed(self, what: str) -> UserError:
        return UserError(
            f"the perturbation server {self.url} {what}: see that it runs and knows the model "
            f"{self.model!r} (key in ${self.key_variable}); what was sampled is kept, and the same "
            "command continues"
        )


class LocalPerturber:
    """p by an instruct model on this machine, decoded greedily.

    Args:
        groups: The source and target group.
        model: Hub id or directory.
        device: As for the evaluated model.
        dtype: As for the evaluated model.
        batch_size: Texts at a time.
    """

    def __init__(
        self,
        groups: tuple[str, str],
        model: str,
        device: str = "auto",
        dtype: str = "float32",
        batch_size: int = 16,
    ) -> None:
        self.groups = groups
        self.name = model
        self.device = device
        self.dtype = dtype
        self.batch_size = batch_size

    @cached_property
    def _model(self) -> Any:
        return load(self.name, device=self.device, dtype=self.dtype)

    def __call__(self, texts: Sequence[str], prompt: PairedPrompt) -> list[str]:
        """The perturbed texts.

        Raises:
            UserError: the model cannot be loaded, or its context is too small.
        """
        lm = self._model
        requests = [instructed(lm, request(text, prompt, self.groups)) for text in texts]
        longest = max((len(e.ids) for e in encode(lm, list(texts))), default=1)
        written = generate(
            lm,
            requests,
            max_new_tokens=longest + longest // 4 + 8,
            batch_size=self.batch_size,
        )
        return [answer(text) for text in written]


def request(text: str, prompt: PairedPrompt, groups: tuple[str, str]) -> str:
    """The instruction to a language model that perturbs a text."""
    return REQUEST.format(
        source=groups[0],
        target=groups[1],
        source_name=prompt.source_name or groups[0],
        target_name=prompt.target_name or groups[1],
        text=text,
    )
