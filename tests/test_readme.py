"""What the README prints works as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import countergen_edit
from countergen_edit.cli.composing import composed
from countergen_edit.edits.checkpoints import is_checkpoint
from tests.printed import blocks, commands, first_job, require_composes

ROOT = Path(countergen_edit.__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
CLUSTERS = (ROOT / "docs" / "clusters.md").read_text("utf-8")
PLUGINS = {
    "joblib": "hydra_plugins.hydra_joblib_launcher",
    "submitit_slurm": "hydra_plugins.hydra_submitit_launcher",
    "ray": "hydra_plugins.hydra_ray_launcher",
}
"""Hydra's launchers, which need not be there."""
FEW = {"fit": 24, "few": 8, "agreement": 8, "validation": 12, "test": 6}
"""So few people make the example quick enough for a test."""


@pytest.mark.parametrize("line", commands(README))
def test_every_command_composes(line: str) -> None:
    require_composes(line)


@pytest.mark.parametrize("line", [line for line in commands(CLUSTERS) if "launcher=" in line])
def test_every_launcher_takes_its_settings(line: str) -> None:
    _, command, *words = shlex.split(line, comments=True)
    overrides = first_job([word for word in words if word != "--multirun"])
    launcher = next(o.partition("=")[2] for o in overrides if o.startswith("hydra/launcher="))
    pytest.importorskip(PLUGINS[launcher], exc_type=ImportError)
    assert composed(command, overrides)


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = re.findall(r"^make ([a-z]+)", "\n".join(blocks(README, "sh")), re.MULTILINE)
    assert named[:2] == ["audit", "test"]
    assert set(named) <= set(targets)


@pytest.mark.slow
def test_the_python_example_audits_edits_and_saves_in_ten_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = blocks(README, "python")
    assert len([line for line in example.splitlines() if line]) <= 10
    whole = 'ce.task("gender", "contexts")'
    assert whole in example
    quick = example.replace(whole, f"{whole[:-1]}, names={FEW})")
    exec(compile(quick, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "Recommended: preserving" in out
    assert "occupations" in out
    assert out.splitlines()[-1].startswith("['")  # what the edited model says of Jane
    assert is_checkpoint("debiased")


def test_every_file_it_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


@pytest.mark.slow
def test_the_default_audit_decides_and_recommends(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from countergen_edit.api import load_run
    from countergen_edit.cli.main import main
    from countergen_edit.metrics.rows import UNEDITED

    assert main(["audit", f"run_dir={tmp_path / 'run'}"]) == 0
    assert "Recommended: preserving" in capsys.readouterr().out
    rows = load_run(tmp_path / "run").results.rows
    effects = [row for row in rows if (row.metric, row.split) == ("group_effect", "test")]
    assert len({row.dataset for row in effects if row.edit == UNEDITED}) >= 4
    for row in effects:  # the planted effects are 1.6 nats at most
        assert row.hi is not None, row
        assert row.hi < 2, row
