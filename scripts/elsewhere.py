"""A saved edited model in the programs that people run models in, against the audited model.

    countergen-edit edit … save=DIR form=folded
    pip install --no-deps --target OLD transformers==4.57.6 tokenizers==0.22.2 \\
        huggingface_hub==0.36.2
    pip download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36
    tar xzf llama_cpp_python-0.3.36.tar.gz
    CONVERTER=llama_cpp_python-0.3.36/vendor/llama.cpp/convert_hf_to_gguf.py
    python scripts/elsewhere.py DIR OLD $CONVERTER

For each program a line: how many texts have the same tokens, and the largest difference of
log-probabilities over all tokens after each token of the texts. llama.cpp is that of `xllamacpp`,
after llama.cpp's own converter, in single precision; `transformers serve` gives greedy texts alone.
`peft` puts the edit's changes of block matrices on the unedited model, as an adapter.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import torch
from safetensors.torch import load_file
from torch import Tensor

from countergen_edit import api
from countergen_edit.edits import UNCHANGED, Edit, applied
from countergen_edit.edits.checkpoints import open_checkpoint
from countergen_edit.edits.checkpoints.forms import write_adapter
from countergen_edit.edits.checkpoints.parity import edited_logits, reload
from countergen_edit.edits.edit import LowRankUpdate
from countergen_edit.models import LanguageModel, encode, generate

TEXTS = [
    "Jane is a nurse and she works at the hospital, where her colleagues",
    "John, an engineer of 42 years, said: “I'm late”; then he",
    "The café's owner asked them twice whether the weather",
]
NEW_TOKENS = 12
PATIENCE = 300
"""Seconds until a server answers."""
TOKENS = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([tokenizer(text).input_ids for text in json.loads(sys.argv[2])]))
"""
LogP = list[Tensor]


def log_p(logits: Tensor) -> Tensor:
    """Log-probabilities of every token after each of a text, float64."""
    return logits.double().log_softmax(-1)


def audited(model: LanguageModel, edit: Edit, ids: Sequence[Sequence[int]]) -> LogP:
    """Log-probabilities of the model that was measured."""
    return [log_p(edited_logits(model, edit, row)) for row in ids]


def report(program: str, tokens: str, found: LogP, expected: LogP) -> None:
    """Print the line of a program."""
    apart = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
    print(f"{program}: {tokens}; log-probabilities differ by at most {apart:.1e}", flush=True)


