"""The audit on the testbed finds what was planted, removes it, and can be killed and resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from countergen_edit.conf_path import read_config
from countergen_edit.data.templates import Template, expand
from countergen_edit.erasers import make_eraser
from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import AuditPlan, audit, check_plan
from countergen_edit.experiments.run_folder import RESULTS, RunFolder
from countergen_edit.metrics import Subject, make_metric
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, load
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import headline
from countergen_edit.testbed import load_axis, load_truth
from tests.tiny_models import FAMILIES, tiny_model_dir

IDENTITY = {"fingerprint": "f" * 64}


def make_plan(families: tuple[str, ...] = ("occupations",), **changes: object) -> AuditPlan:
    """The default audit, small; a metric keeps what it has scored, so every plan has its own."""
    truth, gender = load_truth(), load_axis("gender")
    appendix = read_config("dataset", "appendix_a")
    fit = expand(
        "appendix_a", [Template(t, (" Yes", " No")) for t in appendix["templates"]], gender, "fit"
    )
    test = tuple(truth.counterfactual_set(f, "test", gender) for f in families)
    groups = ("female", "male")
    subject = Subject(
        axis=gender,
        groups=groups,
        seed=0,
        measured=(("test", test), ("fit", (fit,))),
        planted=truth.planted_r(groups),
    )
    plan = AuditPlan(
        fit=(fit,),
        validation=(truth.counterfactual_set("occupations", "validation", gender),),
        test=test,
        agreement_validation=truth.agreement_set("validation", gender),
        agreement_test=truth.agreement_set("test", gender),
        neutral_fit=tuple(truth.neutral_texts()[40:50]),
        neutral=tuple(truth.neutral_texts()[:40]),
        erasers={"rlace": make_eraser("rlace", rank=1)},
        metrics=(make_metric("r", subject),),
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def rows(testbed: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = RunFolder(tmp_path_factory.mktemp("audit") / "run", {}, IDENTITY)
    return audit(testbed, make_plan(), folder)


def value(rows: list[Row], metric: str, eraser: str = "", **columns: object) -> float:
    found = [
        r
        for r in rows
        if r.metric == metric
        and r.eraser == eraser
        and r.split == "test"
        and all(getattr(r, k) == v for k, v in columns.items())
    ]
    assert len(found) == 1
    assert found[0].value is not None
    return found[0].value


def test_the_bias_before_is_the_planted_one(rows: list[Row]) -> None:
    measured = value(rows, "mean_abs_r")
    assert measured == pytest.approx(value(rows, "planted_mean_abs_r"), abs=0.05)


def test_rlace_at_the_best_layer_removes_at_least_60_percent(rows: list[Row]) -> None:
    assert value(rows, "abs_r_reduction", "rlace", dataset="occupations_test") >= 0.6


def test_random_directions_of_equal_rank_change_less_than_10_percent(rows: list[Row]) -> None:
    assert abs(value(rows, "abs_r_reduction", "random", dataset="occupations_test")) < 0.1


def test_the_reduction_is_that_of_the_two_means(rows: list[Row]) -> None:
    before, after = value(rows, "mean_abs_r"), value(rows, "mean_abs_r", "rlace")
    reduction = value(rows, "abs_r_reduction", "rlace", dataset="occupations_test")
    assert reduction == pytest.approx(1 - after / before)


def test_what_it_costs_stands_in_the_rows(rows: list[Row]) -> None:
    kept = value(rows, "agreement", "rlace", group_a="female", group_b="")
    assert kept < value(rows, "agreement", group_a="female", group_b="")
    assert value(rows, "kl", "rlace") > value(rows, "kl") == 0
    assert value(rows, "perplexity") > 1


def test_the_chosen_layer_is_the_best_on_validation(rows: list[Row]) -> None:
    by_layer = {
        r.layer: r.value or 0 for r in rows if r.metric == "mean_abs_r" and r.split == "validation"
    }
    chosen = {r.layer for r in rows if r.split == "test" and r.eraser == "rlace"}
    assert chosen == {min(by_layer, key=lambda layer: by_layer[layer])}


def test_every_row_with_an_interval_lies_in_it(rows: list[Row]) -> None:
    for row in rows:
        if row.lo is not None and row.hi is not None and row.metric in ("r", "agreement", "kl"):
            assert row.value is not None
            assert row.lo - 1e-9 <= row.value <= row.hi + 1e-9, row


def test_the_headline_says_what_was_found_removed_and_lost(rows: list[Row]) -> None:
    text = "\n".join(headline(Results(rows)))
    for word in ("Biased: on occupations", "Removed: rlace", "Cost: agreement female", "How sure"):
        assert word in text


def test_a_killed_audit_continues_to_the_rows_of_an_undisturbed_one(
    testbed: LanguageModel, tmp_path: Path, rows: list[Row]
) -> None:
    class KilledError(Exception):
        pass

    class Dying(RunFolder):
        left = 2

        def record(self, unit: str, rows: list[Row]) -> None:  # type: ignore[override]
            if self.left == 0:
                raise KilledError
            self.left -= 1
            super().record(unit, rows)

    path = tmp_path / "run"
    with pytest.raises(KilledError):
        audit(testbed, make_plan(), Dying(path, {}, IDENTITY))
    resumed = audit(testbed, make_plan(), RunFolder(path, {}, IDENTITY))
    assert resumed == rows
    before = (path / RESULTS).read_bytes()
    audit(testbed, make_plan(), RunFolder(path, {}, IDENTITY))
    assert (path / RESULTS).read_bytes() == before


def test_the_model_is_itself_again_afterwards(testbed: LanguageModel, rows: list[Row]) -> None:
    assert rows
    assert not any(handles for handles in testbed.bridge.list_hooks().values())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_audit_runs_to_the_end_on_any_family(family: str, tmp_path: Path) -> None:
    model = load(tiny_model_dir(family, tmp_path / family))
    plan = make_plan(("stereotypes",), erasers={"inlp": make_eraser("inlp", rank=2)})
    found = audit(model, plan, RunFolder(tmp_path / "run", {}, IDENTITY))
    assert {r.eraser for r in found} == {"", "inlp", "random"}


@pytest.mark.parametrize(("site", "layers"), [("embed", None), ("mlp_out", (0, 1))])
def test_the_audit_edits_at_any_site_and_several_layers(
    site: str, layers: tuple[int, ...] | None, tmp_path: Path
) -> None:
    model = load(tiny_model_dir("gpt2", tmp_path / "gpt2"))
    positions = "onward" if site == "embed" else "outputs"
    plan = make_plan(("stereotypes",), site=site, layers=layers, positions=positions)
    found = audit(model, plan, RunFolder(tmp_path / "run", {}, IDENTITY))
    edits = {r.edit for r in found if r.split == "test" and r.eraser == "rlace"}
    assert edits == {"rlace-1@embed" if site == "embed" else "rlace-2@mlp_out.0+1"}


def test_neutral_text_that_was_fitted_on_is_refused() -> None:
    texts = tuple(load_truth().neutral_texts()[:3])
    with pytest.raises(UserError, match="both fitted on and measured on"):
        make_plan(neutral=texts, neutral_fit=texts[:1])


def test_rows_in_which_the_groups_are_the_same_are_refused(tmp_path: Path) -> None:
    model = load(tiny_model_dir("gpt2", tmp_path / "gpt2"))
    plan = make_plan(("stereotypes",), site="embed")
    with pytest.raises(UserError, match=r"nothing to erase; use edit.positions=onward"):
        check_plan(model, plan)


def test_test_data_that_was_fitted_on_is_refused_by_name() -> None:
    truth, gender = load_truth(), load_axis("gender")
    traits = truth.counterfactual_set("traits", "fit", gender)
    with pytest.raises(UserError, match="traits"):
        make_plan(fit=(traits,), test=(traits,))
