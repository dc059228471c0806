"""Every setting of every command has a declared type, and its default is of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from countergen_edit.cli.declared import TYPES, require_settings

from countergen_edit.cli.help import own_settings
from countergen_edit.cli.main import COMMANDS
from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.errors import UserError


def defaults(command: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((conf_dir() / f"{command}.yaml").read_text("utf-8"))
    return content


@pytest.mark.parametrize("command", COMMANDS)
def test_the_defaults_of_a_command_are_of_their_types(command: str) -> None:
    require_settings(defaults(command), own_settings(command))


def test_no_type_is_declared_of_nothing() -> None:
    assert {key for command in COMMANDS for key in own_settings(command)} == {*TYPES}


def test_a_setting_that_was_taken_away_is_missed() -> None:
    config = {key: value for key, value in defaults("audit").items() if key != "seed"}
    with pytest.raises(UserError, match="the setting 'seed' is missing: leave ~seed out"):
        require_settings(config, own_settings("audit"))
