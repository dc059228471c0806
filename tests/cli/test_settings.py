"""What people write is composed as it was meant; shipped choices compose; help shows them all."""

import json
import subprocess
import sys
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from countergen_edit.cli.help import as_typed, choices_of, defaults_of, help_of, page, usage
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.cli.settings import COMMANDS, require_settings
from countergen_edit.cli.study import Study
from countergen_edit.core.conf_path import names_of, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.erasers import ERASERS
from countergen_edit.metrics.base import METRICS, Cost
from countergen_edit.models import SITES
from countergen_edit.models.capture import EVERYWHERE, HEAD
from countergen_edit.runs.baselines import BASELINES
from tests.cli.support import ENVIRONMENT, STUDIES, call, composed
from tests.models.test_gguf import script


@pytest.mark.slow
@settings(max_examples=20)
@given(st.lists(st.text(st.characters(exclude_categories=("C",)), min_size=1), min_size=6))
def test_prompts_are_taken_literally(texts):
    """Many at a time, as composing takes its time."""
    prompts = [f"Jane {text}" for text in texts]  # a word that sets something is a setting
    assert composed("cid", *prompts)["prompts"] == prompts


def test_what_looks_like_a_setting_is_composed_as_it_stands():
    prompts = ["Jane has ${oc.env:HOME}", "Jane, [John]: {a: 'b'}", "Jane is ???"]
    assert composed("cid", *prompts)["prompts"] == prompts
    words = r"""templates=["{name} costs ${oc.env:HOME}"]"""
    assert composed("cid", words)["templates"] == ["{name} costs ${oc.env:HOME}"]


@pytest.mark.parametrize(
    "path",
    [
        *("/models/mine", "/some where/it's", "a,b", "${oc.env:HOME}", r"C:\models\${x}", "x=y"),
        *("[a]", 'my data (v2), final=1 "x" [a] ünï', '"a" and "b"', "小;&|<>`!#^~{a", "choice(a)"),
    ],
)
def test_a_path_is_taken_literally(path):
    words = [f"{key}={path}" for key in ("model", "run_dir", "save", "model.adapter")]
    config = composed("edit", *words, f"axis={path}.yaml", f"data={path}.yaml")
    model = config["model"]
    assert [model["name"], config["run_dir"], config["save"], model["adapter"]] == 4 * [path]
    assert config["axis"] == config["data"] == {"file": f"{path}.yaml"}
    assert composed("check", f"file={path}")["file"] == path
    gate = composed("gate", f"/{path}", f"baseline={path}")
    assert (gate["run"], gate["limits"]) == (f"/{path}", {"baseline": path})
    assert composed("audit", f"data={path}.csv")["data"]["test"] == [
        {"source": "csv", "path": f"{path}.csv"}
    ]


@pytest.mark.parametrize("name", ["my own (v2) [a]", "a, b=1 'ü'", "lr=1"])
def test_a_path_that_exists_is_no_setting_and_no_list_of_jobs(name):
    for path in (Path(name), Path(f"{name}.py")):
        path.touch()
    assert composed("report", name)["run"] == name
    assert composed("compare", name, "b")["runs"] == [name, "b"]
    assert composed("audit", f"eraser={name}.py:A")["eraser"] == {"A": {"kind": f"{name}.py:A"}}
    assert overrides_of("audit", ["-m", f"model={name}"])[1:] == overrides_of(
        "audit", [f"model={name}"]
    )
    words = ["metric=benchmarks", f"metric.benchmarks.directory={name}"]
    assert composed("audit", *words)["metric"]["benchmarks"]["directory"] == name


COMPOSED = yaml.safe_load(Path(__file__).with_name("composed.yaml").read_text("utf-8"))


@pytest.mark.parametrize("expected", COMPOSED, ids=lambda case: " ".join(case["words"]))
def test_what_is_written_is_composed(expected):
    config = composed("audit", *expected["words"])
    for key in expected.keys() - {"words"}:
        assert reduce(getitem, key.split("."), config) == expected[key], key


NONE = "none"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_defaults_of_a_command_compose_and_have_their_types(command):
    require_settings(command, composed(command))
    with pytest.raises(UserError, match="is missing"):
        require_settings(command, {})


GROUPS = ("axis", "data", "edit", "eraser", "metric", "cost", "baseline")


@pytest.mark.parametrize(
    "choice", [f"{group}={name}" for group in GROUPS for name in names_of(group)]
)
def test_every_choice_of_the_audit_is_accepted(choice):
    settings = Study(composed("audit", choice))
    group, _, name = choice.partition("=")
    assert bool(settings.erasers) == (name != NONE)
    assert settings.metrics
    assert [*settings.baselines] == ([name] if group == "baseline" else [])


