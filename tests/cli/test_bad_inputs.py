"""Every bad input of the list gets its line, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.attempt import Outcome, attempt

LIST = Path(__file__).with_name("bad_inputs.yaml")
HUGE: dict[str, dict[str, Any]] = {
    "prompts nested too deeply": {
        "words": ["audit", "data=p.jsonl"],
        "files": {"p.jsonl": "[" * 100_000},
        "says": "p.jsonl, line 1: nested too deeply",
    },
    "prompts with a number too long": {
        "words": ["audit", "data=p.jsonl"],
        "files": {"p.jsonl": f'{{"input": "She left", "outputs": [{"9" * 5000}]}}\n'},
        "says": "p.jsonl, line 1: not JSON",
    },
    "table with a huge cell": {
        "words": ["audit", "data=p.csv"],
        "files": {"p.csv": f"input,output\n{'a' * 140_000}, home\n"},
        "says": "p.csv, line 2: not CSV (field larger than field limit",
    },
}
CASES: dict[str, dict[str, Any]] = yaml.safe_load(LIST.read_text("utf-8")) | HUGE
AT_ONCE = {name: case for name, case in CASES.items() if "needs" not in case}
ALL = [pytest.param(name, marks=[] if name in AT_ONCE else [pytest.mark.slow]) for name in CASES]


def test_the_list_is_long() -> None:
    assert len(CASES) >= 200


@pytest.fixture(scope="module")
def at_once() -> dict[str, Outcome]:
    """What came of all that must be answered before torch is imported, in one fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.test_bad_inputs"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == len(AT_ONCE), done.stderr
    return {outcome.pop("name"): Outcome(**outcome) for outcome in outcomes}


@pytest.fixture
def outcome(name: str, request: pytest.FixtureRequest) -> Iterator[Outcome]:
    if name in AT_ONCE:
        yield request.getfixturevalue("at_once")[name]
    else:
        pytest.importorskip(CASES[name]["needs"])
        yield attempt(CASES[name]["words"], CASES[name].get("files", {}))


@pytest.mark.parametrize("name", ALL)
def test_a_bad_input_gets_its_line(name: str, outcome: Outcome) -> None:
    assert outcome.said.startswith(f"countergen-edit: error: {CASES[name]['says']}")
    assert outcome.code == 2
    assert len(outcome.said.splitlines()) == 1
    assert not outcome.left
    if name in AT_ONCE:
        assert not outcome.torch


if __name__ == "__main__":
    for case in AT_ONCE:
        came = attempt(AT_ONCE[case]["words"], AT_ONCE[case].get("files", {}))
        told = {"name": case, "code": came.code, "said": came.said, "left": came.left}
        print(json.dumps(told | {"torch": came.torch}), flush=True)
