"""Commands in messages, quoted so that they can be pasted into a shell."""

from __future__ import annotations

import shlex


def command(*words: object) -> str:
    """A command of this program.

    >>> command("edit", "run=my run", "save=DIR")
    "countergen-edit edit 'run=my run' save=DIR"
    """
    return shlex.join(["countergen-edit", *map(str, words)])
