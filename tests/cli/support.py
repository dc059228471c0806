"""Commands run in this process, what they print and leave, and the words that make them small."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import countergen_edit
from countergen_edit.cli import composing
from countergen_edit.cli.main import main
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.axis import SPLITS
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.folder import read_rows
from tests.models.test_gguf import script
from tests.runs.runs import value

ROOT = Path(countergen_edit.__file__).parent.parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    "OMP_NUM_THREADS": "1",
}
"""Of other processes: the tests in reach, and one thread, as threads decide how sums are split."""
STUDIES = sorted((conf_dir() / "experiment").rglob("*.yaml"))
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


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """All that it printed, in one line."""
        return " ".join(f"{self.out} {self.err}".split())


def call(*words: object) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*map(str, words)])
        except SystemExit as stop:
            code = int(str(stop.code or 0))
    return Ended(code, out.getvalue(), err.getvalue())


def said(*words: object, code: int = 0) -> str:
    """What a command prints that ends as it should, in one line."""
    ended = call(*words)
    assert ended.code == code, ended.err
    return ended.words


def fails(*words: object) -> str:
    """The one line of a command that fails as a mistake does, and leaves no folder behind."""
    ended = call(*words)
    line = ended.err.strip()
    assert ended.code == 2, line
    assert line.startswith("countergen-edit: error: ")
    assert len(line.splitlines()) == 1, line
    assert not Path("runs").exists()
    assert not Path("outputs").exists()
    return line


def rows_of(folder: Path | str, *metrics: str, **columns: object) -> list[Row]:
    """The rows of a run, of some metrics and with these columns."""
    return [
        row
        for row in read_rows(Path(folder) / RESULTS)
        if (not metrics or row.metric in metrics)
        and all(getattr(row, column) == value for column, value in columns.items())
    ]


def value_of(folder: Path | str, metric: str, **columns: object) -> float:
    return value(read_rows(Path(folder) / RESULTS), metric, **columns)


def names(*counts: int, **others: int) -> str:
    """Names per group: to fit on, on validation and test data, of agreement; further splits."""
    known = dict(zip(("fit", "validation", "test", "agreement"), counts, strict=False))
    return f"names={{{', '.join(f'{key}: {n}' for key, n in (known | others).items())}}}"


def sets(family: str, splits: Iterable[str] = SPLITS) -> list[str]:
    """Sets of one family of the testbed for splits."""
    return [f"data.{split}=[{{source: testbed, family: {family}}}]" for split in splits]


def prompt_file(name: str, texts: Sequence[str], *outputs: str) -> str:
    """A file of prompts with the same outputs, as data."""
    write_json_lines(Path(name), ({"input": text, "outputs": [*outputs]} for text in texts))
    return f"data={name}"


def composed(command: str, *words: str) -> Any:
    return composing.composed(command, overrides_of(command, words))


def has(config: Any, key: str) -> bool:
    """Whether a configuration has a value of a dotted key."""
    for part in key.split("."):
        if not isinstance(config, dict) or config.get(part) is None:
            return False
        config = config[part]
    return True


@cache
def entries() -> dict[str, Any]:
    papers = script("guide.entries").read_papers()
    return {entry.name: entry for paper in papers for entry in paper.entries.values()}
