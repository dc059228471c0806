"""A sweep's rows are those of the naive loop, whoever ran which cell and however often it died."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import BaseEraser, make_eraser
from countergen_edit.erasers.methods.mean_difference import MeanDifference
from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import AuditPlan
from countergen_edit.experiments.cells import SweepPlan, check_sweep
from countergen_edit.experiments.fit_data import capture_fit_data
from countergen_edit.experiments.pareto import Tolerance
from countergen_edit.experiments.run_folder import RESULTS, RunFolder, recorded_units
from countergen_edit.experiments.sweep import sweep
from countergen_edit.metrics import Metric, Subject, make_metric
from countergen_edit.metrics.r import r_values
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import score
from countergen_edit.metrics.side_effects import neutral_cost
from countergen_edit.models import LanguageModel, Scratch
from countergen_edit.testbed import load_axis, load_truth

IDENTITY = {"fingerprint": "f" * 64}
LAYERS = (1, 4)
SAMPLES, NAMES = 2, 4


class FailsAtRankTwo(MeanDifference):
    """An eraser of a user's own, with a defect."""

    def __init__(self, rank: int = 1) -> None:
        self.rank = rank

    def fit(self, X: object, y: object) -> BaseEraser:
        if self.rank == 2:
            raise ZeroDivisionError("division by zero")
        return super().fit(X, y)


class Slow(Metric):
    """A metric that takes long, by its own account."""

    name = "slow"

    def rows(self, model: LanguageModel, edit: Edit | None, label: str, store: Path) -> list[Row]:
        return [Row("slow", 1.0, dataset="own")]


def few(data: CounterfactualSet) -> CounterfactualSet:
    """A set's first samples with the first few of their names: as true as all, and quicker."""
    samples = [
        replace(s, variations=tuple(v for g in data.groups for v in s.of(g)[:NAMES]))
        for s in data.samples[:SAMPLES]
    ]
    return replace(data, samples=tuple(samples))


@cache
def make_sets() -> dict[str, CounterfactualSet]:
    truth, gender = load_truth(), load_axis("gender")
    splits: tuple[Split, ...] = ("fit", "validation", "test")
    sets = {split: few(truth.counterfactual_set("hobbies", split, gender)) for split in splits}
    agreement = {f"agreement_{s}": few(truth.agreement_set(s, gender)) for s in splits[1:]}
    return sets | agreement


