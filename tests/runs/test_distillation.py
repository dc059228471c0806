"""Distillation: its terms against explicit sums, its contexts, constraints and resumption."""

import re
from dataclasses import replace
from itertools import chain, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.subsets import round_robin
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, applied
from countergen_edit.edits.checkpoints.stock import stock_model
from countergen_edit.erasers import make_eraser
from countergen_edit.erasers.distilled import Distilled
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.costs.agreement import agreement_values
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import score
from countergen_edit.models import encode, load_model, text_log_probs
from countergen_edit.models.language_model import read_logits
from countergen_edit.runs import baselines, distillation
from countergen_edit.runs.baselines import Augmentation, augmented, negative_log_likelihood
from countergen_edit.runs.distillation import FACTOR, LIMIT_SHARE, Distillation, larger, limits_of
from countergen_edit.runs.fits import Candidate, FitCache
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.objective import (
    LEAST_DIFFERENCE,
    coarse,
    erasing_terms,
    squared_difference,
    with_difference,
)
from countergen_edit.runs.own_contexts import _mentions, written
from countergen_edit.runs.portions import (
    PASS,
    Portion,
    in_passes,
    mean_divergence,
    running,
    telling_tokens,
    to_erase,
    to_keep,
)
from countergen_edit.runs.student import Student, Unedited, block_names, few_rows
from countergen_edit.testbed import directory, load_axis, load_truth
from tests.runs.runs import IDENTITY
from tests.runs.test_audit import make_plan, make_task, run, thin

VOCAB = 7


@pytest.fixture(scope="module")
def task():
    return thin(kept_task(), 8)


@pytest.fixture(autouse=True)
def float32(monkeypatch):
    """Matrices in float32 on every device: bfloat16 keeps eight bits."""
    monkeypatch.setattr("countergen_edit.runs.student.multiplies_bfloat16", lambda device: False)


def kept_task():
    """The task of the small audit, with agreement of fitting names to keep."""
    return replace(make_task(), keep=(load_truth().agreement_set("fit", load_axis("gender")),))


def distilling(model, task, folder, **settings):
    quick = Distilled(**{"contexts": 24, "check_every": 2, "first_layer": 0.5, **settings})
    return Distillation(model, task, quick, limits_of({}), folder)


@given(
    reads=st.integers(1, 3),
    people=st.integers(2, 4),
    seed=st.integers(0, 10**6),
    known=st.booleans(),
)
def test_terms_are_explicit_sums(reads, people, seed, known):
    rng = np.random.default_rng(seed)
    rows = 2 * people
    p, q = (
        torch.from_numpy(rng.normal(size=(rows * reads, VOCAB))).log_softmax(-1) for _ in range(2)
    )
    portion = erased(rows, reads, torch.tensor([0, 3]) if known else None)
    given = with_difference(Unedited(portion, p, None), torch.tensor([2, 5]))
    terms = erasing_terms(given, q)
    before, after = (x.numpy().reshape(rows, reads, VOCAB) for x in (p, q))
    bias, unedited, of_people = [], [], []
    for r in range(reads):
        a, b = before[:people, r], before[people:, r]
        d = a.mean(0) - b.mean(0)
        v = (a.var(0, ddof=1) + b.var(0, ddof=1)) / people
        half = np.maximum(0, 1 - v / d**2) * d / 2
        d[[2, 5]] = half[[2, 5]] = 0
        moved = after[:, r] - before[:, r]
        left = d + moved[:people].mean(0) - moved[people:].mean(0)
        bias.append(left**2)
        unedited.append(d**2)
        for i in range(rows):
            wanted = before[i, r] + (half if i >= people else -half)
            wanted = wanted - np.log(np.exp(wanted).sum())
            of_people.append((np.exp(wanted) * (wanted - after[i, r])).sum())
    # All tokens of so small a vocabulary are plausible.
    left, whole = (
        np.mean([np.mean(np.array(x)[:, t]) for t in (range(VOCAB), [0, 3])[: 1 + known]])
        for x in (bias, unedited)
    )
    assert float(terms["bias"]) == pytest.approx(left / (whole + LEAST_DIFFERENCE))
    assert float(terms["people"]) == pytest.approx(np.mean(of_people))
    if known:
        gap = after[:people].mean(0) - after[people:].mean(0)
        noise = (after[:people].var(0, ddof=1) + after[people:].var(0, ddof=1)) / people
        unbiased = float(squared_difference(portion, q))
        assert unbiased == pytest.approx(np.mean((gap**2 - noise)[:, [0, 3]]))


