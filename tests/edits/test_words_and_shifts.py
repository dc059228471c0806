"""An edit may put words before a text or add a vector; both act in `applied`, and go with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import (
    Edit,
    NamedEdit,
    Placement,
    Shift,
    applied,
    attach,
    load_edit,
    save_edit,
)
from countergen_edit.edits.checkpoints import save_checkpoint
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import (
    LanguageModel,
    continuation_log_probs,
    generate,
    load,
    preface_ids,
    resuming,
)
from tests.tiny_models import FAMILIES, tiny_model_dir

PROMPTS = ["Jane is a nurse and", "John works at the hospital", "Ahmed was asked why"]
OUTPUTS = [" she works", " for his company.", " he failed"]
WORDS = "they told Emily a story.\n"


@pytest.fixture(scope="module", params=FAMILIES)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LanguageModel:
    return load(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))


def scores(model: LanguageModel) -> np.ndarray:
    return continuation_log_probs(model, PROMPTS, OUTPUTS)


def vector(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=32)


def shifting(limit: float | None = None) -> Edit:
    return Edit((Placement("resid_post", 0, Shift(vector()), limit),))


def erasing() -> Edit:
    direction = vector(1)[None] / np.linalg.norm(vector(1))
    return Edit.at("resid_post", {1: AffineErasure(direction.T, direction, np.zeros(32))})


def test_a_shift_is_the_vector_that_a_plain_hook_adds(model: LanguageModel) -> None:
    block = model.bridge.blocks[0].original_component
    own = torch.tensor(vector(), dtype=torch.float32)

    def add(module: object, inputs: object, output: object) -> object:
        if isinstance(output, tuple):
            return (output[0] + own, *output[1:])
        return output + own  # type: ignore[operator]

    before = scores(model)
    handle = block.register_forward_hook(add)
    try:
        expected = scores(model)
    finally:
        handle.remove()
    with applied(model, shifting()) as shifted:
        np.testing.assert_allclose(scores(shifted), expected, atol=1e-5)
    assert np.abs(expected - before).max() > 1e-3
    np.testing.assert_array_equal(scores(model), before)


def test_a_shift_leaves_tokens_above_its_limit_alone(model: LanguageModel) -> None:
    with applied(model, shifting(limit=1e-6)) as shifted:
        np.testing.assert_allclose(scores(shifted), scores(model), atol=1e-6)


def test_words_act_in_the_model_that_is_yielded_with_the_erasure_beside_them(
    model: LanguageModel,
) -> None:
    both, before = Edit(erasing().placements, WORDS), scores(model)
    asked = model.with_preface(preface_ids(model, WORDS))
    with applied(asked, erasing()):
        expected = scores(asked)
        text = generate(asked, PROMPTS, max_new_tokens=4)
    for own in (model, resuming(model, [0, 1])):
        with applied(own, both) as edited:
            np.testing.assert_allclose(scores(edited), expected, atol=1e-5)
            assert generate(edited, PROMPTS, max_new_tokens=4) == text
    np.testing.assert_array_equal(scores(model), before)


def test_words_and_shifts_come_back_from_files_and_tell_edits_apart(tmp_path: Path) -> None:
    edits = [erasing(), shifting(), Edit((), WORDS), Edit(erasing().placements, WORDS)]
    assert len({edit.digest for edit in edits}) == len(edits)
    for i, edit in enumerate(edits):
        save_edit(edit, tmp_path / str(i))
        again = load_edit(tmp_path / str(i))
        assert again.digest == edit.digest
        assert again.preface == edit.preface
        named = NamedEdit.of(edit, "own", baseline_kind="prompting", variant="x")
        named.save(tmp_path / f"named{i}")
        assert NamedEdit.load(tmp_path / f"named{i}").record == named.record
        assert named.record.baseline


def test_words_are_refused_where_they_could_not_act(tmp_path: Path) -> None:
    model = load(tiny_model_dir("gpt2", tmp_path / "gpt2"))
    prompting = Edit((), WORDS)
    with pytest.raises(UserError, match="acts in `applied` alone"):
        attach(model, prompting)
    with pytest.raises(UserError, match="choose one"):
        prompting + prompting
    assert (prompting + erasing()).preface == WORDS
    for edit in (prompting, shifting(), Edit(erasing().placements, WORDS)):
        with pytest.raises(UserError, match="a checkpoint holds erasures") as error:
            save_checkpoint(model, edit, tmp_path / "saved")
        assert "\n" not in str(error.value)
    assert not (tmp_path / "saved").exists()


def test_a_shift_takes_one_finite_vector() -> None:
    with pytest.raises(UserError, match="one finite vector"):
        Shift(np.array([1.0, np.nan]))
