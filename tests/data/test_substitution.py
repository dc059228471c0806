"""Substitution keeps persons, grammar and capitals, and applied twice gives the text back.

Of a table of sentences of many kinds each counterpart is right, or `check` reports it.
"""

import itertools
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis, Group
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.text.substitution import Substitution
from tests.data.test_splits import file_of
from tests.gender import GENDER, SPANISH, SWAP

TABLE = yaml.safe_load(Path(__file__).with_name("substitution_table.yaml").read_text("utf-8"))
NAMES = [*GENDER.groups["female"].all_names(), *GENDER.groups["male"].all_names()]
WORDS = TABLE["words"] | {"name": NAMES}


@st.composite
def sentences(draw):
    out = []
    for sentence in draw(st.lists(st.sampled_from(TABLE["sentences"]), min_size=1, max_size=3)):
        for slot, words in WORDS.items():
            while f"{{{slot}}}" in sentence:
                word = draw(st.sampled_from(words))
                sentence = sentence.replace(f"{{{slot}}}", word, 1)
        out.append(sentence)
    return " ".join(out)


@given(sentences())
def test_twice_gives_a_sentence_back(text):
    assert SWAP(SWAP(text)) == text
    assert SWAP(text) != text


@given(sentences())
def test_a_text_mapped_to_a_group_shows_the_other_no_more(text):
    female, male = SWAP.pair(text)
    assert SWAP.map_to(female, "female") == female
    assert SWAP.map_to(female, "male") == male
    words = set(female.lower().replace("'s", "").split())
    assert not words & {"he", "him", "his", "himself", "father", "brother", "husband"}


CONTEXT = """a an A AN to the and or gave let saw made very back last week home own walking happy
quickly go book Gossip X 3"""
SOUP = st.lists(
    st.sampled_from([*sorted(SWAP._lexicon), *sorted(SWAP._kept), *CONTEXT.split()]), max_size=9
)
GAPS = st.sampled_from([" ", " ", " ", ", ", ". ", "/", "-", "'s ", ' "', "\n", "’"])


@settings(max_examples=400)
@given(SOUP, st.lists(GAPS, min_size=9, max_size=9))
def test_what_a_swap_gives_always_comes_back_from_two_more(words, gaps):
    text = "".join(itertools.chain(*zip(words, gaps, strict=False)))
    once = SWAP(text)
    assert SWAP(SWAP(once)) == once


@settings(max_examples=200)
@given(st.text())
def test_any_text_at_all_is_taken(text):
    assert SWAP(SWAP(SWAP(text))) == SWAP(text)


def test_own_names_take_precedence_and_free_their_partners():
    swap = SWAP.with_names({"John": "Anna", "Priya": "Arjun"})
    assert swap("John met Anna.") == "Anna met John."
    assert swap("Jane met Michael.") == "Michael met Jane."  # the two that were left over
    assert swap.map_to("John met Jane.", "female") == "Anna met Jane."
    assert swap("Arjun and Priya's home") == "Priya and Arjun's home"
    assert swap.map_to("Priya", "male") == "Arjun"
    with pytest.raises(UserError, match="'Jane' would be swapped with two names"):
        SWAP.with_names({"John": "Jane", "Paul": "Jane"})


def test_what_cannot_be_swapped_is_refused():
    axis = Axis("team", {"a": Group("a", {"fit": ("Al", "Bo")}), "b": Group("b", {"fit": ("Cy",)})})
    with pytest.raises(UserError, match="2 and 1 names in the 'fit' split"):
        Substitution.from_config(axis)
    section = {"words": [["duke", "earl"], ["earl", "count"]]}
    with pytest.raises(UserError, match="'earl' belongs to both 'female' and 'male'"):
        Substitution.from_config(GENDER, section)
    with pytest.raises(UserError, match="did you mean 'male'"):
        SWAP.map_to("She left.", "mle")
    with pytest.raises(UserError, match="did you mean 'male'"):
        SWAP.between(["female", "mle"])


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"word": []}, "did you mean 'words'"),
        ({"columns": ["femal", "male"]}, "did you mean 'female'"),
        ({"words": [["duke"]]}, "has 1 cells"),
        ({"words": [["Duke", "earl"]]}, "mixes capitalised and small"),
        ({"words": [[True, "earl"]]}, "should be a valid string"),
        (True, "substitution=True: Input should be an object"),
    ],
)
def test_a_wrong_section_is_refused(section, message):
    with pytest.raises(UserError, match=message):
        Substitution.from_config(GENDER, section)


