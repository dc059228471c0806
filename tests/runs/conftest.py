"""What a run left in the folder of a test file."""

import pytest

from countergen_edit.runs.folder import RunFolder
from tests.runs.runs import IDENTITY


@pytest.fixture(scope="module")
def rows(path):
    return RunFolder(path, {}, IDENTITY).rows()
