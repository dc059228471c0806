"""Logs of other tools are read as their formats have them, and what is unfit is said in a line."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.runs.logs import Log, read_log
from tests.runs import foreign_logs as foreign
from tests.runs.foreign_logs import DATE, DOCS, answered, asked, inspect_log, lm_eval, scored


def values(log: Log, metric: str) -> list[float]:
    return [item.value for item in log.items if item.metric == metric]


def read(path: Path, cluster: str | None = None) -> Log:
    log = read_log(path, cluster)
    assert log is not None
    return log


ACCS = [1.0, 0.0] * 6


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
    log = read(lm_eval(tmp_path, {"jobs": lines}))
    assert values(log, "exact_match") == [1.0] * 12
    assert math.isnan(values(log, "exact_match, strict")[0])
    assert values(log, "exact_match, strict")[1:] == [0.0] * 11
    assert log.unread == ("jobs, brier, strict", "jobs, brier")


def test_samples_of_an_early_version_without_hashes_and_names_are_known_by_their_document(
    tmp_path: Path,
) -> None:
    old = [
        {k: v for k, v in line.items() if not k.endswith("hash") and k not in ("metrics", "filter")}
        for line in scored(ACCS)
    ]
    log = read(lm_eval(tmp_path, {"jobs": old}))
    assert values(log, "acc") == ACCS
    assert len({item.id for item in log.items}) == len(DOCS)


def test_runs_of_several_tasks_in_one_folder_are_one_log_unless_a_task_is_twice(
    tmp_path: Path,
) -> None:
    later = "2026-02-01T12-00-00.1"
    lm_eval(tmp_path, {"jobs": scored(ACCS)})
    lm_eval(tmp_path, {"other": scored(ACCS)}, date=later)
    assert {*read(tmp_path).versions} == {"jobs", "other"}
    lm_eval(tmp_path, {"jobs": scored(ACCS)}, date=later)
    with pytest.raises(UserError, match=rf"holds jobs twice \(results_{DATE}.json, res"):
        read(tmp_path)


def test_a_column_of_an_item_is_its_cluster(tmp_path: Path) -> None:
    of_lm_eval = read(lm_eval(tmp_path / "a", {"jobs": scored(ACCS)}), "job")
    of_inspect = read(inspect_log(tmp_path / "b.json", answered(ACCS)), "job")
    for log in (of_lm_eval, of_inspect):
        assert [item.cluster for item in log.items] == [doc["job"] for doc in DOCS]
    with pytest.raises(UserError, match="line 1: unknown cluster 'jab': did you mean 'job'"):
        read(tmp_path / "a", "jab")
    with pytest.raises(UserError, match="sample 1: unknown cluster 'jab': did you mean 'job'"):
        read(tmp_path / "b.json", "jab")


def test_results_without_samples_or_with_fewer_are_refused(tmp_path: Path) -> None:
    lm_eval(tmp_path, {"jobs": scored(ACCS)})
    [samples] = tmp_path.glob("*/samples_*.jsonl")
    whole = samples.read_text()
    samples.write_text("".join(whole.splitlines(keepends=True)[:7]))
    with pytest.raises(UserError, match=r"holds 7 of the 12 items that results_.* tells of"):
        read(tmp_path)
    samples.write_text(whole[:-20])
    with pytest.raises(UserError, match=r"line 12: not JSON"):
        read(tmp_path)
    samples.unlink()
    with pytest.raises(UserError, match="run lm-eval with --log_samples"):
        read(tmp_path)


def test_samples_without_results_and_results_of_several_models_are_refused(tmp_path: Path) -> None:
    folder = lm_eval(tmp_path / "out", {"jobs": scored(ACCS)})
    lm_eval(folder, {"jobs": scored(ACCS)}, model="/models/after")
    with pytest.raises(UserError, match="several models: name one of __models__after, __models__b"):
        read(folder)
    for file in folder.glob("*/results_*"):
        file.unlink()
    with pytest.raises(UserError, match="has samples but no results_DATE"):
        read(folder)


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_a_log_of_inspect_is_read_from_both_its_formats(name: str, tmp_path: Path) -> None:
    marks = ["C", "I", "P", "N", True, False, 1, 0.25, "yes", "no", "0.5", None]
    log = read(inspect_log(tmp_path / name, answered(marks)))
    numbers = [1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 1.0, 0.25, 1.0, 0.0, 0.5]
    assert values(log, "match")[:-1] == numbers
    assert math.isnan(values(log, "match")[-1])
    assert (log.tool, log.model) == ("inspect_ai 0.3.285", "mockllm/model")
    assert log.versions == {"jobs": {"version": "1", "scorer match": "{}"}}


def test_scores_of_several_values_are_several_metrics_and_words_are_none(tmp_path: Path) -> None:
    samples = [
        each | {"scores": {"two": {"value": {"length": 9.0, "short": True}}, "a": {"value": "b"}}}
        for each in answered([0] * 12)
    ]
    samples[3]["scores"] = {}
    log = read(inspect_log(tmp_path / "a.json", samples))
    assert values(log, "two, length")[:3] == [9.0] * 3
    assert math.isnan(values(log, "two, short")[3])
    assert log.unread == ("jobs, a",)


def test_an_item_of_inspect_is_known_by_what_was_asked_and_not_by_its_place(tmp_path: Path) -> None:
    one = read(inspect_log(tmp_path / "a.json", answered([1] * 12)))
    turned = [each | {"id": 12 - n} for n, each in enumerate(reversed(answered([1] * 12)))]
    two = read(inspect_log(tmp_path / "b.eval", turned))
    assert {i.id for i in one.items} == {i.id for i in two.items}
    shuffled = []
    for choices, target in ((["she", "he"], "A"), (["he", "she"], "B")):
        sample = asked(1, DOCS[0]["question"], 1, choices=choices, target=target)
        shuffled.append(read(inspect_log(tmp_path / "c.json", [sample])).items[0].id)
    assert shuffled[0] == shuffled[1]
    # The ids of messages are new in every run, what they say is not.
    told = []
    for mark in "ab":
        messages = [{"id": mark, "role": "user", "content": "Who works?", "source": "input"}]
        sample = asked(1, DOCS[0]["question"], 1) | {"input": messages}
        told.append(read(inspect_log(tmp_path / "d.json", [sample])).items[0].id)
    assert told[0] == told[1]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def without_header(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", "{}")


def overwritten(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[120:160] = b"\0" * 40
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "settings", "then", "says"),
    [
        ("a.json", {"status": "error"}, None, r"'error' \(ValueError\('no'\)\), not 'success'"),
        ("a.eval", {"status": "started"}, None, "has status 'started', not 'success'"),
        ("a.json", {"total": 20}, None, "holds 12 of the 20 samples that it tells of"),
        ("a.json", {}, cut, "a.json is damaged: not JSON"),
        ("a.eval", {}, cut, "a.eval is no whole archive, it was cut off"),
        ("a.eval", {}, overwritten, "a.eval is no whole archive"),
        ("a.eval", {}, without_header, "a.eval has no header.json: its run was not finished"),
    ],
)
def test_an_unfinished_or_damaged_log_of_inspect_is_refused(
    name: str,
    settings: dict[str, Any],
    then: Callable[[Path], None] | None,
    says: str,
    tmp_path: Path,
) -> None:
    path = inspect_log(tmp_path / name, answered([1] * 12), **settings)
    if then:
        then(path)
    with pytest.raises(UserError, match=says):
        read(path)


def test_a_log_of_inspect_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no samples: run inspect with --log-samples"):
        read(inspect_log(tmp_path / "a.json", []))


def test_a_folder_of_logs_is_one_of_several_tasks_and_of_one_model(tmp_path: Path) -> None:
    inspect_log(tmp_path / "a.json", answered([1] * 12))
    inspect_log(tmp_path / "b.eval", answered([1] * 12), task="other")
    assert {*read(tmp_path).versions} == {"jobs", "other"}
    inspect_log(tmp_path / "c.eval", answered([1] * 12))
    with pytest.raises(UserError, match=r"holds jobs twice \(a.json, c.eval\)"):
        read(tmp_path)
    inspect_log(tmp_path / "c.eval", answered([1] * 12), task="third", model="other/model")
    with pytest.raises(UserError, match="logs of several models"):
        read(tmp_path)


def test_an_archive_of_zstandard_is_read_or_says_what_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstandard = pytest.importorskip("zstandard", reason="needs countergen-edit[inspect]")
    path = inspect_log(tmp_path / "a.eval", answered(ACCS))
    packed = repacked(path, zstandard.ZstdCompressor().compress)
    assert read(packed).items == read(path).items
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(UserError, match=r"pip install 'countergen-edit\[inspect\]', or write it"):
        read(packed)


def repacked(path: Path, compress: Callable[[bytes], bytes]) -> Path:
    """The archive with its members compressed as method 93, which zipfile itself cannot write."""
    import struct
    import zlib

    out, central, count = b"", b"", 0
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            raw, own = compress(content), name.encode()
            sizes = struct.pack("<III", zlib.crc32(content), len(raw), len(content))
            head = struct.pack("<HHHHH", 63, 0, 93, 0, 33) + sizes
            central += b"PK\1\2" + struct.pack("<H", 63) + head
            central += struct.pack("<HHHHHII", len(own), 0, 0, 0, 0, 0, len(out)) + own
            out += b"PK\3\4" + head + struct.pack("<HH", len(own), 0) + own + raw
            count += 1
    end = struct.pack("<HHHHIIH", 0, 0, count, count, len(central), len(out), 0)
    packed = path.with_name(f"packed_{path.name}")
    packed.write_bytes(out + central + b"PK\5\6" + end)
    return packed


@pytest.mark.parametrize("content", ["{}", '{"results": []}', "[]", "not JSON", ""])
def test_other_files_are_no_logs_or_damaged_ones(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    if content.startswith('{"results"'):
        with pytest.raises(UserError, match="versions is missing"):
            read_log(path)
    else:
        assert read_log(path) is None
    assert read_log(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"doc_id": "one"}, r"line 1: doc_id 'one' should be"),
        ({"metrics": "acc"}, r"line 1: metrics 'acc' should be"),
        ({"doc_hash": 5}, r"line 1: doc_hash 5 should be"),
    ],
)
def test_a_sample_of_another_form_is_refused_with_its_line(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    lines = scored(ACCS)
    lm_eval(tmp_path, {"jobs": lines})
    [samples] = tmp_path.glob("*/samples_*.jsonl")
    lines[0] |= change
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=says):
        read(tmp_path)