def make_plan(**changes: object) -> SweepPlan:
    truth, gender, made = load_truth(), load_axis("gender"), make_sets()
    sets = {split: (made[split],) for split in ("fit", "validation", "test")}
    subject = Subject(gender, ("female", "male"), 0, measured=(("test", sets["test"]),))
    audit = AuditPlan(
        **sets,
        keep=(),
        agreement_validation=made["agreement_validation"],
        agreement_test=made["agreement_test"],
        neutral_fit=tuple(truth.neutral_texts()[40:42]),
        neutral=tuple(truth.neutral_texts()[:4]),
        erasers={"rlace": make_eraser("rlace", rank=1), "leace": make_eraser("leace")},
        metrics=(make_metric("r", subject),),
    )
    of_audit = {k: v for k, v in changes.items() if k in ("erasers", "metrics")}
    of_sweep = {k: v for k, v in changes.items() if k not in of_audit}
    audit = replace(audit, **of_audit)  # type: ignore[arg-type]
    return SweepPlan(**({"audits": {"gender": audit}, "layers": LAYERS} | of_sweep))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def path(testbed: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = RunFolder(tmp_path_factory.mktemp("sweep") / "run", {}, IDENTITY)
    sweep(testbed, make_plan(), folder)
    return folder.path


@pytest.fixture(scope="module")
def rows(path: Path) -> list[Row]:
    return RunFolder(path, {}, IDENTITY).rows()


def value(rows: Sequence[Row], metric: str, edit: str, **columns: object) -> float:
    found = [
        r
        for r in rows
        if (r.metric, r.edit) == (metric, edit)
        and all(getattr(r, k) == v for k, v in columns.items())
    ]
    assert len(found) == 1, found
    assert found[0].value is not None
    return found[0].value


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", ["rlace", "leace"])
def test_values_equal_those_of_a_naive_run(
    name: str, layer: int, rows: list[Row], testbed: LanguageModel
) -> None:
    audit = make_plan().audits["gender"]
    data = capture_fit_data(
        testbed, audit.fit, (), audit.neutral_fit, site="resid_post", layers=None,
        positions="outputs",
    )  # fmt: skip
    edit = Edit.at("resid_post", {layer: data.fit(audit.erasers[name], layer).erasure_})
    label = f"{name}-1@resid_post.{layer}"
    for split, sets in (("test", audit.test), ("validation", audit.validation)):
        with applied(testbed, edit):
            naive = np.abs(r_values(score(testbed, sets[0]))).mean()
        assert value(rows, "mean_abs_r", label, split=split) == pytest.approx(naive, abs=1e-5)
    cost = neutral_cost(testbed, edit, audit.neutral)
    assert value(rows, "kl", label, split="test") == pytest.approx(
        cost.kl.sum() / cost.tokens.sum(), abs=1e-5
    )


def test_bias_removed_is_that_of_the_items_together(rows: list[Row]) -> None:
    for split in ("validation", "test"):
        before = value(rows, "mean_abs_r", "none", split=split)
        after = value(rows, "mean_abs_r", "rlace-1@resid_post.1", split=split)
        removed = value(rows, "bias_removed", "rlace-1@resid_post.1", split=split)
        assert removed == pytest.approx(1 - after / before)


class KilledError(Exception):
    pass


class Dying(RunFolder):
    left = 3

    def record(self, unit: str, rows: Sequence[Row]) -> None:
        if self.left == 0:
            raise KilledError
        self.left -= 1
        super().record(unit, rows)


class KilledBySystem(Dying):
    """Ends its process in the middle of a write, as a machine that runs out of memory does."""

    def record(self, unit: str, rows: Sequence[Row]) -> None:
        if self.left == 0:
            with (self.path / RESULTS).open("a") as file:
                file.write('{"metric": "half a row')
            os.kill(os.getpid(), signal.SIGKILL)
        super().record(unit, rows)


def units(path: Path, first: int | None = None) -> dict[str, list[Row]]:
    """What a run recorded, or the first units of it."""
    return dict(list(recorded_units(path).items())[:first])


UNITS = 8
"""Of `make_plan`: the unedited model, four cells, two combinations, the choice."""


def test_the_plan_has_combinations_to_be_killed_between(path: Path) -> None:
    kinds = [unit.split("/")[1] for unit in units(path)]
    assert kinds == ["unedited", *["cell"] * 4, *["combined"] * 2, "choice"]
    assert len(kinds) == UNITS


def test_a_killed_sweep_continues_to_the_bytes_of_an_undisturbed_one(
    testbed: LanguageModel, path: Path, tmp_path: Path
) -> None:
    folder = Dying(tmp_path / "run", {}, IDENTITY)
    folder.left = 1
    with pytest.raises(KilledError):
        sweep(testbed, make_plan(), folder)
    sweep(testbed, make_plan(), RunFolder(tmp_path / "run", {}, IDENTITY))
    assert (tmp_path / "run" / RESULTS).read_bytes() == (path / RESULTS).read_bytes()


@pytest.mark.parametrize("recorded", range(UNITS + 1))
def test_a_sweep_continues_wherever_it_ended(
    recorded: int, testbed: LanguageModel, path: Path, tmp_path: Path
) -> None:
    """Units that another process recorded stand for those that would be measured anew."""
    begun = RunFolder(tmp_path / "run", {}, IDENTITY)
    for unit, rows in units(path, recorded).items():
        begun.record(unit, rows)
    parts = {unit: rows for unit, rows in units(path).items() if not unit.endswith("/choice")}
    sweep(testbed, make_plan(), RunFolder(tmp_path / "run", {}, IDENTITY), parts=parts)
    assert (tmp_path / "run" / RESULTS).read_bytes() == (path / RESULTS).read_bytes()


def test_a_worker_killed_by_the_system_leaves_what_another_continues(
    testbed: LanguageModel, path: Path, tmp_path: Path
) -> None:
    worker = os.fork()
    if worker == 0:
        try:
            sweep(testbed, make_plan(), KilledBySystem(tmp_path / "run", {}, IDENTITY))
        finally:
            os._exit(1)  # not reached where it is killed; no second pytest goes on from here
    _, status = os.waitpid(worker, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert (tmp_path / "run" / RESULTS).read_text().endswith('{"metric": "half a row')
    sweep(testbed, make_plan(), RunFolder(tmp_path / "run", {}, IDENTITY))
    assert (tmp_path / "run" / RESULTS).read_bytes() == (path / RESULTS).read_bytes()


@pytest.mark.parametrize("most", [1_000, 20_000])
def test_a_full_disk_is_said_and_the_sweep_continues_once_there_is_room(
    most: int, testbed: LanguageModel, path: Path, tmp_path: Path
) -> None:
    """Files may hold so many bytes: the scores of texts do not fit, or only some of the rows do."""
    folder = RunFolder(tmp_path / "run", {}, IDENTITY)
    worker = os.fork()  # the limit holds for it alone, and so does where its progress bar goes
    if worker == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        code = 1
        try:
            sweep(testbed, make_plan(), folder)
            code = 0
        except UserError as error:
            code = 2 if "cannot write" in str(error) else 1
        finally:
            os._exit(code)  # whatever happens, no second pytest goes on from here
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 2
    assert not list(folder.path.rglob("*.tmp"))
    left = (folder.path / RESULTS).read_bytes()
    assert (path / RESULTS).read_bytes().startswith(left)
    assert left == b"" if most < 2_000 else left.endswith(b"\n")
    sweep(testbed, make_plan(), RunFolder(tmp_path / "run", {}, IDENTITY))
    assert (folder.path / RESULTS).read_bytes() == (path / RESULTS).read_bytes()


class FullForFitting(Scratch):
    """Holds the hidden states of what is measured, and no activations to fit on."""

    def empty(self, shape: tuple[int, ...], dtype: type | np.dtype) -> np.ndarray:
        full = Scratch(budget=0, directory=Path("/proc/nowhere"))
        return (super() if np.dtype(dtype) == np.uint8 else full).empty(shape, dtype)


def test_activations_without_room_are_no_fault_of_an_eraser(
    testbed: LanguageModel, path: Path, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run", {}, IDENTITY)
    with pytest.raises(UserError, match=r"no room for .* MiB of activations"):
        sweep(testbed, make_plan(scratch=FullForFitting()), folder)
    assert list(recorded_units(folder.path)) == ["gender/unedited"]
    assert not [row for row in folder.rows() if row.metric == "error"]


def test_jobs_join_to_the_bytes_of_one_process(
    testbed: LanguageModel, path: Path, tmp_path: Path
) -> None:
    parts: dict[str, list[Row]] = {}
    for layer in reversed(LAYERS):
        folder = RunFolder(tmp_path / str(layer), {}, IDENTITY)
        sweep(testbed, make_plan(layers=(layer,)), folder, finish=False)
        parts = recorded_units(folder.path) | parts
    assert len([unit for unit in parts if "/cell/" in unit]) == 4
    joined = RunFolder(tmp_path / "joined", {}, IDENTITY)
    sweep(testbed, make_plan(), joined, parts=parts)
    assert (joined.path / RESULTS).read_bytes() == (path / RESULTS).read_bytes()


def test_the_choice_does_not_see_test_data(
    testbed: LanguageModel, rows: list[Row], tmp_path: Path
) -> None:
    def worsened(row: Row) -> Row:
        return replace(row, value=0.5) if row.split == "test" and row.value else row

    units: dict[str, list[Row]] = {}
    for row in rows:
        if "/choice" not in row.unit:
            units.setdefault(row.unit, []).append(worsened(row))
    again = sweep(testbed, make_plan(), RunFolder(tmp_path / "run", {}, IDENTITY), parts=units)
    chosen = [{r.edit for r in found if r.detail.get("chosen")} for found in (rows, again)]
    assert len(chosen[0]) == 1
    assert chosen[0] == chosen[1]


def test_a_combination_removes_more_than_what_it_is_built_on(
    testbed: LanguageModel, path: Path, tmp_path: Path
) -> None:
    plan = make_plan(tolerance=Tolerance(10, 10))  # anything goes: only bias counts
    cells = units(path, 5)  # what is tolerated changes none of them
    found = sweep(testbed, plan, RunFolder(tmp_path / "run", {}, IDENTITY), parts=cells)
    costs = {r.edit: r for r in found if r.metric == "cost"}
    [chosen] = [edit for edit, row in costs.items() if row.detail["chosen"]]
    singles = [row.detail["removed"] for edit, row in costs.items() if " + " not in edit]
    assert costs[chosen].detail["removed"] >= max(singles)
    assert any(" + " in edit for edit in costs)
    assert not any(handles for handles in testbed.bridge.list_hooks().values())


def test_an_eraser_that_fails_costs_its_own_cells_alone(
    testbed: LanguageModel, tmp_path: Path
) -> None:
    plan = make_plan(erasers={"own": FailsAtRankTwo()}, ranks=(2, 1))
    found = sweep(testbed, plan, RunFolder(tmp_path / "run", {}, IDENTITY))
    failed = [r for r in found if r.metric == "error"]
    assert [r.edit for r in failed] == [f"own-2@resid_post.{layer}" for layer in LAYERS]
    assert failed[0].detail["error"] == "ZeroDivisionError: division by zero"
    assert value(found, "bias_removed", "own-1@resid_post.4", split="test") > 0


def test_a_sweep_in_which_everything_fails_ends_with_its_errors(
    testbed: LanguageModel, tmp_path: Path
) -> None:
    plan = make_plan(erasers={"own": FailsAtRankTwo(rank=2)})
    found = sweep(testbed, plan, RunFolder(tmp_path / "run", {}, IDENTITY))
    assert len([r for r in found if r.metric == "error"]) == 2
    assert not [r for r in found if r.metric == "cost"]


def test_metrics_that_take_long_are_measured_for_the_chosen_edit_alone(
    testbed: LanguageModel, tmp_path: Path
) -> None:
    audit = make_plan().audits["gender"]
    slow = Slow(audit.metrics[0].subject)
    plan = make_plan(layers=(4,), metrics=(*audit.metrics, slow), combine=1)
    found = sweep(testbed, plan, RunFolder(tmp_path / "run", {}, IDENTITY))
    [chosen] = [r.edit for r in found if r.detail.get("chosen")]
    assert [r.edit for r in found if r.metric == "slow"] == ["none", chosen]


def test_several_sites_and_axes_keep_their_edits_apart(
    testbed: LanguageModel, tmp_path: Path
) -> None:
    audit = make_plan().audits["gender"]
    plan = make_plan(
        audits={"gender": audit}, sites=("resid_post", "mlp_out"), layers=(4,), name_axes=True,
        combine=1,
    )  # fmt: skip
    found = sweep(testbed, plan, RunFolder(tmp_path / "run", {}, IDENTITY))
    edits = {r.edit for r in found if r.metric == "bias_removed"}
    assert edits == {
        f"{name}-1@{site}.4/gender"
        for name in ("rlace", "leace")
        for site in ("resid_post", "mlp_out")
    }


def test_two_axes_are_swept_as_each_alone(
    testbed: LanguageModel, rows: list[Row], tmp_path: Path
) -> None:
    audit = make_plan().audits["gender"]
    renamed = {
        key: tuple(replace(data, axis="other") for data in getattr(audit, key))
        for key in ("fit", "validation", "test")
    }
    plan = make_plan(
        audits={"gender": audit, "other": replace(audit, **renamed)}, layers=(4,), name_axes=True,
        combine=1,
    )  # fmt: skip
    found = sweep(testbed, plan, RunFolder(tmp_path / "run", {}, IDENTITY))
    alone = value(rows, "bias_removed", "leace-1@resid_post.4", split="test")
    for axis in ("gender", "other"):
        label = f"leace-1@resid_post.4/{axis}"
        assert value(found, "bias_removed", label, split="test") == pytest.approx(alone)
        assert len([r for r in found if r.unit == f"{axis}/choice" and r.detail["chosen"]]) == 1


MISTAKES: dict[str, tuple[Callable[[], SweepPlan], str]] = {
    "layer out of range": (lambda: make_plan(layers=(2, 6)), "unknown layer 6 .* valid are 0..5"),
    "unknown site": (lambda: make_plan(sites=("resid_pst",)), "did you mean 'resid_post'"),
    "no site": (lambda: make_plan(sites=()), "no site"),
    "rank of nothing": (lambda: make_plan(ranks=(0,)), "a rank is at least 1"),
    "combining nothing": (lambda: make_plan(combine=0), "combine=0 is below 1"),
    "activations without room": (
        lambda: make_plan(scratch=Scratch(budget=0, directory=Path("/proc/nowhere"))),
        "no room for",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str, testbed: LanguageModel, tmp_path: Path) -> None:
    make, message = MISTAKES[mistake]

    def all_of_it() -> None:
        plan = make()
        check_sweep(testbed, plan)
        sweep(testbed, plan, RunFolder(tmp_path / "run", {}, IDENTITY))

    with pytest.raises(UserError, match=message):
        all_of_it()


def test_several_axes_must_be_named() -> None:
    audit = make_plan().audits["gender"]
    with pytest.raises(UserError, match="name_axes=True"):
        make_plan(audits={"gender": audit, "race": audit})
