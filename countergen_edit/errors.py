"""What a user can get wrong, said in one line with the remedy.

`UserError` marks a mistake in a config, a file or an argument. The command line prints it alone and
exits with code 2; anything else that is raised is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake the user can mend; the message holds the offending value and what to do."""


class NotWrittenError(UserError):
    """A file could not be written: no fault of what was to be in it, and mended outside."""


def unknown(kind: str, value: object, valid: Iterable[object]) -> UserError:
    """Say that `value` is no known `kind`, and name the nearest valid one.

    >>> str(unknown("site", "resid_pst", ["resid_post", "attn_out"]))
    "unknown site 'resid_pst': did you mean 'resid_post'? Valid: resid_post, attn_out"
    """
    names = [str(name) for name in valid]
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return UserError(f"unknown {kind} {str(value)!r}: {hint}Valid: {', '.join(names) or 'none'}")