def erased(rows, reads, outputs):
    """A context to erase; the first half of the rows are of the first group."""
    ids = torch.zeros((rows, reads), dtype=torch.long)
    at = torch.arange(rows).repeat_interleave(reads), torch.arange(reads).repeat(rows)
    first = torch.arange(rows) < rows // 2
    return Portion("erase", ids, torch.ones_like(ids), at, first, outputs)


def test_the_default_learning_rate_falls_with_the_width():
    assert Distilled().rate(576) == pytest.approx(1e-3)
    assert Distilled().rate(4 * 576) == pytest.approx(1e-3 / 4)
    assert Distilled(learning_rate=0.5).rate(576) == 0.5


def test_tokens_and_all_others_make_a_distribution():
    log_probs = torch.randn(4, VOCAB, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    p = log_probs.exp()
    expected = torch.stack([p[:, 1], p[:, 4], 1 - p[:, 1] - p[:, 4]], dim=1)
    torch.testing.assert_close(coarse(log_probs, torch.tensor([1, 4])).exp(), expected)


def outputs(student, *portions):
    """The student's log-probabilities of portions, in their order."""
    log_probs = dict(chain.from_iterable(student.passes(portions)))
    return [log_probs[portion] for portion in portions]


def test_portions_in_one_pass_have_the_outputs_and_gradients_of_each_alone_row_by_row(
    testbed, task, monkeypatch
):
    student = Student(testbed, Distilled(first_layer=0.5))
    noise = torch.Generator().manual_seed(0)
    for parameter in student.parameters.values():
        parameter.data.normal_(std=0.1, generator=noise)
    portions = [
        *(context.portion(testbed) for context in to_erase(testbed, task.fit[0])[:3]),
        *to_keep(testbed, task.keep[0], np.random.default_rng(0))[:2],
        *running(testbed, task.weighed)[:2],
    ]
    assert len(in_passes(portions)) < len(portions)
    trees = "countergen_edit.runs.student.runs_trees"
    with monkeypatch.context() as patch:
        patch.setattr(trees, lambda *_: False)
        alone = [one for portion in portions for one in student.unedited([portion])]
    together = student.unedited(portions)
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a.log_probs, b.log_probs, rtol=1e-4, atol=1e-4)
    gradients = []
    for passes in ([together], [[one] for one in alone]):
        if len(passes) > 1:
            monkeypatch.setattr(trees, lambda *_: False)
        student.peft.zero_grad()
        after = [log_probs for portions in passes for log_probs in outputs(student, *portions)]
        torch.autograd.backward(torch.stack([x.square().mean() for x in after]).sum())
        gradients.append([p.grad.clone() for p in student.parameters.values()])
        unlike = [(a - b.log_probs).abs().max() for a, b in zip(after, alone, strict=True)]
        assert min(unlike) > 1e-3  # else the update would be off
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@given(shapes=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 300)), max_size=12))
def test_passes_run_each_portion_once_and_are_within_the_limit(shapes):
    passes = in_passes([erased(rows, reads, None) for rows, reads in shapes])
    assert sorted(chain.from_iterable(passes)) == [*range(len(shapes))]
    for places in passes:
        tokens = sum(shapes[i][0] for i in places) * max(shapes[i][1] for i in places)
        assert len(places) == 1 or tokens <= PASS


def test_few_rows_have_their_own_unedited_output(testbed, task, tmp_path):
    training = distilling(testbed, task, tmp_path)
    student = Student(testbed, training.settings)
    [context, *_] = to_erase(testbed, task.fit[0])
    portion = context.portion(testbed)
    [whole] = student.unedited([portion])
    few = whole.of_rows(few_rows(portion, np.random.default_rng(0)))
    assert len(few.portion.ids) < len(portion.ids)
    again = student.unedited([few.portion])[0].log_probs
    torch.testing.assert_close(few.log_probs, again, rtol=1e-4, atol=1e-4)
    # A new update changes nothing, and blocks below it are not run again.
    torch.testing.assert_close(outputs(student, few)[0], again, rtol=1e-4, atol=1e-4)


