"""Agreement, perplexity and KL against copies of their definitions on the plain model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import AffineErasure
from countergen_edit.errors import UserError
from countergen_edit.metrics.scores import score
from countergen_edit.metrics.side_effects import agreement_rows, neutral_cost, neutral_rows
from countergen_edit.models import LanguageModel, load
from tests.tiny_models import tiny_model_dir

TEXTS = ["The hospital is at the café.", "John is an engineer.", "a b"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))


@pytest.fixture(scope="module")
def edit() -> Edit:
    direction = np.random.default_rng(0).normal(size=(1, 32))
    direction /= np.linalg.norm(direction)
    return Edit.at("resid_post", {0: AffineErasure(direction.T, direction, np.zeros(32))})


def log_softmax(model: LanguageModel, text: str) -> tuple[torch.Tensor, torch.Tensor]:
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    return ids[0], model.logits(ids, torch.ones_like(ids))[0].double().log_softmax(-1)


def brute_force(model: LanguageModel, edit: Edit) -> tuple[float, float, float]:
    """Perplexity without and with the edit, and KL in nats per token, text by text."""
    nll, nll_edited, kl, tokens = 0.0, 0.0, 0.0, 0
    for text in TEXTS:
        ids, p = log_softmax(model, text)
        with applied(model, edit):
            _, q = log_softmax(model, text)
        for t in range(len(ids) - 1):
            nll -= float(p[t, ids[t + 1]])
            nll_edited -= float(q[t, ids[t + 1]])
            kl += float((p[t].exp() * (p[t] - q[t])).sum())
            tokens += 1
    return np.exp(nll / tokens), np.exp(nll_edited / tokens), kl / tokens


def test_perplexity_and_kl_are_their_definitions(model: LanguageModel, edit: Edit) -> None:
    before, after, kl = brute_force(model, edit)
    rows = {r.metric: r.value for r in neutral_rows(neutral_cost(model, edit, TEXTS), "n", 0)}
    assert rows["perplexity"] == pytest.approx(after, rel=1e-5)
    assert rows["perplexity_ratio"] == pytest.approx(after / before, rel=1e-5)
    assert rows["kl"] == pytest.approx(kl, rel=1e-4)
    assert kl > 0


def test_without_an_edit_nothing_is_paid(model: LanguageModel) -> None:
    rows = {r.metric: r.value for r in neutral_rows(neutral_cost(model, None, TEXTS), "n", 0)}
    assert rows["kl"] == 0
    assert rows["perplexity_ratio"] == 1


def test_text_too_short_to_predict_anything_is_refused(model: LanguageModel) -> None:
    with pytest.raises(UserError, match="at least two tokens"):
        neutral_cost(model, None, ["a"])


def agreement_set(outputs: tuple[str, ...] = (" her", " his")) -> CounterfactualSet:
    samples = tuple(
        Sample(
            template,
            outputs,
            tuple(
                Variation(group, template.format(name), name)
                for group, names in (("female", ("Jane", "Emily")), ("male", ("John", "Ahmed")))
                for name in names
            ),
        )
        for template in ("{} lost", "{} is at")
    )
    return CounterfactualSet("agreement", "gender", ("female", "male"), samples)


def test_agreement_is_the_share_of_the_right_form(model: LanguageModel) -> None:
    data = agreement_set()
    shares: dict[str, list[float]] = {"female": [], "male": []}
    for sample in data.samples:
        for v in sample.variations:
            p = {}
            for form in (" her", " his"):
                ids, log_p = log_softmax(model, v.text + form)
                boundary = len(model.tokenizer(v.text).input_ids)
                steps = range(boundary - 1, len(ids) - 1)
                p[form] = float(torch.exp(sum(log_p[t, ids[t + 1]] for t in steps)))
            right = p[" her" if v.group == "female" else " his"]
            shares[v.group].append(right / (p[" her"] + p[" his"]))
    both, female, male = agreement_rows(score(model, data), seed=0)
    assert female.value == pytest.approx(np.mean(shares["female"]), abs=1e-5)
    assert male.value == pytest.approx(np.mean(shares["male"]), abs=1e-5)
    assert both.value == pytest.approx(np.mean(shares["female"] + shares["male"]), abs=1e-5)
    assert (both.n, female.n) == (8, 4)


def test_agreement_takes_one_form_a_group(model: LanguageModel) -> None:
    with pytest.raises(UserError, match="3 output"):
        agreement_rows(score(model, agreement_set((" her", " his", " its"))), seed=0)
