"""Edits skip planted attention sinks: which tokens, how exactly, and at which saving."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, Placement, applied
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.erasers import AffineErasure, make_eraser
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.models import (
    capture,
    continuation_log_probs,
    encode,
    generate,
    resuming,
)
from countergen_edit.runs.fit_data import capture_sites
from tests.planted_sink import SUNK, planted_sink, sink_direction
from tests.runs.test_fit_data import ERASE

TEXTS = [
    "The weather was good at the café.",
    "They told a story to her friends.",
    "He failed the exam and asked why.",
    "The owner of the company said: good morning.",
]
PROMPTS = ["Jane is a nurse and", "John works at the hospital", "Ahmed was asked why"]


def fit_data(model, **more):
    settings = {"sites": ["resid_post"], "layers": None, "positions": "outputs"} | more
    return capture_sites(model, [ERASE], [], TEXTS, **settings)["resid_post"]


def sunk(family):
    """A model with a sink that lies mostly along the difference of the groups' means."""
    data = fit_data(planted_sink(family))
    means = [data.at(0)[data.group == group].mean(axis=0) for group in ("female", "male")]
    return planted_sink(family, 300, sink_direction(means[0] - means[1]))


@pytest.fixture(scope="module", params=SUNK)
def model(request):
    return sunk(request.param)


def fitted(model, eraser="leace", **more):
    data = fit_data(model, **more)
    erasure = data.fit(make_eraser(eraser), 0).erasure_
    return Edit((Placement("resid_post", 0, erasure, data.limit(0)),))


def stream(model, text=TEXTS[0]):
    [encoding] = encode(model, [text])
    read = []
    name = "blocks.0.hook_out"
    ids = torch.tensor([encoding.ids])
    with model.bridge.hooks(fwd_hooks=[(name, lambda x, hook: read.append(x[0].clone()))]):
        model.run_blocks(ids, torch.ones_like(ids))
    return read[0].numpy()


def test_the_limit_parts_the_sink_from_the_others(model):
    data = fit_data(model)
    assert all(limit is not None for limit in data.limits)
    sizes = np.linalg.norm(stream(model), axis=1)
    limit = data.limit(0)
    assert sizes[0] > 100 * np.median(sizes[1:])
    assert sizes[0] > 10 * limit
    assert limit > 1.5 * sizes[1:].max()
    assert fit_data(model, skip_attention_sinks=False).limits == (None,) * model.n_layers


def test_without_a_sink_there_is_no_limit():
    assert fit_data(planted_sink("llama")).limits == (None, None)


@pytest.mark.parametrize("eraser", ["mean_difference", "leace"])
def test_skipping_the_sink_costs_at_most_a_tenth(model, eraser):
    edits = [fitted(model, eraser), fitted(model, eraser, skip_attention_sinks=False)]
    skipped, edited = (neutral_cost(model, edit, TEXTS).kl.sum() for edit in edits)
    assert 0 < skipped <= edited / 10


def test_the_sink_stays_as_it_is_to_the_bit_and_no_other_token_does(model):
    before, edit = stream(model), fitted(model)
    with applied(model, edit):
        after = stream(model)
    np.testing.assert_array_equal(after[0], before[0])
    assert (after[1:] != before[1:]).any(axis=1).all()
    expected = edit.placements[0].erasure(before[1:].astype(np.float64))
    np.testing.assert_allclose(after[1:], expected, atol=1e-4)


def test_rows_and_background_skip_sinks(model):
    data = fit_data(model, positions="onward")
    rows, _ = data.used(make_eraser("leace"), 0)
    assert rows.all()  # the sink stands before every name
    limit = data.limit(0)
    assert not (np.linalg.norm(data.background[0], axis=1) > limit).any()
    # A name that was a sink would be left out, with its label.
    values = data.values.copy()
    values[0, 3] *= 1e6
    rows, given = replace(data, values=values).used(make_eraser("preserving"), 0)
    assert np.flatnonzero(~rows).tolist() == [3]
    assert all(len(given[k]) == rows.sum() for k in ("contexts", "keep"))
    huge = replace(data, background=1e6 * data.background)
    assert len(huge.used(make_eraser("preserving"), 0)[1]["background"]) == 0


def test_batch_padding_and_cache_do_not_change_which_tokens_are_skipped(model):
    def uncached(prompt):
        """Greedy decoding without cache, one prompt at a time."""
        [before] = [encoding.ids for encoding in encode(model, [prompt])]
        row = torch.tensor([before])
        for _ in range(8):
            step = model.logits(row, torch.ones_like(row))[:, -1].argmax(-1, keepdim=True)
            row = torch.cat([row, step], dim=1)
        decode = model.tokenizer.decode
        return decode(row[0].tolist())[len(decode(before)) :]

    continuations = [" for her friends"] * len(PROMPTS)
    with applied(model, fitted(model)):
        for prompt, text in zip(PROMPTS, generate(model, PROMPTS, max_new_tokens=8), strict=True):
            assert uncached(prompt).startswith(text)
        scores = continuation_log_probs(model, PROMPTS, continuations)
        alone = [
            continuation_log_probs(model, [p], [c])[0]
            for p, c in zip(PROMPTS, continuations, strict=True)
        ]
    np.testing.assert_allclose(scores, alone, atol=1e-5)


def test_a_resuming_model_skips_the_same_tokens(model):
    resumed, edit = resuming(model, [0]), fitted(model)
    [encoding] = encode(model, TEXTS[:1])
    edited_logits(resumed, None, encoding.ids)  # what left block 0 is remembered from here on
    expected = edited_logits(model, edit, encoding.ids)
    assert torch.equal(edited_logits(resumed, edit, encoding.ids), expected)


def test_capture_gives_the_norm_of_every_token_whatever_the_batch(model, monkeypatch):
    texts = [*TEXTS, TEXTS[0], TEXTS[0][:15]]
    expected = np.concatenate([np.linalg.norm(stream(model, text), axis=1) for text in texts])
    for most in (1, 30, 16384):
        monkeypatch.setattr("countergen_edit.models.batching.CPU_TOKENS", most)
        norms = capture(model, texts, layers=[0]).norms["resid_post"]
        np.testing.assert_allclose(norms, expected[None], rtol=1e-4)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_that_is_no_positive_number_is_refused(limit):
    with pytest.raises(UserError, match="limit must be a positive number"):
        Placement("resid_post", 1, AffineErasure.orthogonal(np.eye(8)[:1], np.zeros(8)), limit)
