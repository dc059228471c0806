"""A sweep's table and figures show what the rows say, and the same rows give the same files."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.figures.sweep import front_panels, layer_panels, write_figures
from countergen_edit.reports.results import Results
from countergen_edit.reports.sweep_table import print_sweep


def made(metric: str, value: float | None, edit: str = "none", **columns: object) -> Row:
    eraser, _, rest = edit.partition("-")
    layer = int(edit[-1]) if edit[-1].isdigit() else None
    of_edit = {} if edit == "none" else {"eraser": eraser, "rank": int(rest[0]), "layer": layer}
    about = {"dataset": "hobbies_test", "split": "test", "edit": edit, "lo": 0.1, "hi": 0.9}
    return Row(metric, value, **(about | of_edit | columns))  # type: ignore[arg-type]


def rows_of(edit: str, removed: float, cost: float, *, front: bool, chosen: bool) -> list[Row]:
    ends = {"agreement_lost": 0.001, "perplexity_ratio": 1.002}
    detail = {"removed": removed, "removed_test": removed - 0.1, "cost_test": cost + 1}
    detail |= ends | {f"{k}_test": v for k, v in ends.items()}
    detail |= {"front": front, "chosen": chosen}
    return [
        made("mean_abs_r", 0.6 * (1 - removed), edit),
        made("r", 0.1, edit),
        made("bias_removed", removed - 0.1, edit),
        made("cost", cost, edit, split="validation", detail=detail),
    ]


ROWS = [
    made("mean_abs_r", 0.6),
    made("r", 0.1),
    *rows_of("rlace-1@resid_post.1", 0.9, 40.0, front=True, chosen=False),
    *rows_of("leace-1@resid_post.1", 0.8, 0.5, front=True, chosen=True),
    *rows_of("leace-1@resid_post.2", 0.3, 0.7, front=False, chosen=False),
    made("error", None, "rlace-1@resid_post.2", detail={"error": "ValueError: no"}),
]


@pytest.fixture
def printed() -> str:
    return shown(ROWS)


def of_layers(printed: str) -> dict[str, str]:
    return {line.split()[0]: line for line in printed.splitlines() if line[:6].strip().isdigit()}


def shown(rows: list[Row]) -> str:
    console = Console(file=StringIO(), width=80)
    print_sweep(Results(rows), console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_every_cell_stands_in_the_table_and_a_failed_one_says_so(printed: str) -> None:
    lines = of_layers(printed)
    assert "80 % [41]" in lines["1"]
    assert "70 % [1.5]" in lines["1"]
    assert lines["2"].split()[1] == "failed"
    below = printed.splitlines()[printed.splitlines().index(lines["2"]) + 1]
    assert below == "Failed: rlace-1@resid_post.2: ValueError: no"


def test_a_cell_without_any_row_did_not_fail() -> None:
    printed = shown(ROWS[:-1])  # killed before the last cell, say
    assert of_layers(printed)["2"].split()[1] == "–"
    assert "failed" not in printed.lower()


def test_an_eraser_that_failed_at_every_layer_has_a_column_and_its_error_is_said_once() -> None:
    bad = {"eraser": "own", "rank": 0, "detail": {"error": "KeyError: 'x'"}}
    unit = "gender/cell/resid_post.{}/own(rank=cv)"
    failed = [
        made("error", None, f"own-0@resid_post.{i}", unit=unit.format(i), **bad) for i in (0, 1)
    ]
    printed = shown([*ROWS, *failed])
    lines = of_layers(printed)
    assert lines["0"].split() == ["0", "–", "–", "failed"]
    assert lines["2"].split()[-1] == "–"
    assert "own(rank=cv)" in printed
    assert "Failed: own-0@resid_post.0, own-0@resid_post.1: KeyError: 'x'" in printed


def of_axis(axis: str) -> list[Row]:
    """The rows as a sweep of several axes names them; each axis has sets of its own."""
    found = []
    for row in ROWS:
        edit = row.edit if row.edit == "none" else f"{row.edit}/{axis}"
        unit, dataset = f"{axis}/cell/{row.eraser}()", f"{axis}_test"
        found.append(replace(row, axis=axis, edit=edit, unit=unit, dataset=dataset))
    return found


def test_axes_have_tables_panels_and_a_choice_of_their_own() -> None:
    both = [*of_axis("gender"), *of_axis("race")]
    printed = shown(both)
    for axis in ("gender", "race"):
        assert f"resid_post, {axis}; cost in brackets" in printed
        assert f"Front, {axis}: " in printed
        assert f"Best: leace-1@resid_post.1/{axis} removes" in printed
        assert f"Failed: rlace-1@resid_post.2/{axis}: ValueError: no" in printed
    assert printed.count("→ leace-1@resid_post.1 ") == 2
    assert printed.count("Chosen on validation") == 1
    for axis, part in Results(both).by_axis().items():
        assert {panel.title for panel in layer_panels(part, f"resid_post, {axis}")} == {axis}
        [front] = [s for s in front_panels(part)[0].series if s.name == "front"]
        assert front.x == (0.5, 40.0)


def test_each_axis_has_figure_files_of_its_own(tmp_path: Path) -> None:
    both = [row for axis in ("gender", "race") for row in of_axis(axis) if row.layer != 2]
    names = {path.stem for path in write_figures(Results(both), tmp_path)}
    stems = ("front-{}", "edits-resid_post-{}-r", "edits-resid_post-{}-mean_abs_r")
    assert names == {stem.format(axis) for stem in stems for axis in ("gender", "race")}


def test_the_choice_is_named_with_what_it_does_on_test_data(printed: str) -> None:
    text = " ".join(printed.split())
    assert "Best: leace-1@resid_post.1 removes 70.0 % [10 %, 90 %] of mean |R| on test" in text
    assert "Agreement -0.10 points, neutral perplexity × 1.0020" in text


def test_a_sweep_without_a_single_good_cell_still_prints() -> None:
    assert "Failed:" in shown([ROWS[0], ROWS[-1]])


def test_the_layer_figure_has_a_line_for_each_eraser_beside_no_edit() -> None:
    [panel] = layer_panels(Results(ROWS), "resid_post")
    assert [s.name for s in panel.series] == ["no edit", "rlace-1", "leace-1"]
    leace = panel.series[-1]
    assert leace.x == (1, 2)
    assert leace.y == pytest.approx((0.12, 0.42))
    assert leace.lo == (0.1, 0.1)


def test_the_front_figure_draws_the_front_from_cheap_to_dear() -> None:
    validation, test = front_panels(Results(ROWS))
    front = next(s for s in validation.series if s.name == "front")
    assert front.x == (0.5, 40.0)
    assert front.y == (0.8, 0.9)
    assert "front" not in [s.name for s in test.series]


def test_figures_are_files_and_the_same_rows_give_the_same_ones(tmp_path: Path) -> None:
    first, second = (write_figures(Results(ROWS), tmp_path / name) for name in ("a", "b"))
    assert {path.suffix for path in first} == {".svg", ".png"}
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
        assert a.stat().st_size > 1000


def test_a_sweep_of_one_layer_draws_its_edits_side_by_side(tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.layer != 2]
    names = [path.stem for path in write_figures(Results(rows), tmp_path)]
    assert "edits-resid_post-mean_abs_r" in names
