"""However a command is asked to end, it ends in order; what was saved by then is not in its way."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from countergen_edit.cli import main as door
from countergen_edit.cli.edit import Saving
from countergen_edit.core.errors import UserError


@pytest.fixture(autouse=True)
def _interrupted() -> Iterator[None]:
    """A shell has what it runs in the background ignore interrupts, which is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("what", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_stop_a_command_puts_things_in_order(
    what: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = []

    def run(command: str, words: list[str]) -> None:
        try:
            os.kill(os.getpid(), what)
        finally:
            ended.append(command)

    before = signal.getsignal(what)
    monkeypatch.setattr(door, "run_command", run)
    assert door.main(["audit"]) == code
    assert ended == ["audit"]
    said = capsys.readouterr().err
    assert said == "countergen-edit: stopped; the same command continues the run\n"
    assert signal.getsignal(what) == before


def test_who_is_told_to_ignore_the_request_ignores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        monkeypatch.setattr(door, "run_command", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert door.main(["audit"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_command_goes_on_where_its_own_checkpoint_is_and_no_other(tmp_path: Path) -> None:
    place = tmp_path / "saved"
    place.mkdir()
    (place / "SHA256SUMS").touch()
    made = ["countergen-edit", "edit", "eraser=leace", "save=DIR"]
    (place / "recipe.json").write_text(json.dumps({"command": made}))
    config = {"form": "auto", "overwrite": False, "save": str(place)}
    assert Saving("edit", config, ["eraser=leace", f"save={place}"]).save == place
    with pytest.raises(UserError, match="holds a checkpoint already"):
        Saving("edit", config, ["eraser=rlace", f"save={place}"])
