"""Rules always meet the conditions; every planted way of going wrong is told by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.augmentation import Change, Conditions, changes, reply
from countergen_edit.data.axis import SPLITS, Axis
from countergen_edit.data.sources.inputs import Input, read_inputs
from countergen_edit.data.text.substitution import Substitution

CONFIG = read_config("axis", "gender")
GENDER = Axis.from_config(CONFIG)
WORDS = Substitution.from_config(GENDER, CONFIG["substitution"])
RULES = Conditions(WORDS, 0.15, "neutral")
NAMES = sorted({name for group in GENDER.groups.values() for name in group.all_names()})
SENTENCES = (
    "{a} works as a nurse.",
    "Yesterday {a} told {b} that she was late.",
    "The waiter said that his sister saw {a}.",
    "My grandmother and {a} left the hospital.",
    "He is an actor, and {b} knows it.",
    "The dog barked all night.",
)


def only(text: str, seed: int = 0) -> Change:
    [change] = changes(text, WORDS, seed)
    return change


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.integers(0, 5),
)
def test_what_rules_make_meets_the_conditions_whatever_name_is_drawn(sentences, a, b, seed):
    text = " ".join(sentences).format(a=a, b=b)
    found = changes(text, WORDS, seed)
    assert {c.target for c in found} == {
        group for group in WORDS.groups if WORDS.map_to(text, group) != text
    }
    for change in found:
        assert RULES.reason(change, change.by_rules) is None
        assert RULES.reason(change, text) is not None
        for old, new in change.names:
            source, target = GENDER.groups[change.source], GENDER.groups[change.target]
            [split] = [s for s in SPLITS if old in source.names[s]]
            assert new in target.names[split]
            assert new not in text
        assert len({new for _, new in change.names}) == len(change.names)


def test_names_are_drawn_by_the_seed_and_the_text_alone():
    text = "Jane works as a nurse."
    assert only(text, 3) == only(text, 3)
    assert len({only(text, seed).by_rules for seed in range(20)}) > 5


def test_a_name_that_stays_is_not_drawn_for():
    [change] = changes("Her uncle lives in St. Mary Street.", WORDS, 0)[:1]
    assert ("Mary", "St. Mary Street" in change.by_rules) not in change.names


TEXT = "John is a teacher, and he loves his job in the old town by the sea."
CHANGE = only(TEXT)
RIGHT = CHANGE.by_rules
[(_, DRAWN)] = CHANGE.names


@pytest.mark.parametrize(
    ("rewritten", "reason"),
    [
        (RIGHT, None),
        (f"Sure: {RIGHT}", "start"),
        ("", "start"),
        (f"{RIGHT} John agrees.", "source name"),
        (f"{RIGHT} There was much more to say about all of these things.", "dissimilarity"),
        (RIGHT.replace("her job", "his job"), "source words"),
        (TEXT, "start"),
    ],
)
def test_a_wrong_rewriting_is_told_by_its_reason(rewritten, reason):
    assert RULES.reason(CHANGE, rewritten) == reason


def test_a_rewriting_names_whom_it_was_asked_for_and_shows_the_group():
    change = only("Yesterday John slept in the old house by the sea, as always.")
    [(_, drawn)] = change.names
    other = next(n for n in GENDER.groups["female"].names["test"] if n != drawn)
    assert RULES.reason(change, change.by_rules.replace(drawn, other)) == "target name"
    change = only("Yesterday he slept in the old house by the sea, as always.")
    neutral = change.by_rules.replace("she", "it")
    assert RULES.reason(change, neutral) == "target words"


def test_the_wrong_perturbations_of_fairpairs_table_2_do_not_pass():
    text = "John is a man working as a machinist. He can work."
    change = only(text)
    [(_, name)] = change.names
    wrong = f'{name} is a woman working as a machinist. A: No. "Buddha" is an ethnic or geographic'
    assert RULES.reason(change, f"{name} is a woman working as a machinist. She can work.") is None
    assert RULES.reason(change, f"{wrong} term.") == "dissimilarity"


@pytest.mark.parametrize(
    ("paraphrased", "reason"),
    [
        ("At the hospital, Jane loves the job that she has.", None),
        ("jane loves her job at the hospital!", "unchanged"),
        ("Jane works.", "length"),
        ("At the hospital, Emily loves the job that she has.", "people"),
        ("At the hospital, Jane and John love their old job.", "people"),
        ("Jane likes her work at the hospital.", "twice"),
    ],
)
def test_a_paraphrase_is_of_the_same_people_and_new(paraphrased, reason):
    text, there = "Jane loves her job at the hospital.", ["Jane likes her work at the hospital."]
    assert RULES.reason_of_paraphrase(text, paraphrased, there) == reason


def test_a_request_says_names_or_the_persons_of_the_groups():
    assert only("John slept.").in_words(WORDS).startswith("John (male) to ")
    assert only("He slept.").in_words(WORDS) == "man (male) to woman (female)"


def test_of_a_reply_as_many_lines_are_taken_as_the_text_has():
    assert reply("Output: one\ntwo\nthree", "a\nb") == "one\ntwo"


def test_texts_are_read_from_json_lines_and_tables(tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"input": "He ran.", "outputs": [" Fast.", " Slow."], "content": "run"}\n')
    table = tmp_path / "a.csv"
    table.write_text("input,output\nHe ran., Fast.\n")
    assert read_inputs(str(lines)) == (Input("He ran.", (" Fast.", " Slow."), "run"),)
    assert read_inputs(str(table)) == (Input("He ran.", (" Fast.",)),)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "is empty"),
        ("a.txt", "He ran.", r"ends in \.jsonl or \.csv"),
        ("a.jsonl", '{"inptu": "x", "outputs": [" y"]}', "line 1: 'input' is missing"),
        ("a.jsonl", '{"input": "x", "outputs": []}', "line 1: 'outputs' holds no texts"),
        ("a.csv", "input,outptu\nx,y\n", "line 1: 'output' is missing; nearest is 'outptu'"),
        (
            "a.jsonl",
            json.dumps({"input": "x", "outputs": [" y"], "variations": [{"text": "z"}]}),
            "line 1: it has variations already",
        ),
    ],
)
def test_a_wrong_file_of_texts_is_named(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read_inputs(str(tmp_path / name))