def test_portions_to_keep_have_each_text_once_and_many_contexts_together(testbed, task):
    for data in task.keep:
        portions = to_keep(testbed, data, np.random.default_rng(0))
        pairs = [pair for p in portions for pair in zip(p.ids, p.mask, strict=True)]
        rows = [tuple(ids[mask.bool()].tolist()) for ids, mask in pairs]
        texts = {v.text for sample in data.samples for v in sample.variations}
        assert sorted(rows) == sorted(tuple(e.ids) for e in encode(testbed, [*texts]))
        begun = [{tuple(row[:3].tolist()) for row in portion.ids} for portion in portions]
        assert np.mean([*map(len, begun)]) > 2


def test_words_that_may_differ_are_forms_outputs_to_keep_and_gendered_words(testbed, task):
    kept = {*telling_tokens(testbed, task).tolist()}

    def first(word):
        [encoding] = encode(testbed, [f" {word}"])
        return encoding.ids[encoding.after(0)[0]]

    assert {first(word) for word in ("she", "his", "mother")} <= kept
    outputs = {o.strip() for data in task.keep for s in data.samples for o in s.outputs}
    assert {first(word) for word in outputs} <= kept
    assert first("doctor") not in kept


def test_contexts_to_erase_tell_no_group_and_those_to_keep_are_about_to(testbed, task):
    contexts = written(testbed, task, 80, seed=0)
    groups = [task.axis.groups[group] for group in task.groups]
    telling = {word for g in groups for word in (*g.forms.values(), *g.all_names())}
    assert contexts.keep
    for context in contexts.erase:
        assert not {*re.findall(r"[\w']+", context.after)} & telling, context
    assert {c.group for c in contexts.erase} == {*task.groups}
    fitted = {name for g in groups for name in g.names["fit"]}
    assert {*chain.from_iterable(contexts.people.values())} <= fitted


def test_more_fitting_prompts_share_nothing_with_what_is_measured():
    task = Task.from_config("gender", "natural", texts="natural")
    more = larger(task)
    assert [len(data.samples) for data in more] == [distillation.DRAWN_CELLS] * len(task.fit)
    contents, more_contents = ({s.content for s in sets[0].samples} for sets in (task.fit, more))
    assert len(more_contents) == len(contents)
    replace(task, fit=tuple(more)).check_leakage()
    few = task.limited(2)
    assert [len(data.samples) for data in larger(few)] == [len(data.samples) for data in few.fit]
    by_hand = make_task()
    assert larger(by_hand) == [*by_hand.fit]


def fitted_on(task, female, male):
    """The task with one fitting prompt, of which each side is a text, a name and its place."""
    sample = Sample("t", (" dog", " cat"), (Variation("female", *female), Variation("male", *male)))
    data = CounterfactualSet("pair", "gender", ("female", "male"), (sample,))
    return replace(task, fit=(data,), keep=())


# A pronoun shows the group before the name does.
TOLD_BEFORE = ("Had she, Olivia, a", "Olivia", 4), ("Had he, Liam, a", "Liam", 4)


@pytest.mark.parametrize(
    ("female", "male", "before", "people"),
    [
        (("So Olivia is", "Olivia", 3), ("So Liam is", "Liam", 3), "So ", ["Olivia", "Liam"]),
        (("The woman is", None, 4), ("The man is", None, 4), "The ", ["woman", "man"]),
        # The last letter is shared, and no space stands behind it.
        (("We met a nun", None, 9), ("We met a man", None, 9), "We met a ", ["nun", "man"]),
        (*TOLD_BEFORE, "", []),
    ],
)
def test_a_person_is_a_name_or_the_words_in_which_prompts_differ(female, male, before, people):
    mentions = _mentions(fitted_on(kept_task(), female, male))
    assert [(text, person) for text, _, person, _ in mentions] == [(before, p) for p in people]


