"""Which rows erasers are fitted on, and what is known of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.data.axis import Axis
from countergen_edit.data.templates import Template, expand
from countergen_edit.erasers import make_eraser
from countergen_edit.experiments.fit_data import FitData, _limit, capture_sites
from countergen_edit.models import LanguageModel, capture, load
from tests.tiny_models import tiny_model_dir

AXIS = Axis.from_config(
    {
        "name": "gender",
        "groups": {
            "female": {"names": {"fit": ["Jane", "Emily"]}, "forms": {"subject": "she"}},
            "male": {"names": {"fit": ["John", "Ahmed"]}, "forms": {"subject": "he"}},
        },
    }
)
ERASE = expand("erase", [Template("{name} is", (" a nurse", " an engineer"))], AXIS, "fit")
KEEP = expand("keep", [Template("{name} said", (" she", " he"))], AXIS, "fit")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))


def make(model: LanguageModel, positions: str = "outputs", keep: bool = False) -> FitData:
    return capture_sites(
        model,
        [ERASE],
        [KEEP] if keep else [],
        ["The hospital is at the café."],
        sites=["resid_post"],
        layers=None,
        positions=positions,  # type: ignore[arg-type]
    )["resid_post"]


def test_outputs_gives_a_row_wherever_an_output_token_is_predicted(model: LanguageModel) -> None:
    data = make(model)
    prompt = "Jane is"
    expected = {prompt}
    for output in (" a nurse", " an engineer"):
        ids = model.tokenizer(prompt + output, return_offsets_mapping=True)
        for start, end in ids["offset_mapping"]:
            if end > len(prompt) and start >= len(prompt):
                expected.add((prompt + output)[:start])
    of_jane = data.name == "Jane"
    assert {c.replace("{name}", "Jane") for c in data.context[of_jane]} == expected
    for context, row in zip(data.context[of_jane], data.at(1)[of_jane], strict=True):
        text = context.replace("{name}", "Jane")
        alone = capture(model, [text], layers=[1]).values["resid_post"][0, 0]
        np.testing.assert_allclose(row, alone, atol=1e-5)


def test_last_gives_one_row_a_prompt(model: LanguageModel) -> None:
    data = make(model, "last")
    assert data.name.tolist() == ["Jane", "Emily", "John", "Ahmed"]
    assert data.group.tolist() == ["female", "female", "male", "male"]
    assert data.values.shape == (model.n_layers, 4, model.d_model)


def test_onward_starts_at_the_name(model: LanguageModel) -> None:
    data = make(model, "onward")
    counts = {n: int((data.name == n).sum()) for n in ("Jane", "Ahmed")}
    assert counts == {n: len(model.tokenizer(f"{n} is").input_ids) for n in counts}


def test_pairs_hold_one_row_of_each_group(model: LanguageModel) -> None:
    data = make(model)
    for pair in np.unique(data.pair):
        assert sorted(data.group[data.pair == pair]) == ["female", "male"]


def test_rows_to_keep_reach_only_the_erasers_that_know_of_keeping(model: LanguageModel) -> None:
    with_keep, without = make(model, keep=True), make(model)
    assert with_keep.keep.sum() == 4
    leace = make_eraser("leace")
    np.testing.assert_array_equal(
        with_keep.fit(leace, 0).erasure_.right, without.fit(leace, 0).erasure_.right
    )
    kept = with_keep.fit(make_eraser("preserving", shrinkage=0.5, keep_within=0.5), 0)
    free = without.fit(make_eraser("preserving", shrinkage=0.5), 0)
    assert not np.allclose(
        kept.erasure_(with_keep.at(0)), free.erasure_(with_keep.at(0)), atol=1e-4
    )


@given(
    others=st.lists(st.floats(0.3, 1.3), min_size=20, max_size=60),
    sinks=st.lists(st.floats(10, 300), min_size=1, max_size=8),
    scale=st.floats(1e-3, 1e3),
)
def test_a_limit_parts_sinks_from_the_rest_and_stands_in_a_gap(
    others: list[float], sinks: list[float], scale: float
) -> None:
    norms = np.array([*others, *sinks], np.float32) * np.float32(scale / np.median(others))
    others_alone, limit = norms[: len(others)], _limit(norms)
    assert limit is not None
    assert 3 <= limit / np.median(norms) <= 5
    if others_alone.max() < 3 * np.median(norms) and norms[-len(sinks) :].min() > limit:
        assert ((norms > limit) == (np.arange(len(norms)) >= len(others))).all()
    assert np.abs(np.log(norms / limit)).min() > 0.01  # nothing comes near it
    assert _limit(0 * norms) is None


def test_a_limit_lies_in_the_widest_gap_between_three_and_five_medians() -> None:
    crowd = [1.0] * 50
    for above, limit in (
        ([8.0], np.sqrt(3 * 5)),
        ([3.3, 8.0], np.sqrt(3.3 * 5)),
        ([4.6, 4.8], np.sqrt(3 * 4.6)),
        ([3.2, 4.5, 40.0], np.sqrt(3.2 * 4.5)),
    ):
        assert _limit(np.array(crowd + above, np.float32)) == pytest.approx(limit, rel=1e-5)
    assert _limit(np.array([*crowd, 3.4], np.float32)) is None


def test_embeddings_have_no_layer(model: LanguageModel, tmp_path: Path) -> None:
    data = capture_sites(
        model, [ERASE], [], ["The café."], sites=["embed"], layers=None, positions="onward"
    )["embed"]
    assert data.layers == (None,)
    assert data.at(None).shape == (len(data.group), model.d_model)
