"""A checkpoint's cost is measured on the texts that it was made with, unless others are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from countergen_edit.cli.taken_over import taken_over

TEXTS = {"neutral": "testbed_neutral", "keep": []}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["model=any"], TEXTS),
        (["texts=natural"], {}),
        (["texts.neutral=own.txt"], {}),
        (["experiment=fairpair_table3"], {}),
    ],
)
def test_texts_of_its_making_stand_unless_others_are_named(
    tmp_path: Path, words: list[str], expected: object
) -> None:
    (tmp_path / "countergen_edit.json").write_text(json.dumps({"config": {"texts": TEXTS}}))
    config = {"model": {"name": str(tmp_path)}, "texts": {}}
    assert taken_over(config, words) == {**config, "texts": expected}


def test_other_models_and_commands_without_texts_keep_their_settings(tmp_path: Path) -> None:
    for config in ({"model": {"name": str(tmp_path)}, "texts": {}}, {"model": None}, {"runs": []}):
        assert taken_over(config, []) is config
    (tmp_path / "countergen_edit.json").write_text("{}")
    config = {"model": {"name": str(tmp_path)}, "texts": {}}
    assert taken_over(config, []) is config
