"""Client of OpenAI's completions protocol: parallel, retried, with answers kept on disk.

The key is read from $OPENAI_API_KEY when a request is sent, and stored nowhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar
from urllib.parse import urlsplit

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import digest, whole
from countergen_edit.models.progress import announce, track

_T = TypeVar("_T")
Body = Mapping[str, Any]
API_KEY = "OPENAI_API_KEY"
"""Environment variable of the key; an unset one sends none."""
TIMEOUT = 60.0
"""Longest wait for an answer, in seconds."""
SILENCE = 5.0
"""Seconds without an answer after which a wait is announced."""
AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may succeed."""
LONGEST_WAIT = 600.0
"""Longest Retry-After that is respected, in seconds."""
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""What reading an answer outside the protocol raises; a repetition may succeed."""
_MESSAGE = 300  # characters of a server's own error message that are shown


class Server:
    """A server of OpenAI's completions protocol at `url`, such as http://127.0.0.1:8000/v1.

    `parallel` requests run at once, each up to `attempts` times, with growing pauses or the
    server's Retry-After. Answers are kept in the folder `cache`, a file each. `UserError` for an
    address that may hold a secret, or absent client libraries.
    """

    def __init__(self, url: str, *, parallel: int = 8, attempts: int = 6, cache: Path) -> None:
        self.url = checked_url(url)
        try:
            import httpx
            import tenacity  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"a served model needs {error.name}: pip install 'countergen-edit[served]'"
            ) from error
        limits = httpx.Limits(max_connections=parallel)
        self._client = httpx.Client(timeout=TIMEOUT, limits=limits)
        self.parallel, self.attempts = parallel, attempts
        # By address: another server may call another model by the same name.
        self._kept = cache / digest(self.url)[:16]

    def models(self) -> list[str]:
        return self._send("models", None, lambda reply: [str(m["id"]) for m in reply["data"]])[1]

    def answers(
        self, requests: Sequence[Body], read: Callable[[Any, Body], _T], progress: str | None
    ) -> list[_T]:
        """`read(answer, request)` of each request; equal requests are sent once.

        An answer that `read` fails on is not kept; the request is repeated unless that is a
        `UserError`. All others are kept, also when one request fails.
        """
        distinct = {digest(request): request for request in requests}
        pool = ThreadPoolExecutor(self.parallel)
        try:
            futures = {k: pool.submit(self._answer, k, r, read) for k, r in distinct.items()}
            done = as_completed(futures.values())
            for _, future in zip(track(range(len(futures)), progress), done, strict=True):
                future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [futures[digest(request)].result() for request in requests]

    def _answer(self, key: str, request: Body, read: Callable[[Any, Body], _T]) -> _T:
        file = self._kept / f"{key}.json"
        if file.is_file():
            return read(json.loads(file.read_text("utf-8")), request)
        reply, value = self._send("completions", request, lambda reply: read(reply, request))
        with whole(file) as temporary:
            temporary.write_text(json.dumps(reply, ensure_ascii=False), "utf-8")
        return value

    def _send(self, path: str, request: Body | None, read: Callable[[Any], _T]) -> tuple[Any, _T]:
        """The answer and its `read` value, with retries."""
        import httpx
        from tenacity import Retrying, retry_if_exception, stop_after_attempt

        method, attempts = ("POST", self.attempts) if request else ("GET", 2)

        def attempt() -> tuple[Any, _T]:
            key = os.environ.get(API_KEY)
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            how: dict[str, Any] = {"json": request, "headers": headers}
            timer = Timer(SILENCE, say_once, [self.url, attempts])
            timer.start()
            try:
                response = self._client.request(method, f"{self.url}/{path}", **how)
            finally:
                timer.cancel()
            if response.status_code < 500 and "html" in response.headers.get("content-type", ""):
                raise self._failed("is a web page (the address of an API ends in /v1)")
            reply = response.raise_for_status().json()
            return reply, read(reply)

        retry, stop = retry_if_exception(_may_pass), stop_after_attempt(attempts)
        try:
            return Retrying(retry=retry, stop=stop, wait=_pause, reraise=True)(attempt)
        except UserError:
            raise
        except httpx.HTTPStatusError as error:
            status, why = error.response.status_code, _message(error.response)
            raise self._failed(f"answers {status} ({why})") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._failed(f"cannot be reached ({type(error).__name__})") from error
        except MALFORMED as error:
            why = " ".join(f"{type(error).__name__} {error}".split())
            raise self._failed(f"answers what is not a completion ({why})") from error

    def _failed(self, what: str) -> UserError:
        return UserError(
            f"the server {self.url} {what}: see that it runs, knows the model and takes the key in "
            f"${API_KEY}; what was answered is kept, and the same command continues"
        )


@cache
def say_once(url: str, attempts: int) -> None:
    """Say that an answer is waited for, and for how long."""
    text = f"no answer from {url} for {SILENCE:g} s: waiting up to {TIMEOUT:g} s"
    announce(f"countergen-edit: {text} in each of {attempts} attempts")


def _message(response: Any) -> str:
    """The server's own error message, without the key."""
    try:
        message = response.json()["error"]["message"]
    except MALFORMED:
        message = response.text
    text, key = " ".join(str(message).split())[:_MESSAGE], os.environ.get(API_KEY)
    return text.replace(key, "***") if key else text


def _may_pass(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in AGAIN
    passing = (httpx.TransportError, *MALFORMED)
    return isinstance(error, passing) and not isinstance(error, UserError)


def _pause(state: Any) -> float:
    """Seconds before another attempt: the server's Retry-After, or growing ones."""
    from tenacity import wait_random_exponential

    response: Any = getattr(state.outcome.exception(), "response", None)
    with suppress(AttributeError, KeyError, ValueError):
        return min(max(float(response.headers["Retry-After"]), 0.0), LONGEST_WAIT)
    return wait_random_exponential(0.2, max=20)(state)


def checked_url(url: str) -> str:
    """The address without its last slash; `UserError` if it is not HTTP or may hold a secret.

    >>> checked_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'
    """
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            f"the address of {parts.hostname} has more than a host and a path: a key belongs in "
            f"the environment, in ${API_KEY}"
        )
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"{url!r} is not an address: write one such as http://127.0.0.1:8000/v1")
    return url.rstrip("/")
