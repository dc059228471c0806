"""Tortured only on request: `pytest -m torture`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.torture.runs import Undisturbed

Whole = Callable[[str], "Undisturbed"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    expression = config.getoption("markexpr")
    return None if "torture" in expression and "not torture" not in expression else True


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The undisturbed run of a command, made once."""
    from tests.torture.runs import undisturbed  # late: it sets how processes begin

    return cache(lambda command: undisturbed(command, tmp_path_factory.mktemp(command) / "whole"))
