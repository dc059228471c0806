"""Logs of other tools are read in their formats; unfit ones are refused in one line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.runs.logs import Log, read_log
from tests.runs import foreign_logs as foreign
from tests.runs.foreign_logs import DATE, DOCS, answered, asked, inspect_log, lm_eval, scored

ACCS = [1.0, 0.0] * 6


def values(log: Log, metric: str) -> list[float]:
    return [item.value for item in log.items if item.metric == metric]


def read(path: Path, cluster: str | None = None) -> Log:
    log = read_log(path, cluster)
    assert log is not None
    return log


@pytest.fixture
def inspect() -> None:
    pytest.importorskip("inspect_ai", reason="needs countergen-edit[inspect]")


def test_a_log_of_lm_eval_is_read_from_its_folder_that_of_its_model_or_its_file(
    tmp_path: Path,
) -> None:
    folder = lm_eval(tmp_path / "out", {"jobs": scored(ACCS)})
    [results] = folder.glob("*/results_*.json")
    for path in (folder, results.parent, results):
        log = read(path)
        assert (log.tool, log.model) == ("lm-eval 0.4.13", "/models/before")
        assert values(log, "acc") == ACCS
        assert {item.task for item in log.items} == {"jobs"}
        assert log.versions == {"jobs": {"version": "1.0", "shots": "0"}}
    renamed = results.rename(results.with_name(f"mine_{DATE}.json"))  # --output_path mine.json
    assert values(read(renamed), "acc") == ACCS


def test_each_filter_is_a_metric_and_what_is_no_number_is_named(tmp_path: Path) -> None:
    lines = []
    for number, doc in enumerate(DOCS):
        strict = foreign.sample(number, doc, exact_match=0.0, brier=[0, "[0.1 0.9]"])
        lines += [strict | {"filter": "strict"}, strict | {"filter": "none", "exact_match": True}]
    lines[0]["exact_match"] = math.nan
    log = read(lm_eval(tmp_path, {"jobs": lines}), "job")
    assert [item.cluster for item in log.items][::24] == ["nurse"]
    with pytest.raises(UserError, match="line 1: unknown cluster 'jab': did you mean 'job'"):
        read(tmp_path, "jab")
    assert values(log, "exact_match") == [1.0] * 12
    assert math.isnan(values(log, "exact_match, strict")[0])
    assert values(log, "exact_match, strict")[1:] == [0.0] * 11
    assert [*log.unread] == ["jobs, brier, strict", "jobs, brier"]


def test_several_tasks_in_one_folder_are_one_log_unless_twice_or_of_several_models(
    tmp_path: Path,
) -> None:
    later = "2026-02-01T12-00-00.1"
    lm_eval(tmp_path, {"jobs": scored(ACCS)})
    lm_eval(tmp_path, {"other": scored(ACCS)}, date=later)
    assert {*read(tmp_path).versions} == {"jobs", "other"}
    lm_eval(tmp_path, {"jobs": scored(ACCS)}, date=later)
    with pytest.raises(UserError, match="holds jobs twice: name one of its files"):
        read(tmp_path)
    lm_eval(tmp_path, {"third": scored(ACCS)}, model="/models/after")
    with pytest.raises(UserError, match="holds logs of several models: /models/after, /models/b"):
        read(tmp_path)


def test_results_without_samples_or_with_fewer_are_refused(tmp_path: Path) -> None:
    lm_eval(tmp_path, {"jobs": scored(ACCS)})
    [samples] = tmp_path.glob("*/samples_*.jsonl")
    whole = samples.read_text()
    samples.write_text("".join(whole.splitlines(keepends=True)[:7]))
    with pytest.raises(UserError, match=r"holds 7 of the 12 items of results_"):
        read(tmp_path)
    odd = whole.replace('"doc_id": 0', '"doc_id": "0"')
    for text, says in ((whole[:-20], "line 12: not JSON"), (odd, "line 1: doc_id='0': write")):
        samples.write_text(text)
        with pytest.raises(UserError, match=says):
            read(tmp_path)
    samples.unlink()
    with pytest.raises(UserError, match="run lm-eval with --log_samples"):
        read(tmp_path)


@pytest.mark.usefixtures("inspect")
@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_a_log_of_inspect_is_read_from_both_its_formats(name: str, tmp_path: Path) -> None:
    marks = ["C", "I", "P", "N", True, False, 1, 0.25, "yes", "no", "0.5", "C"]
    samples = answered(marks)
    samples[-1]["scores"] = {}
    for sample in samples[:-1]:
        sample["scores"] |= {"two": {"value": {"length": 9.0}}, "a": {"value": "b"}}
    log = read(inspect_log(tmp_path / name, samples), "job")
    numbers = [1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 1.0, 0.25, 1.0, 0.0, 0.5]
    assert values(log, "match")[:-1] == numbers
    assert math.isnan(values(log, "match")[-1])
    assert values(log, "two, length")[:-1] == [9.0] * 11
    assert [*log.unread] == ["jobs, a"]
    assert (log.tool, log.model) == ("inspect_ai 0.3.285", "mockllm/model")
    assert log.versions == {"jobs": {"version": "1", "scorer match": "{}"}}
    assert [item.cluster for item in log.items] == [doc["job"] for doc in DOCS]
    with pytest.raises(UserError, match="sample 1: unknown cluster 'jab': did you mean 'job'"):
        read(tmp_path / name, "jab")


@pytest.mark.usefixtures("inspect")
def test_an_item_of_inspect_is_known_by_its_input_and_not_by_its_place(tmp_path: Path) -> None:
    one = read(inspect_log(tmp_path / "a.json", answered([1] * 12)))
    turned = [each | {"id": 12 - n} for n, each in enumerate(reversed(answered([1] * 12)))]
    two = read(inspect_log(tmp_path / "b.eval", turned))
    assert {i.id for i in one.items} == {i.id for i in two.items}

    def key(**sample: Any) -> str:
        log = inspect_log(tmp_path / "c.json", [asked(1, DOCS[0]["question"], 1) | sample])
        return read(log).items[0].id

    shuffled = key(choices=["she", "he"], target="A"), key(choices=["he", "she"], target="B")
    assert shuffled[0] == shuffled[1]
    # The ids of messages are new in every run.
    message = {"role": "user", "content": "Who works?", "source": "input"}
    assert key(input=[message | {"id": "a"}]) == key(input=[message | {"id": "b"}])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def overwritten(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[120:160] = b"\0" * 40
    path.write_bytes(content)


@pytest.mark.usefixtures("inspect")
@pytest.mark.parametrize(
    ("name", "settings", "then", "says"),
    [
        ("a.json", {"status": "error"}, None, r"'error' \(ValueError\('no'\)\), not 'success'"),
        ("a.eval", {"status": "started"}, None, "has status 'started', not 'success'"),
        ("a.json", {"total": 20}, None, "holds 12 of its 20 samples: it was cut off"),
        ("a.json", {"samples": []}, None, "has no samples: run inspect with --log-samples"),
        ("a.json", {}, cut, "a.json is damaged, or no log of Inspect: EOF"),
        ("a.eval", {}, cut, "a.eval is damaged, or no log of Inspect: EOCD not found"),
        ("a.eval", {}, overwritten, "a.eval is damaged"),
    ],
)
def test_an_unfinished_or_damaged_log_of_inspect_is_refused(
    name: str,
    settings: dict[str, Any],
    then: Callable[[Path], None] | None,
    says: str,
    tmp_path: Path,
) -> None:
    path = inspect_log(tmp_path / name, **({"samples": answered([1] * 12)} | settings))
    if then:
        then(path)
    with pytest.raises(UserError, match=says) as error:
        read(path)
    assert "\n" not in str(error.value)


def test_a_log_of_inspect_says_which_package_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(UserError, match=r"a log of Inspect: pip install 'countergen-edit\[inspect"):
        read(inspect_log(tmp_path / "a.json", answered([1] * 12)))
