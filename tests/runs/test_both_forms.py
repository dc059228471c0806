"""One audit with template=both has the figures of an audit of plain texts and of one in chat."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

import countergen_edit as ce
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.rows import IN_CHAT
from countergen_edit.models import LanguageModel, in_template, load_model
from countergen_edit.runs.run import Run
from tests.families import WIDE, longer, small_task
from tests.models.test_thinking import TEMPLATES
from tests.tiny_models import CONFIGS, config_of, tiny_model_dir

MEASURED = ("r", "perplexity", "kl", "agreement", "off_target")
MODES = ("none", "chat", "both")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A tiny Qwen 3 with a thinking template."""
    CONFIGS["roomy_qwen3"] = longer(config_of("Qwen3Config", **WIDE))
    model = load_model(tiny_model_dir("roomy_qwen3", tmp_path_factory.mktemp("qwen3")))
    model.tokenizer.chat_template, _, _ = TEMPLATES["Qwen 3"]
    return model


@pytest.fixture(scope="module")
def runs(model: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The audits of the unedited model, in folders whose scores do not meet."""
    places = {mode: tmp_path_factory.mktemp(mode) / "run" for mode in MODES}
    return {
        mode: ce.audit(in_template(model, mode, "Write."), small_task(), (), MEASURED, place)
        for mode, place in places.items()
    }


def figures(run: Run) -> dict[tuple[str, ...], float | None]:
    return {
        (row.metric, row.dataset, row.group_a, row.group_b): row.value for row in run.results.rows
    }


def test_its_figures_are_those_of_an_audit_in_each_form(runs: dict[str, Run]) -> None:
    plain, chat, both = (figures(runs[mode]) for mode in MODES)
    replies = {(metric, data + IN_CHAT, *pair): x for (metric, data, *pair), x in chat.items()}
    assert both == plain | replies
    assert len(both) == 2 * len(plain)
    changed = [key for key, value in plain.items() if value != chat[key]]
    assert {"mean_abs_r", "perplexity", "agreement"} <= {metric for metric, *_ in changed}


def test_an_edit_is_measured_in_both_and_said_to_be(model: LanguageModel, tmp_path: Path) -> None:
    own = in_template(model, "both", "Write.")
    run = ce.audit(own, small_task(), "leace", ("r", "kl"), tmp_path / "run", layers=[1])
    [edit, _] = run.results.edits
    for metric, dataset in (("mean_abs_r", "test"), ("kl", "neutral")):
        of_edit = {row.dataset: row for row in run.results.of(metric, edit=edit.id)}
        assert {dataset, dataset + IN_CHAT} <= {*of_edit}
        assert of_edit[dataset].value != of_edit[dataset + IN_CHAT].value
    # What is selected by is measured on plain texts.
    assert not any(r.dataset.endswith(IN_CHAT) for r in run.results.rows if r.split != "test")
    assert run.manifest["template"]["beside"] == "plain texts"
    page = html.unescape(run.report(tmp_path / "page.html").read_text("utf-8"))
    assert "test, in chat" in page
    assert "those of test data stand in the model's chat template too" in page
    assert (
        "which begins after an empty thought (the template is told enable_thinking=False)" in page
    )
    # A budget holds in either form.
    [rows, before] = (run.results.of("kl", edit=key) for key in (edit.id, "none"))
    assert {row.dataset for row in METRICS.make("kl").counted(rows)} == {
        "neutral",
        "neutral" + IN_CHAT,
    }
    assert len(before) == 2
