"""Text that cannot be stored is refused wherever it enters; text that is shown has no commands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import countergen_edit as ce
from countergen_edit.core.characters import printable, require_encodable
from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import require
from countergen_edit.models import LanguageModel, check_texts, continuation_log_probs, generate

TEXT = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=4)
NESTED = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)
HALF = "Jane is \ud83d"


@given(NESTED)
def test_what_no_file_can_hold_is_refused_and_nothing_else(content: Any) -> None:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(UserError, match="is half of a character") as refused:
            require_encodable(content)
        str(refused.value).encode()
    else:
        require_encodable(content)


@given(st.text())
def test_shown_text_commands_no_terminal(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert printable(shown) == shown


@pytest.mark.parametrize(
    "call",
    [
        lambda lm: ce.task(data={"test": [{"source": "templates", "templates": HALF}]}),
        lambda lm: ce.task({"name": "x", "groups": {"a": {"forms": {"person": HALF}}}}),
        lambda lm: require(str, HALF, "name"),
        lambda lm: check_texts(lm, ["Jane", HALF]),
        lambda lm: continuation_log_probs(lm, ["Jane is"], [HALF]),
        lambda lm: generate(lm, [HALF], max_new_tokens=1),
    ],
)
def test_half_of_a_character_is_refused_in_python(call: Any, testbed: LanguageModel) -> None:
    with pytest.raises(UserError, match=r"Jane is \\ud83d.*: '\\ud83d' is half of a"):
        call(testbed)
