"""Perturbers of a user's own: what they get, and what their failures do to a run."""

from __future__ import annotations

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import PairedPrompt
from countergen_edit.metrics.context import EvaluationContext
from tests.metrics.fairpair_settings import fairpair, row_of

PAIR = PairedPrompt("nurse", "John works.", "Jane works.", "John", "Jane")


def test_what_was_sampled_is_kept_when_the_perturber_fails(testbed, tmp_path):
    def broken(texts, prompt):
        raise UserError("no answer")

    context = EvaluationContext(testbed, tmp_path / "store")
    with pytest.raises(UserError, match="no answer"):
        fairpair(perturber=broken).measure(context, None)
    files = {p: p.read_bytes() for p in (context.store("fairpair") / "none").iterdir()}
    assert len(files) == 3
    rows = fairpair().measure(context, None)
    assert all(p.read_bytes() == text for p, text in files.items())
    anew = fairpair().measure(EvaluationContext(testbed, tmp_path / "anew"), None)
    assert row_of(rows, "fairpair_f", "jaccard") == row_of(anew, "fairpair_f", "jaccard")


def test_a_perturber_of_a_file_gets_what_it_takes(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "class Shout:\n"
        "    def __init__(self, groups, mark='!'):\n"
        "        self.end = f' {groups[1]}{mark}'\n"
        "    def __call__(self, texts, prompt):\n"
        "        return [text + self.end for text in texts]\n"
    )
    settings = {"kind": f"{file}:Shout", "mark": "?"}
    assert fairpair(perturber=settings).perturber(["Hello"], PAIR) == ["Hello female?"]
    with pytest.raises(UserError, match="did you mean 'mark'"):
        fairpair(perturber=settings | {"mrk": "?"})
