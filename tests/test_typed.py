"""Values from outside against the types that the code declares."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le
from hypothesis import example, given
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import expected, require, require_arguments

Share = Annotated[float, Ge(0), Le(1)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def is_of(hint: Any, value: object) -> bool:
    """What strictness means, type by type."""
    if hint is float:
        return type(value) is int or (type(value) is float and math.isfinite(value))
    return type(value) is hint


@pytest.mark.parametrize("hint", [int, float, bool, str])
@given(value=JSON)
@example(value=math.nan)
@example(value=-math.inf)
def test_a_value_passes_if_it_is_of_the_type_and_not_otherwise(hint: type, value: object) -> None:
    passes = True
    try:
        require(hint, value, "x")
    except UserError:
        passes = False
    assert passes == is_of(hint, value)


@given(value=JSON)
def test_null_passes_where_it_is_one_of_the_choices(value: object) -> None:
    if value is not None and type(value) is not int:
        with pytest.raises(UserError, match=r"^x=.*: write a whole number or null$"):
            require(int | None, value, "x")
    require(int | None, None, "x")


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (float, "abc", "x='abc': write a number"),
        (float, math.nan, "x=nan: write a number"),
        (bool, 1, "x=1: write true or false"),
        (Sequence[float], [1, "a"], "x=[1, 'a']: write a list of numbers"),
        (tuple[str, str], ["a"], "x=['a']: write a list of 2 texts"),
        (Mapping[str, int], {"a": 1.5}, "x.a=1.5: write a whole number"),
        (
            Literal["hook", "fold"],
            "fald",
            "unknown x 'fald': did you mean 'fold'? Valid: hook, fold",
        ),
        (Literal["hook", "fold"], 5, "x=5: write hook or fold"),
        (str, ["long"] * 50, None),
    ],
)
def test_the_message_says_what_was_given_and_what_to_write(
    hint: Any, value: object, message: str | None
) -> None:
    with pytest.raises(UserError) as caught:
        require(hint, value, "x")
    assert len(str(caught.value)) < 130
    assert message in (None, str(caught.value))


def test_what_no_config_can_hold_passes_as_it_is() -> None:
    require(int, object(), "x")  # from Python, whose caller knows
    require(pytest.Item, "x", "x")


def test_arguments_are_held_against_a_signature() -> None:
    class Eraser:
        def __init__(self, rank: int = 1, *, name: str | None = None) -> None: ...

    require_arguments(Eraser, {"rank": 2, "name": "a", "more": 3}, "eraser mine")
    with pytest.raises(UserError, match=r"^eraser mine\.rank='2': write a whole number$"):
        require_arguments(Eraser, {"rank": "2"}, "eraser mine")


def test_words_for_types() -> None:
    assert expected(str | Sequence[str] | None) == "a text, a list of texts or null"
    assert expected(list[int] | int) == "a list of whole numbers or a whole number"


def test_ranges_that_a_signature_declares_are_held() -> None:
    def measure(limit: Annotated[int, Gt(0)] | None = None, top_p: Share = 1.0) -> None: ...

    class Measure:
        def __init__(self, limit: Mapping[str, Annotated[int, Gt(0)]]) -> None: ...

    require_arguments(measure, {"limit": 1, "top_p": 0.5}, "metric")
    for given_, said in (
        ({"limit": -1}, "metric.limit=-1: write a whole number above 0 or null"),
        ({"top_p": 1.5}, "metric.top_p=1.5: write a number from 0 and up to 1"),
    ):
        with pytest.raises(UserError, match=f"^{re.escape(said)}$"):
            require_arguments(measure, given_, "metric")
    with pytest.raises(UserError, match=r"^metric\.limit\.bbq=0: write a whole number above 0$"):
        require_arguments(Measure, {"limit": {"bbq": 0}}, "metric")
