"""Batches are halved where the device has too little memory, and stay so."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.models import (
    capture,
    continuation_log_probs,
    generate,
    load_model,
    reductions_kept,
)

NAMES = ("Jane", "John", "Ahmed", "Emily", "My friend", "Yesterday he", "The owner", "Good morning")
PROMPTS = [f"{name} is {a} nurse and" for name in NAMES for a in ("a", "no")]
OUTPUTS = [" she works"] * len(PROMPTS)


@pytest.fixture
def model(tiny_dirs):
    return load_model(tiny_dirs["llama"], device="cpu")


@contextmanager
def memory_for(model, most):
    """A device with memory for so many tokens at once; the sizes of the batches that fitted."""
    sizes = []

    def require(module, inputs):
        if inputs[0].numel() > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        sizes.append(inputs[0].numel())

    embedding = model.bridge.original_model.get_input_embeddings()
    handle = embedding.register_forward_pre_hook(require)
    try:
        yield sizes
    finally:
        handle.remove()


@pytest.mark.parametrize("run", ["scores", "capture", "text", "neutral"])
def test_a_method_ends_with_what_it_gives_in_large_batches(model, run):
    def result():
        if run == "scores":
            return continuation_log_probs(model, PROMPTS, OUTPUTS)
        if run == "capture":
            return capture(model, PROMPTS).values["resid_post"]
        if run == "neutral":
            return neutral_cost(model, None, PROMPTS).nll_unedited
        texts = generate(model, PROMPTS, max_new_tokens=4, do_sample=True)
        return np.array([[ord(c) for c in text.ljust(40)[:40]] for text in texts])

    expected = result()  # trees are tried here
    noted = []
    kept = reductions_kept(model, {}, noted.append)
    with kept, memory_for(model, 60) as sizes:
        np.testing.assert_allclose(result(), expected, atol=1e-5)
        tried, count = len(noted), len(sizes)
        np.testing.assert_allclose(result(), expected, atol=1e-5)
    assert tried == len(noted) > 0  # found once
    assert len(sizes) - count >= 2
    assert noted[-1] == {"scores" if run == "neutral" else run: tried}


def test_a_later_session_begins_with_the_sizes_of_the_first(model):
    expected = continuation_log_probs(model, PROMPTS, OUTPUTS)
    noted = []
    with reductions_kept(model, {"scores": 7}, noted.append), memory_for(model, 60) as sizes:
        scores = continuation_log_probs(model, PROMPTS, OUTPUTS)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(sizes) > 1
    assert not noted


def test_a_text_that_does_not_fit_alone_is_refused_in_one_line(model):
    continuation_log_probs(model, PROMPTS, OUTPUTS)
    with (
        memory_for(model, 3),
        pytest.raises(UserError, match=r"too little memory for .*, even in the smallest batches"),
    ):
        continuation_log_probs(model, PROMPTS, OUTPUTS)
