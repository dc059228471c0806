"""Two runs are paired on the prompts that they share, and only on those."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from countergen_edit.cli.main import main
from countergen_edit.core.seeds import generator
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.r import mean_r, r_values
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.scored_texts import read, scores_of, write
from countergen_edit.metrics.scores import SetScores
from countergen_edit.runs.compare import paired
from countergen_edit.runs.folder import RunFolder
from tests.reports.runs import make_run
from tests.runs.runs import IDENTITY

NAMES = {"female": ("Jane", "Anna", "Laura"), "male": ("John", "Paul", "Peter")}
TEMPLATES = ("{name} is", "At work {name} is", "They say {name} is", "{name} was")


def make_scores(seed: int = 0, templates: tuple[str, ...] = TEMPLATES) -> SetScores:
    """A set with random scores."""
    samples = tuple(
        Sample(
            template,
            (" kind", " brave"),
            tuple(
                Variation(group, template.format(name=name), name)
                for group, names in NAMES.items()
                for name in names
            ),
        )
        for template in templates
    )
    data = CounterfactualSet("jobs_test", "gender", ("female", "male"), samples)
    log_p = generator(seed, "compare").normal(-5, 1, size=(2 * len(templates), 2, 3))
    present = np.ones(log_p.shape, dtype=bool)
    template = np.repeat(np.arange(len(templates)), 2)
    return SetScores(data, log_p, present, template, (" kind", " brave") * len(templates))


def run_of(folder: Path, **edits: SetScores) -> Path:
    """A run that scored sets under edits, called `eraser_layer`, and kept both."""
    run = RunFolder(folder, {}, IDENTITY)
    for name, scores in edits.items():
        edit = "none"
        if name != "none":
            eraser, _, layer = name.partition("_")
            erasure = AffineErasure(np.eye(4)[:, :1], np.eye(4)[:1], np.zeros(4))
            made = Edit.at("resid_post", {int(layer): erasure})
            named = NamedEdit.of(made, eraser, basis=[name], baseline=eraser == "random")
            run.keep(named)
            edit = named.id
        path = folder / STORE / "gender" / "r" / f"{edit}.jsonl"
        write(path, edit, [("test", scores, r_values(scores).tolist(), None)])
    return folder


def test_scores_come_back_from_their_texts_digit_for_digit(tmp_path: Path) -> None:
    scores = make_scores()
    write(tmp_path / "none.jsonl", "none", [("test", scores, r_values(scores).tolist(), None)])
    back = scores_of(read(tmp_path / "none.jsonl"))
    assert np.array_equal(back.log_p, scores.log_p)
    assert back.output == scores.output
    assert mean_r(back, seed=0) == mean_r(scores, seed=0)


def test_a_run_differs_from_itself_by_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path / "one", none=make_scores())
    for row in paired({"a": run, "b": run}, seed=0):
        assert (row.value, row.lo, row.hi) == (0.0, 0.0, 0.0)


def test_a_difference_is_that_of_the_two_means_over_shared_prompts(tmp_path: Path) -> None:
    """By hand: mean |R| over the two templates that both runs have."""
    one, two = make_scores(1, TEMPLATES[:3]), make_scores(2, TEMPLATES[1:])
    runs = {"a": run_of(tmp_path / "a", none=one), "b": run_of(tmp_path / "b", none=two)}
    effect, row = paired(runs, seed=0)
    assert [effect.metric, row.metric] == ["group_effect_difference", "mean_abs_r_difference"]
    expected = np.abs(r_values(two)[:4]).mean() - np.abs(r_values(one)[2:]).mean()
    assert row.value == pytest.approx(expected)
    assert row.detail["samples"] == 2
    assert row.detail["samples_of_either"] == 4


def test_pairing_narrows_the_interval_of_what_moves_together(tmp_path: Path) -> None:
    """Scores that differ little differ surely, however widely both are spread."""
    one = make_scores()
    shift = np.zeros_like(one.log_p)
    shift[:, 0] = 0.05
    two = replace(one, log_p=one.log_p + shift)
    runs = {"a": run_of(tmp_path / "a", none=one), "b": run_of(tmp_path / "b", none=two)}
    _, row = paired(runs, seed=0)
    _, absolute = mean_r(one, seed=0)
    assert row.lo is not None
    assert row.hi is not None
    assert row.hi - row.lo < (absolute.hi - absolute.lo) / 3


def test_edits_are_paired_by_recipe_then_by_eraser_then_alone(tmp_path: Path) -> None:
    def edits(*pairs: tuple[str, str]) -> set[tuple[str, str]]:
        runs = {}
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        for run, names in zip("ab", zip(*pairs, strict=True), strict=True):
            runs[run] = run_of(place / run, **{name: make_scores() for name in names if name})
        return {(row.detail["against_edit"], row.detail["edit"]) for row in paired(runs, seed=0)}

    two, three = (f"leace-1@resid_post.{layer}" for layer in (2, 3))
    assert edits(("none", "none"), ("leace_2", "leace_2"), ("rlace_2", "")) == {
        ("none", "none"),
        (two, two),
    }
    assert edits(("leace_2", "leace_3")) == {(two, three)}
    assert edits(("leace_2", "rlace_3")) == {(two, "rlace-1@resid_post.3")}
    assert edits(("random_2", "random_2")) == set()


@pytest.mark.parametrize("runs", [[], ["one"], ["one", "one"]])
def test_one_run_cannot_be_compared(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "one", outputs=1)
    assert main(["compare", *(str(tmp_path / name) for name in runs)]) == 2
    assert "needs two run folders" in capsys.readouterr().err
