"""Trackers hear every row once, of a run that goes on what is new; one that fails costs nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from countergen_edit.cli.main import main
from countergen_edit.core import registry
from countergen_edit.core.errors import UserError
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.runs.folder import RunFolder, read_rows
from countergen_edit.runs.tracking import TRACKERS, TrackedRun, Tracker, tracked
from countergen_edit.runs.tracking.base import LONGEST, figures_of
from tests.cli.test_mistakes import fails

FINGERPRINT = "f" * 64
MANIFEST = {"schema": SCHEMA, "fingerprint": FINGERPRINT, "model": "m", "command": ["audit"]}
SETTINGS = {"seed": 0, "edit": {"layers": [1, 2]}}


class Listening(Tracker):
    """Remembers what it is told; fails where it is told to."""

    heard: ClassVar[list[tuple[str, Any]]] = []
    fails_at: ClassVar[str] = ""

    def __init__(self, end: str = "!") -> None:
        self.mark = end

    def hear(self, what: str, content: Any) -> None:
        if self.fails_at == what:
            raise RuntimeError(f"no {what}\nand more")
        self.heard.append((what, content))

    def begin(self, run: TrackedRun) -> None:
        self.hear("begin", run)

    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        self.hear("log", (step, dict(figures)))

    def end(self, finished: bool) -> None:
        self.hear("end", f"{finished}{self.mark}")


@pytest.fixture(autouse=True)
def _listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Listening, "heard", [])
    monkeypatch.setattr(Listening, "fails_at", "")
    monkeypatch.setitem(TRACKERS._entered, "listening", Listening)


def row(value: float, dataset: str = "jobs") -> Row:
    return Row("mean_abs_r", value, dataset=dataset, split="test", lo=value - 0.1, hi=value + 0.1)


def units(folder: RunFolder, *names: str) -> None:
    for i, name in enumerate(names):
        if not folder.done(name):
            folder.record(name, [row(i / 10, name)])


def logged() -> list[tuple[int, str]]:
    return [(step, next(iter(figures)).split("/")[1]) for what, (step, figures) in heard("log")]


def heard(kind: str) -> list[tuple[str, Any]]:
    return [(what, content) for what, content in Listening.heard if what == kind]


def test_a_tracker_hears_settings_then_units_as_they_are_recorded(tmp_path):
    with tracked({"listening": {"end": "?"}}):
        units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), "a", "b")
    [(_, run)] = heard("begin")
    assert run.settings["edit.layers"] == "[1, 2]"
    assert run.settings["model"] == "m"
    assert run.fingerprint == FINGERPRINT
    assert logged() == [(0, "a"), (1, "b")]
    assert heard("log")[1][1][1] == {
        "mean_abs_r/b/test/none": 0.1,
        "mean_abs_r/b/test/none/lo": 0.0,
        "mean_abs_r/b/test/none/hi": pytest.approx(0.2),
    }
    assert heard("end") == [("end", "True?")]


def test_a_run_that_goes_on_tells_what_is_new_and_what_was_missed(tmp_path):
    units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), "a")  # nobody followed
    with suppress(RuntimeError), tracked("listening"):
        units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), "a", "b")
        raise RuntimeError
    assert heard("end") == [("end", "False!")]
    # A kill cut the line in which the second unit was written down: it is told again, none missed.
    told = tmp_path / "run" / "tracked" / "listening.jsonl"
    told.write_bytes(told.read_bytes()[:-3])
    with tracked(["listening"]):
        units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), "a", "b", "c")
    assert logged() == [(0, "a"), (1, "b"), (1, "b"), (2, "c")]


@pytest.mark.parametrize("when", ["begin", "log", "end"])
def test_a_tracker_that_fails_is_left_out_in_one_line_and_the_run_goes_on(
    when, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(Listening, "fails_at", when)
    with tracked(["listening"]):
        units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), "a", "b")
    said = capsys.readouterr().err
    assert said.splitlines() == [
        f"tracker=listening no longer follows this run, which goes on: RuntimeError: no {when}"
    ]
    plain = RunFolder(tmp_path / "plain", SETTINGS, MANIFEST)
    units(plain, "a", "b")
    for name in ("results.jsonl", "progress.jsonl", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (plain.path / name).read_bytes()
    # What it missed it hears when the run is opened again and it works.
    monkeypatch.setattr(Listening, "fails_at", "")
    with tracked(["listening"]):
        RunFolder(tmp_path / "run", SETTINGS, MANIFEST)
    assert {name for _, name in logged()} == {"a", "b"}


def test_figures_have_names_that_every_tracker_takes_and_that_differ():
    templates = ["{name} said: “no”", "{name} said: “yes”", "x" * 400, "x" * 401]
    rows = [Row("r", 0.5, facets={"template": text}, split="test") for text in templates]
    names = [*figures_of([*rows, Row("r", None), Row("r", float("nan"), split="test")])]
    assert len(names) == len(templates)
    assert all(len(name) <= LONGEST and name.isascii() for name in names)


def test_an_installed_package_enters_a_tracker_by_an_entry_point(monkeypatch, tmp_path):
    point = EntryPoint("theirs", f"{__name__}:Listening", TRACKERS.group)
    registry._installed.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(registry, "entry_points", lambda group: [point] * (group == TRACKERS.group))
        with tracked("theirs"):
            units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), "a")
    registry._installed.cache_clear()
    TRACKERS._entered.pop("theirs")
    assert logged() == [(0, "a")]


TINY = ["cid", "action=audit", "names=1", "lambda=0", "max_new_tokens=1"]


def test_the_command_line_takes_a_tracker_of_a_file_and_rows_stay_as_they_were():
    Path("mine.py").write_text(
        "from countergen_edit import Tracker\n"
        "class Lines(Tracker):\n"
        "    def __init__(self, path='lines.txt'): self.path = path\n"
        "    def begin(self, run): open(self.path, 'a').write(run.settings['action'] + '\\n')\n"
        "    def log(self, figures, step, rows): open(self.path, 'a').write(f'{len(rows)}\\n')\n"
        "    def end(self, finished): open(self.path, 'a').write(f'{finished}\\n')\n"
    )
    assert main([*TINY, "run_dir=plain"]) == 0
    own = ["tracker=mine.py:Lines", "+tracker.Lines.path=own.txt"]
    assert main([*TINY, "run_dir=run", *own]) == 0
    rows = read_rows(Path("run/results.jsonl"))
    assert Path("own.txt").read_text() == f"audit\n{len(rows)}\nTrue\n"
    for name in ("results.jsonl", "config.yaml"):
        assert Path("run", name).read_bytes() == Path("plain", name).read_bytes()


MISTAKES = {
    "unknown": (["tracker=tensorbord"], "tensorboard"),
    "setting": (["tracker=tensorboard", "+tracker.tensorboard.dir=x"], "did you mean 'directory'"),
    "settings that are none": (["tracker=tensorboard", "tracker.tensorboard=5"], "write a mapping"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line(mistake, capsys, monkeypatch):
    monkeypatch.setattr(f"{BASE}.find_spec", lambda name: object())
    words, hint = MISTAKES[mistake]
    assert hint in fails(capsys, *TINY, *words)


BASE = "countergen_edit.runs.tracking.base"


@pytest.mark.parametrize(
    ("name", "library"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_without_its_library_a_tracker_names_the_extra_before_anything_runs(
    name, library, monkeypatch
):
    monkeypatch.setattr(f"{BASE}.find_spec", lambda name: None)
    with pytest.raises(UserError) as error, tracked(name):
        pass
    assert str(error.value) == (
        f"tracker={name} needs {library}: pip install 'countergen-edit[{name}]'"
    )
    assert f"countergen_edit.runs.tracking.{name}" in sys.modules


def test_tensorboard_shows_every_figure_of_a_run_and_of_what_follows(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for names in (["a"], ["a", "b"]):
        with tracked({"tensorboard": {"directory": "events"}}):
            units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), *names)
    shown = EventAccumulator("events/run").Reload()
    tags = shown.Tags()["scalars"]
    assert len(tags) == 6
    [event] = shown.Scalars("mean_abs_r/b/test/none")
    assert (event.step, event.value) == (1, pytest.approx(0.1))


def test_mlflow_keeps_one_run_in_a_local_store(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'store.db'}"
    for names in (["a"], ["a", "b"]):
        with tracked({"mlflow": {"uri": uri, "experiment": "e"}}):
            units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), *names)
    client = MlflowClient(tracking_uri=uri)
    [run] = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["edit.layers"] == "[1, 2]"
    assert run.data.metrics["mean_abs_r/b/test/none"] == pytest.approx(0.1)
    [point] = client.get_metric_history(run.info.run_id, "mean_abs_r/b/test/none/hi")
    assert (point.step, point.value) == (1, pytest.approx(0.2))


@pytest.mark.slow
def test_wandb_writes_offline_what_is_sent_later(tmp_path):
    pytest.importorskip("wandb")
    with tracked({"wandb": {"mode": "offline"}}):
        units(RunFolder(tmp_path / "run", SETTINGS, MANIFEST), "a", "b")
    [file] = (tmp_path / "run").rglob("*.wandb")
    # W&B's own process writes on after the run has ended: protocol buffers, texts as they are.
    texts = ("mean_abs_r/a/test/none", "mean_abs_r/b/test/none/hi", "edit.layers", "[1, 2]")
    wanted = [text.encode() for text in (*texts, FINGERPRINT[:32])]
    for _ in range(300):
        if all(text in file.read_bytes() for text in wanted):
            return
        time.sleep(0.1)
    raise AssertionError(file.read_bytes())
