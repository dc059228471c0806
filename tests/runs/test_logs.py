"""Logs of other tools are read in their formats; unfit ones are refused in one line."""

import math
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from countergen_edit import api
from countergen_edit.core.errors import UserError
from countergen_edit.runs.logs import read_log
from countergen_edit.testbed import directory
from tests.harness import evaluated, local_choices
from tests.runs import foreign_logs as foreign
from tests.runs.foreign_logs import DATE, DOCS, answered, asked, inspect_log, lm_eval, scored
from tests.tiny_models import tiny_model_dir

ACCS = [1.0, 0.0] * 6
needs_inspect = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="no inspect_ai here")


def values(log, metric):
    return [item.value for item in log.items if item.metric == metric]


def test_a_log_of_lm_eval_is_read_from_its_folder_that_of_its_model_or_its_file(tmp_path):
    folder = lm_eval(tmp_path / "out", {"jobs": scored(ACCS)})
    [results] = folder.glob("*/results_*.json")
    for path in (folder, results.parent, results):
        log = read_log(path)
        assert (log.tool, log.model) == ("lm-eval 0.4.13", "/models/before")
        assert values(log, "acc") == ACCS
        assert {item.task for item in log.items} == {"jobs"}
        assert log.versions == {"jobs": {"version": "1.0", "shots": "0"}}
    renamed = results.rename(results.with_name(f"mine_{DATE}.json"))  # --output_path mine.json
    assert values(read_log(renamed), "acc") == ACCS


def test_each_filter_is_a_metric_and_what_is_no_number_is_named(tmp_path):
    lines = []
    for number, doc in enumerate(DOCS):
        strict = foreign.sample(number, doc, exact_match=0.0, brier=[0, "[0.1 0.9]"])
        lines += [strict | {"filter": "strict"}, strict | {"filter": "none", "exact_match": True}]
    lines[0]["exact_match"] = math.nan
    log = read_log(lm_eval(tmp_path, {"jobs": lines}))
    assert values(log, "exact_match") == [1.0] * 12
    np.testing.assert_array_equal(values(log, "exact_match, strict"), [math.nan, *[0.0] * 11])
    assert [*log.unread] == ["jobs, brier, strict", "jobs, brier"]


def test_several_tasks_in_one_folder_are_one_log_unless_twice_or_of_several_models(tmp_path):
    later = "2026-02-01T12-00-00.1"
    lm_eval(tmp_path, {"jobs": scored(ACCS)})
    lm_eval(tmp_path, {"other": scored(ACCS)}, date=later)
    assert {*read_log(tmp_path).versions} == {"jobs", "other"}
    lm_eval(tmp_path, {"jobs": scored(ACCS)}, date=later)
    with pytest.raises(UserError, match="holds jobs twice: name one of its files"):
        read_log(tmp_path)
    lm_eval(tmp_path, {"third": scored(ACCS)}, model="/models/after")
    with pytest.raises(UserError, match="holds logs of several models: /models/after, /models/b"):
        read_log(tmp_path)


def test_results_without_samples_or_with_fewer_are_refused(tmp_path):
    lm_eval(tmp_path, {"jobs": scored(ACCS)})
    [samples] = tmp_path.glob("*/samples_*.jsonl")
    whole = samples.read_text()
    samples.write_text("".join(whole.splitlines(keepends=True)[:7]))
    with pytest.raises(UserError, match=r"holds 7 of the 12 items of results_"):
        read_log(tmp_path)
    samples.write_text(whole[:-20])
    with pytest.raises(UserError, match="line 12: not JSON"):
        read_log(tmp_path)
    samples.write_text(whole.replace('"doc_hash"', '"hash"'))
    with pytest.raises(UserError, match="is damaged, or not a log of lm-eval: KeyError"):
        read_log(tmp_path)
    samples.unlink()
    with pytest.raises(UserError, match="run lm-eval with --log_samples"):
        read_log(tmp_path)


@needs_inspect
@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_a_log_of_inspect_is_read_from_both_its_formats(name, tmp_path):
    marks = ["C", "I", "P", "N", True, False, 1, 0.25, "yes", "no", "0.5", "C"]
    samples = answered(marks)
    samples[-1]["scores"] = {}
    for sample in samples[:-1]:
        sample["scores"] |= {"two": {"value": {"length": 9.0}}, "a": {"value": "b"}}
    log = read_log(inspect_log(tmp_path / name, samples))
    numbers = [1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 1.0, 0.25, 1.0, 0.0, 0.5, math.nan]
    np.testing.assert_array_equal(values(log, "match"), numbers)
    assert values(log, "two, length")[:-1] == [9.0] * 11
    assert [*log.unread] == ["jobs, a"]
    assert (log.tool, log.model) == ("inspect_ai 0.3.285", "mockllm/model")
    assert log.versions == {"jobs": {"version": "1", "scorer match": "{}"}}


