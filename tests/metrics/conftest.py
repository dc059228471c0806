"""Benchmarks that several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.made_benchmarks import make_benchmarks


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_benchmarks(tmp_path_factory.mktemp("benchmarks"))
