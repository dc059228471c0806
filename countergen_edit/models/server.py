"""Client of OpenAI's completions protocol: parallel, retried, with answers kept on disk.

The key is read from the environment when a request is sent, and stored nowhere.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import digest
from countergen_edit.models.progress import track

T = TypeVar("T")
Request = Mapping[str, Any]
AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may succeed."""
LONGEST_WAIT = 600.0
"""Longest Retry-After that is respected, in seconds."""
_WRITING = 60.0  # seconds that another process may take to write
_MESSAGE = 300  # characters of a server's own error message that are shown
_TABLE = """
CREATE TABLE IF NOT EXISTS replies
    (key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL)
"""


class MalformedReplyError(ValueError):
    """An answer outside the protocol; a repetition may succeed."""


class Replies:
    """Answers by request in one SQLite file, shared by threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def get(self, request: Request) -> Any:
        """The answer to a request, or None."""
        rows = self._run("SELECT reply FROM replies WHERE key = ?", digest(request))
        return json.loads(rows[0][0]) if rows else None

    def keep(self, request: Request, reply: object) -> None:
        """Commit an answer; `UserError` if the file cannot be written."""
        texts = (json.dumps(x, ensure_ascii=False) for x in (request, reply))
        self._run("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", digest(request), *texts)

    def _run(self, sql: str, *values: str) -> list[Any]:
        try:
            with self._lock:
                if self._open is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._open = sqlite3.connect(
                        self.path, timeout=_WRITING, check_same_thread=False, isolation_level=None
                    )
                    self._open.execute(_TABLE)
                return self._open.execute(sql, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"answers cannot be kept in {self.path} ({error}): name another folder, "
                "model.cache=DIR"
            ) from error


class Server:
    """A server of OpenAI's completions protocol at `url`, such as http://127.0.0.1:8000/v1.

    The key is in the environment variable `key_variable`; an unset one sends none. `parallel`
    requests run at once, each up to `timeout` seconds and `attempts` times, with growing pauses or
    the server's Retry-After. Answers are kept in the folder `cache`. `UserError` for a setting out
    of range, an address that may hold a secret, or absent client libraries.
    """

    def __init__(
        self,
        url: str,
        *,
        key_variable: str = "OPENAI_API_KEY",
        parallel: int = 8,
        timeout: float = 60.0,
        attempts: int = 6,
        cache: Path,
    ) -> None:
        self.url = checked_url(url)
        for name, value in (("parallel", parallel), ("attempts", attempts)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UserError(f"model.{name}={value!r}: a whole number from 1 up")
        if not timeout > 0:
            raise UserError(f"model.timeout={timeout!r}: a number above 0")
        try:
            import httpx
            import tenacity  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"a served model needs {error.name}: pip install 'countergen-edit[served]'"
            ) from error
        self._client = httpx.Client(
            timeout=timeout, limits=httpx.Limits(max_connections=parallel), follow_redirects=False
        )
        self.key_variable = key_variable
        self.parallel = parallel
        self.attempts = attempts
        # By address: another server may call another model by the same name.
        self._replies = Replies(cache / f"{digest(self.url)[:16]}.sqlite")

    def models(self) -> list[str] | None:
        """The server's model names; None where it lists none."""
        from httpx import HTTPStatusError

        try:
            return self._send("GET", "models", None, lambda r: [str(m["id"]) for m in r["data"]])[1]
        except UserError as error:
            cause = error.__cause__
            status = cause.response.status_code if isinstance(cause, HTTPStatusError) else 0
            if isinstance(cause, MalformedReplyError) or status in (404, 405, 501):
                return None
            raise

    def is_answered(self, request: Request) -> bool:
        """Whether the answer is kept already."""
        return self._replies.get(request) is not None

    def answers(
        self, requests: Sequence[Request], read: Callable[[Any, Request], T], progress: str | None
    ) -> list[T]:
        """`read(answer, request)` of each request; equal requests are sent once.

        `read` raises `MalformedReplyError` to have a request repeated, else `UserError`; neither
        answer is kept. All others are, also when one request fails.
        """
        distinct = {digest(request): request for request in requests}
        pool = ThreadPoolExecutor(self.parallel)
        try:
            futures = {k: pool.submit(self._answer, r, read) for k, r in distinct.items()}
            done = as_completed(futures.values())
            for _, future in zip(track(range(len(futures)), progress), done, strict=True):
                future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [futures[digest(request)].result() for request in requests]

    def _answer(self, request: Request, read: Callable[[Any, Request], T]) -> T:
        kept = self._replies.get(request)
        if kept is not None:
            return read(kept, request)
        reply, value = self._send("POST", "completions", request, lambda r: read(r, request))
        self._replies.keep(request, reply)
        return value

    def _send(
        self, method: str, path: str, request: Request | None, read: Callable[[Any], T]
    ) -> tuple[Any, T]:
        """The answer and its `read` value, with retries."""
        import httpx
        from tenacity import Retrying, retry_if_exception, stop_after_attempt

        def attempt() -> tuple[Any, T]:
            key = os.environ.get(self.key_variable)
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            response = self._client.request(
                method, f"{self.url}/{path}", json=request, headers=headers
            )
            response.raise_for_status()
            try:
                reply = response.json()
                return reply, read(reply)
            except UserError:
                raise
            except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
                words = " ".join(f"{type(error).__name__} {error}".split())
                raise MalformedReplyError(words) from error

        stop = stop_after_attempt(self.attempts if request is not None else 2)
        retry = retry_if_exception(_may_pass)
        try:
            return Retrying(retry=retry, stop=stop, wait=_pause, reraise=True)(attempt)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise self._failed(f"answers {status}{self._words(error.response)}") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise self._failed(f"cannot be reached ({type(error).__name__})") from error
        except MalformedReplyError as error:
            raise self._failed(f"answers what is no completion ({error})") from error

    def _words(self, response: Any) -> str:
        """The server's own error message, without the key."""
        try:
            words = response.json()["error"]["message"]
        except (ValueError, LookupError, TypeError):
            words = response.text
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


def _pause(state: Any) -> float:
    """Seconds before another attempt: the server's Retry-After, or growing ones."""
    from tenacity import wait_random_exponential

    response = getattr(state.outcome.exception(), "response", None)
    if response is not None:
        with suppress(KeyError, ValueError):
            return min(max(float(response.headers["Retry-After"]), 0.0), LONGEST_WAIT)
    return wait_random_exponential(0.2, max=20)(state)


def checked_url(url: str) -> str:
    """The address without its last slash; `UserError` if it is not HTTP or may hold a secret.

    >>> checked_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'
    """
    parts = urlsplit(str(url))
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            f"the address of {parts.hostname} has more than a host and a path: a key belongs in "
            "the environment, in the variable that model.key_variable names"
        )
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"{url!r} is no address: write one such as http://127.0.0.1:8000/v1")
    return str(url).rstrip("/")
