"""Help is made from what it describes: every setting with its default and meaning, every choice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from countergen_edit.cli.help import (
    choices_of,
    explained,
    nearest_setting,
    page,
    settings_of,
    summary,
)
from countergen_edit.cli.main import COMMANDS
from countergen_edit.core.conf_path import conf_dir
from tests.cli.test_conf import composed

GROUP_FILES = sorted(
    path
    for path in conf_dir().rglob("*.yaml")
    if path.parent.name not in ("launcher", "lexicon", "perturbation", "task", "template")
    and "experiment" not in path.parts
    and path.stem != "quiet"
)
"""Files with settings of ours; launchers and studies set what is explained elsewhere."""


@pytest.mark.parametrize("path", GROUP_FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_setting_of_every_file_is_explained(path: Path) -> None:
    skipped = ("defaults", "hydra")
    dumb = [
        s.key
        for s in explained(path)
        if not s.meaning
        and s.key.partition(".")[0] not in skipped
        # Budgets of a command are explained where the cost is.
        and not s.key.startswith("cost.")
    ]
    assert not dumb, f"{path.name} says nothing of {dumb}"


@pytest.mark.parametrize("columns", ["60", "80", "110"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_setting_with_the_default_that_is_composed(
    command: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = page(command)
    config = OmegaConf.create(composed(command))
    shown = settings_of(command)
    for setting in shown:
        value = OmegaConf.select(config, setting.key)
        plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        assert yaml.safe_load(setting.default) == plain, setting.key
        assert f"{setting.key}=" in text
        assert setting.meaning, setting.key
        assert all(word in text for word in setting.meaning.split())
    keys = [setting.key for setting in shown]
    for key in flat(OmegaConf.to_container(config)):
        assert any(key == k or key.startswith(f"{k}.") for k in keys), key


def flat(config: object, prefix: str = "") -> list[str]:
    if not isinstance(config, dict) or not config:
        return [prefix.rstrip(".")] if not isinstance(config, dict) else []
    return [key for name, value in config.items() for key in flat(value, f"{prefix}{name}.")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_line_for_every_choice_and_no_other_commands_studies(command: str) -> None:
    lines = page(command).splitlines()
    for choice in choices_of(command):
        files = sorted(choice.folder.glob("*.yaml"))
        assert files
        for path in files:
            marked = "*" if path.stem in choice.chosen else " "
            heads = [
                x[len(f"  {marked} {path.stem}") :].strip()
                for x in lines
                if x.startswith(f"  {marked} {path.stem} ")
            ]
            assert any(summary(path).startswith(head) for head in heads), path
    others = {p.stem for p in (conf_dir() / "experiment").rglob("*.yaml")}
    others -= {p.stem for p in (conf_dir() / "experiment" / command).glob("*.yaml")}
    named = {line.split()[0] for line in lines if line.startswith("    ") and line.split()}
    assert not others & named


def test_help_answers_at_once_and_needs_no_hydra() -> None:
    # Time of the processor: on an idle machine as much passes by the clock.
    program = (
        "import sys, time; from countergen_edit.cli.main import main; main(['audit', '--help']);"
        "assert not {'hydra', 'omegaconf', 'torch', 'numpy'} & set(sys.modules);"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: countergen-edit audit [key=value …]\n")
    assert float(done.stdout.splitlines()[-1]) < 0.5


@pytest.mark.parametrize(
    ("command", "key", "meant"),
    [
        ("debias", "max_agreement_loss", "cost.agreement.budget"),
        ("debias", "max_perplexity_increase", "cost.perplexity.budget"),
        ("debias", "max_kl", "cost.kl.budget"),
        ("sweep", "tolerance.agreement", "cost.agreement.budget"),
        ("sweep", "tolerance.perplexity", "cost.perplexity.budget"),
        ("audit", "sede", "seed"),
        ("audit", "eraser.rlace.rnk", "eraser.rlace.rank"),
    ],
)
def test_the_nearest_setting_is_named(command: str, key: str, meant: str) -> None:
    assert nearest_setting(command, key) == meant


def test_hydras_own_flags_are_hydras(capsys: pytest.CaptureFixture[str]) -> None:
    from countergen_edit.cli.main import main

    assert main(["audit", "--cfg", "job", "eraser=leace"]) == 0
    assert "leace: {}" in capsys.readouterr().out
