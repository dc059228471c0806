"""What the tools themselves write is read as they say it, where they are installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from countergen_edit import api
from countergen_edit.runs.logs import Log
from countergen_edit.testbed import directory
from tests.harness import evaluated, local_choices
from tests.runs.foreign_logs import DOCS
from tests.runs.test_logs import read
from tests.tiny_models import tiny_model_dir

ROWS = [doc | {"choices": ["she works", "he works"], "label": n % 2} for n, doc in enumerate(DOCS)]


def means(log: Log) -> Mapping[str, float]:
    metrics = {item.metric for item in log.items}
    return {m: float(np.mean([i.value for i in log.items if i.metric == m])) for m in metrics}


@pytest.mark.slow
def test_what_lm_eval_writes_is_read_as_it_says(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval", reason="needs pip install 'countergen-edit[harness]'")
    from lm_eval.loggers import EvaluationTracker

    task = local_choices(ROWS, tmp_path, "acc", "acc_norm", metadata={"version": 3})
    said = []
    for model in (directory(), tiny_model_dir("gpt2", tmp_path / "tiny")):
        tracker = EvaluationTracker(output_path=str(tmp_path / f"out_{len(said)}"))
        results = evaluated(model, [task], batch_size=4, evaluation_tracker=tracker)
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        tracker.save_results_samples("local_choices", samples["local_choices"])
        said.append(results["results"]["local_choices"])
    places = [tmp_path / "out_0", tmp_path / "out_1"]
    for place, figures in zip(places, said, strict=True):
        log = read(place, "job")
        assert log.versions == {"local_choices": {"version": "3", "shots": "0"}}
        assert [item.cluster for item in log.items][::2] == [doc["job"] for doc in DOCS]
        assert means(log) == {"acc": figures["acc,none"], "acc_norm": figures["acc_norm,none"]}
    table = api.compare(*places).items
    assert table is not None
    for line in table.rows:
        cells: dict[str, Any] = dict(zip(table.columns, line, strict=True))
        figures = [figures[f"{cells['figure']},none"] for figures in said]
        assert [cells["before"].value, cells["after"].value] == pytest.approx(figures)
        assert cells["items"] == "12 of 12"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["eval", "json"])
def test_what_inspect_writes_is_read_as_it_says(form: str, tmp_path: Path) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="needs countergen-edit[inspect]")
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match
    from inspect_ai.solver import generate

    def outputs() -> list[ModelOutput]:
        made = []
        for n in range(24):
            output = ModelOutput.from_content("mockllm/model", ("she works", "he works")[n % 3 > 0])
            output.usage = ModelUsage()  # counted otherwise, by an encoding from the net
            made.append(output)
        return made

    places = []
    for shuffled in (False, True):
        data = MemoryDataset(
            [
                Sample(r["question"], target=r["choices"][r["label"]], metadata={"job": r["job"]})
                for r in ROWS
            ]
        )
        if shuffled:
            data.shuffle(seed=1)
        place = tmp_path / f"logs_{shuffled}"
        scorer = match(location="any")
        task = inspect_ai.Task(
            dataset=data, solver=generate(), scorer=scorer, name="local", epochs=2
        )
        [done] = inspect_ai.eval(
            task,
            model=get_model("mockllm/model", custom_outputs=outputs()),
            log_dir=str(place),
            log_format=form,
            display="none",
        )
        assert done.status == "success", done.error and done.error.message
        log = read(place, "job")
        figures = done.results.scores[0].metrics
        assert means(log) == {"match": pytest.approx(figures["accuracy"].value)}
        assert len(log.items) == 24
        places.append(place)
    first, second = ({item.id: item.cluster for item in read(p, "job").items} for p in places)
    assert first == second
    table = api.compare(*places).items
    assert table is not None
    assert [row[-1] for row in table.rows] == ["12 of 12"]
