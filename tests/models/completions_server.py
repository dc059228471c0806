"""A server on loopback that speaks OpenAI's completions protocol, with a model behind it.

It tokenises, scores and writes by plain transformers, and echoes the log-probabilities of a prompt.
Faults are played in order, one a request. `answered` counts the completions that were sent whole.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

Fault = str | tuple[int, dict[str, str]]
"""`cut`, `malformed`, `odd`, `hang`; or a status with headers."""


class Completions(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, lm: Any, name: str = "the-model", key: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.tokenizer = lm.bridge.original_model, lm.tokenizer
        self.name, self.key = name, key
        self.faults: list[Fault | None] = []
        self.requests: list[dict[str, Any]] = []
        self.answered = 0
        self.without: tuple[str, ...] = ()  # what this server has no notion of
        self.bos = False  # whether the tokens of an echo begin with a special one
        self.lock = threading.Lock()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        prompt, echo = request["prompt"], request.get("echo", False)
        ids = self.tokenizer(prompt).input_ids
        new = self._write(ids, request)
        text = self.tokenizer.decode(new, skip_special_tokens=True)
        choice = {"index": 0, "text": prompt * echo + text, "logprobs": None}
        if "logprobs" in request and "logprobs" not in self.without:
            every = torch.tensor([*ids, *new])
            with torch.inference_mode():
                table = self.model(every[None]).logits[0, :-1].double().log_softmax(-1)
            values = [None, *table.gather(1, every[1:, None])[:, 0].tolist()]
            tokens = [self.tokenizer.decode([token]) for token in every]
            if self.bos:
                tokens, values = ["<s>", *tokens], [None, *values]
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": values}
        return {"object": "text_completion", "model": self.name, "choices": [choice]}

    def _write(self, ids: list[int], request: dict[str, Any]) -> list[int]:
        how = {"do_sample": False}
        if request.get("temperature", 1.0):
            how = {key: request.get(key, 1.0) for key in ("temperature", "top_p")}
            how |= {"do_sample": True, "top_k": 0}
        with torch.random.fork_rng([]):
            torch.manual_seed(request.get("seed", 0))
            given = torch.tensor([ids])
            mask, most = torch.ones_like(given), request["max_tokens"]
            text = self.model.generate(given, attention_mask=mask, max_new_tokens=most, **how)
        new: list[int] = text[0, len(ids) :].tolist()
        return new[:-1] if new[-1] == self.tokenizer.eos_token_id else new


class Handler(BaseHTTPRequestHandler):
    server: Completions
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None: ...

    def send(self, content: bytes, status: int = 200, **headers: Any) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": len(content)} | headers).items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    def is_allowed(self) -> bool:
        given = self.headers.get("Authorization")
        if self.server.key is None or given == f"Bearer {self.server.key}":
            return True
        self.send(json.dumps({"error": {"message": f"no such key: {given}"}}).encode(), 401)
        return False

    def do_GET(self) -> None:
        if self.is_allowed():
            self.send(json.dumps({"data": [{"id": self.server.name}]}).encode())

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_allowed():
            return
        with server.lock:  # one core: no two forward passes side by side
            server.requests.append(body)
            fault = server.faults.pop(0) if server.faults else None
            content = json.dumps(server.complete(body)).encode()
            server.answered += fault is None
        if isinstance(fault, tuple):
            self.send(b'{"error": {"message": "not now"}}', fault[0], **fault[1])
        elif fault == "hang":
            server.over.wait()
            self.close_connection = True
        elif fault == "odd":
            self.send(b'{"object": "text_completion"}')
        elif fault == "cut":
            self.send(content[: len(content) // 2], **{"Content-Length": len(content)})
            self.close_connection = True
        else:
            self.send(content[: len(content) // 2] if fault == "malformed" else content)


@contextmanager
def serving(lm: Any, **about: Any) -> Iterator[Completions]:
    server = Completions(lm, **about)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
