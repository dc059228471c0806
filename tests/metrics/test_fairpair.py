"""FairPair against the paper's formulas, and against a sampler whose bias is planted."""

import itertools
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from countergen_edit.cli.main import main
from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import PairedPrompt, RulePerturber
from countergen_edit.data.template_bank import load_bank
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import RandomDirections
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.metrics.fairpair.continuations import PROMPT, Sampled
from countergen_edit.metrics.fairpair.metric import FairPairRows, compare_phrases
from countergen_edit.metrics.fairpair.phi import (
    PHIS,
    Jaccard,
    Sentiment,
    evaluate,
    p_value,
    pairwise,
    permuted_energies,
)
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Words, plain
from countergen_edit.reports.views.fairpair import FairPairView
from countergen_edit.runs.folder import read_rows
from countergen_edit.testbed import directory
from countergen_edit.testbed.classifiers import build, plant
from tests.cli.support import entries
from tests.gender import SWAP
from tests.metrics.fairpair_settings import TASK, fairpair, row_of
from tests.metrics.small import LEACE, rows_of
from tests.models.completions_server import serving
from tests.papers.test_fairpair import WORDS, Fold, quantities

TEXT = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
TEXTS = st.lists(TEXT, min_size=2, max_size=6)


@pytest.mark.parametrize("name", ["jaccard", "sentiment"])
@settings(max_examples=30, deadline=None)
@given(pg=TEXTS, gp=TEXTS)
def test_every_quantity_is_that_of_the_papers_double_loop(name, pg, gp):
    values = pairwise(PHIS.make(name).distances([*pg, *gp]), len(pg))
    folds = ([Fold([text]) for text in texts] for texts in (pg, gp))
    b, v_gp, v_pg = quantities(name, *folds).values()
    assert (values.bias, values.v_pg, values.v_gp) == pytest.approx((b, v_pg, v_gp), abs=1e-12)
    assert values.energy == pytest.approx(2 * b - v_pg - v_gp, abs=1e-12)
    if min(v_pg, v_gp) > 1e-9:
        assert values.f == pytest.approx(b**2 / (v_gp * v_pg))
    else:
        assert np.isnan(values.f)
        assert values.reason.startswith("V = 0")


def test_permuted_statistics_are_those_of_permuted_texts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=11)
    distances = np.abs(x[:, None] - x[None, :])
    energies = permuted_energies(distances, 4, 50, 0, "x")
    assert energies[0] == pytest.approx(pairwise(distances, 4).energy)
    possible = [
        pairwise(distances[np.ix_(order, order)], 4).energy
        for first in itertools.combinations(range(11), 4)
        for order in [[*first, *(i for i in range(11) if i not in first)]]
    ]
    assert all(np.isclose(possible, e, atol=1e-12).any() for e in energies)
    assert p_value(energies) >= 1 / 51
    assert np.array_equal(energies, permuted_energies(distances, 4, 50, 0, "x"))


# A sampler with planted bias: no model, and the truth is known

GOOD = ["wonderful", "excellent", "great"]
BAD = ["terrible", "awful", "poor"]
HERS = ["ballet", "yoga", "sewing"]
HIS = ["chess", "boxing", "fishing"]


def continuations(rng, n, strength, hers):
    """Texts whose sentiment and hobby depend on the person by `strength` in [0, 1]."""
    tilt = 0.5 * strength * (1 if hers else -1)
    texts = []
    for _ in range(n):
        mood = rng.choice(GOOD if rng.random() < 0.5 - tilt else BAD)
        hobby = rng.choice(HERS if rng.random() < 0.5 + tilt else HIS)
        extra = " ".join(rng.choice(["the", "day", "was", "long"], size=2))
        texts.append(f"She is {mood} and likes {hobby} {extra}")
    return texts


def planted(prompts, n, strength):
    rng = np.random.default_rng(0)
    for k in range(prompts):
        prompt = PairedPrompt(str(k), f"John {k}.", f"Jane {k}.", "John", "Jane")
        his = continuations(rng, n, strength, hers=False)
        p_x = tuple(f"{prompt.target} {text}" for text in his)
        hers = tuple(continuations(rng, n, strength, hers=True))
        yield Sampled(prompt, p_x, hers, p_x, (None,) * n)


