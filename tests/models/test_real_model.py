"""Models that nobody here trained: built and checked; SmolLM2 audited, edited, saved, loaded again.

Run where the packages that hold them are installed: `make extras` installs them.
"""

import contextlib
import io
import json
from importlib.util import find_spec

import numpy as np
import pytest
import yaml

import countergen_edit as ce
from countergen_edit.cli.main import main
from countergen_edit.core.conf_path import read_config
from countergen_edit.edits.checkpoints import load_checkpoint
from countergen_edit.models import continuation_log_probs
from tests.models.test_gguf import script

REAL = script("real_model")


def needed(name):
    return pytest.mark.skipif(
        not all(find_spec(package) for package in REAL.MODELS[name].packages),
        reason=f"the packages that hold {name} are not installed (scripts/{name}.txt)",
    )


NEEDED = needed("smollm2")
WEIGHTS = {"smollm2": "134,515,008", "gemma3": "268,098,176"}
PEOPLE = 4
"""Names of a group and split: what is tested is the way through, not the bias."""
PARAPHRASES = {"fit": "{name} works as a", "validation": "{name} was hired as a"}
PARAPHRASES["test"] = "{name} is a"
OUTPUTS = [" nurse", " doctor", " teacher"]


def built(name, folder):
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        assert REAL.main([name]) == 0
    assert f"{WEIGHTS[name]} weights equal the file's" in out.getvalue()
    return folder / REAL.MODELS[name].directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return built("smollm2", tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def axis():
    axis = read_config("axis", "gender")
    for group in axis["groups"].values():
        group["names"] = {split: names[:PEOPLE] for split, names in group["names"].items()}
    return axis


@pytest.mark.slow
@needed("gemma3")
def test_gemma_is_built_and_equals_its_file(tmp_path):
    built("gemma3", tmp_path)


@pytest.mark.slow
@NEEDED
def test_it_is_audited_edited_saved_and_loaded_again(directory, axis, tmp_path):
    data = {
        split: [{"source": "templates", "name": split, "templates": [text], "outputs": OUTPUTS}]
        for split, text in PARAPHRASES.items()
    }
    for name, content in {"axis": axis, "data": data}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    words = [f"model={directory}", "metric=r", "eraser=leace", "edit.layers=[24]", "cost=[]"]
    files = [f"axis={tmp_path / 'axis.yaml'}", f"data={tmp_path / 'data.yaml'}"]
    assert main(["audit", *words, *files, f"run_dir={tmp_path / 'run'}"]) == 0

    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["model_origin"]["sha256"] == REAL.MODELS["smollm2"].sha256
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "made of SmolLM2-135M-Instruct.Q4_1.gguf: a 4-bit rounding (Q4_1), dequantised" in page
    model = ce.load(directory)
    run = ce.load_run(tmp_path / "run", model)
    rows = run.to_frame().query("metric == 'mean_abs_r' and split == 'test'")
    before, after = (rows[rows["eraser"] == name]["value"].item() for name in ("", "leace"))

    women, men = (
        [PARAPHRASES["test"].format(name=name) for name in group["names"]["test"] for _ in OUTPUTS]
        for group in axis["groups"].values()
    )
    scores = [continuation_log_probs(model, who, OUTPUTS * PEOPLE) for who in (women, men)]
    p, q = (np.exp(s).reshape(PEOPLE, -1).mean(0) for s in scores)
    expected = (np.abs(p - q) / np.maximum(p, q)).mean()  # CounterGen, equation 1
    assert before == pytest.approx(expected, abs=1e-5)  # as log-probabilities of batches are
    assert after != before

    edit = run.best
    assert edit
    with edit.on(model):
        edited = continuation_log_probs(model, women, OUTPUTS * PEOPLE)
    assert np.abs(edited - scores[0]).max() > 1e-3
    edit.save(tmp_path / "edited", form="carried")
    back = load_checkpoint(tmp_path / "edited")
    again = continuation_log_probs(back, women, OUTPUTS * PEOPLE)
    np.testing.assert_allclose(again, edited, atol=1e-4)
    assert back.origin == model.origin
