"""What people write on a command line reaches the config as it was meant; texts literally."""

from __future__ import annotations

from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.cli.overrides import overrides_of
from countergen_edit.metrics.costs.agreement import Agreement
from tests.cli.support import composed


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.text(st.characters(exclude_categories=("C",)), min_size=1), min_size=6))
def test_prompts_are_taken_literally(texts: list[str]) -> None:
    """Many at a time, as composing takes its time."""
    prompts = [f"Jane {text}" for text in texts]  # a word that sets something is a setting
    assert composed("cid", *prompts)["prompts"] == prompts


def test_prompts_that_look_like_settings_are_composed_as_they_stand() -> None:
    prompts = ["Jane has ${oc.env:HOME}", "Jane, [John]: {a: 'b'}", "Jane is ???"]
    assert composed("cid", *prompts)["prompts"] == prompts


@pytest.mark.parametrize(
    "path",
    [
        *("/models/mine", "/some where/it's", "a,b", "${oc.env:HOME}", r"C:\models\${x}", "x=y"),
        *("[a]", 'my data (v2), final=1 "x" [a] ünï', '"a" and "b"', "小;&|<>`!#^~{a", "choice(a)"),
    ],
)
def test_a_path_is_taken_literally(path: str) -> None:
    words = [f"{key}={path}" for key in ("model", "run_dir", "save", "model.adapter")]
    config = composed("edit", *words, f"axis={path}.yaml", f"data={path}.yaml")
    model = config["model"]
    assert [model["name"], config["run_dir"], config["save"], model["adapter"]] == 4 * [path]
    assert config["axis"] == config["data"] == {"file": f"{path}.yaml"}
    assert composed("check", f"file={path}")["file"] == path
    gate = composed("gate", f"/{path}", f"baseline={path}")
    assert (gate["run"], gate["limits"]) == (f"/{path}", {"baseline": path})
    assert composed("audit", f"data={path}.csv")["data"]["test"] == [
        {"source": "csv", "path": f"{path}.csv"}
    ]


@pytest.mark.parametrize("name", ["my own (v2) [a]", "a, b=1 'ü'", "lr=1"])
def test_a_path_that_exists_is_no_setting_and_no_list_of_jobs(name: str) -> None:
    for path in (Path(name), Path(f"{name}.py")):
        path.touch()
    assert composed("report", name)["run"] == name
    assert composed("compare", name, "b")["runs"] == [name, "b"]
    assert composed("audit", f"eraser={name}.py:A")["eraser"] == {"A": {"kind": f"{name}.py:A"}}
    assert overrides_of("audit", ["-m", f"model={name}"])[1:] == overrides_of(
        "audit", [f"model={name}"]
    )
    words = ["metric=benchmarks", f"metric.benchmarks.directory={name}"]
    assert composed("audit", *words)["metric"]["benchmarks"]["directory"] == name


AGREEMENT = {"budget": Agreement().budget}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["data.fit=own", "data=mine.yaml"], {"data": {"file": "mine.yaml", "fit": "own"}}),
        (["data=mine.jsonl", "data.fit=own"], {"data.fit": "own", "data.of_axis": True}),
        (
            ["eraser=[rlace,my/own.py:Mine]", "metric=own.py:Count"],
            {
                "eraser.rlace": {"rank": 1, "solver": "auto"},
                "eraser.Mine": {"kind": "my/own.py:Mine"},
                "metric": {"Count": {"kind": "own.py:Count"}},
            },
        ),
        (
            ["eraser={a: {kind: rlace}, b: {kind: rlace, rank: 2}}"],
            {"eraser": {"a": {"kind": "rlace"}, "b": {"kind": "rlace", "rank": 2}}},
        ),
        (["cost=[kl]"], {"cost": {"kl": {"budget": 0.05}}}),  # not chosen, no budget
        (
            ["cost=[agreement,mine.py:Mine]", "+cost.Mine.budget=2"],
            {"cost": {"agreement": AGREEMENT, "Mine": {"kind": "mine.py:Mine", "budget": 2}}},
        ),
        (  # mappings and lists that stand instead of ours
            ["baseline=prompting", "baseline.prompting.requests={mine: 'Be fair to {a} and {b}.'}"],
            {"baseline.prompting.requests": {"mine": "Be fair to {a} and {b}."}},
        ),
        (
            ["metric=benchmarks", "metric.benchmarks.limit={winobias: 400}"],
            {"metric.benchmarks.limit": {"winobias": 400}},
        ),
        (
            ["""metric.cid.templates=["{name} came to the hospital as"]"""],
            {"metric.cid.templates": ["{name} came to the hospital as"]},
        ),
    ],
)
def test_what_is_written_is_composed(words: list[str], expected: dict[str, object]) -> None:
    config = composed("audit", *words)
    for key, value in expected.items():
        assert reduce(getitem, key.split("."), config) == value, key


def test_a_list_of_templates_may_hold_what_looks_like_a_reference() -> None:
    words = r"""templates=["{name} costs ${oc.env:HOME}"]"""
    assert composed("cid", words)["templates"] == ["{name} costs ${oc.env:HOME}"]
