"""Every tiny family loaded once."""

from __future__ import annotations

import pytest

from countergen_edit.models import LanguageModel, load_model
from tests.tiny_models import FAMILIES, tiny_model_dir


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LanguageModel]:
    root = tmp_path_factory.mktemp("sources")
    return {family: load_model(tiny_model_dir(family, root / family)) for family in FAMILIES}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, models: dict[str, LanguageModel]) -> LanguageModel:
    return models[request.param]
