"""Benchmarks and a tiny model that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import LanguageModel, load_model
from tests.made_benchmarks import make_benchmarks
from tests.tiny_models import tiny_model_dir


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    return make_benchmarks(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> LanguageModel:
    return load_model(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))


@pytest.fixture
def context(model, tmp_path) -> EvaluationContext:
    return EvaluationContext(model, tmp_path)


@pytest.fixture
def on_testbed(testbed, tmp_path) -> EvaluationContext:
    return EvaluationContext(testbed, tmp_path)
