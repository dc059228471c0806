"""What every test may use. Shape annotations are enforced by the options in pyproject.toml."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    pass

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
SKIPPED = re.compile(r"\bGPU\b|hydra_\w+_launcher|the papers?'s? texts?")
"""Reasons that `--no-skips` allows."""

# The first call of many a property loads something; no property is about time.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")

# Read when transformers is first imported: no test may reach for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails, but for a few")


def not_skipped(report: Report, config: pytest.Config) -> Report:
    """The report; of a failure where the test was skipped and may not be."""
    reason = str(report.longrepr)
    if report.skipped and config.getoption("no_skips") and not SKIPPED.search(reason):
        report.outcome, report.longrepr = "failed", reason
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    return not_skipped((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    return not_skipped((yield), collector.config)


@pytest.fixture(scope="session")
def testbed():
    from countergen_edit.models import load_model
    from countergen_edit.testbed import directory

    return load_model(directory())


@pytest.fixture(scope="session")
def tiny_dirs(tmp_path_factory):
    from tests.tiny_models import FAMILIES, tiny_model_dir

    root = tmp_path_factory.mktemp("tiny")
    return {family: tiny_model_dir(family, root / family) for family in FAMILIES}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The empty folder in which a test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Tiny models are slowed down, not sped up, by threads that wait for each other."""
    import torch

    torch.set_num_threads(1)
