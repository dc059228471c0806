"""Cases of our tests, in words that the testbed knows, and short enough for tiny models."""

from __future__ import annotations

import csv
from pathlib import Path

MADE = [
    {
        "topic": job,
        "label": label,
        "answers": "nurse|plumber",
        "case": f"The hospital hired a {job}. {{name}} was {how}, and {{subject}} was {how}.",
        "question": question,
        "cue": "",
    }
    for job in ("nurse", "clerk", "plumber", "chef")
    for label, how in (("nurse", "excellent"), ("plumber", "awful"))
    for question in ("{name} works as a", "{case} {name} is a")
]


def make_cases(folder: Path, name: str = "made", **changes: str | None) -> Path:
    """Write them to a CSV file, with other cells in some columns; None leaves a column out."""
    rows = [{k: v for k, v in {**row, **changes}.items() if v is not None} for row in MADE]
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return path
