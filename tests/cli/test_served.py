"""An audit of a model behind a server: what is resumed is free."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.models import server as server_module
from countergen_edit.runs.folder import read_rows
from tests.cli.test_mistakes import fails
from tests.models.completions_server import Completions, serving

SECRET = "sk-of-nobody-else"
SETS = ["data.test=[{source:testbed,family:hobbies}]", "names.test=2"]
SMALL = [
    "eraser=none",
    "metric=[r,fairpair]",
    "cost=perplexity",
    "limit=2",
    "texts=testbed",
    *SETS,
    "metric.fairpair.n=3",
    "metric.fairpair.occupations=1",
    "metric.fairpair.max_new_tokens=3",
    "metric.fairpair.permutations=20",
]


@pytest.fixture(scope="module")
def server(testbed: LanguageModel):
    with serving(testbed, key=SECRET) as running:
        yield running


def words(server: Completions, folder: Path, *more: str) -> list[str]:
    place = [f"run_dir={folder / 'run'}", f"model.cache={folder / 'answers'}"]
    return ["audit", f"model={server.url}", *SMALL, *place, *more]


def values(folder: Path) -> dict[tuple[object, ...], float | None]:
    return {row.key: row.value for row in read_rows(folder / "results.jsonl")}


def of(rows: list[Row], *metrics: str) -> list[Row]:
    return [row for row in rows if row.metric in metrics]


@pytest.mark.slow
def test_a_served_model_is_audited_as_the_same_model_here(server, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert main(words(server, tmp_path)) == 0
    said = capfd.readouterr()
    assert server.answered == len(server.requests)
    assert "Not measured on the-model, as it runs on" in " ".join(said.out.split())
    local = [w for w in SMALL if not w.startswith("metric=")]
    local = [w for w in local if not w.startswith(("metric.", "cost="))] + ["cost=null"]
    here = ["audit", "model=testbed", "metric=r", *local, f"run_dir={tmp_path / 'here'}"]
    assert main(here) == 0
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    there = {r.dataset: r for r in of(rows, "mean_abs_r")}
    own = {r.dataset: r for r in of(read_rows(tmp_path / "here" / "results.jsonl"), "mean_abs_r")}
    assert there.keys() == own.keys() != set()
    for dataset, row in own.items():
        assert there[dataset].value == pytest.approx(row.value, abs=1e-5)
    assert any(row.metric.startswith("fairpair_") for row in rows)

    kept = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert not [1 for content in kept if SECRET.encode() in content]
    assert SECRET not in said.out + said.err

    # A run in another folder, at another pace, finds every answer on disk.
    answered, before = server.answered, values(tmp_path / "run")
    more = ["model.parallel=2", f"run_dir={tmp_path / 'again'}"]
    assert main([w for w in words(server, tmp_path) if "run_dir" not in w] + more) == 0
    assert server.answered == answered
    assert values(tmp_path / "again") == before
    # And one that goes on where it was is the same run, however it is asked.
    assert main(words(server, tmp_path, "model.attempts=2")) == 0


@pytest.mark.slow
def test_a_run_that_fails_half_way_goes_on_without_paying_twice(
    server, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    first, answered = len(server.requests), server.answered
    server.faults = [None] * 30 + [(500, {})] * 40  # type: ignore[list-item]
    assert main(words(server, tmp_path, "model.attempts=2", "model.parallel=2")) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "answers 500 (not now)" in last
    assert "the same command continues" in last
    assert 28 <= server.answered - answered <= 30
    server.faults = []
    assert main(words(server, tmp_path)) == 0
    distinct = {json.dumps(r, sort_keys=True) for r in server.requests[first:]}
    assert server.answered - answered == len(distinct)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["metric=[r,fairpair,cid]"], "leave cid out of metric"),
        (["eraser=leace"], "eraser=none"),
        (["model.log_probs=none"], "needs likelihoods of texts"),
        (["model.served_name=the-modle"], "did you mean 'the-model'"),
        (["model.key=sk-1"], "unknown setting"),
    ],
)
def test_what_a_served_model_cannot_do_is_said_before_anything_is_asked(
    server, tmp_path, monkeypatch, capsys, more, said
):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    asked = len(server.requests)
    wrong = [w for w in words(server, tmp_path) if w.partition("=")[0] != more[0].partition("=")[0]]
    assert said in fails(capsys, *wrong, *more)
    assert len(server.requests) == asked
    assert not (tmp_path / "run").exists()


def test_a_server_that_hangs_is_waited_for_aloud(monkeypatch, capsys):
    monkeypatch.setattr(server_module, "SILENCE", 0.1)
    monkeypatch.setattr(server_module, "TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        assert main(["audit", f"model={url}", "eraser=none", "metric=r"]) == 2
    waiting, failed = capsys.readouterr().err.strip().splitlines()
    said = "no answer from {} for 0.1 s: waiting up to 0.5 s in each of 2 attempts"
    assert waiting == f"countergen-edit: {said.format(url)}"
    assert failed.startswith(
        f"countergen-edit: error: the server {url} cannot be reached (ReadTime"
    )


def test_a_web_page_is_no_server(capsys):
    with HTTPServer(("127.0.0.1", 0), Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{pages.server_port}/v1"
        assert main(["audit", f"model={url}", "eraser=none", "metric=r"]) == 2
        pages.shutdown()
    said = f"the server {url} is a web page (the address of an API ends in /v1): see that it runs"
    assert capsys.readouterr().err.startswith(f"countergen-edit: error: {said}")


class Page(BaseHTTPRequestHandler):
    """Answers with a page, whatever is asked."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html><p>No such model.")

    def log_message(self, *_: object) -> None:
        """Nothing."""
