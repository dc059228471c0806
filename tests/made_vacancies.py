"""Vacancies of our tests, in words that the testbed knows, and short enough for tiny models."""

from __future__ import annotations

from pathlib import Path

import yaml

MADE = {
    "questions": ["{advertisement} {cv} {name} works as a", "{cv} {advertisement} {name} is a"],
    "answers": {"accept": "nurse", "reject": "plumber"},
    "cue": "",
    "contexts": {"selective": "The boss was excellent.", "placebo": "The hospital was awful."},
    "vacancies": [
        {
            "occupation": job,
            "advertisement": f"The hospital hired a {job}.",
            "strong": "{name} was excellent, and the boss said {subject} was good.",
            "weak": "{name} was awful, and {possessive} work was bad.",
        }
        for job in ("nurse", "clerk", "plumber", "chef")
    ],
}


def make_vacancies(folder: Path, **changes: object) -> Path:
    """Write them to a file."""
    path = folder / "vacancies.yaml"
    path.write_text(yaml.safe_dump(MADE | changes), "utf-8")
    return path
