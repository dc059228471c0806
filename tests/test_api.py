"""The Python face: quick to import, and as able as the command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import countergen_edit as ce
from countergen_edit.api import with_truth
from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import described, own_code
from countergen_edit.testbed import directory

TRAITS = [{"source": "testbed", "family": "traits"}]
DATA = {"fit": TRAITS, "validation": TRAITS, "test": TRAITS}


def test_importing_is_quick_and_brings_no_torch():
    program = (
        "import sys, time; start = time.process_time(); import countergen_edit as ce; dir(ce);"
        "took = time.process_time() - start;"
        "assert not {'torch', 'numpy', 'hydra', 'pandas'} & set(sys.modules); print(took)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert float(done.stdout) < 0.3  # seconds of the processor, whatever else runs beside it


@pytest.mark.parametrize("name", [name for name in ce.__all__ if name != "__version__"])
def test_every_public_name_is_there(name):
    assert getattr(ce, name) is getattr(ce, name)
    assert name in dir(ce)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'audti'"):
        ce.audti  # noqa: B018


def test_a_copy_of_the_testbed_keeps_its_truth_whatever_it_is_called(tmp_path):
    task = ce.task("gender", DATA)
    copy = shutil.copytree(directory(), tmp_path / "my_model")
    planted = with_truth(ce.load(copy), task).planted
    assert planted
    assert planted == with_truth(ce.load("testbed"), task).planted
    (copy / "truth.yaml").unlink()
    assert not with_truth(ce.load(copy), task).planted


@pytest.mark.slow
def test_a_task_is_made_from_names_mappings_and_files(tmp_path):
    axis, data = tmp_path / "axis.yaml", tmp_path / "data.yaml"
    axis.write_text(yaml.safe_dump(read_config("axis", "gender"), allow_unicode=True))
    data.write_text(yaml.safe_dump(DATA))
    named_task = ce.task("gender", DATA)
    assert ce.task(axis, data).fingerprint == named_task.fingerprint
    assert ce.task({"file": str(axis)}, {"file": str(data)}).fingerprint == named_task.fingerprint
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"input": "She left", "outputs": [" home"]}\n')
    assert [s.name for s in ce.task("gender", pairs).test] == ["pairs"]
    with pytest.raises(UserError, match=r"no file .*nowhere\.yaml"):
        ce.task(tmp_path / "nowhere.yaml")
    axis.write_text("[]")
    with pytest.raises(UserError, match="a mapping of names to values is needed"):
        ce.task(axis)


class Mine(ce.Metric):
    def __init__(self, power: int = 2) -> None:
        self.power = power

    def measure(self, context: Any, edit: Any, split: Any = "test") -> list[ce.Row]:
        return []


def test_what_a_run_depends_on_tells_settings_and_code_apart():
    assert described(Mine(2)) != described(Mine(3))
    assert described([ce.RLACE(rank=1)]) != described([ce.RLACE(rank=2)])
    assert described(ce.KL(0.1), without=("budget",)) == described(ce.KL(0.2), without=("budget",))
    assert [*own_code([Mine(), ce.RLACE()])] == [f"{Path(__file__).name}:Mine"]
    twice = ce.ERASERS.named([ce.RLACE(), ce.RLACE(rank=2), "leace"])
    assert [*twice] == ["rlace", "rlace_2", "leace"]


@pytest.mark.slow
def test_a_run_continues_and_another_one_gets_another_folder(testbed, here):
    task = ce.task("gender", DATA)
    audit = {"layers": [4]}
    run = ce.audit(testbed, task, ["leace"], [ce.R()], **audit)
    assert run.path.parent == Path("runs") / "audit"
    before = (run.path / "results.jsonl").read_bytes()
    again = ce.audit(testbed, task, [ce.LEACE()], ["r"], **audit)
    assert again.path == run.path
    assert (run.path / "results.jsonl").read_bytes() == before
    other = ce.audit(testbed, task, ["leace"], ["r"], seed=1, **audit)
    assert other.path != run.path
    with pytest.raises(UserError, match="belongs to another run"):
        ce.audit(testbed, task, ["leace"], ["r"], run.path, seed=2, **audit)
    comparison = ce.compare(run, other.path)
    assert set(comparison.to_frame()["run"]) == {run.name, other.name}
    with pytest.raises(UserError, match="two run folders"):
        ce.compare(run, run.path)


def test_a_mistake_leaves_no_folder(testbed, here):
    task = ce.task("gender", DATA)
    for words in ({"layers": [9]}, {"site": "resid_pst"}, {"metrics": ()}):
        with pytest.raises(UserError):
            ce.audit(testbed, task, "leace", **words)
    with pytest.raises(UserError, match="did you mean 'leace'"):
        ce.search(testbed, task, "leac")
    with pytest.raises(UserError, match="combine=0"):
        ce.search(testbed, task, "leace", combine=0)
    assert not [*here.iterdir()]
