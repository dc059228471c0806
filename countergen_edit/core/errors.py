"""User errors: one line with the offending value and the remedy.

The command line prints a `UserError` without traceback and exits with code 2; any other exception
is a bug and keeps its traceback. Commands in messages are quoted, so that they can be pasted.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake the user can fix; the message has the offending value and the remedy."""


class NotWrittenError(UserError):
    """A file could not be written."""


def command(*words: object) -> str:
    """A command of this program, as a shell takes it.

    >>> command("edit", "run=my run", "save=DIR")
    "countergen-edit edit 'run=my run' save=DIR"
    """
    return shlex.join(["countergen-edit", *map(str, words)])


def require_known(kind: str, value: object, valid: Iterable[object]) -> None:
    """Refuse a value that is not among the valid ones, by the `unknown` error."""
    valid = [*valid]
    if value not in valid:
        raise unknown(kind, value, valid)


def unknown(kind: str, value: object, valid: Iterable[object]) -> UserError:
    """The error for an unknown `value`, with the nearest valid one.

    >>> str(unknown("site", "resid_pst", ["resid_post", "attn_out"]))
    "unknown site 'resid_pst': did you mean 'resid_post'? Valid: resid_post, attn_out"
    """
    names = [str(name) for name in valid]
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"unknown {kind} {str(value)!r}: {hint}Valid: {', '.join(names) or 'none'}")