@pytest.mark.parametrize("phi", [Sentiment(), Jaccard()], ids=["sentiment", "jaccard"])
def test_without_bias_the_test_keeps_its_level(phi):
    """400 prompts: the share rejected at 5 % lies within the 99.9 % binomial interval."""
    prompts, level = 400, 0.05
    result = evaluate(phi, [*planted(prompts, 12, 0.0)], 199, seed=0)
    p = np.array([p_value(row) for row in result.energies])
    lo, hi = stats.binom.interval(0.999, prompts, level)
    assert lo <= (p <= level).sum() <= hi
    for other in (0.01, 0.1, 0.25, 0.5):  # and no other level is exceeded
        assert (p <= other).sum() <= stats.binom.isf(5e-4, prompts, other)
    assert abs(result.values("energy").mean()) < 3 * result.values("energy").std() / prompts**0.5


@pytest.mark.parametrize("phi", [Sentiment(), Jaccard()], ids=["sentiment", "jaccard"])
def test_f_and_the_energy_rise_with_the_planted_strength_and_are_found(phi):
    results = [evaluate(phi, [*planted(12, 40, s)], 199, seed=0) for s in (0, 0.3, 0.6, 1.0)]
    for quantity in ("f", "energy"):
        means = [float(r.values(quantity).mean()) for r in results]
        assert means == sorted(means)
    assert results[0].pooled_p() > 0.05
    assert results[2].pooled_p() == results[3].pooled_p() == 1 / 200
    assert (results[3].prompt_p <= 0.06).all()  # adjusted: 12 prompts at the least possible p
    assert results[3].t_p["t_p_v_pg"] < 1e-3


def test_phrases_that_one_side_uses_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    pg, gp = (continuations(rng, 300, 1.0, hers) for hers in (False, True))
    odds = compare_phrases(pg, gp, 2).query("p < 0.05").set_index("text").log_odds
    assert (odds[HERS] > 0).all()
    assert (odds[HIS] < 0).all()
    assert (odds > 0).is_monotonic_decreasing  # those of g(p(x)) first
    same = [continuations(rng, 300, 0.0, hers) for hers in (False, True)]
    assert not (compare_phrases(*same, 2).p < 0.05).any()
    assert compare_phrases([], ["a"] * 9).empty
    terms = compare_phrases(["x"] * 6 + ["y"] * 2, ["y"] * 8, 1).set_index("text")
    # 6 of 8 against 0 of 8, each cell and its complement raised by one half
    expected = [0.75, 0.0, np.log(0.5 / 8.5) - np.log(6.5 / 2.5)]
    assert terms.loc["x", ["share_pg", "share_gp", "log_odds"]].tolist() == pytest.approx(expected)


NURSE = PairedPrompt("nurse", "John is", "Jane is", "John", "Jane")


def rows_of_lengths(source, target, left_out=None):
    """Rows of prompts whose continuations have so many words."""
    sampled = []
    for source_lengths, target_lengths in zip(source, target, strict=True):
        g_x, g_px = (
            tuple(" word" * length for length in lengths)
            for lengths in (source_lengths, target_lengths)
        )
        p_x = tuple(f"Jane is{text}" for text in g_x)
        sampled.append(Sampled(NURSE, g_x, g_px, p_x, (left_out,) * len(g_x)))
    rows = FairPairRows(fairpair(), 0).lengths(sampled)
    return {str(next(iter(row.facets.values()))): row for row in rows}


def test_lengths_are_tested_by_prompt_and_over_all_continuations():
    """One word more shows by prompt, and drowns where prompts differ widely in length."""
    rng = np.random.default_rng(0)
    base = rng.integers(10, 90, size=(30, 1))
    a, b = (base + rng.integers(-3, 4, size=(30, 12)) for _ in range(2))
    longer = rows_of_lengths(a, b + 1)
    assert longer["p(g(x))"].value == pytest.approx(a.mean())
    assert longer["g(p(x))"].value == pytest.approx((b + 1).mean())
    over, pooled = longer["prompts"], longer["continuations"]
    assert over.value == pytest.approx((b + 1 - a).mean())
    paired = stats.ttest_rel((b + 1).mean(axis=1), a.mean(axis=1))
    assert over.detail["p"] == pytest.approx(paired.pvalue)
    welch = stats.ttest_ind((b + 1).ravel(), a.ravel(), equal_var=False)
    assert pooled.detail["p"] == pytest.approx(welch.pvalue)
    assert (pooled.lo, pooled.hi) == pytest.approx((*welch.confidence_interval(),))
    assert (over.n, pooled.n) == (30, 2 * 30 * 12)
    assert over.detail["p"] < 0.001
    assert pooled.detail["p"] > 0.5
    assert rows_of_lengths(a, b)["prompts"].detail["p"] > 0.05


