"""What people write on a command line reaches the config as it was meant; texts literally."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.cli import composing
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.metrics.costs.agreement import Agreement


def composed(command: str, *words: str) -> Any:
    return composing.composed(command, overrides_of(command, words))


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
    assert composed("audit", f"model={path}")["model"]["name"] == path
    assert composed("audit", f"run_dir={path}")["run_dir"] == path
    assert composed("edit", f"save={path}")["save"] == path
    assert composed("audit", f"model.adapter={path}")["model"]["adapter"] == path
    assert composed("check", f"file={path}")["file"] == path
    assert composed("gate", f"/{path}")["run"] == f"/{path}"
    assert composed("gate", f"baseline={path}")["limits"] == {"baseline": path}
    assert composed("audit", f"axis={path}.yaml")["axis"] == {"file": f"{path}.yaml"}
    assert composed("audit", f"data={path}.yaml")["data"] == {"file": f"{path}.yaml"}
    assert composed("audit", f"data={path}.csv")["data"]["test"] == [
        {"source": "csv", "path": f"{path}.csv"}
    ]


@pytest.mark.parametrize("name", ["my own (v2) [a]", "a, b=1 'ü'", "lr=1"])
def test_a_path_that_exists_is_no_setting_and_no_list_of_jobs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
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


def test_what_a_file_says_may_be_said_otherwise() -> None:
    config = composed("audit", "data.fit=own", "data=mine.yaml")
    assert config["data"] == {"file": "mine.yaml", "fit": "own"}
    config = composed("audit", "data=mine.jsonl", "data.fit=own")
    assert (config["data"]["fit"], config["data"]["of_axis"]) == ("own", True)


def test_a_list_of_templates_may_hold_what_looks_like_a_reference() -> None:
    words = r"""templates=["{name} costs ${oc.env:HOME}"]"""
    assert composed("cid", words)["templates"] == ["{name} costs ${oc.env:HOME}"]


def test_classes_of_ones_own_stand_beside_ours() -> None:
    config = composed("audit", "eraser=[rlace,my/own.py:Mine]", "metric=own.py:Count")
    assert config["eraser"] == {
        "rlace": {"rank": 1, "solver": "auto"},
        "Mine": {"kind": "my/own.py:Mine"},
    }
    assert config["metric"] == {"Count": {"kind": "own.py:Count"}}


def test_one_eraser_may_stand_twice() -> None:
    words = "eraser={a: {kind: rlace}, b: {kind: rlace, rank: 2}}"
    assert composed("audit", words)["eraser"] == {
        "a": {"kind": "rlace"},
        "b": {"kind": "rlace", "rank": 2},
    }


def test_a_cost_that_is_not_chosen_has_no_budget() -> None:
    every = [composed(command)["cost"] for command in ("audit", "edit", "sweep", "debias")]
    assert every[0]["agreement"] == {"budget": Agreement().budget}
    assert all(costs == every[0] for costs in every)
    assert composed("sweep", "cost=[kl]")["cost"] == {"kl": {"budget": 0.05}}
    own = composed("sweep", "cost=[agreement,mine.py:Mine]", "+cost.Mine.budget=2")["cost"]
    assert own == {"agreement": {"budget": 0.01}, "Mine": {"kind": "mine.py:Mine", "budget": 2}}


def test_a_mapping_of_ones_own_stands_instead_of_ours() -> None:
    words = (
        "baseline=prompting",
        "baseline.prompting.requests={mine: 'Be fair to {a} and {b}.'}",
        "metric=benchmarks",
        "metric.benchmarks.limit={winobias: 400}",
    )
    config = composed("audit", *words)
    assert config["baseline"]["prompting"]["requests"] == {"mine": "Be fair to {a} and {b}."}
    assert config["metric"]["benchmarks"]["limit"] == {"winobias": 400}


def test_a_list_of_cid_templates_replaces_those_by_axis() -> None:
    template = "{name} came to the hospital as"
    config = composed("audit", f'metric.cid.templates=["{template}"]')
    assert config["metric"]["cid"]["templates"] == [template]