def test_without_people_there_are_no_contexts_and_no_augmented_text(testbed, task):
    without = fitted_on(task, *TOLD_BEFORE)
    Augmentation().check(testbed, task)
    with pytest.raises(UserError, match="fewer than two groups"):
        Augmentation().check(testbed, without)
    contexts = written(testbed, without, 8, seed=0)
    rng = np.random.default_rng(0)
    assert contexts.summary == {"to_erase": 0, "to_keep": 0, "refused": {}, "examples": []}
    assert contexts.portion_to_erase(testbed, rng) is None
    assert contexts.portion_to_keep(testbed, rng) is None


def test_an_update_of_other_limits_is_another_edit(testbed, task, tmp_path):
    eraser = make_eraser("distilled", steps=2)
    ids = set()
    for budget in (0.01, 0.02):
        metrics = METRICS.make("r"), METRICS.make("agreement", {"budget": budget})
        plan = make_plan(task=task, erasers={"distilled": eraser}, metrics=metrics)
        fits = FitCache(testbed, task, RunFolder(tmp_path / str(budget), {}, IDENTITY), plan)
        ids.add(fits.id_of(Candidate("weights", None, "distilled", eraser)))
    assert len(ids) == 2


def test_an_update_needs_validation_data(testbed, task):
    erasers = {"distilled": make_eraser("distilled")}
    plan = make_plan(task=replace(task, validation=()), erasers=erasers, layers=(2,))
    with pytest.raises(UserError, match=r"needs a set under data\.validation"):
        plan.check(testbed)


def test_all_blocks_below_the_last_may_be_left_out(testbed):
    student = Student(testbed, Distilled(first_layer=1.0))
    last = block_names(testbed)[-1]
    assert all(name.startswith(last) for name in student.update.factors)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_matrices_in_bfloat16_read_and_train_weights_of_any_type(dtype, task, monkeypatch):
    monkeypatch.setattr("countergen_edit.runs.student.multiplies_bfloat16", lambda device: True)
    model = load_model(directory(), dtype=dtype)
    student = Student(model, Distilled())
    portion = to_erase(model, task.fit[0])[0].portion(model)
    inputs = model.inputs(portion.ids, portion.mask)
    expected = read_logits(stock_model(model), inputs, portion.at).float().log_softmax(-1)
    [unedited] = student.unedited([portion])
    assert float(mean_divergence(expected, unedited.log_probs)) < 1e-3
    torch.autograd.backward(outputs(student, unedited)[0].square().sum())
    assert all(p.grad is not None for p in student.parameters.values())


def test_a_context_is_read_after_the_person_and_people_are_exchanged(testbed, task):
    contexts = written(testbed, task, 24, seed=0)
    [context, *_] = contexts.erase
    contexts.erase = [context]
    portion = contexts.portion_to_erase(testbed, np.random.default_rng(0))
    assert 2 * int(portion.is_first.sum()) == len(portion.ids)
    [text] = encode(testbed, ["Jane" + context.after])
    tokens = [text.ids[k] for k in text.after(len("Jane"))]
    assert portion.reads == len(tokens) + 1
    rows, columns = portion.at
    for i, ids in enumerate(portion.ids):
        read = columns[rows == i]
        assert ids[read[1:]].tolist() == tokens
        assert int(read[-1]) == int(portion.mask[i].sum()) - 1


def test_training_removes_the_planted_difference_and_keeps_grammar(testbed, tmp_path):
    occupations = load_truth().counterfactual_set("occupations", "fit", load_axis("gender"))
    task = replace(kept_task(), fit=(occupations,))
    settings = {"steps": 60, "check_every": 20, "learning_rate": 5e-3, "first_layer": 0.0}
    update = distilling(testbed, task, tmp_path / "d", **settings).run()

    def effect():
        return GroupEffect(score(testbed, task.test[0], "test").pairs[0]).squared

    def right():
        share, _ = agreement_values(score(testbed, task.agreement["test"], "agreement").pairs[0])
        return float(np.nanmin(np.nanmean(share, axis=(0, 2))))

    before = effect(), right()
    with applied(testbed, Edit((), update=update)):
        after = effect(), right()
    assert after[0] < 0.2 * before[0]
    assert after[1] > before[1] - 0.02