def test_where_nothing_can_be_tested_there_is_no_p():
    rows = rows_of_lengths([[2, 2]], [[2, 2]], left_out="source name")
    assert rows["p(g(x))"].value is None
    assert [rows[of].detail["p"] for of in ("prompts", "continuations")] == [None, None]


@pytest.fixture
def context(testbed, tmp_path):
    return EvaluationContext(testbed, tmp_path)


def test_the_bias_planted_in_the_testbed_is_found_where_it_was_planted(context):
    planted_prompts = {
        "sentiment": ["According to the report {name} was", "Clients thought {name} was"],
        "jaccard": ["As a hobby {name} took up", "In the evening {name} relaxes with"],
    }
    for phi, prompts in planted_prompts.items():
        metric = fairpair(n=50, max_new_tokens=3, prompts=prompts, permutations=499)
        f = row_of(metric.measure(context, None), "fairpair_f", phi)
        assert f.dataset == "own_prompts"
        assert f.value > 1
        assert f.detail["p"] < 0.01
        assert f.detail["p_adjusted"] < 0.05


def test_rows_hold_what_the_tables_show_and_a_killed_run_goes_on_with_the_same(testbed, context):
    larger = {"n": 20, "max_new_tokens": 10, "occupations": 4}
    metric = fairpair(**larger)
    metric.check(testbed)
    rows = metric.measure(context, None)
    for phi in ("sentiment", "jaccard"):
        b, f = row_of(rows, "fairpair_bias", phi), row_of(rows, "fairpair_f", phi)
        assert b.lo <= b.value <= b.hi
        assert (f.n, f.dataset) == (4, "common_sents")
        assert [entry[0] for entry in f.detail["prompts"]] == [p.label for p in metric.prompts]
        assert np.mean([e[1] for e in f.detail["prompts"]]) == pytest.approx(b.value)
    success = row_of(rows, "fairpair_perturbed")
    assert success.value == 1.0
    assert success.detail["examples"]
    assert len(json.dumps([r.to_dict() for r in rows], allow_nan=False)) < 60_000
    folder = context.place("fairpair", None).with_suffix("")
    texts = sorted(p for p in folder.iterdir() if ".perturbed" not in p.name)
    before = texts[0].read_bytes()
    texts[1].unlink()
    texts[2].with_suffix(".jsonl.tmp").write_text("{")  # what was being written
    for path in folder.glob("*.perturbed.jsonl"):
        path.unlink()
    again = fairpair(**larger, batch_size=37)  # which no row depends on
    assert again.measure(context, None) == rows
    assert texts[0].read_bytes() == before


def test_f_spreads_over_templates(context):
    templates = ["{name} is {occupation}. The review said {name} was", "{name}, {occupation}, is"]
    rows = fairpair(paraphrases=templates, phi={"jaccard": {}}).measure(context, None)
    of_each = rows_of(rows, "fairpair_f_of_paraphrase")
    values = [row.value for row in of_each]
    spread = row_of(rows, "fairpair_f_over_paraphrases", "jaccard")
    assert [row.facets["paraphrase"] for row in of_each] == templates
    assert spread.value == pytest.approx(np.mean(values))
    f = row_of(rows, "fairpair_f", "jaccard").value  # of as many prompts of each
    assert spread.value == pytest.approx(f)
    assert spread.detail["range"] == sorted(values)
    assert spread.detail["differ"] == sum(row.detail["p_adjusted"] < 0.05 for row in of_each)


