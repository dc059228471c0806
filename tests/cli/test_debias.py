"""`debias` chooses by validation data alone and keeps to its budgets, or it saves nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import countergen_edit as ce
from countergen_edit.cli.main import main
from countergen_edit.data.axis import SPLITS
from countergen_edit.edits.checkpoints import load_checkpoint
from countergen_edit.metrics.r import r_values
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import score
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.folder import read_rows
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

TRAITS = [f"data.{split}=[{{source:testbed,family:traits}}]" for split in SPLITS]
QUICK = ["eraser=preserving", "form=carried", "metric=[r]", "combine=2", "layers=[4,5]", *TRAITS]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debias") / "run"
    assert main(["debias", *QUICK, f"run_dir={folder}"]) == 0
    return folder


def value(rows: list[Row], metric: str, **columns: object) -> float:
    [found] = [
        r.value
        for r in rows
        if r.metric == metric and all(getattr(r, key) == v for key, v in columns.items())
    ]
    assert found is not None
    return found


def test_the_search_has_seen_no_test_set(run: Path) -> None:
    rows = read_rows(run / RESULTS)
    first = next(i for i, row in enumerate(rows) if row.unit.startswith("gender/test/"))
    searched = rows[:first]
    assert searched[-1].unit == "gender/choice"
    assert {row.split for row in searched} == {"validation"}
    assert not {row.dataset for row in searched if row.dataset.endswith("_test")}
    assert all(row.detail["cost_test"] is None for row in searched if row.metric == "cost")


def test_the_edit_keeps_to_the_budgets_and_removes_the_bias(run: Path) -> None:
    rows = read_rows(run / RESULTS)
    edit = next(r.edit for r in rows if r.eraser == "preserving" and r.split == "test")
    both = {"split": "test", "group_b": "male"}
    lost = value(rows, "agreement", edit="none", **both) - value(
        rows, "agreement", edit=edit, **both
    )
    assert lost <= 0.01
    assert value(rows, "perplexity_ratio", edit=edit, split="test") <= 1.01
    assert value(rows, "kl", edit=edit, split="test") <= 0.05
    assert value(rows, "group_effect_removed", edit=edit) > 0.85


def test_the_saved_model_is_the_one_that_was_audited(run: Path) -> None:
    rows = read_rows(run / RESULTS)
    edit = next(r.edit for r in rows if r.eraser == "preserving" and r.split == "test")
    [data] = [s for s in ce.task("gender", "contexts").test if s.name == "traits_test"]
    model = load_checkpoint(run / "checkpoint")
    again = float(np.abs(r_values(score(model, data))).mean())
    audited = value(rows, "mean_abs_r", edit=edit, dataset=data.name)
    assert again == pytest.approx(audited, abs=1e-4)
    assert {p.name for p in (run / "checkpoint").iterdir()} >= {
        "README.md",
        "model.edited.safetensors",
    }
    assert (run / "report.html").is_file()


def test_where_no_edit_fits_nothing_is_saved(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [
        "eraser=mean_difference",
        "metric=[r]",
        "combine=1",
        "layers=[1]",
        "cost.agreement.budget=1e-7",
        *TRAITS,
    ]
    with pytest.raises(SystemExit) as ended:
        main(["debias", *words, f"run_dir={tmp_path / 'run'}"])
    assert ended.value.code == 1
    said = capfd.readouterr()
    assert "no candidate removes bias within the budgets; nothing was saved" in said.err
    assert said.out.count("mean_difference-1@everywhere.") >= 1
    assert not (tmp_path / "run" / "checkpoint").exists()
    page = tmp_path / "run" / "report.html"
    assert f"Page: {page}" in said.out
    assert "mean_difference" in page.read_text("utf-8")


def test_where_no_map_removes_enough_an_update_is_trained_and_saved_as_stock_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForCausalLM

    words = [
        "eraser=[mean_difference,distilled]",
        "eraser.distilled.steps=60",
        "eraser.distilled.contexts=64",
        "eraser.distilled.learning_rate=0.01",
        "metric=[r]",
        "combine=1",
        "layers=[2,3,4,5]",
        *TRAITS,
    ]
    run = tmp_path / "run"
    assert main(["debias", *words, f"run_dir={run}"]) == 0
    rows = read_rows(run / RESULTS)
    [own] = [row for row in rows if row.metric == "own_contexts"]
    assert own.detail["to_erase"] > 0
    assert own.detail["examples"]
    edit = next(row.edit for row in rows if row.metric == "bias_removed" and row.split == "test")
    assert next(row.eraser for row in rows if row.edit == edit) == "distilled"
    removed = value(rows, "bias_removed", edit=edit, split="test")
    assert removed > 0.5
    assert "Saved (folded)" in capsys.readouterr().out
    assert "Contexts that the model wrote" in (run / "report.html").read_text("utf-8")
    [data] = [s for s in ce.task("gender", "contexts").test if s.name == "traits_test"]
    merged = AutoModelForCausalLM.from_pretrained(run / "checkpoint")
    assert not hasattr(merged.config, "erasures")
    again = float(np.abs(r_values(score(load_checkpoint(run / "checkpoint"), data))).mean())
    audited = value(rows, "mean_abs_r", edit=edit, dataset=data.name)
    assert again == pytest.approx(audited, abs=1e-4)
    assert main(["edit", f"run={run}", "form=adapter", f"save={tmp_path / 'adapter'}"]) == 0
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()


def held_against_its_original(checkpoint: Path, folder: Path, *words: str) -> int:
    own = ["texts=testbed", "eraser=none", "metric=[r]", "cost=[agreement]", *TRAITS]
    return main(["audit", f"model={checkpoint}", f"run_dir={folder}", *own, *words])


def test_an_audit_of_a_checkpoint_says_what_it_changed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert held_against_its_original(run / "checkpoint", tmp_path / "after") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Compared with the source model testbed:" in said
    assert "after against original, group effect: lower on traits." in said
    figure = {"metric": "mean_abs_r", "edit": "none", "dataset": "traits_test"}
    was, came = (
        value(read_rows(folder / RESULTS), **figure)
        for folder in (run, tmp_path / "after/original")
    )
    assert came == pytest.approx(was, abs=1e-9)


def test_without_its_original_a_checkpoint_is_audited_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, checkpoint = tmp_path / "after", run / "checkpoint"
    assert held_against_its_original(checkpoint, place, "original=null") == 0
    assert "Against" not in capsys.readouterr().out
    assert not (place / "original").exists()
    another = tiny_model_dir("gpt2", tmp_path / "another")
    assert held_against_its_original(checkpoint, place, f"original={another}") == 2
    assert "is not the model that" in capsys.readouterr().err
    assert held_against_its_original(another, tmp_path / "own", "original=testbed") == 2
    assert "another is not a checkpoint of this package" in capsys.readouterr().err


def test_only_edits_that_stock_weights_hold_are_searched_unless_they_are_to_be_carried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = [f"cost.{cost}.budget=100" for cost in ("perplexity", "kl", "legitimate_differences")]
    words = ["eraser=[gated,preserving]", "metric=[r]", "combine=1", "layers=[4]", *wide, *TRAITS]
    run = tmp_path / "run"
    budget = "cost.agreement.budget=1"
    assert main(["debias", *words, budget, f"run_dir={run}"]) == 0
    edited = [row for row in read_rows(run / RESULTS) if row.edit != "none"]
    assert {row.site for row in edited} == {"everywhere"}
    assert "gated" not in {row.eraser for row in edited}
    out = " ".join(capsys.readouterr().out.split())
    assert "Left out, as no stock weights (form=carried): gated" in out
    assert "Saved (folded)" in out
    assert main(["debias", "eraser=gated", f"run_dir={tmp_path / 'none'}"]) == 2
    assert "no edit of eraser=gated is stock weights" in capsys.readouterr().err
