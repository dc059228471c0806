import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.models import SITES, capture, encode, hook_name

TEXTS = [
    "Jane is a nurse",
    "Yesterday John was an engineer, working for his company.",
    "Jane is a nurse and she works",
    "Jane",
    "Jane is a nurse",
]
STARTS = [0, 10, 5, 0, 8]
# Float32 rounding of rows padded differently, on activations of size about 10.
TOLERANCE = 2e-5


def one_by_one(lm, text, site, layer):
    got = []
    ids = torch.tensor([encode(lm, [text])[0].ids])
    hook = (hook_name(lm, site, layer), lambda x, hook: got.append(x[0].numpy().copy()))
    with torch.inference_mode(), lm.bridge.hooks(fwd_hooks=[hook]):
        lm.bridge(ids)
    return got[0]


@pytest.mark.parametrize("positions", ["last", "onward"])
@pytest.mark.parametrize("tokens", [1, 40, 16384])
def test_a_batched_capture_equals_one_text_at_a_time(lm, positions, tokens, monkeypatch):
    monkeypatch.setattr("countergen_edit.models.batching.CPU_TOKENS", tokens)
    captured = capture(lm, TEXTS, sites=tuple(SITES), starts=STARTS, positions=positions)
    reads = []
    for encoding, start in zip(encode(lm, TEXTS), STARTS, strict=True):
        onward = [k for k, (_, end) in enumerate(encoding.offsets) if end > start]
        reads.append(onward if positions == "onward" else onward[-1:])
    assert captured.row_text.tolist() == [i for i, row in enumerate(reads) for _ in row]
    for site, values in captured.values.items():
        assert values.dtype == np.float32
        for layer in range(len(values)):
            alone = (one_by_one(lm, text, site, layer) for text in TEXTS)
            expected = [rows[read] for rows, read in zip(alone, reads, strict=True)]
            np.testing.assert_allclose(values[layer], np.concatenate(expected), atol=TOLERANCE)


@pytest.mark.parametrize("start", [-1, 99])
def test_bad_input_is_named(gpt2, start):
    with pytest.raises(UserError, match=f"beyond character {start} .* 'Jane'"):
        capture(gpt2, TEXTS, positions="onward", starts=[0, 0, 0, start, 0])
    with pytest.raises(UserError, match="no token beyond character 0 in the text ''"):
        capture(gpt2, [""])


def test_a_layered_site_needs_a_layer_and_the_embedding_none(gpt2, monkeypatch):
    assert hook_name(gpt2, "embed") == hook_name(gpt2, "embed", 1) == "embed.hook_out"
    with pytest.raises(UserError, match="unknown layer None"):
        hook_name(gpt2, "mlp_out")
    monkeypatch.setitem(SITES, "nowhere", "blocks.{layer}.hook_nowhere")
    with pytest.raises(UserError, match="has no site nowhere"):
        hook_name(gpt2, "nowhere", 0)