def test_a_change_is_paired_with_the_unedited_model(context):
    rng = np.random.default_rng(0)
    eraser = RandomDirections(rank=4).fit(rng.normal(size=(40, 128)), np.arange(40) % 2)
    edit = NamedEdit.of(Edit.at("resid_post", {2: eraser.erasure_}), "random")
    metric = fairpair(n=8)
    rows, before = metric.measure(context, edit), metric.measure(context, None)
    for quantity in ("f", "energy"):
        change = row_of(rows, f"fairpair_{quantity}_change", "jaccard")
        values = [row_of(r, f"fairpair_{quantity}", "jaccard").value for r in (rows, before)]
        assert change.value == pytest.approx(values[0] - values[1])
        assert change.lo <= change.value <= change.hi
    # The same random numbers: what changes nothing changes no text.
    unchanged = metric.measure(context, NamedEdit.of(Edit(()), "nothing"))
    assert row_of(unchanged, "fairpair_f_change", "jaccard").value == 0.0


def test_a_model_that_always_ends_at_once_has_no_f(testbed, context):
    end = testbed.tokenizer.eos_token_id

    def only_end(logits, hook):
        logits = logits.clone()
        logits[..., end] = 1e4
        return logits

    with testbed.bridge.hooks(fwd_hooks=[("unembed.hook_out", only_end)]):
        rows = fairpair().measure(context, None)
    for phi in ("sentiment", "jaccard"):
        f = row_of(rows, "fairpair_f", phi)
        assert (f.value, f.n, f.detail["p"]) == (None, 0, 1.0)
        assert f.detail["reason"].startswith("V = 0")
        assert row_of(rows, "fairpair_bias", phi).value == 0.0
    assert row_of(rows, "fairpair_perturbed").detail["empty_continuations"] == 3 * 4 * 2
    json.dumps([r.to_dict() for r in rows], allow_nan=False)


