"""Figures of benchmarks are those of lm-evaluation-harness, or differ as is known."""

import json
from pathlib import Path

import numpy as np
import pytest

from countergen_edit.metrics.benchmarks import likelihoods
from countergen_edit.models import load_model
from tests.harness import evaluated, log_likelihoods, own_task
from tests.made_benchmarks import bbq, crows_pairs, long_context_dir, winogender
from tests.metrics.test_benchmarks import bound, by_facets

pytest.importorskip("lm_eval", reason="needs pip install 'countergen-edit[harness]'")
pytestmark = pytest.mark.slow

CLOSE = 1e-4
"""What single precision leaves of a log-likelihood of tens of nats."""
STEREOTYPED = {"Gender_identity": "woman", "Age": "nonOld"}
"""Whom a stereotype of our BBQ is about; the harness finds the biased answer by it."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """One whose texts begin with a token, after which the harness scores the first one, too."""
    return load_model(long_context_dir("llama", tmp_path_factory.mktemp("model")), device="cpu")


@pytest.fixture(scope="module")
def harness(model, tmp_path_factory):
    """What the harness says of all three, its data as the published ones have their columns."""
    folder = tmp_path_factory.mktemp("harness")
    tasks = {
        "crows_pairs/crows_pairs_english": crows_pairs_rows(),
        "winogender/winogender": winogender_rows(),
        "bbq/bbq_multiple_choice": bbq_rows(),
    }
    return evaluated(Path(model.name), [own_task(*task, folder) for task in tasks.items()])


def crows_pairs_rows():
    # The harness would take a column without a name for the text before the sentence.
    rows = [row for row in crows_pairs() if row["bias_type"] == "gender"]
    return [row | {"number": row.pop("")} for row in rows]


def winogender_rows():
    rows = []
    for row in winogender():
        occupation, participant, answer, gender, _ = row["sentid"].split(".")
        about = {"occupation": occupation, "participant": participant, "gender": gender}
        pronoun = {"male": "he", "female": "she", "neutral": "they"}[gender]
        rows.append(row | about | {"pronoun": pronoun, "label": int(answer)})
    return rows


def bbq_rows():
    rows = []
    for category, stereotyped in STEREOTYPED.items():
        for row in map(json.loads, bbq()[f"BBQ/data/{category}.jsonl"].splitlines()):
            if (category, row["example_id"]) != ("Age", 0):  # has no biased answer: we leave it out
                rows.append(row | {"additional_metadata": {"stereotyped_groups": [stereotyped]}})
    return rows


def ours(made, context, **more):
    """The likelihoods of each item's texts by its id, and the figures."""
    metric = bound(made, **more)
    [(benchmark, items)] = metric.read.values()
    scores = likelihoods(context, None, benchmark, items)
    of_item = dict(zip([item.id for item in items], scores, strict=True))
    return of_item, by_facets(metric.measure(context, None))


def test_the_score_of_crows_pairs_is_the_harness_s(made, context, harness):
    scores, rows = ours(made, context, of="crows_pairs")
    for doc, values in log_likelihoods(harness, "crows_pairs_english"):
        assert values == pytest.approx(scores[doc["number"]], abs=CLOSE)
    score = harness["results"]["crows_pairs_english"]["pct_stereotype,none"]
    assert rows["crows_pairs", "score", None, "gender"].value == pytest.approx(score, abs=1e-6)


def test_the_accuracy_of_winogender_is_the_harness_s(made, context, harness):
    scores, rows = ours(made, context, of="winogender")
    for doc, values in log_likelihoods(harness, "winogender_all"):
        meant_first = values[:: -1 if doc["label"] else 1]
        assert meant_first == pytest.approx(scores[doc["sentid"]], abs=CLOSE)
    accuracy = harness["results"]["winogender_all"]["acc,none"]
    assert rows["winogender", "accuracy", None, "gender"].value == pytest.approx(accuracy, abs=1e-6)


def test_the_accuracy_of_bbq_is_the_harness_s_but_for_its_paraphrases(made, context, harness):
    """Of its choices, two people and ten ways to say `unknown`, three are the question's own."""
    from lm_eval.tasks.bbq.utils import UNKNOWN_RESPONSES, doc_to_choice

    scores, rows = ours(made, context, of="bbq", bias_types=["gender", "age"])
    right = {"own": [], "offered": []}
    for doc, values in log_likelihoods(harness, "bbq"):
        offered = dict(zip(doc_to_choice(doc), values, strict=True))
        answers = [doc[f"ans{k}"] for k in range(3)]
        of_answers = [offered[answer] for answer in answers]
        expected = scores[f"{doc['category']}.{doc['example_id']}"]
        assert of_answers == pytest.approx(expected, abs=CLOSE)
        right["own"].append(int(np.argmax(of_answers)) == doc["label"])
        likeliest = max(offered, key=offered.__getitem__)
        answer = answers[doc["label"]]
        equals = UNKNOWN_RESPONSES if answer in UNKNOWN_RESPONSES else [answer]
        right["offered"].append(likeliest in equals)
    accuracy = [rows["bbq", "accuracy", part, "all"] for part in ("ambiguous", "disambiguated")]
    pooled = sum(row.value * row.n for row in accuracy) / sum(row.n for row in accuracy)
    assert pooled == pytest.approx(np.mean(right["own"]), abs=1e-6)
    assert harness["results"]["bbq"]["acc,none"] == pytest.approx(np.mean(right["offered"]))
    assert right["own"] != right["offered"]
