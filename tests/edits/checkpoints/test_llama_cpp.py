"""llama.cpp scores and writes what the audited model does, from the saved weights as GGUF."""

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import load_model
from countergen_edit.models.capture import EVERYWHERE
from tests.edits.checkpoints.conftest import oblique_erasure
from tests.edits.test_update import update_of
from tests.tiny_gguf import write_gguf
from tests.tiny_models import tiny_model_dir

xllamacpp = pytest.importorskip("xllamacpp", reason="`make extras` installs llama.cpp")

TEXT = "Jane is a nurse and she works"
NEW_TOKENS = 12


def serving(gguf):
    """llama.cpp's server of a file, in single precision throughout."""
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = str(gguf), 64, 1
    params.warmup, params.verbosity, params.cpuparams.n_threads = False, -1, 1
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    return xllamacpp.Server(params)


def next_log_probs(server, ids, word):
    """Log P of every token after these.

    The server tells them with the token that it samples, unless that is part of a character:
    `word` is none, and made the likeliest.
    """
    asked = {"prompt": ids, "n_predict": 1, "n_probs": 100_000, "logit_bias": [[word, 100]]}
    answer = server.handle_completions(asked)
    [step] = answer["choices"][0]["logprobs"]["content"]
    return np.array([p for _, p in sorted((t["id"], t["logprob"]) for t in step["top_logprobs"])])


def everywhere(model):
    return Edit.at(EVERYWHERE, {1: oblique_erasure(model.d_model)})


def trained(model):
    return Edit((), update=update_of(model))


@pytest.mark.parametrize("kind", [everywhere, trained])
def test_its_log_probabilities_and_greedy_tokens_are_those_of_the_edited_model(kind, tmp_path):
    model = load_model(tiny_model_dir("llama", tmp_path / "model"))
    edit = kind(model)
    write_model(model, edit, tmp_path / "saved", "folded")
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    write_gguf(tmp_path / "saved.gguf", saved, model.tokenizer)
    server, ids = serving(tmp_path / "saved.gguf"), list(model.tokenizer(TEXT).input_ids)
    word = ids[-1]
    for _ in range(NEW_TOKENS):
        served = next_log_probs(server, ids, word)
        expected, unedited = (
            edited_logits(model, e, ids)[-1].log_softmax(-1).numpy() for e in (edit, None)
        )
        np.testing.assert_allclose(served, expected, atol=1e-4)
        assert np.abs(served - unedited).max() > 0.1
        assert served.argmax() == expected.argmax()
        ids.append(int(served.argmax()))
