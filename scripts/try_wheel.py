"""Try an installed countergen-edit from an empty folder.

    PYTHON scripts/try_wheel.py

An audit must find settings, the shipped model, natural texts and pages in the installation. The
exit code is 1 if a command fails, or if another package is imported.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TRAITS = "[{source: testbed, family: traits}]"
SMALL = (
    *(f"data.{split}={TRAITS}" for split in ("fit", "validation", "test")),
    "names={fit: 8, validation: 4, test: 4, agreement: 2}",
    "edit.layers=[4]",
)
COMMANDS = (
    ("--version",),
    ("audit", "--help"),
    ("audit", "eraser=leace", "metric=r", *SMALL, "run_dir=run"),
    ("audit", "axis=nationality", "data=nationality", "texts=natural", "--cfg", "job"),
    ("report", "run", "files=[csv,svg]"),
)
LEAVES = ("run/results.jsonl", "run/manifest.json", "run/report.html")


def main() -> int:
    """Run every command in an empty folder; the exit code."""
    bin_dir = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        where = [sys.executable, "-c", "import countergen_edit as ce; print(ce.__file__)"]
        commands = [where, *([str(bin_dir / "countergen-edit"), *words] for words in COMMANDS)]
        for command in commands:
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if ran.returncode:
                print(f"failed: {' '.join(command)}\n{ran.stdout}{ran.stderr}", file=sys.stderr)
                return 1
            if command is where and not Path(ran.stdout).is_relative_to(sys.prefix):
                print(f"not the installed package: {ran.stdout}", file=sys.stderr)
                return 1
        absent = [name for name in LEAVES if not (Path(folder) / name).is_file()]
    print(f"{len(absent)} files are absent" if absent else f"{len(COMMANDS)} commands ran")
    return int(bool(absent))


if __name__ == "__main__":
    sys.exit(main())
