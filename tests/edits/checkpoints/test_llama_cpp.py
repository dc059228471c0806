"""llama.cpp scores and writes what the audited model does, from the saved weights as GGUF."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import LanguageModel, load
from countergen_edit.models.capture import EVERYWHERE
from tests.edits.checkpoints.conftest import oblique_erasure
from tests.edits.test_update import update_of
from tests.tiny_gguf import write_gguf
from tests.tiny_models import tiny_model_dir

llama_cpp = pytest.importorskip("llama_cpp")

TEXT = "Jane is a nurse and she works"
NEW_TOKENS = 12


def everywhere(model: LanguageModel) -> Edit:
    return Edit.at(EVERYWHERE, {1: oblique_erasure(model.d_model)})


def trained(model: LanguageModel) -> Edit:
    return Edit((), update=update_of(model))


@pytest.mark.parametrize("kind", [everywhere, trained])
def test_its_log_probabilities_and_greedy_tokens_are_those_of_the_edited_model(kind, tmp_path):
    model = load(tiny_model_dir("llama", tmp_path / "model"))
    edit = kind(model)
    (tmp_path / "saved").mkdir()
    write_model(model, edit, tmp_path / "saved", "folded")
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    write_gguf(tmp_path / "saved.gguf", saved, model.tokenizer)
    served = llama_cpp.Llama(
        str(tmp_path / "saved.gguf"),
        n_ctx=64,
        logits_all=True,
        n_threads=1,
        type_k=llama_cpp.GGML_TYPE_F32,  # keys and values are cached in half precision otherwise
        type_v=llama_cpp.GGML_TYPE_F32,
        verbose=False,
    )
    ids = list(model.tokenizer(TEXT).input_ids)

    def expected(tokens: list[int], edit: Edit | None) -> np.ndarray:
        return edited_logits(model, edit, tokens).log_softmax(-1).numpy()

    served.eval(ids)
    found = np.array(served.scores[: len(ids)], np.float64)
    found -= np.logaddexp.reduce(found, axis=-1, keepdims=True)
    np.testing.assert_allclose(found, expected(ids, edit), atol=1e-4)
    assert np.abs(found - expected(ids, None)).max() > 0.1
    greedy = list(ids)
    for _ in range(NEW_TOKENS):
        greedy.append(int(expected(greedy, edit)[-1].argmax()))
    written = served.generate(ids, temp=0.0, repeat_penalty=1.0)
    assert [next(written) for _ in range(NEW_TOKENS)] == greedy[len(ids) :]