def equal(found: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> str:
    """How many texts have the same tokens."""
    same = sum([*a] == [*b] for a, b in zip(found, expected, strict=True))
    return f"tokens of {same} of {len(expected)} texts are equal"


@contextmanager
def path_of(folder: str) -> Iterator[None]:
    """Packages of a folder come first in processes that are started."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = folder
    try:
        yield
    finally:
        os.environ["PYTHONPATH"] = before or ""


def in_transformers(folder: Path, ids: list[list[int]], packages: str) -> tuple[str, LogP]:
    """The tokens and log-probabilities of a fresh process, by the packages of a folder."""
    with path_of(packages):
        code = [sys.executable, "-c", TOKENS, str(folder), json.dumps(TEXTS)]
        told = subprocess.run(code, capture_output=True, text=True, check=True).stdout
        logits, missing = reload({"saved": (folder, ids, "float32", False)})
    assert not missing["saved"], missing
    found = equal(json.loads(told.splitlines()[-1]), ids)
    return found, [log_p(logits[f"saved.{i}"]) for i in range(len(ids))]


def in_llama_cpp(folder: Path, ids: list[list[int]], converter: str) -> tuple[str, LogP]:
    """The tokens and log-probabilities of llama.cpp, after its own converter."""
    import xllamacpp

    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "model.gguf"
        command = [sys.executable, converter, str(folder), "--outfile", str(file)]
        subprocess.run([*command, "--outtype", "f32"], check=True, capture_output=True)
        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.n_parallel = str(file), 128, 1
        params.warmup, params.verbosity, params.cpuparams.n_threads = False, -1, 1
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        server = xllamacpp.Server(params)

        def after(prompt: Any) -> Tensor:
            """Log P of every token after tokens, or after a text of which it makes tokens."""
            # They come with the sampled token: one that is a word is made the likeliest.
            asked = {"prompt": prompt, "n_predict": 1, "n_probs": 100_000}
            answer = server.handle_completions(asked | {"logit_bias": [[ids[0][1], 100]]})
            [step] = answer["choices"][0]["logprobs"]["content"]
            told = sorted((token["id"], token["logprob"]) for token in step["top_logprobs"])
            return torch.tensor([p for _, p in told], dtype=torch.float64)

        found = [torch.stack([after(row[: i + 1]) for i in range(len(row))]) for row in ids]
        pairs = zip(TEXTS, found, strict=True)
        same = sum(bool((after(text) - own[-1]).abs().max() < 1e-4) for text, own in pairs)
    return f"tokens of {same} of {len(ids)} texts are equal", found


def in_peft(
    model: LanguageModel, edit: Edit, folder: Path, ids: list[list[int]]
) -> tuple[str, LogP, LogP]:
    """Log-probabilities of `peft` and ours of the changes of block matrices, as an adapter."""
    source = Path(model.directory)
    old, new = (
        {k: v for file in place.glob("*.safetensors") for k, v in load_file(file).items()}
        for place in (source, folder)
    )
    factors = {}
    for name, before in old.items():
        if ".layers." in name and before.ndim == 2 and not torch.equal(before, new[name]):
            change = new[name].double() - before.double()
            u, s, v = (x.float().numpy() for x in torch.linalg.svd(change, full_matrices=False))
            own = slice(edit.rank)
            factors[name.removesuffix(".weight")] = v[own], u[:, own] * s[own]
    update = LowRankUpdate(factors)
    with tempfile.TemporaryDirectory() as place:
        write_adapter(model, update, adapter := Path(place) / "adapter", {})
        logits, _ = reload({"peft": (source, ids, "float32", False, str(adapter))})
    found = [log_p(logits[f"peft.{i}"]) for i in range(len(ids))]
    [unedited] = audited(model, UNCHANGED, ids[:1])
    changed = float((found[0] - unedited).abs().max())
    about = f"{len(factors)} matrices, which change them by up to {changed:.2g}"
    return about, found, audited(model, Edit((), update=update), ids)


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """The address of a server that a command starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    options = ["--host", "127.0.0.1", "--port", port, "--device", "cpu"]
    server = subprocess.Popen([*command, *options], env=offline, stderr=subprocess.DEVNULL)
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


def completed(address: str, folder: Path, prompt: str) -> str:
    """The likeliest text after a prompt, of a folder that is served."""
    asked = {"model": str(folder), "prompt": prompt, "max_tokens": NEW_TOKENS, "temperature": 0}
    headers = {"Content-Type": "application/json"}
    request = Request(f"{address}/v1/completions", json.dumps(asked).encode(), headers)
    with urlopen(request) as answer:
        return str(json.load(answer)["choices"][0]["text"])


def main(place: str, old: str, converter: str) -> None:
    """Print the lines."""
    checkpoint, torch_threads = open_checkpoint(place), torch.get_num_threads()
    folder, edit = checkpoint.folder.resolve(), checkpoint.edit
    model = api.load_original(checkpoint)
    ids = [encoding.ids for encoding in encode(model, TEXTS)]
    expected, unedited = (audited(model, own, ids) for own in (edit, UNCHANGED))
    count = sum(map(len, ids))
    print(f"{model.name}, {edit.rank} directions, {count} tokens, {torch_threads} threads")
    report("the unedited model", "for scale", unedited, expected)
    report("this transformers", *in_transformers(folder, ids, ""), expected)
    report("transformers of OLD", *in_transformers(folder, ids, old), expected)
    report("peft", *in_peft(model, edit, folder, ids))
    report("llama.cpp", *in_llama_cpp(folder, ids, converter), expected)
    with applied(model, edit):
        written = generate(model, TEXTS, max_new_tokens=NEW_TOKENS)
    program = str(Path(sys.executable).with_name("transformers"))
    with serving(program, "serve", str(folder)) as address:
        served = [completed(address, folder, text) for text in TEXTS]
    same = sum(a == b for a, b in zip(served, written, strict=True))
    print(
        f"transformers serve: {same} of {len(TEXTS)} greedy texts of {NEW_TOKENS} tokens are equal"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
