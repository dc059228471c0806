"""Every command that the README and the documentation print runs to its end, at a small size.

Where a reader has something that a test has not, a stand-in takes its place: a hub model is a
random-weight model in a directory of that name; runs, files and checkpoints are made beforehand.
"""

import contextlib
import io
import re
import shlex
import shutil
from itertools import chain
from pathlib import Path

import pytest

from countergen_edit.api import load
from countergen_edit.cli.composing import completed
from countergen_edit.cli.overrides import overrides_of
from tests.cli.support import NAMES, TINY, call, prompt_file, said
from tests.data.test_splits import NAMES as NAMES_OF_TEXTS
from tests.data.test_splits import TEMPLATES
from tests.made_benchmarks import DESCRIPTORS, make_benchmarks
from tests.models.completions_server import serving
from tests.printed import commands, files
from tests.test_docs import PAGES, README, SHOWN
from tests.tiny_models import tiny_tokenizer

pytestmark = pytest.mark.slow  # every test is of whole runs

ELSEWHERE = {
    "experiment=": "tests/cli/test_shipped.py",
    "launcher=": "tests/test_docs.py",
    "lm_eval/": "tests/cli/test_compare_logs.py",
    "countergen-edit rate": "tests/runs/test_rate.py",
}
"""Commands that another file runs, which makes what they need."""
WORDS = {"/path/to/": "path/to/", "…": "vader", "TERM": "group effect", "COMMAND": "audit"}
"""What stands in a command for a reader's own word, and what a test writes there."""
SERVER = "http://127.0.0.1:8000/v1"
SMALL = TINY | {
    "layers": "[1]",
    "edit.layers": "[1]",
    "limit": "2",
    "metric.benchmarks.limit": "2",
    "metric.cid.max_new_tokens": "4",
    "most.attribute": "2",
}
del SMALL["model"]
FEW_CONTEXTS = "[{source: testbed, family: traits}]"
EDITING = ("audit", "debias", "sweep", "edit")
UNSET = ("layers", "limit", "directory")
"""Settings that are null unless they are given."""
OUTPUTS = ("save", "run_dir", "folder")
"""Settings that name a folder to be written; each command gets one of its own."""
MODELS = (
    *("gpt2", "gpt2-xl", "path/to/directory"),
    *("real/SmolLM2-135M-Instruct-Q4_1", "real/gemma-3-270m-Q4_K_M"),
)
"""Directories of random-weight models of three layers."""
DEEP = re.compile(r"(?<=layers=\[)[\d,]*\d\d[\d,]*(?=\])")
"""Layers that such a model does not have."""
TEXTS = [text.format(name) for text, name in zip(TEMPLATES, NAMES_OF_TEXTS, strict=False)]
"""Distinct templates, each with a name of its own."""
OWN_ERASER = """from countergen_edit.erasers import MeanDifference as Mine
"""


LINES = chain.from_iterable(map(commands, (README, *PAGES.values())))
PRINTED = dict.fromkeys(shlex.join(shlex.split(line, comments=True)) for line in LINES)
"""Each command once, without its comment."""
HERE = [line for line in PRINTED if not any(word in line for word in ELSEWHERE)]


def small(command, words, place):
    """A command's words, and the settings that make it small unless it gives them."""
    given = [word for word in words if word not in ("--help", "--multirun")]
    config, _ = completed(command, overrides_of(command, given))
    sizes = SMALL | {"names": NAMES.get(command, TINY["names"])}
    sizes["metric.benchmarks.directory"] = f"{place}/benchmarks"
    if command in EDITING and not any(word.startswith("eraser") for word in words):
        sizes["eraser"] = "mean_difference"
    named = {word.partition("=")[0] for word in words}
    if any(word.startswith("cost.") for word in words):
        del sizes["cost"]
    layered = any("layers=" in word for word in words)
    trains = any(word.startswith("eraser=") and "distilled" in word for word in words)
    if command == "edit" and "form=carried" not in words:
        del sizes["edit.layers"]  # stock weights hold no edit of one block
    if "data=many" in words:  # two prompts of a set may be of one group
        sizes |= {"data.fit": FEW_CONTEXTS, "data.validation": FEW_CONTEXTS}
    decides = any(word.startswith("metric=") and "decisions" in word for word in words)
    more = ["eraser.distilled.contexts=16"] * trains + ["metric.decisions.names=2"] * decides
    if trains and not any("distilled.steps" in word for word in words):
        more.append("eraser.distilled.steps=2")
    sizes = {key: size for key, size in sizes.items() if _is_setting(config, key)}
    for key, size in sizes.items():
        if key not in named and not (layered and key.endswith("layers")):
            more.append(f"{key}={size}")
    return words + more


