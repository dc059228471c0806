"""Answers that were paid for, kept on disk.

In: a request and its answer. Out: the answer, for the same request, in any later process. Each is
committed by itself, so that a process that is killed loses none. Refused: a disk that is full.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.errors import UserError
from countergen_edit.writing import digest

_PATIENCE = 60.0  # seconds that another process may take to write
_TABLE = """
CREATE TABLE IF NOT EXISTS replies
    (key TEXT PRIMARY KEY, request TEXT NOT NULL, reply TEXT NOT NULL)
"""


class Replies:
    """Answers by their request, in one file; several threads and processes may use it.

    Args:
        path: of the file, made when the first answer is kept or looked for.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def get(self, request: Mapping[str, Any]) -> Any:
        """The answer to a request, or None."""
        sql = "SELECT reply FROM replies WHERE key = ?"
        rows = self._run(sql, (digest(request),))
        return json.loads(rows[0][0]) if rows else None

    def keep(self, request: Mapping[str, Any], reply: object) -> None:
        """Keep an answer, from now on for good.

        Raises:
            UserError: the file cannot be written.
        """
        row = (digest(request), *(json.dumps(x, ensure_ascii=False) for x in (request, reply)))
        self._run("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", row)

    def _run(self, sql: str, values: tuple[str, ...]) -> list[Any]:
        try:
            with self._lock:
                if self._open is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                    self._open = sqlite3.connect(
                        self.path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None
                    )
                    self._open.execute(_TABLE)
                return self._open.execute(sql, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"answers cannot be kept in {self.path} ({error}): name another folder, "
                "model.cache=DIR"
            ) from error