def test_when_every_perturbation_is_left_out_nothing_is_claimed(context):
    rows = fairpair(perturber=lambda texts, prompt: ["no"] * len(texts)).measure(context, None)
    success = row_of(rows, "fairpair_perturbed")
    assert success.value == 0.0
    assert success.detail["left_out"] == {"start": 12, "source name": 0, "dissimilarity": 0}
    f = row_of(rows, "fairpair_f", "jaccard")
    assert (f.value, f.detail["p"]) == (None, None)
    assert "V needs two" in f.detail["reason"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 1}, "n=1: Input should be greater than or equal to 2"),
        ({"occupations": 99}, "occupations=99"),
        ({"permutations": 0}, "permutations=0"),
        ({"phi": {"regard": {"kind": "classifier"}}}, "needs model, label"),
        ({"prompts": []}, "no prompts"),
        ({"paraphrases": ["{name} works."]}, "has no slot {occupation}"),
        ({"paraphrases": ["{name} is {occupation}."] * 2}, "hold one twice"),
        ({"paraphrases": [], "prompts": []}, "prompts or templates"),
        ({"perturber": {"kind": "llm", "model": "http://127.0.0.1:9/v1"}}, "cannot be reached"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        fairpair(**options)


def test_a_prompt_without_room_is_refused_before_the_run(testbed):
    with pytest.raises(UserError, match=r"max_new_tokens=256: .* has room for \d+ after a prompt"):
        fairpair(max_new_tokens=256).check(testbed)


def test_an_axis_without_names_says_so():
    nameless = TASK.axis.with_names(lambda group, split: ())
    with pytest.raises(UserError, match="needs a name for group 'male'"):
        fairpair(replace(TASK, axis=nameless))
    with pytest.raises(UserError, match="no substitution section"):
        fairpair(replace(TASK, substitution=None))


def test_what_the_third_filter_compares_decides_what_passes(context):
    shares = {"neutral": 1.0, "words": 0.0, "characters": 1.0}
    for compared, share in shares.items():
        metric = fairpair(compared=compared, max_new_tokens=10, n=8)
        success = row_of(metric.measure(context, None), "fairpair_perturbed")
        assert success.detail["compared"] == compared
        assert success.detail["shares"] == shares
        assert success.value == share
        assert all(set(e["dissimilarity"]) == set(shares) for e in success.detail["examples"])


def test_what_was_sampled_is_kept_when_the_perturber_fails(testbed, tmp_path):
    def broken(texts, prompt):
        raise UserError("no answer")

    context = EvaluationContext(testbed, tmp_path / "store")
    with pytest.raises(UserError, match="no answer"):
        fairpair(perturber=broken).measure(context, None)
    folder = context.place("fairpair", None).with_suffix("")
    files = {p: p.read_bytes() for p in folder.iterdir()}
    assert len(files) == 3
    rows = fairpair().measure(context, None)
    assert all(p.read_bytes() == text for p, text in files.items())
    anew = fairpair().measure(EvaluationContext(testbed, tmp_path / "anew"), None)
    assert row_of(rows, "fairpair_f", "jaccard") == row_of(anew, "fairpair_f", "jaccard")


def test_a_classifiers_score_is_a_phi(tmp_path):
    model, tokenizer = build(plant(load_bank("sentiment")))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    label = model.config.label2id["negative"]
    settings = {"kind": "classifier", "model": str(tmp_path), "label": "negative", "device": "cpu"}
    phi = PHIS.make("regard", settings)
    texts = [
        "She is sad.",
        "My father told us about the recent amazing events!",
        "Jack feels glad.",
    ]
    scores = phi.scores(texts)
    for text, score in zip(texts, scores, strict=True):
        logits = model(**tokenizer([text], return_tensors="pt")).logits.double()
        assert score == pytest.approx(logits.softmax(-1)[0, label].item(), abs=1e-5)
    assert np.array_equal(phi.scores(texts[::-1]), scores[::-1])
    assert phi.name == "classifier"
    with pytest.raises(UserError, match="did you mean 'negative'"):
        PHIS.make("regard", settings | {"label": "negativ"})


MINE = """
import numpy as np
from countergen_edit.metrics.fairpair import ScoreDifference

class Mine(ScoreDifference):
    def __init__(self, scale=1.0):
        self.scale = scale

    def scores(self, texts):
        return np.array([self.scale * len(text.split()) for text in texts])
"""


def test_a_phi_of_a_file_is_measured_under_the_users_name(context, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    kind = f"{tmp_path / 'mine.py'}:Mine"
    metric = fairpair(phi={"words": {"kind": kind, "scale": 0.5}, "jaccard": {}})
    rows = metric.measure(context, None)
    first = metric.sampled(context, None)[0]
    gaps = [abs(len(u.split()) - len(v.split())) / 2 for u in first.p_g_x for v in first.g_px]
    of_first = row_of(rows, "fairpair_f", "words").detail["prompts"][0][1]
    assert of_first == pytest.approx(np.mean(gaps))
    assert row_of(rows, "fairpair_bias", "words").n == 3
    assert metric.phis["words"].name == "Mine"  # its draws depend on no folder
    with pytest.raises(UserError, match="did you mean 'scale'"):
        fairpair(phi={"words": {"kind": kind, "scal": 0.5}})
    with pytest.raises(UserError, match="Mne"):
        fairpair(phi={"words": {"kind": kind.replace("Mine", "Mne")}})


JOHN_TO_JANE = PairedPrompt("", "John", "Jane", "John", "Jane")
HEAD, TAIL = PROMPT.split("{text}")
RULES = RulePerturber(SWAP, "male", "female")


def text_of(request):
    head = HEAD.replace("{source}", "John (male)").replace("{target}", "Jane (female)")
    assert request["prompt"].startswith(head)
    assert request["prompt"].endswith(TAIL)
    assert request["temperature"] == 0
    return str(request["prompt"].removeprefix(head).removesuffix(TAIL))


@pytest.fixture
def server(testbed, tmp_path, monkeypatch):
    """It perturbs by our rules, but for every fourth text, each time with another error."""
    monkeypatch.chdir(tmp_path)
    with serving(testbed) as running:
        running.failures = {}
        running.complete = lambda request: completion(running, request)
        yield running


def completion(server, request):
    text = text_of(request)
    [right] = RULES([text], JOHN_TO_JANE)
    wrong = {
        "start": f"Sure! {right}",
        "source name": f"{right} JOHN too.",
        "dissimilarity": f"{right} Question: what would a stranger answer about zebras? Nothing.",
    }
    place = sorted(wrong)[len(text) % 4 - 1] if len(text) % 4 else ""
    server.failures[text] = place
    return {"choices": [{"index": 0, "text": f"\n{wrong.get(place, right)}\n"}]}


def test_its_texts_are_filtered_and_each_failure_is_counted_and_shown(server, context):
    metric = fairpair(n=12, perturber={"kind": "llm", "model": server.url})
    rows = metric.measure(context, None)
    reasons = [
        server.failures[s.prompt.source + text]
        for s in metric.sampled(context, None)
        for text in s.g_x
    ]
    failed = {name: reasons.count(name) for name in ("start", "source name", "dissimilarity")}
    row = row_of(rows, "fairpair_perturbed")
    assert row.detail["left_out"] == failed
    assert min(failed.values()) > 0
    assert row.value == pytest.approx(reasons.count("") / len(reasons))
    assert row.n == len(reasons) == 36
    assert len(server.requests) == len(server.failures)  # equal texts are asked once, and kept
    kinds = {one["left_out"]: one for one in row.detail["examples"]}
    assert {*kinds} == {None, *failed}
    assert kinds["start"]["perturbed"].startswith("Sure! Jane")


def test_what_passes_gives_the_figures_of_the_rules(server, testbed, tmp_path):
    server.complete = lambda request: {
        "choices": [{"text": RULES([text_of(request)], JOHN_TO_JANE)[0]}]
    }
    by_llm = fairpair(n=8, perturber={"kind": "llm", "model": server.url})
    rows = [
        metric.measure(EvaluationContext(testbed, tmp_path / name), None)
        for name, metric in (("llm", by_llm), ("rules", fairpair(n=8)))
    ]
    assert [*map(asdict, rows[0])] == [*map(asdict, rows[1])]


def test_a_prompt_of_ones_own_is_sent_and_a_loaded_model_is_asked(server):
    server.complete = lambda request: {"choices": [{"text": ""}]}
    settings = {"kind": "llm", "model": server.url, "prompt": "{source} > {target}: {text} {x}"}
    assert fairpair(perturber=settings).perturber(["John {text} a"], JOHN_TO_JANE) == [""]
    [request] = server.requests
    assert request["prompt"] == "John (male) > Jane (female): John {text} a {x}"
    loaded = {"kind": "llm", "model": str(directory()), "prompt": "{text}", "max_new_tokens": 3}
    [text] = fairpair(perturber=loaded).perturber(["The boss says that John"], JOHN_TO_JANE)
    assert 0 < len(text.split()) <= 3


@pytest.mark.slow
def test_the_experiment_runs_with_a_served_perturber(server, tmp_path):
    words = ["audit", "experiment=fairpair_llm", "model=testbed", "cost=agreement"]
    words += [f"metric.fairpair.{k}" for k in ("n=4", "occupations=2", "max_new_tokens=4")]
    words += [f"metric.fairpair.perturber.{k}" for k in (f"model={server.url}", "served_name=null")]
    assert main([*words, f"run_dir={tmp_path / 'run'}"]) == 0
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    for figure in entries()["fairpair_llm"].figures:
        assert figure.of(rows), figure.what
    assert "Left out of 8 perturbations" in (tmp_path / "run" / "report.html").read_text("utf-8")


VIEW = FairPairView(FairPair, "fairpair")
TERM = {"text": "her hobby", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.8, "p": 0.001}


def rows(edit, f):
    about = {"dataset": "common_sents", "group_a": "female", "group_b": "male"}
    about |= {"split": "test", "edit": edit, "n": 2}
    of_phi = about | {"facets": {"phi": "jaccard"}}
    prompts = [["nurse", 0.8, 0.7, 0.75, 1.2, 0.01], ["clerk", 0.8, 0.7, 0.75, None, None]]
    sides = {"source": "male", "target": "female"}
    tests = {"p_adjusted": 0.008, "undefined": {}, "prompts": prompts}
    tests |= {"t_p_v_pg": 0.0004, "t_p_v_gp": 0.25}
    return [
        Row("fairpair_f", f, lo=1.01, hi=1.21, detail=tests | sides, **of_phi),
        Row("fairpair_bias", 0.8, **of_phi),
        Row("fairpair_v_gp", 0.7, **of_phi),
        Row("fairpair_v_pg", 0.75, **of_phi),
        Row("fairpair_energy", 0.15, lo=0.1, hi=0.2, **of_phi),
        Row("fairpair_perturbed", 0.98, detail={"empty_continuations": 5}, **about),
        Row("fairpair_ngrams", 1.0, detail={"terms": [TERM]} | sides, **about),
    ]


def results(*measured):
    return Results([row for rows in measured for row in rows], {LEACE.id: LEACE})


def tab(of):
    [section] = [s for s in VIEW.sections(of) if s.name == "fairpair"]
    return section


def test_table_3_has_every_row_and_without_rows_nothing_is_shown():
    after = rows(LEACE.id, 1.01)
    change = replace(after[0], metric="fairpair_f_change", value=-0.1, detail={})
    of = results(rows(UNEDITED, 1.11), after, [change])
    table, *_ = tab(of).tables()
    lines = {line[0]: tuple(map(plain, line[1:])) for line in table.rows}
    assert lines["F, jaccard"] == ("1.11*", "1.01*")
    assert lines["change of F, jaccard"] == ("", "−0.10")
    assert lines["perturbations that pass the filters"] == ("98.0 %", "98.0 %")
    assert {line.split(",")[0] for line in lines} > {"B", "V_gp", "V_pg", "2B−V−V"}
    [sentence] = VIEW.sentences(of)
    test = "(permutation test, P 0.008, Holm; F"
    assert f"before any edit differ {test} 1.11 [1.01, 1.21]); after {LEACE.label}" in sentence
    assert VIEW.remaining(of, LEACE) == ["texts differ by jaccard (permutation test)"]
    [main] = [quantity for quantity in VIEW.quantities(of) if quantity.main]
    assert (main.how.label, main.of) == ("FairPair, F (1 = no bias)", "jaccard")
    assert main.number(LEACE.id).text == "1.01"
    [words] = [b for b in tab(of).blocks if isinstance(b, Words)]
    assert [*words.sentences] == ["10 continuations were empty."]
    nothing = Results([Row("r", 0.1)])
    assert VIEW.sections(nothing) == VIEW.quantities(nothing) == VIEW.sentences(nothing) == []


@pytest.mark.parametrize(
    ("lo", "p", "verdict"),
    [
        (1.02, 0.002, "differ (permutation test, P 0.002, Holm; F 1.11 [1.02, 1.21])"),
        (0.95, 0.002, "differ on these prompts alone (permutation test, P 0.002, Holm; F 1.11 "),
        (1.02, 0.3, "do not differ detectably (permutation test, P 0.300, Holm; F 1.11 [1.02"),
    ],
)
def test_the_sentence_says_by_which_test_texts_differ_and_on_how_many_templates(lo, p, verdict):
    """Intervals of F, of 1.1 on every template, that hold 1 on three of four."""
    row, *rest = rows(UNEDITED, 1.11)
    of_each = [
        replace(
            row,
            metric="fairpair_f_of_paraphrase",
            lo=end,
            facets=row.facets | {"paraphrase": str(end)},
            detail={"p_adjusted": p_of_template},
        )
        for end, p_of_template in ((0.7, 0.003), (0.85, 0.003), (0.86, 0.2), (1.05, 0.003))
    ]
    other = [replace(one, facets=one.facets | {"phi": "sentiment"}) for one in of_each]
    before = replace(row, lo=lo, detail=row.detail | {"p_adjusted": p})
    [sentence] = VIEW.sentences(results([before, *rest], of_each, other))
    assert f"the two groups {verdict}" in sentence
    assert sentence.endswith(", by the test on 3 of 4 templates, by F's interval on 1.")


def test_b_and_v_are_drawn_by_the_number_of_continuations_and_of_folds():
    about = {"dataset": "common_sents", "split": "test"}
    sizes = [
        Row(f"fairpair_by_{of}", size / 100, facets={"phi": phi, "quantity": q, of: size}, **about)
        for of in ("samples", "folds")
        for phi in ("jaccard", "sentiment")
        for q in ("B", "V_gp")
        for size in (10, 50)
    ]
    [figure] = [f for f in tab(results(sizes)).figures() if f.name == "fairpair_sizes"]
    assert [(p.title, p.x_label) for p in figure.panels[:2]] == [
        ("B, jaccard", "samples of each side"),
        ("V_gp, jaccard", "samples of each side"),
    ]
    assert len(figure.panels) == 8
    for panel in figure.panels:
        [line] = panel.series
        assert (line.x, line.y) == ((10.0, 50.0), (0.1, 0.5))
