"""Values from outside against the types that the code declares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le
from hypothesis import example, given
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import require, require_arguments

Share = Annotated[float, Ge(0), Le(1)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def is_of(hint: Any, value: object) -> bool:
    if hint is float:
        return type(value) is int or (type(value) is float and math.isfinite(value))
    return type(value) is hint


@pytest.mark.parametrize("hint", [int, float, bool, str])
@given(value=JSON)
@example(value=math.nan)
@example(value=-math.inf)
def test_a_value_passes_if_it_is_of_the_type_and_not_otherwise(hint, value):
    passes = True
    try:
        require(hint, value, "x")
    except UserError:
        passes = False
    assert passes == is_of(hint, value)


@given(value=JSON)
def test_null_passes_where_it_is_one_of_the_choices(value):
    if value is not None and type(value) is not int:
        with pytest.raises(UserError, match=r"^x=.*: Input should be a (valid|finite) "):
            require(int | None, value, "x")
    require(int | None, None, "x")


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (float, "abc", "x='abc': Input should be a valid number"),
        (Sequence[float], [1, "a"], "x.1='a': Input should be a valid number"),
        (int | Sequence[int], "a", "x='a': Input should be a valid integer or a valid array"),
        (tuple[str, str], ["a"], "x=['a']: Input should be longer"),
        (Mapping[str, int | None] | None, {"a": 1.5}, "x.a=1.5: Input should be a valid integer"),
        (Literal["hook", "fold"], "fald", "unknown x 'fald': did you mean 'fold'?"),
        (Annotated[int, Gt(0)] | None, -1, "x=-1: Input should be greater than 0"),
        (Share, 1.5, "x=1.5: Input should be less than or equal to 1"),
        (str, ["long"] * 50, "x=['long', "),
    ],
)
def test_the_message_says_which_entry_is_wrong_and_how(hint, value, message):
    with pytest.raises(UserError) as caught:
        require(hint, value, "x")
    assert len(str(caught.value)) < 130
    assert str(caught.value).startswith(message)


def test_what_no_config_can_hold_passes_as_it_is():
    require(int, object(), "x")  # from Python, whose caller knows
    require(pytest.Item, "x", "x")


def test_arguments_are_held_against_a_signature():
    class Eraser:
        def __init__(self, rank: int = 1, *, name: str | None = None) -> None: ...

    require_arguments(Eraser, {"rank": 2, "name": "a", "more": 3}, "eraser mine")
    with pytest.raises(
        UserError, match=r"^eraser mine\.rank='2': Input should be a valid integer$"
    ):
        require_arguments(Eraser, {"rank": "2"}, "eraser mine")
