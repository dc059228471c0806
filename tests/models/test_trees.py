"""Texts that begin alike share a row, and get what each gets alone; a model that can't is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel, continuation_log_probs, from_pretrained_objects
from countergen_edit.models.trees import runs_trees, trees
from tests import tiny_models
from tests.tiny_models import FAMILIES, tiny_hf_model, tiny_tokenizer

PROMPTS = ["Jane works as a", "John works as a", "My friend Ahmed is an"]
OUTPUTS = [" nurse and she", " manager for his company", " engineer", " engineer, working", " mad"]
PAIRS = [(p, o) for p in PROMPTS for o in OUTPUTS]
TEXTS = st.sets(st.lists(st.integers(0, 2), min_size=1, max_size=7).map(tuple), max_size=15)


def maximal(texts: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [a for a in texts if not any(a != b and b[: len(a)] == a for b in texts)]


@given(TEXTS, st.integers(0, 40))
def test_in_a_tree_every_text_reads_and_sees_itself_alone(
    texts: set[tuple[int, ...]], most: int
) -> None:
    distinct = maximal(texts)
    rows = trees(distinct, most)
    assert sorted(text for row in rows for text in row.columns) == sorted(distinct)
    for row in rows:
        assert len(row.ids) <= most or not row.branches
        for text, columns in row.columns.items():
            assert tuple(row.ids[c] for c in columns) == text
            for k, column in enumerate(columns):
                assert torch.nonzero(row.sees[column])[:, 0].tolist() == columns[: k + 1]
        starts = {text[:k] for text in row.columns for k in range(1, len(text) + 1)}
        assert len(row.ids) == len(starts)  # nothing that is shared stands there twice


def rotary(name: str, **more: Any) -> Callable[[int], Any]:
    return tiny_models._rotary(name, num_key_value_heads=2, **more)


def alibi(v: int) -> Any:
    from transformers import BloomConfig

    return BloomConfig(vocab_size=v, hidden_size=32, n_layer=2, n_head=4)


def alibi_by_column(v: int) -> Any:
    from transformers import MptConfig

    return MptConfig(vocab_size=v, d_model=32, n_layers=2, n_heads=4, max_seq_len=64)


def recurrent(v: int) -> Any:
    from transformers import MambaConfig

    return MambaConfig(vocab_size=v, hidden_size=32, num_hidden_layers=2, state_size=4)


OTHERS = {
    "bloom": alibi,
    "mpt": alibi_by_column,
    "mamba": recurrent,
    "mistral": rotary("MistralConfig", sliding_window=4),
}


def model(family: str, monkeypatch: pytest.MonkeyPatch | None = None) -> LanguageModel:
    if monkeypatch is not None:
        monkeypatch.setitem(tiny_models._CONFIGS, family, OTHERS[family])
    tokenizer = tiny_tokenizer()
    return from_pretrained_objects(family, tiny_hf_model(family, tokenizer), tokenizer)


def scores(lm: LanguageModel) -> np.ndarray:
    return continuation_log_probs(lm, *zip(*PAIRS, strict=True))


def alone(lm: LanguageModel) -> np.ndarray:
    return np.array([continuation_log_probs(lm, [p], [o])[0] for p, o in PAIRS])


def tokens_run(lm: LanguageModel) -> int:
    sizes: list[int] = []
    counting = ("blocks.0.hook_out", lambda x, hook: sizes.append(x.shape[0] * x.shape[1]))
    with lm.bridge.hooks(fwd_hooks=[counting]):
        scores(lm)
    return sum(sizes)


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_after_one_prompt_share_its_row_and_score_as_alone(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = model(family)
    assert runs_trees(lm, 30)
    np.testing.assert_allclose(scores(lm), alone(lm), atol=1e-5)
    assert np.array_equal(scores(lm), scores(lm))
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((lm.d_model, 2)))[0].T
    erasure = AffineErasure.orthogonal(directions, rng.standard_normal(lm.d_model))
    for site in ("resid_post", "attn_out", "mlp_out", "embed"):
        with applied(lm, Edit.at(site, {None if site == "embed" else 1: erasure})):
            np.testing.assert_allclose(scores(lm), alone(lm), atol=1e-5)
    shared = tokens_run(lm)
    monkeypatch.setattr("countergen_edit.models.scoring.runs_trees", lambda lm, length: False)
    assert shared < 0.7 * tokens_run(lm)


@pytest.mark.parametrize("family", OTHERS)
def test_a_model_that_takes_no_tree_is_told_and_scored_text_by_text(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = model(family, monkeypatch)
    assert not runs_trees(lm, 30)
    np.testing.assert_allclose(scores(lm), alone(lm), atol=1e-5)


def test_a_window_is_noticed_where_texts_outgrow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OTHERS, "mistral", rotary("MistralConfig", sliding_window=40))
    lm = model("mistral", monkeypatch)
    assert runs_trees(lm, 30)
    assert not runs_trees(lm, 50)


def test_half_precision_runs_trees_and_still_notices() -> None:
    tokenizer = tiny_tokenizer()
    hf_model = tiny_hf_model("llama", tokenizer).to(torch.bfloat16)
    assert runs_trees(from_pretrained_objects("llama", hf_model, tokenizer), 30)


def test_the_trial_runs_once_and_no_hook_sees_it() -> None:
    lm = model("gpt2")
    rows: list[int] = []

    def count(x: torch.Tensor, hook: object) -> torch.Tensor:
        rows.append(len(x))
        return torch.zeros_like(x)

    with lm.bridge.hooks(fwd_hooks=[("blocks.0.hook_out", count)]):
        assert runs_trees(lm, 30)
        assert not rows
        scores(lm)
        assert rows  # attached again
    lm.bridge.original_model.forward = None  # a second trial would call it
    assert runs_trees(lm, 20)
