"""A sweep's table and figures show what the rows say, and the same rows give the same files."""

from __future__ import annotations

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
    console = Console(file=StringIO(), width=80)
    print_sweep(Results(ROWS), console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_every_cell_stands_in_the_table_and_a_failed_one_says_so(printed: str) -> None:
    lines = {line.split()[0]: line for line in printed.splitlines() if line[:6].strip().isdigit()}
    assert "80 % [41]" in lines["1"]
    assert "70 % [1.5]" in lines["1"]
    assert "failed" in lines["2"]
    assert "Failed: rlace-1@resid_post.2: ValueError: no" in printed


def test_the_choice_is_named_with_what_it_does_on_test_data(printed: str) -> None:
    text = " ".join(printed.split())
    assert "Best: leace-1@resid_post.1 removes 70.0 % [10 %, 90 %] of mean |R| on test" in text
    assert "Agreement -0.10 points, neutral perplexity × 1.0020" in text


def test_a_sweep_without_a_single_good_cell_still_prints() -> None:
    console = Console(file=StringIO(), width=80)
    print_sweep(Results([ROWS[0], ROWS[-1]]), console)
    assert "Failed:" in console.file.getvalue()  # type: ignore[attr-defined]


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