CLEAR = {text: right for rows in TABLE["clear"].values() for text, right in rows.items()}
DOUBTFUL = {text: right for rows in TABLE["doubtful"].values() for text, right in rows.items()}
ENDS = [(text, output, side) for text, of in TABLE["ends"] for output, side in of.items()]
SPANISH_TABLE = yaml.safe_load(Path(__file__).with_name("spanish_table.yaml").read_text("utf-8"))
SPANISH_PAIRS = [pair for rows in SPANISH_TABLE["clear"].values() for pair in rows.items()]
HANDLED = ("both groups are in it", "edits are fitted on", "edits are chosen with")
"""Findings that say nothing of the counterpart."""


def findings(folder, texts, swap):
    """Of each text, those that say something of its counterpart."""
    checked = check_prompts(file_of(folder, [*texts], outputs=[" So."]), swap)
    return {
        text: [finding for finding in one.findings if not finding.startswith(HANDLED)]
        for text, one in zip(texts, checked, strict=True)
    }


@pytest.mark.parametrize(("text", "right"), CLEAR.items())
def test_a_clear_sentence_has_its_counterpart(text, right):
    assert SWAP(text) == right
    assert SWAP(SWAP(right)) == right


@pytest.mark.parametrize(("left", "right"), TABLE["both_ways"].items())
def test_each_side_becomes_the_other(left, right):
    assert (SWAP(left), SWAP(right)) == (right, left)


@pytest.mark.parametrize(
    ("text", "swapped"), [*TABLE["one_way"].items(), *((text, text) for text in TABLE["same"])]
)
def test_what_shows_no_group_stays_and_many_words_share_a_partner(text, swapped):
    assert SWAP(text) == swapped


def test_few_clear_sentences_are_questioned(tmp_path):
    doubted = {text: f for text, f in findings(tmp_path, CLEAR, SWAP).items() if f}
    assert len(doubted) <= 0.01 * len(CLEAR), doubted


def test_every_doubtful_sentence_is_questioned(tmp_path):
    path = file_of(tmp_path, [*DOUBTFUL], outputs=[" So."])
    assert [one.text for one in check_prompts(path, SWAP) if not one.findings] == []


@pytest.mark.parametrize(("text", "output", "side"), ENDS)
def test_prompt_and_output_decide_together(text, output, side):
    if side is None:
        refusal = r"may become '(him|his)' or '(him|his)', and the output"
        with pytest.raises(UserError, match=refusal):
            SWAP.pair(text, output)
    else:
        assert side in SWAP.pair(text, output)
        assert text in SWAP.pair(text, output)


def test_spanish_sentences_have_their_counterparts_both_ways():
    assert len(SPANISH_PAIRS) >= 120
    same = [(text, text) for text in SPANISH_TABLE["same"]]
    for text, right in (*SPANISH_PAIRS, *same):
        assert (SPANISH(text), SPANISH(right)) == (right, text)


def test_spanish_that_cannot_be_decided_is_questioned_and_no_more(tmp_path):
    left, right = zip(*SPANISH_PAIRS, strict=True)
    for texts, expected in ((SPANISH_TABLE["doubtful"], True), (left, False), (right, False)):
        by_text = findings(tmp_path, texts, SPANISH)
        assert {text: f for text, f in by_text.items() if bool(f) != expected} == {}
