"""A damaged file of this package is read, or refused in one line."""

import json
import shutil
from dataclasses import asdict
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from countergen_edit.api import task
from countergen_edit.core.conf_path import config_of, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import RECIPE
from countergen_edit.data.template_bank import load_bank
from countergen_edit.edits import Edit, NamedEdit, applied
from countergen_edit.edits.checkpoints import open_checkpoint, save_checkpoint
from countergen_edit.edits.checkpoints.loading import write_checksums
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.cid.perturbations import sources_of
from countergen_edit.models import load_model
from countergen_edit.reports.sections import sections
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.run import open_run
from tests.reports.runs import MANIFEST, make_run
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

JSON = (".json", ".jsonl")
ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = [None, True, -1, 0, 3.5, 10**30, "", "abc", "\u2028", [], [1], {}, {"a": 1}]
"""What belongs nowhere, or nearly."""


@st.composite
def damaged_bytes(draw, content):
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(start + 8, len(content))))
    rest = draw(st.sampled_from([content[end:], b""]))
    return content[:start] + draw(st.binary(max_size=8)) + rest


@st.composite
def damaged_json(draw, content):
    """With a value that is another, or gone, at any depth of the file or of one of its lines."""
    text = content.decode()
    parts = [text] if text.startswith("{\n") else text.removesuffix("\n").split("\n")
    i = draw(st.integers(0, len(parts) - 1))
    root = [json.loads(parts[i])]
    holder, key = draw(st.sampled_from(list(_places(root))))
    if draw(st.booleans()):
        holder[key] = draw(st.sampled_from(ODD))
    else:
        del holder[key]
    parts[i] = json.dumps(root[0]) if root else ""
    return "\n".join(parts).encode() + b"\n"


def _places(holder):
    """Every container, with every key of it."""
    for key in holder if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], (dict, list)):
            yield from _places(holder[key])


def damaged(content, is_json):
    """Either kind of damage; of JSON the second as a rule."""
    return damaged_bytes(content) | damaged_json(content) if is_json else damaged_bytes(content)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(tiny_model_dir("gpt2", tmp_path_factory.mktemp("model") / "gpt2"))


@pytest.fixture(scope="module")
def named():
    rng = np.random.default_rng(0)
    erasure = AffineErasure(rng.normal(size=(32, 1)), rng.normal(size=(1, 32)), rng.normal(size=32))
    return NamedEdit.of(Edit.at("resid_post", {1: erasure, 2: erasure}), "leace")


def refused_in_one_line(read):
    line = "nothing"
    try:
        read()
    except UserError as error:
        line = str(error)
    assert line.splitlines() == [line]


def copied(source, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    return folder


def spoil(data, folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    file.write_bytes(data.draw(damaged(file.read_bytes(), file.suffix in JSON)))
    return file


@ANY
@given(data=st.data())
def test_an_edit(data, named, model, tmp_path):
    folder = tmp_path / "edit"
    shutil.rmtree(folder, ignore_errors=True)
    named.save(folder)
    spoil(data, folder)

    def use():
        with applied(model, NamedEdit.load(folder).edit):
            pass

    refused_in_one_line(use)


@ANY
@given(data=st.data(), resummed=st.booleans())
def test_a_checkpoint(data, resummed, checkpoint, tmp_path):
    folder = copied(checkpoint, tmp_path / "checkpoint")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    file = spoil(data, folder)
    if resummed and file.name != "SHA256SUMS":
        write_checksums(folder)
        refused_in_one_line(lambda: open_checkpoint(folder))
    elif file.read_bytes() != before[file]:
        with pytest.raises(UserError):
            open_checkpoint(folder)


@pytest.mark.parametrize("key", ["record", "edits", "config", "template", "form"])
def test_an_entry_of_the_wrong_type(key, checkpoint, tmp_path):
    folder = copied(checkpoint, tmp_path / "checkpoint")
    content = json.loads((folder / RECIPE).read_text("utf-8"))
    (folder / RECIPE).write_text(json.dumps({**content, key: -1}), "utf-8")
    write_checksums(folder)
    with pytest.raises(UserError):
        open_checkpoint(folder)


@pytest.fixture(scope="module")
def checkpoint(model, named, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "checkpoint"
    how = {"form": "carried", "record": {"record": asdict(named.record)}}
    save_checkpoint(model, named.edit, folder, texts=["Jane sang"], **how)
    return folder


@cache
def _run(folder):
    return make_run(folder, outputs=2)


@ANY
@given(data=st.data())
def test_a_run(data, tmp_path_factory):
    place = tmp_path_factory.getbasetemp()
    folder = copied(_run(place / "run"), place / "spoiled")
    spoil(data, folder)
    refused_in_one_line(lambda: sections(open_run(folder)))
    refused_in_one_line(lambda: RunFolder(folder, {"seed": 0}, MANIFEST).rows())


ONE_NAME = {"fit": 1, "few": 1, "agreement": 1, "validation": 1, "test": 1}
PROMPTS = """\
{"input": "She left", "outputs": [" home", " early"]}
{"input": "Jane sang", "outputs": [" well"], "content": "song"}
{"input": "Ran", "outputs": [" off"], "variations": [\
{"text": "She", "categories": ["female"]}, {"text": "He", "categories": ["male"]}]}
"""
TABLE = "input,output\nShe left, home\nJane sang, well\n"
READ = {
    "prompts.jsonl": (PROMPTS, lambda path: task(data=path, names=ONE_NAME)),
    "prompts.csv": (TABLE, lambda path: task(data=path, names=ONE_NAME)),
}
"""File → what it may hold, and what reads it."""
SHIPPED = {
    "axis": ("age", lambda path: task(axis=path, data={"test": []})),
    "data": ("drinks", lambda path: task(data=path, names=ONE_NAME)),
    "texts": ("natural", lambda path: task(texts=path, names=ONE_NAME)),
    "template": ("sentiment", lambda path: load_bank("sentiment", path)),
    "perturbation": ("interview", lambda path: sources_of(config_of("perturbation", path))),
}
"""Config group → a choice, and what reads it from a file."""
for group, (choice, reader) in SHIPPED.items():
    READ[f"{group}.yaml"] = json.dumps(read_config(group, choice)), reader


@pytest.mark.parametrize("name", READ)
@ANY
@given(data=st.data())
def test_a_file_of_ones_own(data, name, tmp_path):
    content, read = READ[name]
    file = tmp_path / name
    file.write_bytes(data.draw(damaged(content.encode(), name != "prompts.csv")))
    refused_in_one_line(lambda: read(str(file)))
