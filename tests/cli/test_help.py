"""Help and documentation are generated from the settings, and answer at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from countergen_edit.cli.composing import leaves, nearest_setting
from countergen_edit.cli.help import (
    choices_of,
    defaults_of,
    description_of,
    page,
    pattern_of,
    usage,
    written,
)
from countergen_edit.cli.main import main
from countergen_edit.cli.settings import COMMANDS, DESCRIPTIONS, own_settings
from tests.cli.test_conf import composed
from tests.models.test_gguf import script


def test_there_are_at_most_ninety_one_settings_and_each_is_of_a_command() -> None:
    every = {pattern_of(key) for command in COMMANDS for key in defaults_of(command)}
    assert every == set(DESCRIPTIONS)
    groups = {group for command in COMMANDS.values() for group in command.CHOICES}
    assert len(every - groups) <= 91


@pytest.mark.parametrize("columns", ["60", "200"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_setting_with_the_composed_default(
    command: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    first, text = page(command), page(command, every=True)
    assert len(first.splitlines()) <= 40 or columns == "60"
    assert max(map(len, [*first.splitlines(), *text.splitlines()])) <= 100
    config = OmegaConf.create(composed(command))
    for key, default in defaults_of(command).items():
        assert key[:32] in text
        assert all(word in text for word in DESCRIPTIONS[pattern_of(key)].split())
        value = OmegaConf.select(config, key)
        if key not in COMMANDS[command].CHOICES and value is not None:
            plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            if key != "texts.neutral":
                assert default == written(plain), key
    for group in COMMANDS[command].CHOICES:
        for path in choices_of(command, group):
            assert path.stem in text
            assert description_of(path)


def test_every_setting_of_a_command_is_described() -> None:
    for command in COMMANDS:
        undescribed = {k for k in own_settings(command) if not pattern_of(k)}
        assert undescribed <= {"edit", "model"}
        for key in leaves(composed(command)):
            if key.startswith(("model.", "edit.", "eraser.", "cost.", "baseline.", "tracker.")):
                assert key == "model.name" or key.count(".") == 1 or pattern_of(key), key


def test_the_page_of_commands_is_generated() -> None:
    page_of = script("settings_page")
    _, _, tables = page_of.PAGE.read_text("utf-8").partition(page_of.HEADING)
    assert tables == page_of.markdown() + "\n", "write it with python scripts/settings_page.py"


def test_help_answers_at_once_and_imports_no_hydra() -> None:
    program = (
        "import sys, time; from countergen_edit.cli.main import main; main(['audit', '--help']);"
        "assert not {'hydra', 'omegaconf', 'torch', 'numpy'} & set(sys.modules);"
        "print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: countergen-edit audit [key=value …]\n")
    assert float(done.stdout.splitlines()[-1]) < 0.5


def test_the_program_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == usage() + "\n"
    assert all(f"\n  {command} " in usage() for command in COMMANDS)
    assert main(["sweep", "--help", "all"]) == 0
    assert capsys.readouterr().out == page("sweep", every=True) + "\n"


@pytest.mark.parametrize(
    ("command", "key", "nearest"),
    [
        ("debias", "max_agreement_loss", "cost.agreement.budget"),
        ("debias", "max_perplexity_increase", "cost.perplexity.budget"),
        ("sweep", "tolerance.agreement", "cost.agreement.budget"),
        ("audit", "sede", "seed"),
        ("audit", "eraser.rlace.rnk", "eraser.rlace.rank"),
    ],
)
def test_the_nearest_setting_is_named(command: str, key: str, nearest: str) -> None:
    assert nearest_setting(command, key) == nearest


def test_hydras_own_flags_are_hydras(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--cfg", "job", "eraser=leace"]) == 0
    assert "leace: {}" in capsys.readouterr().out
