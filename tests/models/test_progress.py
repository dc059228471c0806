from __future__ import annotations

import io
import sys

import pytest

from countergen_edit.models import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience", "shown"), [(0.0, True), (60.0, False)])
def test_a_bar_appears_only_when_the_work_is_long(monkeypatch, patience, shown):
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress.console.cache_clear()  # the console looks at its stream once, when it is made
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    assert list(progress.track([1, 2, 3], "scoring")) == [1, 2, 3]
    assert ("scoring" in sys.stderr.getvalue()) is shown
    progress.console.cache_clear()


def test_no_bar_where_nobody_watches(capsys):
    assert list(progress.track([1, 2], "scoring")) == [1, 2]
    assert capsys.readouterr().err == ""
