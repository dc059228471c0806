"""An audit of a model behind a server: what is resumed is free."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from countergen_edit.models import served
from tests.cli.support import call, fails, rows_of, said, sets
from tests.models.completions_server import serving

SECRET = "sk-of-nobody-else"
SMALL = ["eraser=none", "limit=2", "texts=testbed", *sets("hobbies", ["test"]), "names.test=2"]
FAIRPAIR = {"n": 3, "occupations": 1, "max_new_tokens": 3, "permutations": 20}
ASKED = [*SMALL, "metric=[r,fairpair]", "cost=perplexity"]
ASKED += [f"metric.fairpair.{key}={value}" for key, value in FAIRPAIR.items()]


@pytest.fixture(scope="module")
def server(testbed):
    with serving(testbed, key=SECRET) as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def words(server, *more):
    return ["audit", f"model={server.url}", *ASKED, "model.cache=answers", *more]


@pytest.mark.slow
def test_a_served_model_is_audited_as_the_same_model_here(server, here):
    ended = call(*words(server, "run_dir=run"))
    assert ended.code == 0
    assert server.answered == len(server.requests)
    assert "Not measured on the-model, as it runs on" in ended.words
    said("audit", "model=testbed", "metric=r", *SMALL, "cost=null", "run_dir=here")
    served_values, values = (
        {r.dataset: r.value for r in rows_of(run, "mean_abs_r")} for run in ("run", "here")
    )
    assert served_values == pytest.approx(values, abs=1e-5)
    assert values
    assert any(row.metric.startswith("fairpair_") for row in rows_of("run"))
    assert not [p for p in here.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert SECRET not in ended.out + ended.err

    # A run in another folder, at another pace, finds every answer on disk.
    answered = server.answered
    said(*words(server, "model.parallel=2", "run_dir=again"))
    assert server.answered == answered
    first, second = ({row.key: row.value for row in rows_of(run)} for run in ("run", "again"))
    assert first == second
    # And one that goes on where it was is the same run, however it is asked.
    said(*words(server, "model.attempts=2", "run_dir=run"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("metric=[r,fairpair,cid]", "leave cid out of metric"),
        ("eraser=leace", "eraser=none"),
        ("model.log_probs=none", "needs likelihoods of texts"),
        ("model.served_name=the-modle", "did you mean 'the-model'"),
        ("model.key=sk-1", "unknown setting"),
    ],
)
def test_what_a_served_model_cannot_do_is_said_before_anything_is_asked(server, more, line):
    asked = len(server.requests)
    same = [w for w in words(server) if w.partition("=")[0] != more.partition("=")[0]]
    assert line in fails(*same, more, "run_dir=run")
    assert len(server.requests) == asked
    assert not Path("run").exists()


def test_a_server_that_hangs_is_waited_for_aloud(monkeypatch):
    monkeypatch.setattr(served, "SILENCE", 0.1)
    monkeypatch.setattr(served, "TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        ended = call("audit", f"model={url}", "eraser=none", "metric=r")
    waiting, failed = ended.err.strip().splitlines()
    line = "no answer from {} for 0.1 s: waiting up to 0.5 s in each of 2 attempts"
    assert (ended.code, waiting) == (2, f"countergen-edit: {line.format(url)}")
    start = f"countergen-edit: error: the server {url} cannot be reached (ReadTime"
    assert failed.startswith(start)


class Page(BaseHTTPRequestHandler):
    """Answers with a page, whatever is asked."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html><p>No such model.")

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_web_page_is_no_server():
    with HTTPServer(("127.0.0.1", 0), Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{pages.server_port}/v1"
        line = fails("audit", f"model={url}", "eraser=none", "metric=r")
        pages.shutdown()
    end = "is a web page (the address of an API ends in /v1): see that it runs"
    assert line.startswith(f"countergen-edit: error: the server {url} {end}")
