"""A language model as the perturber: what it is told, and what its errors do."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.cli.main import main
from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import PairedPrompt, RulePerturber
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.llm import PROMPT
from countergen_edit.metrics.results import Results
from countergen_edit.reports.blocks import plain
from countergen_edit.reports.views.fairpair import FairPairView
from countergen_edit.runs.folder import read_rows
from countergen_edit.testbed import directory
from tests.cli.support import entries
from tests.gender import SWAP
from tests.metrics.fairpair_settings import fairpair, row_of
from tests.models.completions_server import Completions, serving

JOHN_TO_JANE = PairedPrompt("", "John", "Jane", "John", "Jane")
HEAD, TAIL = PROMPT.split("{text}")
RULES = RulePerturber(SWAP, "male", "female")


def told(request: dict[str, Any]) -> str:
    """The text that a request has perturbed."""
    head = HEAD.replace("{source}", "John (male)").replace("{target}", "Jane (female)")
    assert request["prompt"].startswith(head)
    assert request["prompt"].endswith(TAIL)
    assert request["temperature"] == 0
    return str(request["prompt"].removeprefix(head).removesuffix(TAIL))


@pytest.fixture
def server(testbed, tmp_path, monkeypatch):
    """It perturbs by our rules, but for every fourth text, each time with another error."""
    monkeypatch.chdir(tmp_path)
    with serving(testbed) as running:
        running.complete = lambda request: completion(running, request)  # type: ignore[method-assign]
        yield running


def completion(server: Completions, request: dict[str, Any]) -> dict[str, Any]:
    text = told(request)
    [right] = RULES([text], JOHN_TO_JANE)
    wrong = {
        "start": f"Sure! {right}",
        "source name": f"{right} JOHN too.",
        "dissimilarity": f"{right} Question: what would a stranger answer about zebras? Nothing.",
    }
    place = sorted(wrong)[len(text) % 4 - 1] if len(text) % 4 else ""
    server.said[text] = place  # type: ignore[attr-defined]
    return {"choices": [{"index": 0, "text": f"\n{wrong.get(place, right)}\n"}]}


def test_its_texts_are_filtered_and_each_failure_is_counted_and_shown(server, testbed, tmp_path):
    server.said = {}
    perturber = {"kind": "llm", "model": server.url}
    metric = fairpair(n=12, perturber=perturber)
    rows = metric.measure(context := EvaluationContext(testbed, tmp_path / "store"), None)
    every = [
        server.said[s.prompt.source + text] for s in metric.sampled(context, None) for text in s.g_x
    ]
    failed = {reason: every.count(reason) for reason in ("start", "source name", "dissimilarity")}
    row = row_of(rows, "fairpair_perturbed")
    assert row.detail["left_out"] == failed
    assert min(failed.values()) > 0
    assert row.value == pytest.approx(every.count("") / len(every))
    assert row.n == len(every) == 36
    assert len(server.requests) == len(server.said)  # equal texts are asked once, and kept
    tab, *_ = FairPairView().sections(Results([replace(row, split="test") for row in rows]))
    said = " ".join(text for block in tab.blocks for text in getattr(block, "sentences", ()))
    assert "Left out of 36 perturbations" in said
    for reason, count in failed.items():
        assert f"{count} by filter {reason!r}" in said
    kinds = {one["left_out"]: one for one in row.detail["examples"]}
    assert {*kinds} == {None, *failed}
    assert kinds["start"]["perturbed"].startswith("Sure! Jane")
    [shown] = [table for table in tab.tables() if table.name == "fairpair_perturbations"]
    assert {plain(line[-1]) for line in shown.rows} == {"✓", *(f"✗ {reason}" for reason in failed)}


def test_what_passes_gives_the_figures_of_the_rules(server, testbed, tmp_path):
    server.complete = lambda request: {
        "choices": [{"text": RULES([told(request)], JOHN_TO_JANE)[0]}]
    }
    by_llm = fairpair(n=8, perturber={"kind": "llm", "model": server.url})
    rows = [
        metric.measure(EvaluationContext(testbed, tmp_path / name), None)
        for name, metric in (("llm", by_llm), ("rules", fairpair(n=8)))
    ]
    assert [*map(asdict, rows[0])] == [*map(asdict, rows[1])]


def test_a_prompt_of_ones_own_is_sent_and_a_loaded_model_is_asked(server, testbed, tmp_path):
    asked: list[str] = []
    server.complete = lambda request: asked.append(request["prompt"]) or {"choices": [{"text": ""}]}
    settings = {"kind": "llm", "model": server.url, "prompt": "{source} > {target}: {text} {x}"}
    assert fairpair(perturber=settings).perturber(["John {text} a"], JOHN_TO_JANE) == [""]
    assert asked == ["John (male) > Jane (female): John {text} a {x}"]
    loaded = {"kind": "llm", "model": str(directory()), "prompt": "{text}", "max_new_tokens": 3}
    [text] = fairpair(perturber=loaded).perturber(["The boss says that John"], JOHN_TO_JANE)
    assert 0 < len(text.split()) <= 3


def test_a_server_that_is_not_there_is_named_before_anything_is_sampled() -> None:
    with pytest.raises(UserError, match="cannot be reached"):
        fairpair(perturber={"kind": "llm", "model": "http://127.0.0.1:9/v1"})


@pytest.mark.slow
def test_the_experiment_runs_with_a_served_perturber(server, tmp_path: Path) -> None:
    server.said = {}
    words = ["audit", "experiment=fairpair_llm", "model=testbed", "cost=agreement"]
    words += [f"metric.fairpair.{k}" for k in ("n=4", "occupations=2", "max_new_tokens=4")]
    words += [f"metric.fairpair.perturber.{k}" for k in (f"model={server.url}", "served_name=null")]
    assert main([*words, f"run_dir={tmp_path / 'run'}"]) == 0
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    for figure in entries()["fairpair_llm"].figures:
        assert figure.of(rows), figure.what
    assert "Left out of 8 perturbations" in (tmp_path / "run" / "report.html").read_text("utf-8")
