"""Commands run in a folder of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _here(here):
    pass
