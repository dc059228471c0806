"""Audits of models, axes, erasers and prompts of any kind measure what they can."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from countergen_edit import api
from countergen_edit.decisions.significance import is_significant
from countergen_edit.runs.run import open_run
from countergen_edit.testbed import directory
from tests.cli.support import fails, names, rows_of, said, sets, value_of
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = [
    *("metric.fairpair.n=4", "metric.fairpair.occupations=2", "metric.fairpair.max_new_tokens=4"),
    *("metric.fairpair.permutations=20", "metric.cid.names=1", "metric.cid.strengths=[0,10]"),
    "metric.cid.max_new_tokens=4",
]
GENERATING = ["eraser=none", "metric=[fairpair,cid]", *SMALL]


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return tiny_model_dir("t5", tmp_path_factory.mktemp("models") / "t5")


@pytest.fixture(scope="module")
def runs(t5, tmp_path_factory):
    """An audit of a T5 and one of the testbed, measured as they came."""
    folder = tmp_path_factory.mktemp("runs")
    said("audit", f"model={t5}", *GENERATING, f"run_dir={folder / 't5'}")
    every = ["metric=[r,paraphrases,fairpair,cid,off_target]", names(8, 4, 6, 2, few=4), *SMALL]
    said("audit", "data=testbed", "eraser=none", *every, f"run_dir={folder / 'testbed'}")
    return folder


def test_a_t5_is_measured_from_the_command_line_and_not_measured_again(t5, runs):
    before = (runs / "t5/results.jsonl").read_bytes()
    printed = said("audit", f"model={t5}", *GENERATING, f"run_dir={runs / 't5'}")
    assert (runs / "t5/results.jsonl").read_bytes() == before
    why = "as it is an encoder-decoder model: agreement, perplexity"
    assert f"Not measured on {t5}, {why}" in printed
    assert "F = B²/(V_gp V_pg) above 1" in printed
    assert "Contrastive decoding" in printed


def test_what_cannot_be_measured_names_what_can(t5):
    line = fails("audit", f"model={t5}", "eraser=none", "metric=[r,cid]")
    assert "metric=r needs likelihoods" in line
    assert "metric=[fairpair,cid]" in line
    line = fails("audit", f"model={t5}", "metric=[fairpair,cid]")
    assert "eraser=none metric=[fairpair,cid]" in line


def test_no_edit_of_it_can_be_saved(runs):
    line = fails("edit", f"run={runs / 'testbed'}", "save=edited")
    assert "made no edit: nothing to save" in line


def audited(*words):
    said("audit", *words, "run_dir=run")
    return api.load_run("run")


def test_what_the_testbed_was_never_in_vocabulary_is_not_measured_and_said():
    run = audited("axis=age")
    assert {row.metric for row in run.results.rows} == {"in_vocabulary"}
    assert all((row.value or 0.0) < 0.5 for row in run.results.rows)
    [sentence] = run.findings
    assert sentence.startswith("Not measured: words of age (such as ")
    assert "are out of the model's vocabulary" in sentence
    assert "Neither bias nor its absence is shown" in sentence
    assert Path("run/report.html").is_file()


def test_crossed_axes_show_each_alone_and_what_was_planted_on_neither_together():
    words = ["axis=[gender,nationality]", "eraser=none", "metric=[r,intersections]"]
    words.append("groups=[egypt_female,usa_female,egypt_male,usa_male]")
    words.append("data.test=[{source: testbed, family: occupations, first_names: 4}]")
    run = audited(*words)
    marginal = {(r.axis, r.group_a, r.group_b): r for r in run.results.unedited("marginal_effect")}
    assert {axis for axis, *_ in marginal} == {"gender", "nationality"}
    gender = marginal["gender", "female", "male"]
    assert is_significant(gender)
    cells = run.results.unedited("intersection")
    assert len(cells) == 4
    assert not any(map(is_significant, cells))
    assert all((cell.value or 0.0) < 0.25 * (gender.value or 0.0) for cell in cells)
    assert "add up to" in " ".join(run.findings)


def solved(experiment):
    """The rows of edits on test data."""
    small = [names(4, 4, 4, 2, few=4), *sets("occupations"), "cost=agreement"]
    said("audit", f"experiment={experiment}", *small, "run_dir=run")
    return [row for row in rows_of("run", split="test", baseline=False) if row.eraser]


def effects(rows):
    return {row.eraser: row.value for row in rows if row.metric == "mean_abs_r"}


def test_the_game_ends_where_the_closed_form_is():
    effect = effects(solved("rlace_cvxpy"))
    assert set(effect) == {"rlace", "game", "cvxpy"}
    assert effect["game"] == pytest.approx(effect["rlace"], abs=1e-3)
    assert effect["cvxpy"] == pytest.approx(effect["rlace"], abs=1e-3)
    text = "the published game has a closed form, the difference of the group means"
    assert text in " ".join(open_run("run").findings)
    assert {row.eraser for row in rows_of("run") if row.detail.get("remark")} == {"rlace"}


def test_what_may_move_a_little_is_another_map_of_the_same_rank():
    effect = effects(rows := solved("preserving_within"))
    assert set(effect) == {"preserving", "within"}
    assert effect["within"] != effect["preserving"]
    assert effect["within"] == pytest.approx(effect["preserving"], abs=0.2)
    assert len({row.rank for row in rows if row.eraser in effect}) == 1


JANE = "The manager thanked Jane and picked up her"
PAIRS = {
    "one": {(JANE, "The manager thanked John and picked up his"): [" book", " keys"]},
    "three": {
        ("The manager saw Jane and picked up her", "The manager saw John and picked up his"): [
            *(" keys", " glasses")
        ],
        ("The boss saw Anna and took her", "The boss saw Michael and took his"): [" phone"],
        ("Jane is late as the mechanic has her", "John is late as the mechanic has his"): [" car"],
    },
    "split": {
        (JANE, "The manager thanked John and picked up his"): [" keys"],
        (JANE, "The manager thanked John and picked up him"): [" and", " again"],
    },
}
"""Both sides of each prompt, written by hand, and its outputs."""


def brute_force(pairs):
    """Root mean square of log P(output | female) - log P(output | male), each text alone."""
    model = AutoModelForCausalLM.from_pretrained(directory(), dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory())

    def log_p(prompt, output):
        ids = tokenizer(prompt + output)["input_ids"]
        start = len(tokenizer(prompt)["input_ids"])
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        return float(sum(logits[i - 1, ids[i]] for i in range(start, len(ids))))

    gaps = [log_p(f, o) - log_p(m, o) for (f, m), outputs in pairs.items() for o in outputs]
    return float(np.sqrt(np.mean(np.square(gaps))))


@pytest.mark.parametrize("name", PAIRS)
def test_the_group_effect_is_that_of_the_right_counterparts(name):
    outputs = {}
    for (female, _), words in PAIRS[name].items():
        outputs.setdefault(female, []).extend(words)
    rows = [json.dumps({"input": text, "outputs": words}) for text, words in outputs.items()]
    Path("own.jsonl").write_text("\n".join(rows), "utf-8")
    words = ["eraser=none", "metric=r", "cost=null", "model.dtype=float64", "run_dir=run"]
    said("audit", "data=own.jsonl", *words)
    effect = value_of("run", "group_effect")
    assert effect == pytest.approx(brute_force(PAIRS[name]), abs=1e-6)
    wrong = {(f, m.removesuffix("his") + "him"): o for (f, m), o in PAIRS[name].items()}
    assert effect != pytest.approx(brute_force(wrong), abs=0.01)