def test_tight_limits_change_kept_contexts_less(testbed, task, tmp_path):
    changes = []
    settings = {"steps": 50, "check_every": 50, "learning_rate": 5e-3, "first_layer": 0.0}
    for name, limit in (("loose", 1.0), ("tight", 1e-4)):
        training = distilling(testbed, task, tmp_path / name, **settings)
        training.limits = dict.fromkeys(training.limits, limit)
        training.run()
        changes.append(training.curve[-1]["keep"])
    assert changes[1] < 0.5 * changes[0]


@pytest.mark.parametrize("limit", [1.0, 1e-4])
def test_an_update_is_scaled_until_neither_more_nor_less_of_it_is_better(
    testbed, task, tmp_path, limit
):
    settings = {"steps": 12, "check_every": 6, "learning_rate": 5e-3, "first_layer": 0.0}
    training = distilling(testbed, task, tmp_path / "d", **settings)
    training.limits = dict.fromkeys(training.limits, 1.0) | {"keep": limit}
    update = training.run()
    student = Student(testbed, training.settings)
    training.prepare(student)

    def rank(terms):
        return max(0.0, LIMIT_SHARE * terms["keep"] / limit - 1), terms["bias"]

    def scaled(factor):
        student.update = update.scaled(factor)
        return rank(training.held_out(student))

    assert scaled(1.0) < min(rank(look) for look in training.curve)
    assert scaled(1.0) < min(scaled(FACTOR), scaled(1 / FACTOR))


def test_held_out_agreement_is_the_fall_of_the_group_that_loses_most(testbed, task, tmp_path):
    training = distilling(testbed, task, tmp_path, first_layer=0.0)
    student = Student(testbed, training.settings)
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in student.parameters.values():
            parameter.normal_(std=0.3, generator=noise)
    few = round_robin(task.agreement["validation"], distillation.HELD_OUT_KEPT)

    def right(model):
        share, _ = agreement_values(score(model, few, "agreement").pairs[0])
        return np.nanmean(share, axis=(0, 2))

    before = right(testbed)
    with applied(testbed, Edit((), update=student.update)) as edited:
        falls = before - right(edited)
    assert abs(falls[0] - falls[1]) > 0.05  # else a mean would pass
    training.prepare(student)
    assert training.held_out(student)["agreement"] == pytest.approx(max(falls), abs=0.02)


def test_a_killed_training_goes_on_to_the_same_bytes(testbed, task, tmp_path, monkeypatch):
    whole = distilling(testbed, task, tmp_path / "whole", steps=6)
    expected = whole.run()
    keep, kept = Distillation._keep, []

    def dying(self, *args):
        keep(self, *args)
        kept.append(args[-1])
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Distillation, "_keep", dying)
    with pytest.raises(KeyboardInterrupt):
        distilling(testbed, task, tmp_path / "killed", steps=6).run()
    monkeypatch.setattr(Distillation, "_keep", keep)
    resumed = distilling(testbed, task, tmp_path / "killed", steps=6)
    assert same(resumed.run(), expected)
    assert resumed.curve == whole.curve
    assert [look["step"] for look in resumed.curve] == [2, 4, 6]


def same(a, b):
    return Edit((), update=a).digest == Edit((), update=b).digest


