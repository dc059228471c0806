"""Whether the word forms of an axis tell two groups apart, which agreement needs.

Comes in: two groups. Refused: groups of which no form differs (`NoFormsError`), so that a task can
do without agreement, and say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Group


class DoesNotFitError(UserError):
    """What a set asks cannot be asked of these groups."""


class NoFormsError(DoesNotFitError):
    """The forms of two groups do not differ: nothing needs to agree with either."""

    def __init__(self, axis: str, groups: Sequence[str], prompts: str = "its prompts") -> None:
        super().__init__(
            f"axis {axis!r} has no word forms, such as she and he, by which {prompts} tell "
            f"{groups[0]!r} from {groups[1]!r}"
        )


def differs(form: str, a: Group, b: Group) -> bool:
    """Whether both groups have a form, and not the same.

    >>> a, b = (Group(g, {}, {"person": g, "possessive": "her"}) for g in ("nun", "queen"))
    >>> differs("person", a, b), differs("possessive", a, b), differs("title", a, b)
    (True, False, False)
    """
    return form in a.forms and form in b.forms and a.forms[form] != b.forms[form]
