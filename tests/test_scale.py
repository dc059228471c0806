"""The benchmark at the shapes of real models runs to its end, and names what failed."""

import importlib
import re
from pathlib import Path

import pytest

from tests.tiny_models import tiny_tokenizer

SPEED = Path(__file__).parent.parent / "scripts" / "speed"


@pytest.mark.slow
def test_every_stage_is_measured_against_its_peer_and_the_next_runs_after_one_that_failed(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(SPEED)
    scale = importlib.import_module("scale")
    monkeypatch.setattr(scale, "SQUARE", 64)

    def printed(*words):
        """What the benchmark prints of a tiny shape, by stage."""
        monkeypatch.setattr("sys.argv", ["scale.py", "tiny", "--texts", "8", *words])
        scale.main()
        _, *parts = re.split(r"^tiny, (\w+):\n", capsys.readouterr().out, flags=re.MULTILINE)
        return dict(zip(parts[::2], parts[1::2], strict=True))

    tiny_tokenizer(bos=True).save_pretrained(tmp_path)
    by_stage = printed("--limit", "2", "--tokenizer", str(tmp_path))
    assert [*by_stage] == ["load", "scoring", "sampling", "capture", "training", "audit"]
    assert not [text for text in by_stage.values() if "failed" in text]
    for stage in ("scoring", "sampling", "capture", "training"):
        ratios = re.findall(r"ours / this (\S+)", by_stage[stage])
        assert ratios
        assert all(float(ratio) > 0 for ratio in ratios)
    by_stage = printed("--stages", "audit,capture", "--passes", "1")
    assert "failed: UserError: passes=1 are too few" in by_stage["audit"]
    assert "failed" not in by_stage["capture"]
