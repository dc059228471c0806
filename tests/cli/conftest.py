"""Commands run in a folder of their own."""

import pytest


@pytest.fixture(autouse=True)
def _here(here):
    pass
