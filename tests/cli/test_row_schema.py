"""The published schema of result rows is that of the code, and rows of every metric keep it."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import countergen_edit
from countergen_edit.core.reading import json_lines, json_mapping
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.rows import COLUMNS, SCHEMA, Row
from countergen_edit.reports.views.base import view_of
from countergen_edit.runs.compare import paired_items
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.run import open_run, open_run_or_log
from tests.cli.support import said, sets
from tests.made_benchmarks import make_benchmarks
from tests.made_cases import make_cases
from tests.models.test_gguf import script
from tests.runs.foreign_logs import lm_eval, scored
from tests.runs.runs import IDENTITY

row_schema = script("row_schema")
RESULTS = Path(countergen_edit.__file__).parent.parent / "docs" / "results"
NAMES = "{fit: 8, validation: 4, test: 4, agreement: 2}"
AUDIT = [
    *("audit", "metric=[r,locate,paraphrases,fairpair,cid,off_target]", "eraser=[gated,distilled]"),
    *("eraser.distilled.steps=2", "eraser.distilled.contexts=16", "edit.layers=[4]"),
    *(f"names={NAMES}", *sets("traits")),
    "+data.legitimate_differences=[{source: testbed, family: voices}]",
    *("metric.locate.pairs=4", "metric.fairpair.n=3", "metric.cid.names=1"),
    *("metric.cid.strengths=[0,10]", "metric.cid.max_new_tokens=4"),
]
UNEDITED = ["audit", "eraser=none", f"names={NAMES}"]
RUNS = {
    "edits": AUDIT,
    "crossed": [*UNEDITED, "axis=[gender,nationality]", "metric=[r,intersections]"],
    "out_of_vocabulary": [*UNEDITED, "axis=religion", "metric=r"],
    "benchmarks": [*UNEDITED, "metric=benchmarks", "DATA"],
    "decisions": [
        *("audit", "metric=decisions", "CASES", "metric.decisions.names=2", "cost=null"),
        *("eraser=mean_difference", "edit.layers=[3]", f"names={NAMES}", *sets("traits")),
    ],
    "no_decisions": [*UNEDITED, "metric=decisions"],
    "bold": [
        *(*UNEDITED, "metric=benchmarks", "metric.benchmarks.of=[bold]", "DATA"),
        "metric.benchmarks.settings.bold.max_new_tokens=4",
    ],
    "classifiers": ["classifiers", "task=sentiment", "task.most={emotion: 2}"],
}
"""Small runs that have rows of every metric between them."""


def published():
    return json_mapping(RESULTS / f"rows-{SCHEMA}.schema.json")


def test_the_published_schema_is_that_of_the_code():
    """Where it is not, columns have changed: raise SCHEMA, then `python scripts/row_schema.py`."""
    assert published() == row_schema.row_schema()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("every_metric")
    files = {
        "CASES": f"metric.decisions.cases={make_cases(place)}",
        "DATA": f"metric.benchmarks.directory={make_benchmarks(place / 'data')}",
    }
    for name, words in RUNS.items():
        given = [files.get(word, word) for word in words]
        said(*given, f"run_dir={place / name}")
    log = open_run_or_log(lm_eval(place / "log", {"jobs": scored([1.0] * 12)}))
    with RunFolder(place / "logged", {}, IDENTITY) as run:
        run.record("scores", log.results.rows)
        run.record("changes", paired_items({"before": log.log, "after": log.log}, seed=0))
    return [place / name for name in (*RUNS, "logged")]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*METRICS, "guardedness", "distillation", "gates"])
def test_every_metric_has_rows_here(name, runs):
    view = view_of(METRICS.get(name) if name in METRICS else None, name)
    results = [open_run(run).results for run in runs]
    assert any(view.sections(rows) or view.quantities(rows) for rows in results)


@pytest.mark.slow
def test_rows_of_every_metric_keep_the_schema(runs):
    validator = Draft202012Validator(published())
    for run in runs:
        for _, row in json_lines(run / "results.jsonl"):
            assert not [*validator.iter_errors(row)], row


@pytest.mark.parametrize("column", COLUMNS)
def test_a_row_without_a_column_or_with_one_of_another_type_does_not(column):
    validator = Draft202012Validator(published())
    row = json.loads(json.dumps(Row("r", 0.5, layers=(1,), facets={"lambda": 1.0}).to_dict()))
    assert validator.is_valid(row)
    assert not validator.is_valid({k: v for k, v in row.items() if k != column})
    assert not validator.is_valid(row | {column: ["a"]})  # a list of texts is what no column takes
    assert not validator.is_valid(row | {f"{column}s": row[column]})
