"""Every configuration that ships composes, and every choice on a shelf is usable."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from countergen_edit.cli.main import COMMANDS
from countergen_edit.cli.overrides import NONE, as_overrides, overrides_of
from countergen_edit.cli.settings import study_settings
from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis
from countergen_edit.erasers import ERASERS, make_eraser
from countergen_edit.metrics.base import METRICS, Cost
from countergen_edit.models import SITES
from countergen_edit.runs.baselines import BASELINES


def shelf(group: str) -> list[str]:
    return sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))


def composed(command: str, *overrides: str) -> dict[str, object]:
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        config = compose(command, list(overrides))
    return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_config(command: str) -> None:
    assert composed(command)


@pytest.mark.parametrize(
    "choice",
    [
        f"{group}={name}"
        for group in ("axis", "data", "edit", "eraser", "metric", "cost", "baseline")
        for name in shelf(group)
    ],
)
def test_every_choice_of_the_audit_passes_the_door(choice: str) -> None:
    settings = study_settings(composed("audit", choice))
    group, _, name = choice.partition("=")
    assert bool(settings.erasers()) == (name != NONE)
    assert settings.metrics()
    assert [*settings.ways()] == ([name] if group == "baseline" else [])


def test_every_way_beside_edits_has_its_file() -> None:
    assert set(BASELINES) == set(shelf("baseline"))


@pytest.mark.parametrize("name", [name for name in shelf("eraser") if name != NONE])
def test_every_eraser_on_the_shelf_can_be_made(name: str) -> None:
    [(key, params)] = read_config("eraser", name).items()
    assert key == name
    assert make_eraser(key, **(params or {}))


def test_every_eraser_has_its_file() -> None:
    assert {*ERASERS, NONE} == set(shelf("eraser"))


def test_every_cost_has_its_file_and_its_budget() -> None:
    ours = [name for name in METRICS if ".py:" not in name]  # other tests bring their own
    costs = {name for name in ours if issubclass(METRICS.get(name), Cost)}
    assert costs == set(shelf("cost"))
    for name in costs:
        assert METRICS.make(name, read_config("cost", name)[name]).budget > 0


def test_every_site_has_its_file() -> None:
    assert set(SITES) == set(shelf("edit"))


@pytest.mark.parametrize("name", shelf("axis"))
def test_every_axis_builds(name: str) -> None:
    axis = Axis.from_config(read_config("axis", name))
    assert axis.name == name


@pytest.mark.parametrize("path", sorted(conf_dir().rglob("*.yaml")), ids=lambda p: p.stem)
def test_a_config_file_is_short_and_says_what_it_is(path: object) -> None:
    text = path.read_text("utf-8")  # type: ignore[attr-defined]
    assert text.startswith("# ")
    assert yaml.safe_load(text) is not None


def test_an_unknown_file_of_a_group_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'gender'"):
        read_config("axis", "gendr")


def test_any_model_and_any_file_can_be_named() -> None:
    model = composed("audit", *as_overrides("audit", "model=/some where/it's"))["model"]
    assert model["name"] == "/some where/it's"  # type: ignore[index]
    data = composed("audit", *as_overrides("audit", "data=my pairs.csv"))["data"]
    assert data["test"] == [{"source": "csv", "path": "my pairs.csv"}]  # type: ignore[index]


STUDIES = sorted((conf_dir() / "experiment").rglob("*.yaml"))
PLUGINS = {
    "joblib": "hydra_plugins.hydra_joblib_launcher",
    "submitit": "hydra_plugins.hydra_submitit_launcher",
    "submitit_local": "hydra_plugins.hydra_submitit_launcher",
    "ray": "hydra_plugins.hydra_ray_launcher",
    "optuna": "hydra_plugins.hydra_optuna_sweeper",
}


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_every_study_composes_and_passes_the_door(path: Path) -> None:
    program, command, *words = path.read_text("utf-8").splitlines()[1].removeprefix("# ").split()
    assert (program, words[0]) == ("countergen-edit", f"experiment={path.stem}")
    assert command == path.parent.name
    config = composed(command, *overrides_of(command, words))
    if "metric" in config:
        measured = path.stem.startswith(("fairpair", "countergen_table"))
        assert bool(study_settings(config).eraser) != measured


def test_every_launcher_has_its_plugin_named() -> None:
    assert set(PLUGINS) == set(shelf("launcher"))


@pytest.mark.parametrize("name", PLUGINS)
def test_every_launcher_composes_where_its_plugin_is_installed(name: str) -> None:
    pytest.importorskip(PLUGINS[name], exc_type=ImportError)
    assert composed("sweep", f"launcher={name}")["layers"] == "all"
