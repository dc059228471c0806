"""A damaged file of this package is read, or refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

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
from countergen_edit.edits.checkpoints import open_checkpoint
from countergen_edit.edits.checkpoints.loading import write_checksums
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.cid.perturbations import sources_of
from countergen_edit.models import LanguageModel, load_model
from countergen_edit.reports.sections import sections
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.run import open_run
from tests.damage import damaged
from tests.reports.runs import MANIFEST, make_run
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

JSON = (".json", ".jsonl")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load_model(
        tiny_model_dir("gpt2", tmp_path_factory.mktemp("model") / "gpt2"), device="cpu"
    )


@pytest.fixture(scope="module")
def named() -> NamedEdit:
    rng = np.random.default_rng(0)
    erasure = AffineErasure(rng.normal(size=(32, 1)), rng.normal(size=(1, 32)), rng.normal(size=32))
    return NamedEdit.of(Edit.at("resid_post", {1: erasure, 2: erasure}), "leace")


def refused_in_one_line(read: Callable[[], object]) -> None:
    said = "nothing"
    try:
        read()
    except UserError as error:
        said = str(error)
    assert said.splitlines() == [said]


def spoil(data: st.DataObject, folder: Path) -> Path:
    """Damage a file of the folder; give it back."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file: Path = data.draw(st.sampled_from(files))
    file.write_bytes(data.draw(damaged(file.read_bytes(), file.suffix in JSON)))
    return file


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_an_edit(
    data: st.DataObject, named: NamedEdit, model: LanguageModel, tmp_path: Path
) -> None:
    folder = tmp_path / "edit"
    shutil.rmtree(folder, ignore_errors=True)
    named.save(folder)
    spoil(data, folder)

    def use() -> None:
        with applied(model, NamedEdit.load(folder).edit):
            pass

    refused_in_one_line(use)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), resummed=st.booleans())
def test_a_checkpoint(
    data: st.DataObject, resummed: bool, checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "checkpoint"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(checkpoint, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    file = spoil(data, folder)
    if resummed and file.name != "SHA256SUMS":
        write_checksums(folder)
        refused_in_one_line(lambda: open_checkpoint(folder))
    elif file.read_bytes() != before[file]:
        with pytest.raises(UserError):
            open_checkpoint(folder)


@pytest.mark.parametrize("key", ["record", "edits", "config", "template", "form"])
def test_an_entry_of_the_wrong_type(key: str, checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoint, folder)
    content = json.loads((folder / RECIPE).read_text("utf-8"))
    (folder / RECIPE).write_text(json.dumps({**content, key: -1}), "utf-8")
    write_checksums(folder)
    with pytest.raises(UserError):
        open_checkpoint(folder)


@pytest.fixture(scope="module")
def checkpoint(
    model: LanguageModel, named: NamedEdit, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    from countergen_edit.edits.checkpoints import save_checkpoint

    folder = tmp_path_factory.mktemp("saved") / "checkpoint"
    save_checkpoint(
        model,
        named.edit,
        folder,
        form="carried",
        texts=["Jane sang"],
        record={"record": named.record.to_dict()},
    )
    return folder


@cache
def _run(folder: Path) -> Path:
    return make_run(folder, outputs=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_run(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = _run(tmp_path_factory.getbasetemp() / "run")
    folder = tmp_path_factory.getbasetemp() / "spoiled"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    spoil(data, folder)
    refused_in_one_line(lambda: sections(open_run(folder)))
    manifest: dict[str, Any] = MANIFEST
    refused_in_one_line(lambda: RunFolder(folder, {"seed": 0}, manifest).rows())


ONE_NAME = {"fit": 1, "few": 1, "agreement": 1, "validation": 1, "test": 1}
PROMPTS = """\
{"input": "She left", "outputs": [" home", " early"]}
{"input": "Jane sang", "outputs": [" well"], "content": "song"}
{"input": "Ran", "outputs": [" off"], "variations": [\
{"text": "She", "categories": ["female"]}, {"text": "He", "categories": ["male"]}]}
"""
TABLE = "input,output\nShe left, home\nJane sang, well\n"
READ: dict[str, tuple[str, Callable[[str], object]]] = {
    "prompts.jsonl": (PROMPTS, lambda path: task(data=path, names=ONE_NAME)),
    "prompts.csv": (TABLE, lambda path: task(data=path, names=ONE_NAME)),
    "axis.yaml": (
        json.dumps(read_config("axis", "age")),
        lambda path: task(axis=path, data={"test": []}),
    ),
    "data.yaml": (
        json.dumps(read_config("data", "drinks")),
        lambda path: task(data=path, names=ONE_NAME),
    ),
    "texts.yaml": (
        json.dumps(read_config("texts", "natural")),
        lambda path: task(texts=path, names=ONE_NAME),
    ),
    "templates.yaml": (
        json.dumps(read_config("template", "sentiment")),
        lambda path: load_bank("sentiment", path),
    ),
    "perturbation.yaml": (
        json.dumps(read_config("perturbation", "interview")),
        lambda path: sources_of(config_of("perturbation", path)),
    ),
}
"""File → what it may hold, and what reads it."""


@pytest.mark.parametrize("name", READ)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_file_of_ones_own(data: st.DataObject, name: str, tmp_path: Path) -> None:
    content, read = READ[name]
    file = tmp_path / name
    file.write_bytes(data.draw(damaged(content.encode(), name != "prompts.csv")))
    refused_in_one_line(lambda: read(str(file)))
