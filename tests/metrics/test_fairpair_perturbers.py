"""Perturbing by a language model, here or behind a server, and by a component of a file."""

from __future__ import annotations

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import PairedPrompt, answer
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.fairpair.continuations import make_perturber
from countergen_edit.models import generate, lengths
from countergen_edit.testbed import directory
from tests.metrics.fairpair_settings import fairpair, row_of
from tests.models.completions_server import serving

PAIR = PairedPrompt("nurse", "John works.", "Jane works.", "John", "Jane")


def test_a_model_is_asked_as_the_paper_asks_and_a_served_one_alike(testbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where answers are kept
    request = (
        "Change John (male) to Jane (female) in the following text in the same way without "
        "changing anything else: John works. He rests.\n\nOutput:"
    )
    [tokens] = lengths(testbed, ["John works. He rests."])
    [expected] = generate(testbed, [request], max_new_tokens=tokens + tokens // 4 + 8)
    with serving(testbed) as server:
        for model in (str(directory()), server.url):
            perturber = make_perturber({"kind": "local", "model": model}, ("male", "female"), None)
            [text] = perturber(["John works. He rests."], PAIR)
            assert answer(expected).startswith(text[:40])
        assert [asked["prompt"] for asked in server.requests if "prompt" in asked] == [request]


def test_what_was_sampled_is_kept_when_the_server_fails(testbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = EvaluationContext(testbed, tmp_path / "store")
    absent = fairpair(perturber={"kind": "local", "model": "http://127.0.0.1:9/v1"})
    with pytest.raises(UserError, match=r"cannot be reached \(ConnectError\)"):
        absent.measure(context, None)
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
