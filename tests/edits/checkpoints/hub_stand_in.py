"""A small server that speaks as much of the hub's HTTP API as an upload of a folder needs."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Hub(ThreadingHTTPServer):
    """Repositories in memory: `files[repository][path]` is content."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.objects: dict[str, bytes] = {}
        self.cards: list[str] = []
        self.refuse = False

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *args: Any) -> None:
        pass

    def answer(self, content: Any, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        return b"".join(parts)

    def do_GET(self) -> None:
        if self.server.refuse:
            self.answer({"error": "Invalid username or password."}, 401)
            return
        path = urlsplit(self.path).path
        repository = "/".join(path.split("/")[3:5])
        if "/tree/" in path:
            files = self.server.files.get(repository, {})
            self.answer(
                [{"type": "file", "path": p, "size": len(c), "oid": "0"} for p, c in files.items()]
            )
        else:
            siblings = [{"rfilename": p} for p in self.server.files.get(repository, {})]
            self.answer({"id": repository, "sha": "0" * 40, "siblings": siblings})

    def do_PUT(self) -> None:
        content = self.body()
        oid = self.path.rpartition("/")[2]
        assert sha256(content).hexdigest() == oid
        self.server.objects[oid] = content
        self.answer({})

    def do_POST(self) -> None:
        path, content = urlsplit(self.path).path, self.body()
        if self.server.refuse:
            self.answer({"error": "Invalid username or password."}, 401)
        elif path == "/api/repos/create":
            request = json.loads(content)
            name = f"{request['organization']}/{request['name']}"
            self.server.files.setdefault(name, {})
            self.server.private[name] = request.get(
                "private", request.get("visibility") == "private"
            )
            self.answer({"url": f"{self.server.endpoint}/{name}"})
        elif path == "/api/validate-yaml":
            self.server.cards.append(json.loads(content)["content"])
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            modes = [
                {
                    "path": f["path"],
                    "uploadMode": "lfs" if f["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for f in json.loads(content)["files"]
            ]
            self.answer({"files": modes})
        elif path.endswith("/objects/batch"):
            objects = [
                o | {"actions": {"upload": {"href": f"{self.server.endpoint}/lfs/{o['oid']}"}}}
                for o in json.loads(content)["objects"]
            ]
            self.answer({"transfer": "basic", "objects": objects})
        elif "/commit/" in path:
            self.commit("/".join(path.split("/")[3:5]), content)
        else:
            self.answer({"error": path}, 404)

    def commit(self, repository: str, content: bytes) -> None:
        files = self.server.files[repository]
        for line in content.splitlines():
            part = json.loads(line)
            value = part["value"]
            if part["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif part["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif part["key"] == "deletedFile":
                files.pop(value["path"])
        url = f"{self.server.endpoint}/{repository}/commit/{'1' * 40}"
        self.answer({"success": True, "commitOid": "1" * 40, "commitUrl": url})


@contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
