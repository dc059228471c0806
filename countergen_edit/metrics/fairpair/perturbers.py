"""Perturbers by name: rules, a local instruct model, or a server that speaks OpenAI's protocol.

Comes in: the setting `perturber`. Goes out: a `Perturber`. Refused: an unknown one, a server that
cannot be reached or refuses the request; what it answers is left to the filters.

One of your own is a class or function in a file of your own that is called with its settings, and
with `groups` (source and target) or `substitution` (of the axis) where it takes these; what it
gives back is called with texts and their prompt:

    metric.fairpair.perturber={kind:mine.py:Mine}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from inspect import signature
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import KIND, Registry
from countergen_edit.data.fairpair import PairedPrompt, Perturber, RulePerturber, answer
from countergen_edit.data.text.substitution import Substitution

REQUEST = (
    "Change {source_name} ({source}) to {target_name} ({target}) in the following text in the same "
    "way without changing anything else: {text}\n\nOutput:"
)
"""The paper's, section 3.3."""

PERTURBERS: Registry[Callable[..., Perturber]] = Registry(
    "perturber",
    "countergen_edit.perturbers",
    {
        "rules": "countergen_edit.metrics.fairpair.perturbers:rules",
        "server": "countergen_edit.metrics.fairpair.perturbers:ServerPerturber",
        "local": "countergen_edit.metrics.fairpair.perturbers:LocalPerturber",
    },
)
"""What makes each perturber; a user's own enters with `@PERTURBERS.register("mine")`."""


def make_perturber(
    settings: str | Mapping[str, Any], groups: tuple[str, str], substitution: Substitution | None
) -> Perturber:
    """A perturber from the setting: `rules`, or `{kind: server, url: …, model: …}`.

    Args:
        settings: Name, or a mapping with the name under `kind`.
        groups: Source and target.
        substitution: Of the axis; the rules need one.

    Raises:
        UserError: no such perturber or setting, or it lacks what it needs.
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
    """p by the rules of the axis's substitution.

    Raises:
        UserError: the axis has none.
    """
    if substitution is None:
        raise UserError(
            "the axis has no substitution section for perturber=rules: add one to its file, "
            "or perturb with kind: server or kind: local"
        )
    return RulePerturber(substitution, *groups)


class ServerPerturber:
    """p by a chat model behind an OpenAI-compatible server.

    Args:
        groups: Names of the source and the target group, as the request has them.
        url: Of the API, such as http://localhost:8000/v1.
        model: The model's name there.
        key_variable: Environment variable that holds the key; an unset one sends none.
        parallel: Requests under way at once.
        timeout: Seconds a request may take.
        attempts: Of each request, with growing pauses, where the server is busy or absent.

    Raises:
        UserError: the libraries that ask a server are not installed.
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
        _require_client()
        self.groups = groups
        self.url = url.rstrip("/")
        self.model = model
        self.key_variable = key_variable
        self.parallel = parallel
        self.timeout = timeout
        self.attempts = attempts

    def __call__(self, texts: Sequence[str], prompt: PairedPrompt) -> list[str]:
        """Ask for each text.

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
        groups: Names of the source and the target group, as the request has them.
        model: Hub id or directory.
        device: As for the model under audit.
        dtype: As for the model under audit.
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
        from countergen_edit.models import load

        return load(self.name, device=self.device, dtype=self.dtype)

    def __call__(self, texts: Sequence[str], prompt: PairedPrompt) -> list[str]:
        """Have the model rewrite each text.

        Raises:
            UserError: the model cannot be loaded, or its context is too small.
        """
        from countergen_edit.models import encode, generate
        from countergen_edit.models.tokens import instructed

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


def _require_client() -> None:
    """See before a run, and not after its sampling, that a server can be asked."""
    try:
        import httpx  # noqa: F401
        import tenacity  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"perturber server needs {error.name}: pip install 'countergen-edit[server]'"
        ) from error


def request(text: str, prompt: PairedPrompt, groups: tuple[str, str]) -> str:
    """What a language model is asked."""
    return REQUEST.format(
        source=groups[0],
        target=groups[1],
        source_name=prompt.source_name or groups[0],
        target_name=prompt.target_name or groups[1],
        text=text,
    )
