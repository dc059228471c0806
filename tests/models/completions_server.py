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
    """A model behind the protocol."""

    daemon_threads = True

    def __init__(self, lm: Any, name: str = "the-model", key: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.tokenizer = lm.bridge.original_model, lm.tokenizer
        self.name, self.key = name, key
        self.faults: list[Fault] = []
        self.requests: list[dict[str, Any]] = []
        self.answered = 0
        self.at_once = self.most_at_once = 0
        self.without = ()  # what this server has no notion of
        self.bos = False  # whether the tokens of an echo begin with a special one
        self.lock = threading.Lock()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        prompt = request["prompt"]
        ids = self.tokenizer(prompt).input_ids
        count = 1 if "n" in self.without else request.get("n", 1)
        choices = []
        for index in range(count):
            generator = torch.Generator().manual_seed(request.get("seed", 0) + index)
            new = self._write(ids, request, generator)
            text = self.tokenizer.decode(new, skip_special_tokens=True)
            choice = {"index": index, "text": text, "logprobs": None, "finish_reason": "length"}
            if "logprobs" in request and "logprobs" not in self.without:
                every = [*ids, *new] if request.get("echo") else new
                values = self._log_p(ids, new)[0 if request.get("echo") else len(ids) :]
                tokens = [self.tokenizer.decode([token]) for token in every]
                if self.bos and request.get("echo"):
                    tokens, values = ["<s>", *tokens], [None, *values]
                starts = [sum(map(len, tokens[:k])) for k in range(len(tokens))]
                choice["logprobs"] = {
                    "tokens": tokens,
                    "token_logprobs": values,
                    "text_offset": starts,
                    "top_logprobs": None,
                }
            if request.get("echo"):
                choice["text"] = prompt + text
            choices.append(choice)
        return {"object": "text_completion", "model": self.name, "choices": choices[::-1]}

    def _write(self, ids: list[int], request: dict[str, Any], generator: Any) -> list[int]:
        new: list[int] = []
        for _ in range(request["max_tokens"]):
            logits = self._logits([*ids, *new])[-1]
            if request.get("temperature", 1.0) == 0:
                token = int(logits.argmax())
            else:
                p = (logits / request["temperature"]).softmax(-1)
                values, order = p.sort(descending=True)
                kept = values.cumsum(-1) - values < request.get("top_p", 1.0)
                choice = torch.multinomial(values * kept, 1, generator=generator)
                token = int(order[choice])
            if token == self.tokenizer.eos_token_id:
                break
            new.append(token)
        return new

    def _logits(self, ids: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            return self.model(torch.tensor([ids])).logits[0].double()

    def _log_p(self, ids: list[int], new: list[int]) -> list[float | None]:
        every = torch.tensor([*ids, *new])
        table = self._logits(every.tolist())[:-1].log_softmax(-1)
        return [None, *table.gather(1, every[1:, None])[:, 0].tolist()]


class Handler(BaseHTTPRequestHandler):
    server: Completions
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None: ...

    def send(
        self, content: bytes, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def allowed(self) -> bool:
        key = self.server.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        said = f"no such key: {self.headers.get('Authorization')}"
        self.send(json.dumps({"error": {"message": said}}).encode(), 401)
        return False

    def do_GET(self) -> None:
        if self.allowed():
            self.send(json.dumps({"data": [{"id": self.server.name}]}).encode())

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        with server.lock:
            server.requests.append(body)
            fault = server.faults.pop(0) if server.faults else None
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        try:
            self.answer(body, fault)
        finally:
            with server.lock:
                server.at_once -= 1

    def answer(self, body: dict[str, Any], fault: Fault | None) -> None:
        server = self.server
        if isinstance(fault, tuple):
            self.send(b'{"error": {"message": "not now"}}', *fault)
        elif fault == "hang":
            server.over.wait()
            self.close_connection = True
        elif fault == "odd":
            self.send(b'{"object": "text_completion"}')
        else:
            with server.lock:  # one core: no two forward passes side by side
                content = json.dumps(server.complete(body)).encode()
            if fault == "cut":
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
            elif fault == "malformed":
                self.send(content[: len(content) // 2])
            else:
                with server.lock:
                    server.answered += 1
                self.send(content)


@contextmanager
def serving(lm: Any, **about: Any) -> Iterator[Completions]:
    """A server while the block lasts."""
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
