"""The gate on the testbed: a workflow's lines, on models of which the answer is known."""

import contextlib
import re
import shlex
import shutil

import pytest
import yaml

from countergen_edit.edits.checkpoints.forms import CODE, write_stock_config
from tests.cli.support import call, names, said, sets
from tests.printed import blocks, files
from tests.test_docs import PAGES

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = [names(24, 12, 24, 8, few=8), *sets("traits", ["test"]), "texts=testbed"]
DEBIAS = ["form=carried", "eraser=preserving", "metric=r", "combine=1", "layers=[4]", *SMALL]
DEBIAS += sets("traits", ["fit", "validation"])


def workflow():
    steps = yaml.safe_load(files(PAGES["gate.md"])["gate.yml"])["jobs"]["gate"]["steps"]
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    program, *others = (shlex.split(line) for line in lines)
    assert program == ["pip", "install", "countergen-edit"]
    assert {words[0] for words in others} == {"countergen-edit"}
    return [words[1:] for words in others]


def pipeline(place, *more):
    """The exit code of each line in a folder, as far as a pipeline goes."""
    codes = []
    with contextlib.chdir(place):
        for command, *words in workflow():
            if not any(codes):
                codes.append(call(command, *words, *([*SMALL, *more] * (command == "audit"))).code)
    return codes


def take_off(checkpoint, folder):
    """The weights and tokenizer of a carried checkpoint as a stock model, without its edit."""
    folder.mkdir(parents=True)
    for path in checkpoint.iterdir():
        if path.is_file() and path.name not in (CODE, "recipe.json", "SHA256SUMS"):
            shutil.copy(path, folder / path.name.replace(".edited.", "."))
    write_stock_config(checkpoint / "config.json", folder / "config.json")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a debiased checkpoint, in which the workflow has run."""
    place = tmp_path_factory.mktemp("gate")
    with contextlib.chdir(place):
        said("debias", *DEBIAS, "run_dir=runs/debias", "save=checkpoint")
    assert pipeline(place) == [0, 0, 0]
    return place


def test_it_holds_on_the_debiased_checkpoint_and_on_the_search_that_made_it(place):
    assert '"verdict": "holds"' in (place / "gate.json").read_text("utf-8")
    limits = ["group_effect=0.5", "agreement=0.9", "perplexity_ratio=1.02", "kl=0.05"]
    said("gate", place / "runs/debias", *limits)
    [tests] = blocks(PAGES["gate.md"], "python")
    names = {}
    exec(compile(tests, "gate.md", "exec"), names)
    with contextlib.chdir(place):
        first, second = re.findall(r"def (test_\w+)", tests)
        names[first]()
        names[second]()


def test_it_fails_on_the_unedited_model(place):
    original, edited = (place / "runs" / name for name in ("release/original", "release"))
    printed = call("gate", original, "group_effect=0.5")
    assert printed.code == 1
    assert "fails        group_effect, traits: 1.4" in printed.out
    worse = ["margin.group_effect=0.1", f"baseline={edited}"]
    assert call("gate", original, *worse).code == 1
    said("gate", edited, "margin.group_effect=0", f"baseline={original}")


def test_it_fails_on_a_checkpoint_whose_edit_was_taken_off(place, tmp_path):
    take_off(place / "checkpoint", tmp_path / "checkpoint")
    assert pipeline(tmp_path) == [0, 1]


def test_it_cannot_tell_on_two_templates(place, tmp_path):
    shutil.copytree(place / "checkpoint", tmp_path / "checkpoint")
    assert pipeline(tmp_path, "limit=2", "original=null") == [0, 2]
