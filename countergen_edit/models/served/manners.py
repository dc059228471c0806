"""How a server is met: at which address, at what pace, and after what pause again.

In: what a user says of a server, and what it says of itself. Out: values that `Server` goes by.
Refused: an address that may hold a secret; libraries that are not installed.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from countergen_edit.errors import UserError


class Pace:
    """When the next request may begin, whichever thread sends it.

    Args:
        per_minute: most requests in a minute, evenly; None sends them as they come.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 60 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait for one's turn."""
        while True:
            with self._lock:
                now = time.monotonic()
                if now >= self._next:
                    self._next = now + self._gap
                    return
                left = self._next - now
            time.sleep(left)

    def pause(self, seconds: float) -> None:
        """Let nobody begin for so long."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


def retry_after(header: str | None) -> float | None:
    """Seconds that a server asks to be left alone: given as such, or as a date.

    >>> retry_after("2.5"), retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), retry_after("soon")
    (2.5, 0.0, None)
    """
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def checked_url(url: str) -> str:
    """An address without its last stroke.

    Raises:
        UserError: it is none of HTTP, or has room for a secret; that is not repeated.

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


def require_client() -> None:
    """See that the libraries that ask a server are installed.

    Raises:
        UserError: naming the extra.
    """
    try:
        import httpx  # noqa: F401
        import tenacity  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"a served model needs {error.name}: pip install 'countergen-edit[served]'"
        ) from error
