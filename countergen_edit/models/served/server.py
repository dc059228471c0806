"""Asking a server: several requests at once, not too fast, again where that may help, each once.

In: requests of OpenAI's completions protocol. Out: what the reader of their answers makes of them,
in order. An answer is kept on disk as soon as it is read, and taken from there ever after; when one
request fails for good, those under way are waited for and kept too. The key is read from the
environment when a request is sent, and is written nowhere.
Refused: an address that may hold a secret; a server that is not there, refuses the request, or
keeps failing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

from countergen_edit.errors import UserError
from countergen_edit.models.progress import track
from countergen_edit.models.served.manners import Pace, checked_url, require_client, retry_after
from countergen_edit.models.served.replies import Replies
from countergen_edit.writing import digest

T = TypeVar("T")
Request = Mapping[str, Any]
AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may be answered."""
LONGEST_WAIT = 600.0
"""Seconds that a server may ask to be left alone."""
_MESSAGE = 300  # characters of a server's own words that are passed on


class MalformedReplyError(ValueError):
    """An answer that is none of the protocol's; the same request may be answered yet."""


class Server:
    """A server of OpenAI's completions protocol.

    Args:
        url: of the API, such as http://127.0.0.1:8000/v1.
        key_variable: environment variable that holds the key; an unset one sends none.
        parallel: requests under way at once.
        per_minute: most requests in a minute.
        timeout: seconds that a request may take.
        attempts: of each request, with growing pauses, or those that the server asks for.
        cache: folder in which answers are kept.

    Raises:
        UserError: a setting is out of range, the address may hold a secret, or the libraries that
            ask a server are not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        key_variable: str = "OPENAI_API_KEY",
        parallel: int = 8,
        per_minute: float | None = None,
        timeout: float = 60.0,
        attempts: int = 6,
        cache: Path,
    ) -> None:
        self.url = checked_url(url)
        for name, value in (("parallel", parallel), ("attempts", attempts)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"model.{name}={value!r}: a whole number from 1 up")
        for name, number in (("timeout", timeout), ("per_minute", per_minute)):
            if number is not None and (not isinstance(number, int | float) or not number > 0):
                raise UserError(f"model.{name}={number!r}: a number above 0")
        require_client()
        import httpx

        self._client = httpx.Client(
            timeout=timeout, limits=httpx.Limits(max_connections=parallel), follow_redirects=False
        )
        self.key_variable = key_variable
        self.parallel = parallel
        self.attempts = attempts
        self._pace = Pace(per_minute)
        # By address: another server may call another model by the same name.
        self._replies = Replies(cache / f"{digest(self.url)[:16]}.sqlite")

    def models(self) -> list[str] | None:
        """What the server calls its models; None where it does not say.

        Raises:
            UserError: it cannot be reached, or wants another key.
        """
        from httpx import HTTPStatusError

        def read(reply: Any) -> list[str]:
            return [str(model["id"]) for model in reply["data"]]

        try:
            return self._asked("GET", "models", None, read)[1]
        except UserError as error:
            cause = error.__cause__
            status = cause.response.status_code if isinstance(cause, HTTPStatusError) else 0
            if isinstance(cause, MalformedReplyError) or status in (404, 405, 501):
                return None
            raise

    def is_answered(self, request: Request) -> bool:
        """Whether the answer is here already."""
        return self._replies.get(request) is not None

    def answers(
        self, requests: Sequence[Request], read: Callable[[Any, Request], T], progress: str | None
    ) -> list[T]:
        """What `read` makes of the answer to each request; equal ones are sent once.

        Args:
            requests: bodies for `completions`.
            read: raises `MalformedReplyError` for what is no answer, which is asked for again, and
                `UserError` for one that no repetition will mend; neither is kept.
            progress: description of a progress bar.

        Raises:
            UserError: as the class says, or as `read` does; what was answered is kept.
        """
        keys = [digest(request) for request in requests]
        distinct = dict(zip(keys, requests, strict=True))
        pool = ThreadPoolExecutor(self.parallel)
        try:
            futures = {k: pool.submit(self._answer, r, read) for k, r in distinct.items()}
            done = as_completed(futures.values())
            for _, future in zip(track(range(len(futures)), progress), done, strict=True):
                future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [futures[key].result() for key in keys]

    def _answer(self, request: Request, read: Callable[[Any, Request], T]) -> T:
        kept = self._replies.get(request)
        if kept is not None:
            return read(kept, request)
        reply, value = self._asked("POST", "completions", request, lambda r: read(r, request))
        self._replies.keep(request, reply)
        return value

    def _asked(
        self, method: str, path: str, request: Request | None, read: Callable[[Any], T]
    ) -> tuple[Any, T]:
        """The answer and what was read in it, after as many attempts as it may take."""
        import httpx
        from tenacity import (
            Retrying,
            retry_if_exception,
            stop_after_attempt,
            wait_random_exponential,
        )

        attempts = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(self.attempts if request is not None else 2),
            wait=wait_random_exponential(0.2, max=20),
            reraise=True,
        )
        try:
            result: tuple[Any, T] = attempts(self._attempt, method, path, request, read)
            return result
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise self._failed(f"answers {status}{self._words(error.response)}") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._failed(f"cannot be reached ({type(error).__name__})") from error
        except MalformedReplyError as error:
            raise self._failed(f"answers what is no completion ({error})") from error

    def _attempt(
        self, method: str, path: str, request: Request | None, read: Callable[[Any], T]
    ) -> tuple[Any, T]:
        self._pace.wait()
        key = os.environ.get(self.key_variable)
        response = self._client.request(
            method,
            f"{self.url}/{path}",
            json=request,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )
        wait = retry_after(response.headers.get("Retry-After"))
        if response.status_code in AGAIN and wait is not None:
            if wait > LONGEST_WAIT:
                raise self._failed(f"asks to be left alone for {wait:.0f} s")
            self._pace.pause(wait)
        response.raise_for_status()
        try:
            reply = response.json()
            return reply, read(reply)
        except UserError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise MalformedReplyError(
                " ".join(f"{type(error).__name__} {error}".split())
            ) from error

    def _words(self, response: Any) -> str:
        """What a server says of its refusal, without the key, should it repeat that."""
        try:
            content = response.json()
            error = content.get("error", content)
            words = error.get("message", error) if isinstance(error, dict) else error
        except (ValueError, AttributeError):
            return ""
        text = " ".join(str(words).split())[:_MESSAGE]
        key = os.environ.get(self.key_variable)
        return f" ({text.replace(key, '***') if key else text})"

    def _failed(self, what: str) -> UserError:
        return UserError(
            f"the server {self.url} {what}: see that it runs, knows the model and takes the key in "
            f"${self.key_variable}; what was answered is kept, and the same command continues"
        )


def _may_pass(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in AGAIN
    return isinstance(error, httpx.TransportError | MalformedReplyError)
