"""What several files say of the project is one: its versions, its Pythons, the tests asked."""

import json
import re
import runpy
import tomllib
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
