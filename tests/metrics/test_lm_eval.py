"""lm-evaluation-harness's tasks: the audited model is the one it runs, the edit attached."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.special import stdtrit

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics import lm_eval
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.lm_eval import LmEval
from countergen_edit.models import LanguageModel, continuation_log_probs, generate, load_model
from tests.harness import evaluated, local_choices, local_data
from tests.runs.test_audit import make_task
from tests.tiny_models import CORPUS, tiny_model_dir

WORDS = ("nurse", "engineer", "manager", "hospital", "company", "friends", "exam", "story")
RNG = np.random.default_rng(0)
QUESTIONS = [
    (" ".join(line.split()[: int(RNG.integers(2, 6))]), [*map(str, answers)], int(RNG.integers(3)))
    for line in CORPUS
    for answers in (RNG.choice(WORDS, 3, replace=False) for _ in range(6))
]
"""A question, three answers and the index of the right one."""
NEW = 8
"""Tokens that a task of generation asks for."""


@pytest.fixture
def installed() -> None:
    pytest.importorskip("lm_eval", reason="needs pip install 'countergen-edit[harness]'")


def written(task: dict[str, Any], folder: Path) -> str:
    path = folder / f"{task['task']}.yaml"
    path.write_text(yaml.safe_dump(task), "utf-8")
    return str(path)


def choices(folder: Path) -> dict[str, Any]:
    rows = [{"question": q, "choices": c, "label": y} for q, c, y in QUESTIONS]
    return local_choices(rows, folder, "acc")


def running(folder: Path) -> dict[str, Any]:
    """A task of the perplexity of running text."""
    return {
        **{"task": "running", "test_split": "test", "output_type": "loglikelihood_rolling"},
        **{"doc_to_text": "", "doc_to_target": "text"},
        "metric_list": [{"metric": "word_perplexity"}],
        **local_data([{"text": line * 3} for line in CORPUS], folder, "running"),
    }


def asking(model: LanguageModel, folder: Path) -> dict[str, Any]:
    """A task whose right answers are those of the model before the first space that it writes."""
    said = generate(model, [q for q, *_ in QUESTIONS], max_new_tokens=NEW)
    rows = [
        {"question": q, "answer": text.split(" ")[0] if i % 2 else "never written"}
        for i, ((q, *_), text) in enumerate(zip(QUESTIONS, said, strict=True))
    ]
    return {
        **{"task": "asking", "test_split": "test", "output_type": "generate_until"},
        "doc_to_text": "{{question}}",
        "doc_to_target": "answer",
        "generation_kwargs": {"until": [" "], "max_gen_toks": NEW},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        **local_data(rows, folder, "asking"),
    }


def an_edit(model: LanguageModel) -> NamedEdit:
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(model.d_model, 24)))[0]
    erasure = AffineErasure(basis, basis.T, np.zeros(model.d_model))
    return NamedEdit.of(Edit.at("resid_post", {1: erasure}), "random")


def test_rows_are_those_of_our_scores_before_and_after_an_edit(installed, model, tmp_path) -> None:
    metric = LmEval(written(choices(tmp_path), tmp_path)).bound(make_task(), "lm_eval")
    context, edit = EvaluationContext(model, tmp_path / "run"), an_edit(model)
    right = []
    for under in (None, edit):
        with context.under(under):
            own = [
                continuation_log_probs(model, [q] * len(c), [f" {answer}" for answer in c])
                for q, c, _ in QUESTIONS
            ]
        labels = [label for *_, label in QUESTIONS]
        right.append(np.array([p.argmax() == y for p, y in zip(own, labels, strict=True)]))
    assert (right[0] != right[1]).any()  # the edit changes something
    [unedited] = metric.measure(context, None)
    assert (unedited.metric, unedited.dataset, unedited.n) == ("lm_eval", "local_choices", 24)
    assert unedited.facets == {"figure": "acc", "filter": "none"}
    assert unedited.value == pytest.approx(right[0].mean())
    assert 0 <= unedited.lo <= unedited.value <= unedited.hi <= 1
    edited, change = metric.measure(context, edit)
    assert edited.value == pytest.approx(right[1].mean())
    assert change.metric == "lm_eval_change"
    assert change.value == pytest.approx(right[1].mean() - right[0].mean())
    moved = right[1].astype(float) - right[0]
    # Paired: Student's interval of the mean of single differences.
    half = stdtrit(23, 0.975) * moved.std(ddof=1) / np.sqrt(24)
    assert (change.hi - change.lo) / 2 == pytest.approx(half, rel=0.15)
    assert metric.measure(context, None, "validation") == []


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_lm_eval_says_the_same_of_the_saved_model(installed, family, tmp_path) -> None:
    source, folder = tmp_path / family, tmp_path / "saved"
    source.mkdir()
    folder.mkdir()
    model = load_model(tiny_model_dir(family, source))
    edit = an_edit(model)
    write_model(model, edit.edit, folder, "carried")
    tasks = [choices(tmp_path), running(tmp_path), asking(model, tmp_path)]
    metric = LmEval([written(task, tmp_path) for task in tasks]).bound(make_task(), "lm_eval")
    context = EvaluationContext(model, tmp_path / "run")
    before, after = metric.measure(context, None), metric.measure(context, edit)
    results = evaluated(folder, tasks, model_args={"trust_remote_code": True})["results"]
    figures = {(r.dataset, r.facets["figure"]): r for r in after if "change" not in r.metric}
    for (task, name), row in figures.items():
        assert row.value == pytest.approx(results[task][f"{name},none"], rel=1e-5)
    assert figures["running", "word_perplexity"].metric == "lm_eval_loss"
    [asked] = [row for row in before if row.dataset == "asking"]
    assert asked.value == 0.5  # a text ends before the stop string


@pytest.mark.slow
def test_log_likelihoods_and_greedy_flags_are_those_of_lm_eval(installed, model, tmp_path) -> None:
    """Of the model in memory, in our batches, and of its directory, one text at a time."""
    from lm_eval.api.instance import Instance

    pairs = [(q, f" {c}") for q, options, _ in QUESTIONS for c in options]
    pairs += [(" ".join([QUESTIONS[0][0]] * 30), " she works")]  # exceeds the context
    likeliest = []
    for question in dict.fromkeys(q for q, *_ in QUESTIONS):
        ids = model.tokenizer(question).input_ids
        text = generate(model, [question], max_new_tokens=1)[0]
        if len(model.tokenizer(question + text).input_ids) == len(ids) + 1:
            likeliest.append((question, text))
    pairs += likeliest
    asked = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
    from lm_eval.models.huggingface import HFLM

    there = HFLM(model.directory, device="cpu", dtype="float32").loglikelihood(asked)
    here = lm_eval._runner(model).loglikelihood(asked)
    np.testing.assert_allclose([p for p, _ in here], [p for p, _ in there], atol=1e-4)
    assert [greedy for _, greedy in here] == [greedy for _, greedy in there]
    assert likeliest
    assert [greedy for _, greedy in here[-len(likeliest) :]] == [True] * len(likeliest)


@pytest.mark.slow
def test_a_group_is_the_mean_that_it_defines_and_limit_takes_the_first(
    installed, model, tmp_path, monkeypatch
) -> None:
    from lm_eval.tasks import TaskManager

    for name in ("first", "second"):
        written(choices(tmp_path) | {"task": name}, tmp_path)
    metrics = [{"metric": "acc", "weight_by_size": True}]
    group = {"group": "both", "task": ["first", "second"], "aggregate_metric_list": metrics}
    (tmp_path / "both.yaml").write_text(yaml.safe_dump(group), "utf-8")
    index = TaskManager(include_defaults=False, include_path=str(tmp_path))
    monkeypatch.setattr(lm_eval, "_manager", lambda _: index)
    metric = LmEval("both").bound(replace(make_task(), limit=4), "lm_eval")
    rows = metric.measure(EvaluationContext(model, tmp_path / "run"), None)
    own, *_, whole = rows
    assert [row.dataset for row in rows][-1] == "both"
    assert (own.n, whole.n) == (4, 8)
    assert whole.value == pytest.approx(own.value)
    assert whole.hi - whole.lo < own.hi - own.lo  # of twice as many


@pytest.mark.slow
def test_an_unknown_task_gets_the_nearest(installed) -> None:
    with pytest.raises(UserError, match="unknown task 'arc_eazy': did you mean 'arc_easy'"):
        LmEval("arc_eazy").bound(make_task())


def test_without_lm_eval_one_line_says_what_to_install(monkeypatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(lm_eval, "import_module", missing)
    with pytest.raises(UserError, match=r"pip install 'countergen-edit\[harness\]'"):
        LmEval("never_asked").bound(make_task())


def test_no_task_is_refused() -> None:
    with pytest.raises(UserError, match="name at least one task"):
        LmEval([])
