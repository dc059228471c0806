"""Batches and trees: every token is read once, and gets what it would get alone."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.edits import Edit, applied
from countergen_edit.models import continuation_log_probs
from countergen_edit.models.batching import plan, runs_trees, trees
from tests.edits.checkpoints.conftest import oblique_erasure
from tests.tiny_models import CLASSES, CONFIGS, FAMILIES, config_of, tiny_model

ROWS = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5).map(tuple), max_size=12)


@given(ROWS, st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans())
def test_every_wanted_token_is_read_once_with_its_own_past(rows, tokens, reads, share, branch):
    positions = [list(range(len(row))) for row in rows]
    past = [row[: p + 1] for row in rows for p in range(len(row))]
    slots = []
    limits = {"max_batch_tokens": tokens, "max_batch_reads": reads}
    for batch in plan(rows, positions, share=share, branch=share and branch, **limits):
        cells = {*zip(batch.row.tolist(), batch.position.tolist(), strict=True)}
        fits = batch.ids.numel() <= tokens and len(cells) <= reads
        assert fits or len(batch.ids) == 1
        for row, position, slot in zip(batch.row, batch.position, batch.slot, strict=True):
            sees = torch.arange(position + 1)
            if batch.mask.ndim == 3:
                sees = batch.mask[row, position].nonzero()[:, 0]
            else:
                assert batch.mask[row, : position + 1].all()
            assert batch.ids[row, sees].tolist() == list(past[slot])
            slots.append(slot)
    assert sorted(slots) == list(range(len(past)))


def maximal(texts):
    return [a for a in texts if not any(a != b and b[: len(a)] == a for b in texts)]


@given(ROWS)
def test_only_rows_that_begin_no_other_are_run(rows):
    batches = plan(rows, [[0]] * len(rows), max_batch_tokens=1000)
    assert sum(len(batch.ids) for batch in batches) == len(maximal(set(rows)))


PROMPTS = ["Jane works as a", "John works as a", "My friend Ahmed is an"]
OUTPUTS = [" nurse and she", " manager for his company", " engineer", " engineer, working", " mad"]
PAIRS = [(p, o) for p in PROMPTS for o in OUTPUTS]
TEXTS = st.sets(st.lists(st.integers(0, 2), min_size=1, max_size=7).map(tuple), max_size=15)


@given(TEXTS, st.integers(0, 40))
def test_in_a_tree_every_text_reads_and_sees_itself_alone(texts, most):
    distinct = maximal(texts)
    rows = trees(distinct, most)
    assert sorted(text for row in rows for text in row.columns) == sorted(distinct)
    for row in rows:
        assert len(row.ids) <= most or len(row.columns) == 1
        for text, columns in row.columns.items():
            assert tuple(row.ids[c] for c in columns) == text
            for k, column in enumerate(columns):
                assert torch.nonzero(row.sees[column])[:, 0].tolist() == columns[: k + 1]
        starts = {text[:k] for text in row.columns for k in range(1, len(text) + 1)}
        assert len(row.ids) == len(starts)  # nothing that is shared stands there twice


mistral = partial(config_of, "MistralConfig", intermediate_size=64, num_key_value_heads=2)
OTHERS = {
    "bloom": CONFIGS["bloom"],  # ALiBi
    "mpt": config_of("MptConfig", d_model=32, n_layers=2, n_heads=4, max_seq_len=64),  # by column
    "mamba": config_of("MambaConfig", state_size=4),
    "mistral": mistral(sliding_window=4),
}


def model(family, monkeypatch=None):
    if monkeypatch is not None:
        monkeypatch.setitem(CONFIGS, family, OTHERS[family])
        monkeypatch.setitem(CLASSES, family, "AutoModelForCausalLM")
    return tiny_model(family)


def scores(lm):
    return continuation_log_probs(lm, *zip(*PAIRS, strict=True))


def alone(lm):
    return np.array([continuation_log_probs(lm, [p], [o])[0] for p, o in PAIRS])


def tokens_run(lm):
    sizes = []
    counting = ("blocks.0.hook_out", lambda x, hook: sizes.append(x.shape[0] * x.shape[1]))
    with lm.bridge.hooks(fwd_hooks=[counting]):
        scores(lm)
    return sum(sizes)


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_after_one_prompt_share_its_row_and_score_as_alone(family, monkeypatch):
    lm = model(family)
    assert runs_trees(lm, 30)
    np.testing.assert_allclose(scores(lm), alone(lm), atol=1e-5)
    erasure = oblique_erasure(lm.d_model)
    for site in ("resid_post", "embed"):
        with applied(lm, Edit.at(site, {None if site == "embed" else 1: erasure})):
            np.testing.assert_allclose(scores(lm), alone(lm), atol=1e-5)
    shared = tokens_run(lm)
    monkeypatch.setattr("countergen_edit.models.scoring.runs_trees", lambda lm, length: False)
    assert shared < 0.7 * tokens_run(lm)


@pytest.mark.parametrize("family", OTHERS)
def test_a_model_that_takes_no_tree_is_told_and_scored_text_by_text(family, monkeypatch):
    lm = model(family, monkeypatch)
    assert not runs_trees(lm, 30)
    np.testing.assert_allclose(scores(lm), alone(lm), atol=1e-5)


def test_a_window_is_noticed_where_texts_outgrow_it(monkeypatch):
    monkeypatch.setitem(OTHERS, "mistral", mistral(sliding_window=40))
    lm = model("mistral", monkeypatch)
    assert runs_trees(lm, 30)
    assert not runs_trees(lm, 50)