def test_seeds_differ_and_repeat(testbed, task, tmp_path):
    state = torch.get_rng_state()
    one, again, other = (
        distilling(testbed, task, tmp_path / str(i), steps=2, random_state=seed).run()
        for i, seed in enumerate((0, 0, 1))
    )
    assert same(one, again)
    assert not same(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_loss_that_is_not_finite_is_refused(testbed, task, tmp_path, monkeypatch):
    monkeypatch.setattr("countergen_edit.runs.student.LARGEST_NORM", float("inf"))
    with pytest.raises(UserError, match="use a learning_rate below"):
        distilling(testbed, task, tmp_path, steps=4, learning_rate=1e30).run()


def test_limits_are_shares_of_the_smaller_budgets():
    limits = limits_of({"agreement": 0.02, "kl": 0.05, "perplexity_ratio": 0.001})
    assert limits["agreement"] == pytest.approx(0.015)
    assert limits["neutral"] == pytest.approx(0.00075)


def test_a_search_scales_an_update_that_is_over_a_budget_until_it_is_within(
    testbed, task, tmp_path, monkeypatch
):
    trained = Distillation.run
    # Held-out texts that were luckier than the validation data.
    monkeypatch.setattr(Distillation, "run", lambda training: trained(training).scaled(1.6))
    settings = {"contexts": 24, "steps": 8, "check_every": 4, "learning_rate": 5e-3, "scale": 0.9}
    erasers = {"distilled": make_eraser("distilled", **settings)}
    budget = 0.05
    metrics = (METRICS.make("r"), METRICS.make("kl", {"budget": budget}))
    plan = make_plan(task=task, erasers=erasers, metrics=metrics, select="task")
    rows = run(testbed, plan, tmp_path / "run")
    about = ("kl", "distilled", "validation")
    kl = {r.edit: r.value for r in rows if (r.metric, r.eraser, r.split) == about}
    [chosen] = {r.edit for r in rows if r.metric == "cost" and r.detail["chosen"]}
    whole, *_, scaled = kl
    assert kl[whole] > budget >= kl[chosen]
    assert scaled == chosen
    edits = [RunFolder(tmp_path / "run", {}, IDENTITY).edit(key) for key in kl]
    assert len({edit.label for edit in edits}) == len(edits), "labels of tables differ"
    first, last = (
        {k: b @ a for k, (a, b) in named.edit.update.factors.items()}
        for named in (edits[0], edits[-1])
    )
    scale = np.mean([np.vdot(last[k], first[k]) / np.vdot(first[k], first[k]) for k in last])
    # One scaling is enough, from the factor that was asked for.
    assert scale == pytest.approx(0.95 * budget / kl[whole], abs=2e-3)
    for name, matrix in last.items():
        np.testing.assert_allclose(matrix, scale * first[name], atol=1e-5)


def test_a_student_without_training_is_the_model(testbed, task, tmp_path):
    training = distilling(testbed, task, tmp_path)
    student = Student(testbed, training.settings)
    portions = training._held_out
    assert {"erase", "keep", "neutral"} == {portion.kind for portion in portions}
    for portion, unedited in zip(portions, student.unedited(portions), strict=True):
        expected = testbed.logits(portion.ids, portion.mask, portion.at).log_softmax(-1)
        # An update of zeros changes nothing.
        for log_probs in (unedited.log_probs, *outputs(student, unedited)):
            torch.testing.assert_close(log_probs, expected, atol=1e-4, rtol=0)


def test_rows_alone_are_refused():
    with pytest.raises(UserError, match="trained through a model"):
        Distilled().fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_log_probabilities_of_plausible_tokens_are_those_of_the_whole_vocabulary_among_them(
    testbed, task
):
    student = Student(testbed, Distilled(first_layer=0.5))
    portions = [
        to_erase(testbed, task.fit[0])[0].portion(testbed),
        *to_keep(testbed, task.keep[0], np.random.default_rng(0))[:1],
    ]
    whole = student.unedited(portions)
    named = [x.flatten() for p in portions for x in (p.outputs, p.choices) if x is not None]
    tokens = torch.cat([*named, torch.arange(5)]).unique()
    student.restrict(tokens)
    for a, b in zip(whole, student.unedited(portions), strict=True):
        expected = a.log_probs[:, tokens].log_softmax(-1)
        torch.testing.assert_close(b.log_probs, expected, rtol=1e-4, atol=1e-4)
        for kind in ("outputs", "choices"):
            before, after = (getattr(x.portion, kind) for x in (a, b))
            assert (before is None) == (after is None)
            assert before is None or torch.equal(tokens[after], before)
    torch.testing.assert_close(outputs(student, b)[0], b.log_probs, rtol=1e-4, atol=1e-4)


def test_a_training_among_plausible_tokens_has_all_tokens_that_count(
    testbed, task, tmp_path, monkeypatch
):
    monkeypatch.setattr(distillation, "VOCABULARY", 40)
    training = distilling(testbed, task, tmp_path, steps=4)
    student = Student(testbed, training.settings)
    size = student.vocab_size
    training.prepare(student)
    kept = student.vocab_size
    assert 40 <= kept < size
    for unedited in chain(*training.pool, training.looks):
        assert unedited.log_probs.shape[1] == kept
        for tokens in (unedited.portion.outputs, unedited.portion.choices):
            assert tokens is None or int(tokens.min()) >= 0
    assert int(training._kept.min()) >= 0
    numbers = [training._number(step) for step in range(8)]
    assert sorted(numbers[:4]) == sorted(numbers[4:]) == [*range(4)]


def test_half_precision_of_the_unedited_output_changes_no_term(testbed, task, tmp_path):
    training = distilling(testbed, task, tmp_path)
    student = Student(testbed, training.settings)
    portion = to_erase(testbed, task.fit[0])[0].portion(testbed)
    [unedited] = student.unedited([portion])
    whole = with_difference(unedited, torch.tensor([0]))
    noise = torch.randn(whole.log_probs.shape, generator=torch.Generator().manual_seed(0))
    after = (whole.log_probs + 0.3 * noise).log_softmax(-1)
    half = whole.cast(torch.float16)
    assert half.log_probs.nbytes == whole.log_probs.nbytes / 2
    terms = erasing_terms(half.cast(torch.float32), after)
    torch.testing.assert_close(terms, erasing_terms(whole, after), rtol=0.01, atol=1e-4)


def test_memory_of_a_training_is_about_that_of_what_it_keeps(testbed, task, tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "ACTIVATIONS", 0)
    sizes = []
    announce = "countergen_edit.runs.distillation.announce_memory"
    monkeypatch.setattr(announce, lambda what, size, advice: sizes.append(size))
    training = distilling(testbed, task, tmp_path, steps=3)
    student = Student(testbed, training.settings)
    training.prepare(student)
    kept = 0
    for one in chain(*training.pool):
        below = one.below if isinstance(one.below, tuple) else (one.below,)
        kept += one.log_probs.nbytes + sum(x.nbytes for x in below if isinstance(x, torch.Tensor))
    assert sizes == [pytest.approx(kept / 2**30, rel=0.2)]


OF_AUGMENTATION = {"contexts": 24, "first_layer": 0.0, "steps": 8}


def mean_nll(model, contexts):
    """Of every continuation after every person, nats per token."""
    pairs = product(contexts.erase, chain.from_iterable(contexts.people.values()))
    prompts, texts = zip(*((c.before + person, c.after) for c, person in pairs), strict=True)
    scores = text_log_probs(model, prompts, texts)
    return -float(np.sum(scores.log_p) / np.sum(scores.tokens))


def test_the_loss_is_the_mean_over_people_of_what_the_model_gives_a_continuation(testbed, task):
    contexts = written(testbed, task, 24, seed=0)
    contexts.people = {group: people[:4] for group, people in contexts.people.items()}
    contexts.erase = [max(contexts.erase, key=lambda context: len(context.after))]
    student = Student(testbed, Distilled(**OF_AUGMENTATION))
    portion = contexts.portion_to_erase(testbed, np.random.default_rng(0))
    [[(unedited, after)]] = student.passes(student.unedited([portion]))
    loss = negative_log_likelihood(unedited.portion, after).detach()
    assert float(loss) == pytest.approx(mean_nll(testbed, contexts), rel=0.01)


def test_training_makes_the_texts_likelier_with_every_person(testbed, task, monkeypatch):
    contexts = written(testbed, task, 24, seed=0)
    monkeypatch.setattr(baselines, "written", lambda *args: contexts)
    update = augmented(testbed, task, Distilled(**OF_AUGMENTATION, learning_rate=5e-3))
    before = mean_nll(testbed, contexts)
    with applied(testbed, Edit((), update=update)) as model:
        assert mean_nll(model, contexts) < before - 0.01
