"""`debias` chooses by validation data alone and keeps to its budgets, or it saves nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import countergen_edit as ce
from countergen_edit.edits.checkpoints import load_checkpoint
from countergen_edit.metrics.r.formula import r_values
from countergen_edit.metrics.scores import score
from tests.cli.support import Ended, call, fails, rows_of, said, sets, value_of
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

TRAITS = sets("traits")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debias") / "run"
    quick = ["eraser=preserving", "metric=[r]", "combine=2", "layers=[4,5]", *TRAITS]
    said("debias", "form=carried", *quick, f"run_dir={folder}")
    return folder


def edit_of(run: Path) -> str:
    """The id of the edit that was measured on test data."""
    return next(r.edit for r in rows_of(run, eraser="preserving", split="test"))


def require_audited(run: Path, edit: str) -> None:
    """The saved model has the mean |R| that the run has of its edit."""
    [data] = [s for s in ce.task("gender", "contexts").test if s.name == "traits_test"]
    again = float(np.abs(r_values(score(load_checkpoint(run / "checkpoint"), data))).mean())
    audited = value_of(run, "mean_abs_r", edit=edit, dataset=data.name)
    assert again == pytest.approx(audited, abs=1e-4)


def test_the_search_has_seen_no_test_set(run: Path) -> None:
    rows = rows_of(run)
    first = next(i for i, row in enumerate(rows) if row.unit.startswith("gender/test/"))
    searched = rows[:first]
    assert searched[-1].unit == "gender/choice"
    assert {row.split for row in searched} == {"validation"}
    assert not {row.dataset for row in searched if row.dataset.endswith("_test")}
    assert all(row.detail["cost_test"] is None for row in searched if row.metric == "cost")


def test_the_edit_keeps_to_the_budgets_and_removes_the_bias(run: Path) -> None:
    edit = edit_of(run)
    kept = [
        value_of(run, "agreement", split="test", group_b="male", edit=e) for e in ("none", edit)
    ]
    assert kept[0] - kept[1] <= 0.01
    assert value_of(run, "perplexity_ratio", edit=edit, split="test") <= 1.01
    assert value_of(run, "kl", edit=edit, split="test") <= 0.05
    assert value_of(run, "group_effect_removed", edit=edit) > 0.85


def test_the_saved_model_is_the_one_that_was_audited(run: Path) -> None:
    require_audited(run, edit_of(run))
    saved = {p.name for p in (run / "checkpoint").iterdir()}
    assert saved >= {"README.md", "model.edited.safetensors"}
    assert (run / "report.html").is_file()


def test_where_no_edit_fits_nothing_is_saved() -> None:
    words = ["eraser=mean_difference", "metric=[r]", "combine=1", "layers=[1]"]
    ended = call("debias", *words, "cost.agreement.budget=1e-7", *TRAITS, "run_dir=run")
    assert ended.code == 1
    assert "no candidate removes bias within the budgets; nothing was saved" in ended.err
    assert "mean_difference-1@everywhere." in ended.out
    assert not Path("run/checkpoint").exists()
    assert "Page: run/report.html" in ended.out
    assert "mean_difference" in Path("run/report.html").read_text("utf-8")


def test_where_no_map_removes_enough_an_update_is_trained_and_saved_as_stock_weights() -> None:
    from transformers import AutoModelForCausalLM

    run = Path("run")
    words = ["eraser=[mean_difference,distilled]", "metric=[r]", "combine=1", "layers=[2,3,4,5]"]
    settings = {"steps": 60, "contexts": 64, "learning_rate": 0.01}
    words += [f"eraser.distilled.{key}={value}" for key, value in settings.items()]
    printed = said("debias", *words, *TRAITS, "run_dir=run")
    [own] = rows_of(run, "own_contexts")
    assert own.detail["to_erase"] > 0
    assert own.detail["examples"]
    [removed] = rows_of(run, "bias_removed", split="test", eraser="distilled")
    assert removed.value is not None
    assert removed.value > 0.5
    assert "Saved (folded)" in printed
    assert "Contexts that the model wrote" in (run / "report.html").read_text("utf-8")
    merged = AutoModelForCausalLM.from_pretrained(run / "checkpoint")
    assert not hasattr(merged.config, "erasures")
    require_audited(run, removed.edit)
    said("edit", f"run={run}", "form=adapter", "save=adapter")
    assert Path("adapter/adapter_model.safetensors").is_file()


def against_original(checkpoint: Path, folder: str, *words: str) -> Ended:
    """An audit of a checkpoint, which is compared with its unedited model."""
    own = ["texts=testbed", "eraser=none", "metric=[r]", "cost=[agreement]", *TRAITS]
    return call("audit", f"model={checkpoint}", f"run_dir={folder}", *own, *words)


def test_an_audit_of_a_checkpoint_says_what_it_changed(run: Path) -> None:
    printed = against_original(run / "checkpoint", "after").words
    assert "Compared with the source model testbed:" in printed
    assert "after against original, group effect: lower on traits." in printed
    was, came = (
        value_of(folder, "mean_abs_r", edit="none", dataset="traits_test")
        for folder in (run, "after/original")
    )
    assert came == pytest.approx(was, abs=1e-9)


def test_without_its_original_a_checkpoint_is_audited_alone(run: Path, here: Path) -> None:
    checkpoint = run / "checkpoint"
    ended = against_original(checkpoint, "after", "original=null")
    assert ended.code == 0
    assert "Compared with" not in ended.out
    assert not Path("after/original").exists()
    another = tiny_model_dir("gpt2", here / "another")
    ended = against_original(checkpoint, "after", f"original={another}")
    assert (ended.code, "is not the model that" in ended.err) == (2, True)
    ended = against_original(another, "own", "original=testbed")
    assert ended.code == 2
    assert "another is not a checkpoint of this package" in ended.err


def test_only_edits_that_stock_weights_hold_are_searched_unless_they_are_to_be_carried() -> None:
    budgets = {"perplexity": 100, "kl": 100, "legitimate_differences": 100, "agreement": 1}
    wide = [f"cost.{cost}.budget={budget}" for cost, budget in budgets.items()]
    words = ["eraser=[gated,preserving]", "metric=[r]", "combine=1", "layers=[4]", *wide, *TRAITS]
    printed = said("debias", *words, "run_dir=run")
    edited = [row for row in rows_of("run") if row.edit != "none"]
    assert {row.site for row in edited} == {"everywhere"}
    assert "gated" not in {row.eraser for row in edited}
    assert "Left out, as no stock weights (form=carried): gated" in printed
    assert "Saved (folded)" in printed
    line = fails("debias", "eraser=gated", "run_dir=none")
    assert "no edit of eraser=gated is stock weights" in line
