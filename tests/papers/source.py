"""The texts of the papers, in a folder next to the checkout or in `COUNTERGEN_PAPERS`.

Tests that need a text are skipped without it.
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
