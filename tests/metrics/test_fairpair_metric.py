"""FairPair on the shipped model: what is planted is found, and texts that are kept serve again.

Perturbers of a user's own: what they get, and what their failures do to a run.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import RandomDirections
from countergen_edit.metrics.context import EvaluationContext
from tests.metrics.fairpair_settings import TASK, fairpair, row_of

LARGER: dict[str, Any] = {"n": 20, "max_new_tokens": 10, "occupations": 4}


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
    metric = fairpair(**LARGER)
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
    again = fairpair(**LARGER, batch_size=37)  # which no row depends on
    assert again.measure(context, None) == rows
    assert texts[0].read_bytes() == before


def test_f_spreads_over_templates(context):
    templates = ["{name} is {occupation}. The review said {name} was", "{name}, {occupation}, is"]
    rows = fairpair(paraphrases=templates, phi={"jaccard": {}}).measure(context, None)
    each = [row for row in rows if row.metric == "fairpair_f_of_paraphrase"]
    f = row_of(rows, "fairpair_f", "jaccard")
    spread = row_of(rows, "fairpair_f_over_paraphrases", "jaccard")
    assert [row.facets["paraphrase"] for row in each] == templates
    assert spread.value == pytest.approx(np.mean([row.value for row in each]))
    assert spread.value == pytest.approx(f.value)  # as many prompts of each
    assert spread.detail["range"] == sorted(row.value for row in each)
    assert spread.detail["differ"] == sum(row.detail["p_adjusted"] < 0.05 for row in each)


def test_a_change_is_paired_with_the_unedited_model(context):
    rng = np.random.default_rng(0)
    erasure = RandomDirections(rank=4).fit(rng.normal(size=(40, 128)), np.arange(40) % 2).erasure_
    edit = NamedEdit.of(Edit.at("resid_post", {2: erasure}), "random")
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
    json.dumps([r.to_dict() for r in rows], allow_nan=False)


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
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        fairpair(**options)


def test_a_prompt_without_room_is_refused_before_the_run(testbed):
    with pytest.raises(UserError, match=r"max_new_tokens=256: .* has room for \d+ after a prompt"):
        fairpair(max_new_tokens=256).check(testbed)


def test_an_axis_without_names_says_so():
    groups = {k: replace(g, names={}) for k, g in TASK.axis.groups.items()}
    nameless = replace(TASK.axis, groups=groups)
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
