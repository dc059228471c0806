"""What is built holds all that the installed package needs."""

import subprocess
import sys
import zipfile
from pathlib import Path

import countergen_edit

ROOT = Path(countergen_edit.__file__).parent.parent


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
