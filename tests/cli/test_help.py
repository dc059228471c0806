"""Help and documentation are generated from the settings, without the libraries of a run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from countergen_edit.cli.composing import nearest_setting
from countergen_edit.cli.help import as_typed, choices_of, defaults_of, help_of, page, usage
from countergen_edit.cli.settings import COMMANDS
from tests.cli.support import ENVIRONMENT, call, composed
from tests.models.test_gguf import script


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_setting_with_the_composed_default_and_what_it_means(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "60" if len(command) % 2 else "200"
    monkeypatch.setenv("COLUMNS", columns)
    first, text = page(command), page(command, every=True)
    assert len(first.splitlines()) <= 40 or columns == "60"
    assert max(map(len, [*first.splitlines(), *text.splitlines()])) <= 100
    config = OmegaConf.create(composed(command))
    for key, default in defaults_of(command).items():
        assert key[:32] in text
        assert help_of(command, key), key
        assert all(word in text for word in help_of(command, key).split())
        value = OmegaConf.select(config, key)
        if key not in COMMANDS[command].CHOICES and value is not None:
            plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            if key != "texts.neutral":
                assert default == as_typed(plain), key
    for group in COMMANDS[command].CHOICES:
        for name, says in choices_of(command, group).items():
            assert name in text
            assert says


def test_the_page_of_commands_is_generated() -> None:
    page_of = script("settings_page")
    _, _, tables = page_of.PAGE.read_text("utf-8").partition(page_of.HEADING)
    assert tables == page_of.markdown() + "\n", "write it with python scripts/settings_page.py"


def test_help_imports_neither_hydra_nor_torch() -> None:
    program = (
        "import sys; from countergen_edit.cli.main import main; main(['audit', '--help']);"
        "assert not {'hydra', 'omegaconf', 'torch', 'numpy'} & set(sys.modules)"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: countergen-edit audit [key=value …]\n")


def test_the_program_lists_its_commands() -> None:
    assert call().out == usage() + "\n"
    assert all(f"\n  {command} " in usage() for command in COMMANDS)
    assert call("sweep", "--help", "all").out == page("sweep", every=True) + "\n"


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


def test_the_configuration_is_printed() -> None:
    assert "leace: {}" in call("audit", "--cfg", "job", "eraser=leace").out
