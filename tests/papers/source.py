"""The papers' own texts, where they lie beside the checkout; they are no part of it.

Comes in: a paper's name. Goes out: its text. A test that needs one is skipped where there is none;
`COUNTERGEN_PAPERS` names another folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = Path(os.environ.get("COUNTERGEN_PAPERS", ROOT.parent / "shared" / "papers"))


def paper(name: str) -> str:
    """The text of a paper."""
    path = PAPERS / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"the paper's text {path.name} is not here")
    return path.read_text("utf-8")
