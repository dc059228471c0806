"""Counterfactual augmentation: its loss against the package's scores, and what training does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, Edit, applied
from countergen_edit.erasers import Distilled
from countergen_edit.models import LanguageModel, text_log_probs
from countergen_edit.runs import augmentation
from countergen_edit.runs.augmentation import Augmentation, augmented, negative_log_likelihood
from countergen_edit.runs.own_contexts import OwnContexts, written
from countergen_edit.runs.student import Student
from tests.runs.test_audit import make_task, thin

SETTINGS = {"contexts": 24, "first_layer": 0.0, "steps": 8}


@pytest.fixture(scope="module")
def task() -> Task:
    return thin(make_task(), 8)


def mean_nll(model: LanguageModel, own: OwnContexts) -> float:
    """Of every continuation after every person, nats per token."""
    texts = [
        (c.before + person, c.said)
        for c in own.erase
        for people in own.people.values()
        for person in people
    ]
    prompts, said = zip(*texts, strict=True)
    scores = text_log_probs(model, prompts, said)
    return -float(np.sum(scores.log_p) / np.sum(scores.tokens))


def test_the_loss_is_the_mean_over_people_of_what_the_model_gives_a_continuation(
    testbed: LanguageModel, task: Task
) -> None:
    own = written(testbed, task, 24, seed=0)
    own.people = {group: people[:4] for group, people in own.people.items()}
    own.erase = [max(own.erase, key=lambda context: len(context.said))]
    student = Student(testbed, Distilled(**SETTINGS), UNCHANGED)
    portion = own.portion_to_erase(testbed, np.random.default_rng(0))
    assert portion is not None
    [[(given, after)]] = student.passes(student.unedited([portion]))
    found = negative_log_likelihood(given.portion, after)
    assert float(found.detach()) == pytest.approx(mean_nll(testbed, own), rel=0.01)


def test_training_makes_the_texts_likelier_with_every_person(
    testbed: LanguageModel, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = written(testbed, task, 24, seed=0)
    monkeypatch.setattr(augmentation, "written", lambda *args: own)
    update = augmented(testbed, task, Distilled(**SETTINGS, learning_rate=5e-3))
    before = mean_nll(testbed, own)
    with applied(testbed, Edit((), update=update)) as model:
        assert mean_nll(model, own) < before - 0.01


def test_texts_without_people_of_two_groups_are_refused_before_the_run(
    testbed: LanguageModel, task: Task
) -> None:
    variations = (
        Variation("female", "Had she, Olivia, a", "Olivia", 4),
        Variation("male", "Had he, Liam, a", "Liam", 4),
    )
    sample = Sample("t", (" dog", " cat"), variations)
    data = CounterfactualSet("own", "gender", ("female", "male"), (sample,))
    Augmentation().check(testbed, task)
    with pytest.raises(UserError, match="fewer than two groups"):
        Augmentation().check(testbed, replace(task, fit=(data,)))
