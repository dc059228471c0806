"""What several files say of the project is one, and the wheel holds what a user needs of them."""

import json
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import countergen_edit

ROOT = Path(countergen_edit.__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["project"]["version"] == countergen_edit.__version__
    assert citation["license"] == PROJECT["project"]["license"]


def test_every_python_that_is_promised_is_tested():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    tested = workflow["jobs"]["everyday"]["strategy"]["matrix"]["python"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert tested == promised
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"


def test_every_requirement_has_a_bound_and_its_tested_version_within():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines if "==" in line)
    }
    extras = PROJECT["project"]["optional-dependencies"]
    for name, lines in {"": PROJECT["project"]["dependencies"], **extras}.items():
        for requirement in map(Requirement, lines):
            if requirement.name == "countergen-edit":
                continue
            assert requirement.specifier, requirement
            version = pinned.get(canonicalize_name(requirement.name))
            assert version or name not in ("", "gguf", "server", "test", "dev"), requirement
            assert version is None or requirement.specifier.contains(version), requirement


@pytest.mark.parametrize(
    ("packages", "code", "says"),
    [
        (None, 0, "no index of advisories"),
        (
            [
                {"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]},
                {"name": "b", "skip_reason": "not found"},
            ],
            1,
            "a 1: CVE-1, mended in 2\n1 known vulnerabilities in 1 of 2",
        ),
    ],
)
def test_known_vulnerabilities_fail_and_an_index_out_of_reach_is_said(
    packages, code, says, tmp_path, capsys
):
    report = tmp_path / "report.json"
    if packages is not None:
        report.write_text(json.dumps({"dependencies": packages}), "utf-8")
    script = runpy.run_path(str(ROOT / "scripts/vulnerabilities.py"))
    assert script["main"](report) == code
    assert says in capsys.readouterr().out


def test_the_wheel_carries_configuration_truth_and_weights(tmp_path):
    program = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(program, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for needed in (
        "conf/axis/gender.yaml",
        "conf/dataset/appendix_a.yaml",
        "testbed/model/truth.yaml",
        "testbed/model/model.safetensors",
        "testbed/model/tokenizer.json",
        "py.typed",
        "conf/components.yaml",
        "conf/texts/natural.yaml",
        "data/languages/en/neutral.txt",
        "data/languages/es/substitution.yaml",
        "conf/experiment/audit/fairpair_table3.yaml",
        "reports/render/html/report.css",
        "reports/render/html/report.js",
        "reports/render/html/templates/page.html.jinja",
    ):
        assert f"countergen_edit/{needed}" in names
    assert not any(name.startswith(("conf/", "tests/", "runs/")) for name in names)
    assert wheel.stat().st_size < 10_000_000