def _is_setting(config, key):
    *parents, last = key.split(".")
    for parent in parents:
        config = config.get(parent) or {}
    return last in config and (config[last] is not None or last in UNSET)


def make_model(folder):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    size = {"n_embd": 32, "n_head": 4, "n_layer": 3, "n_positions": 2048}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **size))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder in which every command finds what it names."""
    place = tmp_path_factory.mktemp("commands")
    with contextlib.chdir(place):
        for name in MODELS:
            make_model(place / name)
        shutil.copytree(place / "gpt2", place / "path/to/an/instruct/model")
        pages = PAGES["own_data.md"], PAGES["decisions.md"], SHOWN["custom_components.md"]
        for name, text in chain.from_iterable(files(page).items() for page in pages):
            Path(name).write_text(text, "utf-8")
        for name in ("mine.jsonl", "many.jsonl", "texts.jsonl"):
            prompt_file(name, TEXTS, " gentle", " logical")
        prompt_file("pares.jsonl", ["Ana dijo que", "Ayer María dijo que"], " sí", " no")
        Path("descriptors.json").write_text(DESCRIPTORS, "utf-8")
        Path("mine.py").write_text(OWN_ERASER, "utf-8")
        make_benchmarks(place / "benchmarks")
        run = ["data=testbed", "eraser=leace", "metric=r"]
        for more in (["run_dir=runs/one", "edit.layers=everywhere"], ["run_dir=runs/gate"]):
            said("audit", *small("audit", [*run, *more], place))
        said("edit", "run=runs/one", "save=debiased")
        said("edit", "run=runs/gate", "form=carried", "save=gated")
        for name in ("two", "debias", "real", "disability", "gender_identity"):
            shutil.copytree("runs/one", f"runs/{name}")
    with serving(load("testbed")) as server:
        WORDS[SERVER] = server.url
        yield place


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize(("number", "line"), [*enumerate(HERE)])
def test_every_command_runs(number, line, place, monkeypatch):
    if "action=effect" in line:  # similarity of sentences needs an extra
        pytest.importorskip("sentence_transformers")
    directory = "debiased" if " chat " in line else "path/to/an/instruct/model"
    for word, instead in {**WORDS, "DIR": directory}.items():
        line = line.replace(word, instead)
    line = DEEP.sub("2", line)
    _, command, *words = shlex.split(line)
    words = [re.sub(rf"^({'|'.join(OUTPUTS)})=.*", rf"\1=made/{number}", word) for word in words]
    if command != "help" and "--help" not in words:
        words = small(command, words, place)
    monkeypatch.setattr("sys.stdin", io.StringIO("Jane works as\n"))
    # Figures are drawn in tests of reports; drawing takes half of a small command's time.
    monkeypatch.setattr("countergen_edit.reports.render.html.as_svg", lambda *_: b"<svg/>")
    ended = call(command, *words)
    # A search may save nothing, prompts may have warnings, and a gate may fail.
    allowed = {"debias": {0, 1}, "check": {0, 1}, "gate": {0, 1, 2}}
    assert ended.code in allowed.get(command, {0}), (words, ended.err)
    assert "countergen-edit: error" not in ended.err, words
