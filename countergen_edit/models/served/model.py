"""A model behind a server: what of a `LanguageModel` it has, and what it will cost to ask it.

In: an address, and what the server calls the model. Out: a `ServedModel`. Refused: a server that is
not there or has no such model; settings out of range.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from countergen_edit.errors import UserError, unknown
from countergen_edit.models.asked import Asked
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.served.log_probs import NONE, READERS
from countergen_edit.models.served.server import Request, Server
from countergen_edit.models.templates import CHAT, TEMPLATES
from countergen_edit.writing import digest

CHARACTERS = 4
"""Of English text in a token, about."""
PRICED = ("read", "written")


class Elsewhere:
    """What a served model does not have here; whoever reaches for it is told so.

    Args:
        what: is reached for.
        name: of the model.
    """

    def __init__(self, what: str, name: str) -> None:
        self.__dict__.update(what=what, name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self._lacking

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing."""
        raise self._lacking

    @property
    def _lacking(self) -> UserError:
        return UserError(
            f"{self.name} runs on a server, which keeps its {self.what}: it can be measured, "
            "eraser=none metric=[r,fairpair]"
        )


@dataclass(frozen=True, eq=False)
class ServedModel(LanguageModel):
    """A model that another machine runs; made by `connect`.

    Attributes:
        server: Where it is asked.
        way: How the server says how likely a text is: `echo`, `prompt` or `none`.
        n: Continuations asked for in one request.
        price: Of a million tokens: `read` and `written`.
        most_requests: A run that would send more is refused; None knows no limit.
    """

    server: Server = field(default=None, repr=False)  # type: ignore[assignment]
    way: str = "echo"
    n: int = 16
    price: Mapping[str, float] | None = None
    most_requests: int | None = None

    @property
    def device(self) -> torch.device:
        """None of this machine's: text goes out and comes in."""
        return torch.device("cpu")

    @property
    def n_layers(self) -> int:
        """None that can be reached."""
        return 0

    @property
    def context_length(self) -> int:
        """As much as the server takes, which refuses more by itself."""
        return sys.maxsize

    @property
    def is_encoder_decoder(self) -> bool:
        """A server continues texts."""
        return False

    @property
    def no_activations(self) -> str:
        """Where they are."""
        return f"as it runs on {self.server.url}"

    @property
    def no_likelihoods(self) -> str:
        """Why a server that gives none gives none."""
        return "as model.log_probs=none" if self.way == NONE else ""

    @property
    def no_replies(self) -> str:
        """As it continues texts, a reply is a text to it."""
        return self.no_likelihoods

    @property
    def directory(self) -> str:
        """Nowhere here."""
        return ""

    @property
    def origin(self) -> None:
        """Not known."""
        return

    @property
    def adds_bos(self) -> None:
        """Decided by the server."""
        return

    @property
    def fingerprint(self) -> str:
        """SHA-256 of where it is and what it is called there: all that is known of it."""
        return digest([self.server.url, self.name, self.way])

    def estimate(self, asked: Sequence[Asked], seed: int) -> str:
        """How much is going to be asked and not yet answered, in requests, tokens and money.

        Raises:
            UserError: it is more than `most_requests`.
        """
        from countergen_edit.models.served.writing import requests_of

        every = {digest(r): r for one in asked for r in requests_of(self, one, seed)}
        new = [request for request in every.values() if not self.server.is_answered(request)]
        read = sum(tokens_in(str(request["prompt"])) for request in new)
        written = sum(int(r["max_tokens"]) * int(r.get("n", 1)) for r in new)
        words = [f"{len(new):,} requests", f"about {read:,} tokens to read"]
        words.append(f"at most {written:,} to write")
        if len(every) > len(new):
            words.insert(1, f"{len(every) - len(new):,} more are answered already")
        if self.price is not None:
            each = self.price["read"] * read + self.price["written"] * written
            words.append(f"at most about {each / 1e6:,.2f} at the given prices")
        text = f"{self.name} on {self.server.url}: {', '.join(words)}."
        if self.most_requests is not None and len(new) > self.most_requests:
            raise UserError(f"{text} That is more than model.most_requests={self.most_requests}")
        return text


def tokens_in(text: str) -> int:
    """About how many tokens a text has; its tokenizer is the server's."""
    return math.ceil(len(text) / CHARACTERS)


def connect(
    url: str,
    served_name: str | None = None,
    *,
    log_probs: str = "echo",
    n: int = 16,
    price: Mapping[str, float] | None = None,
    most_requests: int | None = None,
    cache: Path | str = "runs/served",
    template: str = "none",
    **how: Any,
) -> ServedModel:
    """A model behind a server that speaks OpenAI's completions protocol.

    Args:
        url: of the API, such as http://127.0.0.1:8000/v1.
        served_name: what the server calls the model; None takes the only one it has.
        log_probs: how the server says how likely a text is: `echo` (OpenAI's `echo` with
            `logprobs`), `prompt` (vLLM's `prompt_logprobs`), or `none`.
        n: continuations of a prompt that are asked for in one request.
        price: of a million tokens, `read` and `written`, for the estimate.
        most_requests: a run that would send more is refused, with its estimate.
        cache: folder in which answers are kept.
        template: as in `load`; a server that continues texts puts them in none, and `chat` is
            refused.
        how: key_variable, parallel, per_minute, timeout and attempts of `Server`.

    Raises:
        UserError: a setting is out of range, or the server is not there or has no such model.
    """
    ways = (*READERS, NONE)
    if log_probs not in ways:
        raise unknown("model.log_probs", log_probs, ways)
    if template not in TEMPLATES:
        raise unknown("template", template, TEMPLATES)
    if template == CHAT:
        raise UserError(
            f"template=chat, but {url} continues texts and has no chat template to put them in: "
            "use template=none"
        )
    for key, value, least in (("n", n, 1), ("most_requests", most_requests, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise UserError(f"model.{key}={value!r} is not a whole number")
        if value is not None and value < least:
            raise UserError(f"model.{key}={value}: at least {least}")
    if price is not None and (
        set(price) != set(PRICED) or not all(isinstance(p, int | float) for p in price.values())
    ):
        raise UserError(
            f"model.price={price}: of a million tokens, such as {{read: 2, written: 2}}"
        )
    server = Server(url, cache=Path(cache), **how)
    names = server.models()
    if served_name is None:
        if names is None or len(names) != 1:
            what = "does not say which models it has" if names is None else f"has {names}"
            raise UserError(f"{server.url} {what}: name one, model.served_name=NAME")
        [served_name] = names
    if names and served_name not in names:
        raise unknown(f"model of {server.url}", served_name, names)
    return ServedModel(
        str(served_name),
        Elsewhere("weights", served_name),
        Elsewhere("tokenizer", served_name),
        server=server,
        way=log_probs,
        n=n,
        price=price,
        most_requests=most_requests,
    )


def scoring_request(lm: ServedModel, text: str) -> Request:
    """The request for a text's own log-probabilities."""
    asks, _ = READERS[lm.way]
    return {"model": lm.name, "prompt": text, "max_tokens": 1, "temperature": 0.0, **asks}
