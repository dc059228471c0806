"""What is asked in a chat template is a user's message, and what is scored or drawn the reply."""

import numpy as np
import pytest
import torch

from countergen_edit.edits import Edit, EditRecord, NamedEdit
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.benchmarks import is_asked, likelihoods
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.models import generate, in_template
from tests.made_benchmarks import settings
from tests.metrics.fairpair_settings import TASK
from tests.metrics.small import chat_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return chat_model(tmp_path_factory.mktemp("qwen2"), "Write.")


def log_p(model, before, text):
    """Of a text after other words, by one plain pass."""
    first, own = (model.tokenizer(part).input_ids for part in (before, text))
    with torch.no_grad():
        logits = model.bridge.original_model(torch.tensor([[*first, *own]])).logits[0]
    table = logits.double().log_softmax(-1)
    return sum(float(table[len(first) + k - 1, token]) for k, token in enumerate(own))


def test_a_question_is_the_users_and_the_rest_is_the_reply(made, model, tmp_path):
    """BBQ's question is asked and its answers are whole replies; a pair of sentences is replied."""
    asked = {"bbq": True, "crows_pairs": False}
    metric = METRICS.make("benchmarks", settings(made) | {"of": [*asked], "limit": 3})
    metric = metric.bound(TASK, "benchmarks")
    context = EvaluationContext(model, tmp_path / "store")
    for name, is_question in asked.items():
        items = metric.items(name, 0)
        assert is_asked(model, items) is is_question
        assert not is_asked(in_template(model, "none"), items)
        scores = likelihoods(context, None, metric.read[name][0], items)
        for item, own in zip(items, scores, strict=True):
            if is_question:
                told, wanted = item.question.split("\n\n")
                assert item.texts[0][0] == f"{told}\n\nQ: {wanted}\nA:"
            before = item.question if is_question else "Write."
            for (prompt, text), value in zip(item.texts, own, strict=True):
                reply = text.strip() if is_question else text
                assert prompt == "" or is_question
                assert value == pytest.approx(log_p(model, f"<{before}>\n", reply), abs=1e-4)
        source = metric._source_row(name, context)
        assert (source.detail["in_template"], source.detail["asked"]) == (True, is_question)


def test_a_request_of_the_users_stands_before_a_question(model, tmp_path):
    context = EvaluationContext(model, tmp_path)
    edit = NamedEdit(EditRecord("a", "", {}, ()), Edit((), "<Be fair. Write.>\n", "Be fair."))
    pairs = [("Who left?", "Jane")]
    [value] = context.texts(pairs, edit, asked=True).log_p
    assert value == pytest.approx(log_p(model, "<Be fair. Who left?>\n", "Jane"), abs=1e-4)
    [plain] = context.texts(pairs, edit).log_p  # kept apart
    assert plain != value


def fairpair(**more):
    small = {"n": 4, "max_new_tokens": 5, "permutations": 9, "ngrams": 0}
    return FairPair(**small, **more).bound(TASK, "fairpair")


def test_fairpair_draws_replies_where_prompts_are_asked(model, tmp_path):
    metric = fairpair(prompts=["What is {name} like?"], asked=True)
    metric.check(model)
    [sampled] = metric.sampled(EvaluationContext(model, tmp_path), None)
    asked, short = sampled.prompt.source, {"max_new_tokens": 5}
    # The same conversation, likeliest tokens: what is drawn from is the reply.
    expected = generate(in_template(model, "none"), [f"<{asked}>\n"], **short)
    assert expected == generate(model, [asked], chat=True, **short)
    drawn = generate(model, [asked] * 4, chat=True, do_sample=True, top_p=0.9, **short)
    assert list(sampled.g_x) == drawn
    rows = metric.measure(EvaluationContext(model, tmp_path), None)
    [success] = [row for row in rows if row.metric == "fairpair_perturbed"]
    assert success.detail["asked"]
    continued = fairpair(prompts=["What is {name} like?"])
    assert continued.sampled(EvaluationContext(model, tmp_path), None)[0].g_x != sampled.g_x
    assert np.isfinite([row.value for row in rows if row.metric == "fairpair_length"]).all()
