"""Perturbing by a language model: what is asked of it, and what its failures do to a run."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import PairedPrompt, answer
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import ServerPerturber, make_perturber
from tests.metrics.fairpair_settings import WORDS, fairpair, row_of


class _Server(BaseHTTPRequestHandler):
    mode = "right"
    failures = 0
    requests: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append(body | {"key": self.headers.get("Authorization")})
        if type(self).failures:
            type(self).failures -= 1
            self.send_error(503)
            return
        content = body["messages"][0]["content"]
        text = content.split("anything else: ", 1)[1].rsplit("\n\nOutput:", 1)[0]
        right = RULES([text], PAIR)[0]
        reply: Any = {"choices": [{"message": {"content": right}}]}
        if self.mode == "broken":
            reply = {"error": "?"}
        data = json.dumps(reply).encode()
        self.send_response(404 if self.mode == "absent" else 200)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


RULES = make_perturber("rules", ("male", "female"), WORDS)
PAIR = PairedPrompt("nurse", "John works.", "Jane works.", "John", "Jane")


@pytest.fixture
def server() -> Iterator[str]:
    _Server.mode, _Server.failures, _Server.requests = "right", 0, []
    httpd = HTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}/v1"
    httpd.shutdown()
    httpd.server_close()


def test_a_server_is_asked_as_the_paper_asks_and_asked_again(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    _Server.failures = 1
    perturb = ServerPerturber(("male", "female"), server, "m", key_variable="MY_KEY", parallel=1)
    assert perturb(["John works. He rests."], PAIR) == ["Jane works. She rests."]
    assert len(_Server.requests) == 2
    first = _Server.requests[0]
    assert first["messages"][0]["content"].startswith("Change John (male) to Jane (female) in the")
    assert first["key"] == "Bearer secret"
    assert "secret" not in repr(vars(perturb))


def test_what_was_sampled_is_kept_when_the_server_fails(server, testbed, tmp_path):
    settings = {"kind": "server", "url": server, "model": "m", "attempts": 1}
    context = EvaluationContext(testbed, tmp_path)
    absent = fairpair(perturber=settings | {"url": "http://127.0.0.1:9/v1"})
    with pytest.raises(UserError, match=r"cannot be reached \(ConnectError\).*sampled is kept"):
        absent.measure(context, None)
    files = {p: p.read_bytes() for p in (context.store("fairpair") / "none").iterdir()}
    assert len(files) == 3
    rows = fairpair(perturber=settings).measure(context, None)
    assert all(p.read_bytes() == text for p, text in files.items())
    by_rules = fairpair().measure(EvaluationContext(testbed, tmp_path / "rules"), None)
    assert row_of(rows, "fairpair_f", "jaccard") == row_of(by_rules, "fairpair_f", "jaccard")


@pytest.mark.parametrize(
    ("mode", "message"), [("absent", "answers 404"), ("broken", "no chat completion")]
)
def test_a_server_that_answers_wrongly_is_named(server, mode, message):
    _Server.mode = mode
    with pytest.raises(UserError, match=message):
        ServerPerturber(("male", "female"), server, "m", attempts=1)(["John works."], PAIR)


def test_a_local_model_perturbs(testbed):
    from countergen_edit.testbed import directory

    settings = {"kind": "local", "model": str(directory())}
    [text] = make_perturber(settings, ("male", "female"), None)(["John works."], PAIR)
    assert isinstance(text, str)
    assert answer('  "Jane works." ') == "Jane works."
    assert answer('Output: "A," said "B"') == '"A," said "B"'


def test_without_its_libraries_the_server_names_the_extra(monkeypatch):
    for library in ("httpx", "tenacity"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, library, None)
            with pytest.raises(UserError) as error:
                fairpair(perturber={"kind": "server", "url": "http://x", "model": "m"})
        assert str(error.value) == (
            f"perturber server needs {library}: pip install 'countergen-edit[server]'"
        )


def test_a_perturber_of_a_file_gets_what_it_takes(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "class Shout:\n"
        "    def __init__(self, groups, mark='!'):\n"
        "        self.end = f' {groups[1]}{mark}'\n"
        "    def __call__(self, texts, prompt):\n"
        "        return [text + self.end for text in texts]\n"
    )
    settings = {"kind": f"{file}:Shout", "mark": "?"}
    assert fairpair(perturber=settings).perturber(["Hello"], PAIR) == ["Hello female?"]
    with pytest.raises(UserError, match="did you mean 'mark'"):
        fairpair(perturber=settings | {"mrk": "?"})