@needs_inspect
def test_an_item_of_inspect_is_known_by_its_input_and_not_by_its_place(tmp_path):
    one = read_log(inspect_log(tmp_path / "a.json", answered([1] * 12)))
    turned = [each | {"id": 12 - n} for n, each in enumerate(reversed(answered([1] * 12)))]
    two = read_log(inspect_log(tmp_path / "b.eval", turned))
    assert {i.id for i in one.items} == {i.id for i in two.items}

    def key(**sample):
        log = inspect_log(tmp_path / "c.json", [asked(1, DOCS[0]["question"], 1) | sample])
        return read_log(log).items[0].id

    asked_first = key(choices=["she", "he"], target="A")
    assert asked_first == key(choices=["he", "she"], target="B")
    # The ids of messages are new in every run.
    message = {"role": "user", "content": "Who works?", "source": "input"}
    assert key(input=[message | {"id": "a"}]) == key(input=[message | {"id": "b"}])


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def overwritten(path):
    content = bytearray(path.read_bytes())
    content[120:160] = b"\0" * 40
    path.write_bytes(content)


@needs_inspect
@pytest.mark.parametrize(
    ("name", "settings", "then", "says"),
    [
        ("a.json", {"status": "error"}, None, r"status 'error' \(ValueError\('no'\)\) and 12 of"),
        ("a.eval", {"status": "started"}, None, "has status 'started' and 12 of 12 samples"),
        ("a.json", {"total": 20}, None, "and 12 of 20 samples: finish it with inspect eval-retry"),
        ("a.json", {"samples": []}, None, "and 0 of 0 samples: .* run with --log-samples"),
        ("a.json", {}, cut, "a.json is damaged, or no log of Inspect: EOF"),
        ("a.eval", {}, cut, "a.eval is damaged, or no log of Inspect: EOCD not found"),
        ("a.eval", {}, overwritten, "a.eval is damaged"),
    ],
)
def test_an_unfinished_or_damaged_log_of_inspect_is_refused(name, settings, then, says, tmp_path):
    path = inspect_log(tmp_path / name, **({"samples": answered([1] * 12)} | settings))
    if then:
        then(path)
    with pytest.raises(UserError, match=says) as error:
        read_log(path)
    assert "\n" not in str(error.value)


def test_a_log_of_inspect_says_which_package_reads_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(UserError, match=r"a log of Inspect: pip install 'countergen-edit\[inspect"):
        read_log(inspect_log(tmp_path / "a.json", answered([1] * 12)))


ROWS = [doc | {"choices": ["she works", "he works"], "label": n % 2} for n, doc in enumerate(DOCS)]


def means(log):
    metrics = {item.metric for item in log.items}
    return {m: float(np.mean([i.value for i in log.items if i.metric == m])) for m in metrics}


@pytest.mark.slow
def test_what_lm_eval_writes_is_read_as_it_says(tmp_path):
    pytest.importorskip("lm_eval", reason="needs pip install 'countergen-edit[harness]'")
    from lm_eval.loggers import EvaluationTracker

    task = local_choices(ROWS, tmp_path, "acc", "acc_norm", metadata={"version": 3})
    places = [tmp_path / "out_0", tmp_path / "out_1"]
    printed = []
    for model, place in zip(
        (directory(), tiny_model_dir("gpt2", tmp_path / "tiny")), places, strict=True
    ):
        tracker = EvaluationTracker(output_path=str(place))
        results = evaluated(model, [task], batch_size=4, evaluation_tracker=tracker)
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        tracker.save_results_samples("local_choices", samples["local_choices"])
        figures = results["results"]["local_choices"]
        printed.append(figures)
        log = read_log(place)
        assert log.versions == {"local_choices": {"version": "3", "shots": "0"}}
        assert means(log) == {"acc": figures["acc,none"], "acc_norm": figures["acc_norm,none"]}
    table = api.compare(*places).tables["paired_items"]
    for line in table.rows:
        cells = dict(zip(table.columns, line, strict=True))
        expected = [figures[f"{cells['figure']},none"] for figures in printed]
        assert [cells["before"].value, cells["after"].value] == pytest.approx(expected)
        assert cells["items"] == "12 of 12"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["eval", "json"])
def test_what_inspect_writes_is_read_as_it_says(form, tmp_path):
    inspect_ai = pytest.importorskip("inspect_ai", reason="needs countergen-edit[inspect]")
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match
    from inspect_ai.solver import generate

    def output(n):
        made = ModelOutput.from_content("mockllm/model", ("she works", "he works")[n % 3 > 0])
        made.usage = ModelUsage()  # counted otherwise, by an encoding from the net
        return made

    places = []
    for shuffled in (False, True):
        samples = [
            Sample(r["question"], target=r["choices"][r["label"]], metadata={"job": r["job"]})
            for r in ROWS
        ]
        data = MemoryDataset(samples)
        if shuffled:
            data.shuffle(seed=1)
        place = tmp_path / f"logs_{shuffled}"
        how = {"solver": generate(), "scorer": match(location="any"), "name": "local", "epochs": 2}
        model = get_model("mockllm/model", custom_outputs=[output(n) for n in range(24)])
        log_to = {"log_dir": str(place), "log_format": form, "display": "none"}
        [done] = inspect_ai.eval(inspect_ai.Task(dataset=data, **how), model=model, **log_to)
        assert done.status == "success", done.error and done.error.message
        log = read_log(place)
        figures = done.results.scores[0].metrics
        assert means(log) == {"match": pytest.approx(figures["accuracy"].value)}
        assert len(log.items) == 24
        places.append(place)
    first, second = ({item.id for item in read_log(place).items} for place in places)
    assert first == second
    table = api.compare(*places).tables["paired_items"]
    assert [row[-1] for row in table.rows] == ["12 of 12"]
