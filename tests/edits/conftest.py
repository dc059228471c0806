"""Every tiny family loaded once."""

import pytest

from countergen_edit.models import load_model
from tests.tiny_models import FAMILIES


@pytest.fixture(scope="session")
def models(tiny_dirs):
    return {family: load_model(folder) for family, folder in tiny_dirs.items()}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, models):
    return models[request.param]
