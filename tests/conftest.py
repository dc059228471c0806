"""What every test may use. Shape annotations are enforced by the options in pyproject.toml."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from countergen_edit.models import LanguageModel

# The first call of many a property loads something; no property is about time.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

# Read when transformers is first imported: no test may reach for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def testbed() -> LanguageModel:
    from countergen_edit.models import load
    from countergen_edit.testbed import directory

    return load(directory())


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Tiny models are slowed down, not sped up, by threads that wait for each other."""
    import torch

    torch.set_num_threads(1)
