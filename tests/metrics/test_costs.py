"""Agreement, perplexity and KL against copies of their definitions on the plain model."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, applied
from countergen_edit.metrics.costs.agreement import Agreement, agreement_rows
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.metrics.costs.perplexity import KL, Perplexity
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import score
from countergen_edit.models import load_model, preface_ids, resuming
from countergen_edit.testbed import load_axis
from tests.metrics.small import edit_of, log_p, log_softmax, set_of
from tests.tiny_models import tiny_model_dir

TEXTS = ["The hospital is at the café.", "John is an engineer.", "a b"]
EDIT = edit_of()


def edited(model, text):
    with applied(model, EDIT.edit):
        return log_softmax(model, text)[1]


def brute_force(model, under):
    """Of each text: -log P without and under something, KL, and how many tokens are predicted."""
    sums = np.zeros((4, len(TEXTS)))
    for i, text in enumerate(TEXTS):
        (ids, p), q = log_softmax(model, text), under(model, text)
        for t in range(len(ids) - 1):
            kl = float((p[t].exp() * (p[t] - q[t])).sum())
            sums[:, i] += -float(p[t, ids[t + 1]]), -float(q[t, ids[t + 1]]), kl, 1
    return sums


def task_of(**sets):
    return Task(load_axis("gender"), ("female", "male"), **sets)


def by_metric(task, context, edit, split="test"):
    costs = [kind().bound(task) for kind in (Agreement, Perplexity, KL)]
    rows = [row for cost in costs for row in cost.measure(context, edit, split)]
    return {row.metric: row for row in rows}


def test_perplexity_and_kl_are_their_definitions(context):
    nll, nll_edited, kl, tokens = brute_force(context.model, edited).sum(axis=1)
    before, after, kl = np.exp(nll / tokens), np.exp(nll_edited / tokens), kl / tokens
    neutral = {"test": tuple(TEXTS), "validation": ("The station is at the park.",)}
    task = task_of(neutral=neutral)
    rows = by_metric(task, context, EDIT)
    for metric, value in (("perplexity", after), ("perplexity_ratio", after / before)):
        assert rows[metric].value == pytest.approx(value, rel=1e-5)
    assert rows["kl"].value == pytest.approx(kl, rel=1e-4)
    assert kl > 0
    assert {(row.dataset, row.n) for row in rows.values()} == {("neutral", 3)}
    rows = by_metric(task, context, None)  # nothing is paid without an edit
    assert {"perplexity", "perplexity_ratio", "kl"} == set(rows)
    assert (rows["kl"].value, rows["perplexity_ratio"].value) == (0, 1)
    # Validation text has a name of its own, so that it is drawn apart.
    rows = by_metric(task, context, EDIT, "validation")
    assert {(row.dataset, row.n) for row in rows.values()} == {("neutral_validation", 1)}


def test_under_words_before_a_text_the_same_tokens_are_paired(context, tmp_path):
    """Token by token on the plain model: with BOS the first word counts, without it does not."""
    words = "they told Emily a story.\n"

    def asked(model, text):
        before, first = preface_ids(model, words), int(model.adds_bos)
        ids, _ = log_softmax(model, text)
        row = torch.tensor([[*before, *ids[first:].tolist()]])
        q = model.logits(row, torch.ones_like(row))[0].double().log_softmax(-1)
        return q[len(before) - first :]  # at the same tokens; at BOS, at the preface's last

    for model in (context.model, load_model(tiny_model_dir("llama", tmp_path / "llama"))):
        nll, nll_asked, kl, tokens = brute_force(model, asked)
        for lm in (model, resuming(model, [0])):
            cost = neutral_cost(lm, Edit((), words), TEXTS)
            assert_allclose(cost.nll_unedited, nll, rtol=1e-5)
            assert_allclose(cost.nll_edited, nll_asked, rtol=1e-5)
            assert_allclose(cost.kl, kl, rtol=1e-4)
            assert_array_equal(cost.tokens, tokens)
        unasked = neutral_cost(model, None, TEXTS)
        assert_array_equal(unasked.tokens, tokens)
        assert np.all(kl > 0)


@pytest.mark.parametrize(
    ("cost", "before", "after", "share"),
    [
        (Agreement(), 0.99, 0.985, 0.5),
        (Agreement(0.005), 0.99, 0.985, 1),
        (Agreement(), 0.9, 0.95, 0),  # better than before
        (Perplexity(), 1.0, 1.005, 0.5),
        (Perplexity(), 1.0, 1 + 1e-14, 0),  # rounding is no harm
        (Perplexity(), 1.0, 0.9, 0),
        (Perplexity(), 1.0, None, None),
        (KL(), 0.0, 0.1, 2),
        (KL(), 0.0, None, None),
    ],
)
def test_harm_is_what_became_worse_in_units_of_the_budget(cost, before, after, share):
    worse = cost.degradation(Row(cost.counts, before), Row(cost.counts, after))
    assert (worse and worse.share) == (None if share is None else pytest.approx(share))


def test_text_too_short_to_predict_anything_is_refused(model):
    with pytest.raises(UserError, match="at least two tokens"):
        neutral_cost(model, None, ["a"])


def agreement_set(*outputs):
    return set_of("agreement", ["{} lost", "{} is at"], [outputs] * 2)


def test_agreement_is_the_share_of_the_right_form(context):
    data = agreement_set(" her", " his")
    shares = {"female": [], "male": []}
    for v in (v for sample in data.samples for v in sample.variations):
        her, his = (np.exp(log_p(context.model, v.text, form)) for form in (" her", " his"))
        shares[v.group].append((her if v.group == "female" else his) / (her + his))
    cost = Agreement().bound(task_of(agreement={"test": data}))
    rows = cost.measure(context, None)
    together, female, male = rows
    assert cost.counted(rows[::-1]) == [male, female]
    expected = [shares["female"] + shares["male"], shares["female"], shares["male"]]
    assert [row.value for row in rows] == pytest.approx([*map(np.mean, expected)], abs=1e-5)
    assert (together.n, female.n) == (8, 4)


@given(st.tuples(*[st.floats(0.5, 1)] * 2), st.tuples(*[st.floats(0, 1)] * 2))
def test_the_budget_of_agreement_holds_for_each_group(before, after):
    """The loss of one group counts in full, whatever the other gains."""

    def rows(values):
        a, b = values
        groups = (("female", "male", (a + b) / 2), ("female", "", a), ("male", "", b))
        return [Row("agreement", value, group_a=x, group_b=y) for x, y, value in groups]

    degradation = Agreement().worst(rows(before), rows(after))
    losses = {g: b - a for g, b, a in zip(("female", "male"), before, after, strict=True)}
    assert max(degradation.value, 0) == max(*losses.values(), 0)
    assert degradation.value == losses[degradation.group]
    assert degradation.share == max(0, *(loss / 0.01 for loss in losses.values()))


def test_agreement_takes_one_form_a_group(model):
    three = agreement_set(" her", " his", " its")
    with pytest.raises(UserError, match="3 output"):
        agreement_rows(score(model, three), seed=0)
    with pytest.raises(UserError, match="3 output"):  # before anything is measured
        Agreement().bound(task_of(agreement={"test": three}))
