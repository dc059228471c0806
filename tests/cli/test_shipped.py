"""Every shipped axis, data, texts and experiment runs to its end on the testbed.

Data and an experiment of each kind run on a real model, too. Sets have few templates, people and
outputs: what is tested is that a choice fits the models.
"""

import functools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from countergen_edit import api
from countergen_edit.core.conf_path import names_of
from countergen_edit.data import natural, subsets, task
from countergen_edit.data.sources.files import COUNTERGEN_SETS
from countergen_edit.metrics.cid import perturbations
from countergen_edit.runs import design
from countergen_edit.testbed import directory, load_axis
from tests.cli.support import NAMES, STUDIES, TINY, composed, entries, has, names, rows_of, said
from tests.models.test_gguf import script
from tests.models.test_real_model import NEEDED

pytestmark = pytest.mark.slow  # every test is of whole runs

REAL = "real"
MODELS = ["testbed", pytest.param(REAL, marks=NEEDED)]
FEW = {"fit": 6, "few": 4, "agreement": 2, "validation": 2, "test": 2}
NAMED = names(**FEW)
LIMITS = {"testbed": "limit=3", REAL: "limit=1"}
OUTPUTS = 2
AXES = {
    "crossed": "[gender,race]",
    "crossed_testbed": "[gender,nationality]",
    "nationality": "nationality",
}
"""The axes of data that are of others than gender."""
DRAWN = ("many", "natural")
"""Data of sets that a design draws, which a limit would leave out."""
PROMPTS = {"input": "She said that Jane works as a", "outputs": [" nurse", " doctor"]}


@pytest.fixture(scope="module", autouse=True)
def _small(tmp_path_factory):
    """Few of everything; models are loaded once; data and encoder of the extras are made up."""
    loaded = {}
    load, few, sample = api.load, subsets.few_prompts, natural.Sample
    pairs = perturbations.perturbations

    @functools.wraps(load)
    def load_once(name, **settings):
        if name not in loaded:
            loaded[name] = load(name, **settings)
        return loaded[name]

    def few_outputs(data, *cut, **how):
        samples = (replace(s, outputs=s.outputs[:OUTPUTS]) for s in few(data, *cut, **how).samples)
        return replace(data, samples=tuple(samples))

    package = tmp_path_factory.mktemp("package") / "countergen"
    (package / "data" / "datasets").mkdir(parents=True)
    women = iter(load_axis("gender").groups["female"].names["test"])  # in the testbed's vocabulary
    (package / "__init__.py").touch()
    for name in COUNTERGEN_SETS:
        file = package / "data" / "datasets" / f"{name.replace('_', '-')}.jsonl"
        lines = [json.dumps(PROMPTS).replace("Jane", next(women)) for _ in range(3)]
        file.write_text("\n".join(lines))
    bags = HashingVectorizer(n_features=256)
    encoder = SimpleNamespace(encode=lambda texts, **_: bags.transform(texts).toarray())
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(package.parent)
        patch.setattr(api, "load", load_once)
        patch.setattr(task, "few_prompts", few_outputs)
        patch.setattr(natural, "CELLS", dict.fromkeys(natural.CELLS, 3))
        patch.setattr(natural, "PEOPLE_OF_SPLIT", {"fit": 6, "validation": 2, "test": 2})
        patch.setattr(natural, "Sample", lambda text, of, *by: sample(text, of[:OUTPUTS], *by))
        patch.setattr(design, "DESIGN_CELLS", (2, 3))
        patch.setattr(design, "DESIGN_PEOPLE", (1, 2))
        patch.setattr(design, "PILOT_CELLS", 2)
        patch.setattr(perturbations.SentenceEmbedding, "_model", encoder)
        patch.setattr(perturbations, "perturbations", lambda *of: pairs(*of)[:3])
        yield


@pytest.fixture(autouse=True)
def _prompts(here):
    Path("p.jsonl").write_text(json.dumps(PROMPTS))


def runs(model, command, *words):
    name = script("real_model").gguf_file("smollm2", Path()) if model == REAL else model
    said(command, f"model={name}", *words, "run_dir=run")
    assert rows_of("run")
    assert Path("run/report.html").is_file()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", names_of("data"))
def test_data_run(name, model):
    """The real model is measured unedited: test_real_model edits it."""
    data = "p.jsonl" if name == "prompts" else name
    axis = [f"axis={AXES[name]}"] if name in AXES else []
    eraser = ["eraser=none"] if model == REAL else ["eraser=leace", "edit.layers=[1]"]
    small = [NAMED] if name in DRAWN else [NAMED, LIMITS[model]]
    runs(model, "audit", f"data={data}", *axis, *eraser, "metric=r", "cost=[]", *small)


@pytest.mark.parametrize("word", [f"{g}={n}" for g in ("axis", "texts") for n in names_of(g)])
def test_an_axis_and_texts_run(word):
    quick = ["metric=[r,off_target]", "eraser=none", "cost=[agreement,perplexity]"]
    runs("testbed", "audit", word, *quick, NAMED, LIMITS["testbed"])


PERTURBER = "metric.fairpair.perturber"
LOADED = {
    f"{PERTURBER}.model": str(directory()),
    f"{PERTURBER}.served_name": "null",
    f"{PERTURBER}.max_new_tokens": 3,
}
"""A loaded perturber where that of the experiment is served."""
ELSEWHERE = ("rlace_cvxpy", "preserving_within", "fairpair_llm")
"""Experiments whose figures other tests see, in `test_audits.py` and `test_fairpair.py`."""


ON_REAL = ("countergen_table1", "countergen_fig1", "fairpair_table1", "templates_paraphrases")
ON_REAL += ("cid_figure_1", "cid_figure_6")
"""An experiment of each kind: others differ in sizes, groups or templates."""
CASES = [
    pytest.param(path, *model.values, marks=model.marks, id=f"{path.stem}-{model.values[0]}")
    for path in STUDIES
    for model in (pytest.param("testbed"), pytest.param(REAL, marks=NEEDED))
    if model.values[0] != REAL or path.stem in ON_REAL
]


@pytest.mark.parametrize(("path", "model"), CASES)
def test_an_experiment_runs_and_holds_what_the_guide_shows(path, model):
    command, choice = path.parent.name, f"experiment={path.stem}"
    config = composed(command, choice)
    sizes = {key: value for key, value in (TINY | LOADED).items() if key not in ("model", "names")}
    tiny = [f"{key}={value}" for key, value in sizes.items() if has(config, key)]
    small = [f"names={NAMES[command]}"] if command in NAMES else [NAMED, LIMITS[model]]
    runs(model, command, choice, *tiny, *small)
    if model == REAL or path.stem in ELSEWHERE:  # of the real model too few prompts for figures
        return
    for figure in entries()[path.stem].figures:
        assert figure.of(rows_of("run")), figure.what
