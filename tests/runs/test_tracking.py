"""Trackers hear every unit once as it is recorded; one that fails costs nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.tracking import (
    LONGEST,
    TRACKERS,
    TrackedRun,
    Tracker,
    figures_of,
    tracked,
)
from tests.cli.support import fails

FINGERPRINT = "f" * 64
MANIFEST = {"schema": SCHEMA, "fingerprint": FINGERPRINT, "model": "m", "command": ["audit"]}
SETTINGS = {"seed": 0, "edit": {"layers": [1, 2]}}
LIBRARIES = "countergen_edit.runs.tracking.find_spec"


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
def _listening(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Listening, "heard", [])
    monkeypatch.setattr(Listening, "fails_at", "")
    monkeypatch.setitem(TRACKERS._entered, "listening", Listening)


def row(value: float, dataset: str = "jobs") -> Row:
    return Row("mean_abs_r", value, dataset=dataset, split="test", lo=value - 0.1, hi=value + 0.1)


def run(*names: str, path: str = "run", fails: bool = False) -> None:
    with RunFolder(Path(path), SETTINGS, MANIFEST) as folder:
        for i, name in enumerate(names):
            if not folder.done(name):
                folder.record(name, [row(i / 10, name)])
        if fails:
            raise RuntimeError


def heard(kind: str) -> list[Any]:
    return [content for what, content in Listening.heard if what == kind]


def test_a_tracker_hears_settings_then_units_and_of_a_resumed_run_what_is_new():
    with tracked({"listening": {"end": "?"}}), suppress(RuntimeError):
        run("a", "b", fails=True)
    [told] = heard("begin")
    assert (told.settings["edit.layers"], told.settings["model"]) == ("[1, 2]", "m")
    assert told.fingerprint == FINGERPRINT
    with tracked(["listening"]):
        run("a", "b", "c")
    steps = [(step, next(iter(figures)).split("/")[1]) for step, figures in heard("log")]
    assert steps == [(0, "a"), (1, "b"), (2, "c")]
    ends = {"": 0.1, "/lo": 0.0, "/hi": pytest.approx(0.2)}
    assert heard("log")[1][1] == {f"mean_abs_r/b/test/none{end}": v for end, v in ends.items()}
    assert heard("end") == ["False?", "True!"]


@pytest.mark.parametrize("when", ["begin", "log", "end"])
def test_a_tracker_that_fails_is_left_out_in_one_line_and_the_run_goes_on(
    when, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(Listening, "fails_at", when)
    with tracked(["listening"]):
        run("a", "b")
    assert capsys.readouterr().err.splitlines() == [
        f"tracker=listening no longer follows this run, which goes on: RuntimeError: no {when}"
    ]
    run("a", "b", path="plain")
    for name in ("results.jsonl", "progress.jsonl", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_figures_have_names_that_every_tracker_takes_and_that_differ():
    templates = ["{name} said: “no”", "{name} said: “yes”", "x" * 400, "x" * 401]
    rows = [Row("r", 0.5, facets={"template": text}, split="test") for text in templates]
    names = [*figures_of([*rows, Row("r", None), Row("r", float("nan"), split="test")])]
    assert len(names) == len(templates)
    assert all(len(name) <= LONGEST and name.isascii() for name in names)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["tracker=tensorbord"], "tensorboard"),
        (["tracker={tensorboard: {dir: x}}"], "did you mean 'directory'"),
        (["tracker={tensorboard: 5}"], "should be an object"),
    ],
)
def test_a_mistake_gets_one_line(words, hint, capsys, monkeypatch):
    monkeypatch.setattr(LIBRARIES, lambda name: object())
    tiny = ("action=audit", "names=1", "lambda=0", "max_new_tokens=1")
    assert hint in fails("cid", *tiny, *words)


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_without_its_library_a_tracker_names_the_extra_before_anything_runs(name, monkeypatch):
    monkeypatch.setattr(LIBRARIES, lambda name: None)
    with pytest.raises(UserError) as error, tracked(name):
        pass
    assert str(error.value) == (
        f"tracker={name} needs {name}: pip install 'countergen-edit[{name}]'"
    )


def test_tensorboard_shows_every_figure_of_a_run_and_of_what_follows():
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for names in (["a"], ["a", "b"]):
        with tracked({"tensorboard": {"directory": "events"}}):
            run(*names)
    shown = EventAccumulator("events/run").Reload()
    assert len(shown.Tags()["scalars"]) == 6
    [event] = shown.Scalars("mean_abs_r/b/test/none")
    assert (event.step, event.value) == (1, pytest.approx(0.1))


@pytest.mark.slow
def test_wandb_writes_offline_what_is_sent_later(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    with tracked("wandb"):
        run("a", "b")
    [file] = (tmp_path / "run").rglob("*.wandb")
    # W&B's own process writes on after the run has ended: protocol buffers, texts as they are.
    texts = ("mean_abs_r/a/test/none", "mean_abs_r/b/test/none/hi", "edit.layers", "[1, 2]")
    wanted = [text.encode() for text in (*texts, FINGERPRINT[:32])]
    for _ in range(300):
        if all(text in file.read_bytes() for text in wanted):
            return
        time.sleep(0.1)
    raise AssertionError(file.read_bytes())
