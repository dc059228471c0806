"""In a chat template a question is the user's message, and the reply is scored or drawn."""

import numpy as np
import pytest

from countergen_edit.edits import Edit, EditRecord, NamedEdit
from countergen_edit.metrics.benchmarks import is_asked, likelihoods
from countergen_edit.models import generate, in_template
from tests.metrics.fairpair_settings import fairpair, row_of
from tests.metrics.small import chat_model, plain_log_p, rows_of
from tests.metrics.test_benchmarks import bound


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return chat_model(tmp_path_factory.mktemp("qwen2"), "Write.")


def log_p(model, before, text):
    first, tokens = (model.tokenizer(part).input_ids for part in (before, text))
    return plain_log_p(model.bridge.original_model, [*first, *tokens], len(first))


def test_a_question_is_the_users_and_the_rest_is_the_reply(made, model, context):
    """BBQ's answers are whole replies to its question; a pair of sentences is replied."""
    asked = {"bbq": True, "crows_pairs": False}
    metric = bound(made, of=[*asked], limit=3)
    for name, is_question in asked.items():
        items = metric.items(name, 0)
        assert is_asked(model, items) is is_question
        assert not is_asked(in_template(model, "none"), items)
        scores = likelihoods(context, None, metric.read[name][0], items)
        for item, values in zip(items, scores, strict=True):
            if is_question:
                passage, question = item.question.split("\n\n")
                assert item.texts[0][0] == f"{passage}\n\nQ: {question}\nA:"
            before = item.question if is_question else "Write."
            for (prompt, text), value in zip(item.texts, values, strict=True):
                reply = text.strip() if is_question else text
                assert prompt == "" or is_question
                assert value == pytest.approx(log_p(model, f"<{before}>\n", reply), abs=1e-4)
        source = metric._source_row(name, context)
        assert (source.detail["in_template"], source.detail["asked"]) == (True, is_question)


def test_a_request_of_the_users_stands_before_a_question(model, context):
    edit = NamedEdit(EditRecord("a", "", {}, ()), Edit((), "<Be fair. Write.>\n", "Be fair."))
    pairs = [("Who left?", "Jane")]
    [value] = context.texts(pairs, edit, asked=True).log_p
    assert value == pytest.approx(log_p(model, "<Be fair. Who left?>\n", "Jane"), abs=1e-4)
    [plain] = context.texts(pairs, edit).log_p  # kept apart
    assert plain != value


def test_fairpair_draws_replies_where_prompts_are_asked(model, context):
    short = {"max_new_tokens": 5}
    metric = fairpair(prompts=["What is {name} like?"], asked=True, **short)
    metric.check(model)
    [sampled] = metric.sampled(context, None)
    asked = sampled.prompt.source
    # The same conversation, likeliest tokens: what is drawn from is the reply.
    expected = generate(in_template(model, "none"), [f"<{asked}>\n"], **short)
    assert expected == generate(model, [asked], chat=True, **short)
    drawn = generate(model, [asked] * 4, chat=True, do_sample=True, top_p=0.9, **short)
    assert list(sampled.g_x) == drawn
    rows = metric.measure(context, None)
    assert row_of(rows, "fairpair_perturbed").detail["asked"]
    assert np.isfinite([row.value for row in rows_of(rows, "fairpair_length")]).all()
    continued = fairpair(prompts=["What is {name} like?"], **short)
    assert continued.sampled(context, None)[0].g_x != sampled.g_x
