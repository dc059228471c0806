"""Classifiers and masked models against plain transformers, and their refusals."""

import copy

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import load_bank
from countergen_edit.metrics.classifier_tasks import TASKS
from countergen_edit.models.classifiers import (
    Classifier,
    MaskedModel,
    MaskedText,
    classifier_from_objects,
    map_labels,
)
from countergen_edit.testbed.classifiers import build, plant


@pytest.fixture(scope="module")
def objects():
    return {task: build(plant(load_bank(task))) for task in ("sentiment", "nli", "masked")}


TEXTS = ["She is sad.", "My father told us about the recent amazing events!", "Jack feels glad."]


def test_probabilities_are_those_of_each_text_alone(objects, monkeypatch):
    hf_model, tokenizer = objects["sentiment"]
    expected = [
        hf_model(**tokenizer(text, return_tensors="pt")).logits.double().softmax(-1)[0, 1].item()
        for text in TEXTS
    ]
    model = classifier_from_objects("testbed", hf_model, tokenizer, "sentiment")
    for tokens in (8192, 1):
        monkeypatch.setattr(Classifier, "batch_tokens", tokens)
        positive = model.probabilities(TEXTS)["positive"]
        np.testing.assert_allclose(positive, expected, atol=1e-6)


def test_pairs_are_read_together(objects):
    hf_model, tokenizer = objects["nli"]
    model = classifier_from_objects("testbed", hf_model, tokenizer, "nli")
    premise, hypothesis = "A nurse bought a car.", "A woman bought a car."
    plain = hf_model(**tokenizer(premise, hypothesis, return_tensors="pt")).logits.double()
    by_role = model.probabilities([premise], [hypothesis])
    assert list(by_role) == ["entailment", "neutral", "contradiction"]
    p = np.concatenate([*by_role.values()])
    np.testing.assert_allclose(p, plain.softmax(-1)[0].numpy(), atol=1e-6)


def test_association_is_kuritas_formula(objects, monkeypatch):
    hf_model, tokenizer = objects["masked"]

    def log_p(text):
        batch = tokenizer(text, return_tensors="pt")
        at = batch["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        logits = hf_model(**batch).logits[0, at].double().log_softmax(-1)
        return float(logits[tokenizer.convert_tokens_to_ids("he")])

    expected = log_p("[MASK] was brave.") - log_p("[MASK] was [MASK].")
    model = MaskedModel("testbed", hf_model, tokenizer)
    texts = [MaskedText("He was brave.", (0, 2), (7, 12))] * 3
    monkeypatch.setattr(MaskedModel, "batch_tokens", 30)
    np.testing.assert_allclose(model.associations(texts), [expected] * 3, atol=1e-5)


def test_a_saved_model_loads_to_the_same_answers(objects, tmp_path):
    for name in ("sentiment", "masked"):
        task = TASKS.make(name)
        for part in objects[name]:
            part.save_pretrained(tmp_path / name)
        bank = load_bank(name).thinned({"emotion" if name == "sentiment" else "attribute": 2})
        before = task.rows(bank, task.wrap("testbed", *objects[name]), 0)
        after = task.rows(bank, task.load(str(tmp_path / name), device="cpu"), 0)
        assert [row.value for row in after] == [row.value for row in before]
    with pytest.raises(UserError, match="not a masked language model"):
        task.load(str(tmp_path / "sentiment"), device="cpu")
    with pytest.raises(UserError, match="BertForMaskedLM, not a sequence classifier"):
        TASKS.make("sentiment").load(str(tmp_path / "masked"), device="cpu")


CONVENTIONS = [
    (["NEGATIVE", "POSITIVE"], "sentiment", {"positive": 1, "negative": 0}),
    (["neg", "neutral", "pos"], "sentiment", {"positive": 2, "negative": 0}),
    (["entailment", "not neutral?", "contradiction"], "nli", None),
    (["contradiction", "entailment", "neutral"], "nli", {"neutral": 2}),
    (["toxic", "severe_toxic", "obscene", "threat"], "toxicity", {"toxic": 0}),
    (["toxicity"], "toxicity", {"toxic": 0}),
    (["neutral", "toxic"], "toxicity", {"toxic": 1, "nontoxic": 0}),
    (["non-hate", "hate"], "toxicity", {"toxic": 1, "nontoxic": 0}),
    (["not_offensive", "offensive"], "toxicity", {"toxic": 1, "nontoxic": 0}),
    (["hate", "offensive", "neither"], "toxicity", None),
    (["LABEL_0", "LABEL_1"], "sentiment", None),
    (["1 star", "5 stars"], "sentiment", None),
]


@pytest.mark.parametrize(("labels", "task", "roles"), CONVENTIONS)
def test_labels_are_read_by_their_convention_or_refused(labels, task, roles):
    if roles is None:
        with pytest.raises(UserError, match="say what they are"):
            map_labels("m", labels, task)
    else:
        assert roles.items() <= map_labels("m", labels, task).items()


def test_inference_labels_without_names_are_asked_for(objects):
    hf_model, tokenizer = objects["nli"]
    nameless = copy.deepcopy(hf_model)
    nameless.config.id2label = {i: f"LABEL_{i}" for i in range(3)}
    with pytest.raises(UserError, match="nli label order unknown"):
        classifier_from_objects("m", nameless, tokenizer, "nli")
    order = ["entailment", "neutral", "contradiction"]
    model = classifier_from_objects("m", nameless, tokenizer, "nli", order)
    assert model.roles == {"entailment": 0, "neutral": 1, "contradiction": 2}
    with pytest.raises(UserError, match="names 2 label"):
        classifier_from_objects("m", nameless, tokenizer, "nli", order[:2])


def test_a_label_that_stands_alone_is_a_yes_or_no_of_its_own(objects):
    hf_model, tokenizer = objects["sentiment"]
    labels = ["obscene", "toxic"]
    model = classifier_from_objects("m", hf_model, tokenizer, "toxicity", labels)
    logit = hf_model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0, 1]
    [toxic] = model.probabilities(TEXTS[:1])["toxic"]
    assert toxic == pytest.approx(torch.sigmoid(logit).item(), abs=1e-6)


def test_long_texts_and_split_targets_are_refused(objects):
    model = classifier_from_objects("m", *objects["sentiment"], "sentiment")
    with pytest.raises(UserError, match="exceeds the context"):
        model.probabilities(["sad " * 100])
    assert model.probabilities(["sad " * 100], cut=True)["positive"].shape == (1,)
    mlm = MaskedModel("m", *objects["masked"])
    with pytest.raises(UserError, match="target 'He is' is 2 tokens"):
        mlm.associations([MaskedText("He is brave.", (0, 5), (6, 11))])
