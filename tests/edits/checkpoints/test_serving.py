"""`transformers serve` writes what the audited model does, from stock weights and carried ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from transformers.utils.import_utils import is_serve_available

import countergen_edit
from countergen_edit.edits import applied
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import generate
from tests.edits.checkpoints.conftest import edit_at
from tests.printed import files

ROOT = Path(countergen_edit.__file__).parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_serve_available(), reason="pip install 'transformers[serving]'"),
]
PROMPTS = ["Jane is a nurse and", "John works as", "Emily was"]
NEW_TOKENS = 12
PATIENCE = 180
"""Seconds until a server answers."""


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """The address of a server that a command starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", port, "--device", "cpu"], env=offline
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(PATIENCE):
            try:
                urlopen(f"{address}/health")
                break
            except URLError:
                assert server.poll() is None, "the server ended"
                time.sleep(1)
        yield address
    finally:
        server.terminate()
        server.wait()


def completed(address: str, model: Path, prompt: str) -> str:
    asked = {"model": str(model), "prompt": prompt, "max_tokens": NEW_TOKENS, "temperature": 0}
    headers = {"Content-Type": "application/json"}
    request = Request(f"{address}/v1/completions", json.dumps(asked).encode(), headers)
    with urlopen(request) as answer:
        return str(json.load(answer)["choices"][0]["text"])


@pytest.mark.parametrize(
    ("form", "family", "site"),
    [("folded", "gpt2", "attn_out"), ("carried", "testbed", "resid_post")],
)
def test_a_served_checkpoint_writes_what_the_edited_model_does(
    form, family, site, models, tmp_path
):
    model, folder = models[family], tmp_path / "saved"
    edit = edit_at(model, site)
    folder.mkdir()
    write_model(model, edit, folder, form)
    command = [str(Path(sys.executable).with_name("transformers")), "serve"]
    if form == "carried":
        script = tmp_path / "serve_edited.py"
        page = (ROOT / "docs/models.md").read_text("utf-8")
        script.write_text(files(page)[script.name], "utf-8")
        command = [sys.executable, str(script)]
    with serving(*command, str(folder)) as address:
        served = [completed(address, folder, prompt) for prompt in PROMPTS]
    with applied(model, edit):
        assert served == generate(model, PROMPTS, max_new_tokens=NEW_TOKENS)
    assert served != generate(model, PROMPTS, max_new_tokens=NEW_TOKENS)