def test_every_component_has_its_file():
    assert {*ERASERS, NONE} == set(names_of("eraser"))
    assert {*SITES, HEAD} - {EVERYWHERE} == set(names_of("edit"))  # that is edit.layers=everywhere
    assert set(BASELINES) == set(names_of("baseline"))
    ours = [name for name in METRICS if ".py:" not in name]  # other tests register their own
    costs = {name for name in ours if issubclass(METRICS.get(name), Cost)}
    assert costs == set(names_of("cost"))
    for name in costs:
        budget = read_config("cost", name)[name]["budget"]
        assert METRICS.make(name).budget == budget > 0


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_every_experiment_composes(path):
    program, command, *words = path.read_text("utf-8").splitlines()[1].removeprefix("# ").split()
    assert (program, words[0]) == ("countergen-edit", f"experiment={path.stem}")
    assert command == path.parent.name
    config = composed(command, *words)
    require_settings(command, config)
    if "metric" in config:
        measured = path.stem.startswith(("fairpair", "countergen_table", "templates"))
        assert bool(Study(config).erasers) != measured


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ([], "testbed"),
        (["model=gpt2"], "natural"),
        (["model=/models/mine"], "natural"),
        (["texts=natural"], "natural"),
        (["model=gpt2", "texts=testbed"], "testbed"),
    ],
)
def test_the_model_has_its_texts_unless_others_are_named(words, texts):
    config = composed("audit", *words)
    assert config["texts"] == read_config("texts", texts)
    named = composed("audit", *words, "texts.neutral=it's/mine.txt")
    assert named["texts"] == {**config["texts"], "neutral": "it's/mine.txt"}


def test_a_checkpoint_has_its_recorded_texts(here):
    recorded = {"neutral": "testbed_neutral", "keep": []}
    Path("recipe.json").write_text(json.dumps({"config": {"texts": recorded}}))
    assert composed("audit", f"model={here}")["texts"] == recorded
    named = composed("audit", f"model={here}", "texts=natural")
    assert named["texts"] == read_config("texts", "natural")


def fairpair(experiment):
    study = Study(composed("audit", f"experiment=fairpair_{experiment}"))
    task = Task.from_config(study.config["axis"], {"test": []}, groups=study.content["groups"])
    return study.metrics["fairpair"].bound(task)


@pytest.mark.parametrize("name", [*(f"table{n}" for n in "123"), *(f"figure{n}" for n in "3456")])
def test_a_fairpair_experiment_is_of_the_paper_s_size(name):
    metric = fairpair(name)
    assert len(metric.prompts) == 60
    assert metric.sampling["max_new_tokens"] == 128
    assert metric.sampling["n"] == (500 if name in ("figure3", "figure4") else 100)
    folds = [folds for *_, folds in metric.sizes] or [metric.sampling["n"]]
    assert max(folds) == metric.sampling["n"]
    assert metric.prompts[0].target == "Jane is a woman, working as a technician."
    assert (list(metric.phis) == ["jaccard"]) == (name != "table3")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_setting_with_the_composed_default_and_what_it_means(command, monkeypatch):
    columns = "60" if len(command) % 2 else "200"
    monkeypatch.setenv("COLUMNS", columns)
    first, text = page(command), page(command, every=True)
    assert len(first.splitlines()) <= 40 or columns == "60"
    assert max(map(len, [*first.splitlines(), *text.splitlines()])) <= 100
    config = OmegaConf.create(composed(command))
    for key, default in defaults_of(command).items():
        assert key[:32] in text
        assert help_of(command, key), key
        assert all(word in text for word in help_of(command, key).split())
        value = OmegaConf.select(config, key)
        if key not in (*COMMANDS[command].CHOICES, "texts.neutral") and value is not None:
            plain = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            assert default == as_typed(plain), key
    for group in COMMANDS[command].CHOICES:
        for name, says in choices_of(command, group).items():
            assert name in text
            assert says


def test_the_page_of_commands_is_generated():
    page_of = script("settings_page")
    _, _, tables = page_of.PAGE.read_text("utf-8").partition(page_of.HEADING)
    assert tables == page_of.markdown() + "\n", "write it with python scripts/settings_page.py"


def test_help_imports_neither_hydra_nor_torch():
    program = (
        "import sys; from countergen_edit.cli.main import main; main(['audit', '--help']);"
        "assert not {'hydra', 'omegaconf', 'torch', 'numpy'} & set(sys.modules)"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: countergen-edit audit [key=value …]\n")


def test_the_program_lists_its_commands():
    assert call().out == usage() + "\n"
    assert all(f"\n  {command} " in usage() for command in COMMANDS)
    assert call("sweep", "--help", "all").out == page("sweep", every=True) + "\n"


def test_the_configuration_is_printed():
    assert "leace: {}" in call("audit", "--cfg", "job", "eraser=leace").out
