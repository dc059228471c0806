"""Every experiment that ships runs to its end on something tiny, and holds what the guide shows."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import countergen_edit
from countergen_edit.cli.main import main
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.runs.folder import read_rows
from tests.cli.test_conf import STUDIES, composed
from tests.models.test_gguf import script

pytestmark = pytest.mark.slow  # every test is of whole runs

ROOT = Path(countergen_edit.__file__).parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
ENTRIES = {
    entry.name: entry
    for paper in script("guide.entries").read_papers()
    for entry in paper.entries.values()
}
NAMES = {"cid": "{fit: 1, validation: 1, test: 1}"}
"""How many people a command takes, where that is not as in an audit."""
TINY = {
    "model": "testbed",
    "names": "{fit: 4, few: 4, agreement: 2, validation: 2, test: 2}",
    "cost": "agreement",
    "layers": "[3]",
    "metric.fairpair.n": "4",
    "metric.fairpair.occupations": "2",
    "metric.fairpair.max_new_tokens": "4",
    "lambda": "[0,10]",
    "max_new_tokens": "4",
    "per_kind": "1",
    "grid": "[0,50]",
}
"""What makes an experiment tiny, of what it has."""
ELSEWHERE = {
    "rlace_cvxpy": "tests/cli/test_cvxpy.py",
    "preserving_within": "tests/cli/test_cvxpy.py",
    "fairpair_llm": "tests/metrics/test_fairpair_llm.py",
}
"""Experiments that need more than a tiny model, and the tests that run them."""


def has(config: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(config, dict) or config.get(part) is None:
            return False
        config = config[part]
    return True


def skip_without(extra: str) -> None:
    for requirement in EXTRAS[extra] if extra else ():
        name = re.split(r"[<>=\[]", requirement)[0]
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{name} is not installed: pip install 'countergen-edit[{extra}]'")


HERE = [path for path in STUDIES if path.stem not in ELSEWHERE]


@pytest.mark.parametrize("path", HERE, ids=lambda p: p.stem)
def test_an_experiment_runs_and_holds_what_the_guide_shows(path: Path, tmp_path: Path) -> None:
    name, command = path.stem, path.parent.name
    entry = ENTRIES[name]
    skip_without(entry.extra)
    config = composed(command, *overrides_of(command, [f"experiment={name}"]))
    sizes = TINY | {"names": NAMES.get(command, TINY["names"])}
    tiny = [f"{key}={value}" for key, value in sizes.items() if has(config, key)]
    words = [command, f"experiment={name}", *tiny, f"run_dir={tmp_path / 'run'}"]
    assert main(words) == 0
    assert (tmp_path / "run" / "report.html").is_file()
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    for figure in entry.figures:
        assert figure.of(rows), figure.what
