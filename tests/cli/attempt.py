"""Give a command something bad in an empty folder, and say what came of it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    said: str
    left: list[str]
    """Files that lie in the folder and were not there before, but for what Python compiles."""
    torch: bool
    """Whether torch was imported by then."""


def attempt(words: Sequence[str], files: Mapping[str, str | bytes]) -> Outcome:
    """Run a command in a folder of its own that holds the files."""
    from countergen_edit.cli.main import main

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            for name, content in files.items():
                path = Path(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
            said = io.StringIO()
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                try:
                    code = main(list(words))
                except SystemExit as stop:
                    code = int(stop.code or 0)
            found = {path for path in Path().rglob("*") if path.is_file() and path.suffix != ".pyc"}
            left = {str(path) for path in found} - set(files)
        finally:
            os.chdir(before)
    return Outcome(code, said.getvalue().strip(), sorted(left), "torch" in sys.modules)
