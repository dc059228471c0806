"""What is tortured only when it is asked for: `pytest -m torture`; and the table of what held."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.torture.runs import Undisturbed

MARK = "torture"
HEADINGS = ("fault", "command", "moment", "times", "resumed", "equal")
Whole = Callable[[str], "Undisturbed"]
Told = Callable[..., None]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Hours of faults are no everyday test."""
    asked = config.getoption("markexpr")
    return None if MARK in asked and f"not {MARK}" not in asked else True


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Gives the undisturbed run of a command, made once."""
    from tests.torture.runs import undisturbed  # late: it sets how processes begin

    return cache(lambda command: undisturbed(command, tmp_path_factory.mktemp(command) / "whole"))


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Told:
    """Keeps what came of a fault for the table at the end."""

    def told(fault: str, command: str, moment: str, resumed: bool, differ: list[str]) -> None:
        record_property(MARK, json.dumps([fault, command, moment, resumed, not differ]))
        assert not differ

    return told


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how often each fault came when, and what of it was made good."""
    counts: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == MARK and report.when == "call":
                    *about, resumed, equal = json.loads(value)
                    for i, one in enumerate((1, resumed, equal)):
                        counts[tuple(about)][i] += one
    if not counts:
        return
    total = ("all", "", "", *map(str, map(sum, zip(*counts.values(), strict=True))))
    lines = [HEADINGS, *((*about, *map(str, n)) for about, n in sorted(counts.items())), total]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    terminalreporter.section("faults, and what was made good")
    for line in lines:
        row = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        terminalreporter.write_line(row.rstrip())
