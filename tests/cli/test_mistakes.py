"""A mistake gets one clear line and exit code 2, and leaves no run folder behind.

`bad_inputs.yaml` lists those that take no more than words and small files.
"""

from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

from tests.cli.support import call, fails, names, prompt_file, sets

PACKAGES = {"joblib": "joblib", "ray": "ray", "submitit_local": "submitit"}
"""Launcher → the package that it comes with."""


@pytest.mark.parametrize("launcher", PACKAGES)
def test_a_launcher_that_is_not_installed_names_its_package(launcher, monkeypatch):
    Plugins.instance()  # those that are installed have entered their settings
    launchers = ConfigStore.instance().repo["hydra"]["launcher"]
    monkeypatch.delitem(launchers, f"{launcher}.yaml", raising=False)
    line = fails("sweep", "--multirun", "layers=[1],[2]", f"hydra/launcher={launcher}")
    assert f"pip install hydra-{PACKAGES[launcher]}-launcher" in line


@pytest.mark.slow
def test_the_jobs_of_multirun_go_on_after_one_that_fails_which_is_named():
    tiny = ["action=audit", "names=1", "lambda=0", "max_new_tokens=1", "run_dir=one"]
    ended = call("cid", "--multirun", *tiny, "per_kind=4,abc,4")
    assert ended.code == 1
    first, last = ended.err.strip().splitlines()
    assert first.startswith("countergen-edit: error: per_kind='abc': Input should be a valid")
    assert last.startswith("countergen-edit: 1 of 3 jobs failed: per_kind=abc (per_kind='abc': Inp")
    assert ended.out.count("Page: one/report.html") == 2  # of the jobs before and after


@pytest.mark.slow
def test_a_prompt_longer_than_the_context_is_refused():
    long = " ".join(["and her sister"] * 200)
    assert "tokens" in fails("audit", prompt_file("long.jsonl", [f"She left {long}"], " home"))


@pytest.mark.slow
def test_a_failed_cell_is_named_and_the_exit_code_says_so():
    small = ["data=testbed", "data.keep=[]", *sets("questions"), names(8, 4, 6, 2, few=4)]
    ended = call("sweep", *small, "eraser=[rlace]", "ranks=[1,500]", "layers=[4]", "combine=1")
    assert (ended.code, "1 cell(s) failed" in ended.err) == (1, True)
    assert "Failed: rlace-500@resid_post.4: " in ended.words
    assert "rlace-1@resid_post.4 removes" in ended.words
    [folder] = Path("runs/sweep").iterdir()
    assert {p.suffix for p in (folder / "figures").iterdir()} == {".svg", ".png"}
