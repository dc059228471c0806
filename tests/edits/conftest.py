"""Every tiny family loaded once."""

import pytest

from countergen_edit.models import load_model
from tests.tiny_models import FAMILIES, tiny_model_dir


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("sources")
    return {family: load_model(tiny_model_dir(family, root / family)) for family in FAMILIES}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, models):
    return models[request.param]
