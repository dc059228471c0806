"""What a masked model writes in a gap, against its own logits word by word."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from countergen_edit.errors import UserError
from countergen_edit.models.filling import Gap, fillings
from countergen_edit.models.masked import MaskedModel, masked_from_objects
from tests.tiny_models import CORPUS

GAPS = [
    Gap("Jane is a ", " and she works."),
    Gap("", " was asked why he failed."),
    Gap("He is ", ""),
]

ALL = 150
"""More words than either vocabulary has."""


def word_pieces() -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[UNK]", "[PAD]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer, {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}


def bytes_with_a_mask() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    mask = AddedToken("<mask>", lstrip=True, special=True)  # as RoBERTa's, it takes the space
    special = ["<unk>", "<pad>", mask]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer, {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": mask}


@pytest.fixture(scope="module", params=[word_pieces, bytes_with_a_mask])
def model(request: pytest.FixtureRequest) -> MaskedModel:
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    made, special = request.param()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, **special)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=1.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        hf_model = BertForMaskedLM(config).eval()
    return masked_from_objects("tiny", hf_model, tokenizer)


def by_hand(model: MaskedModel, gap: Gap) -> dict[str, float]:
    """Every whole word of the vocabulary with its probability in the gap."""
    tokenizer = model.tokenizer
    batch = tokenizer(gap.filled(tokenizer.mask_token), return_tensors="pt")
    at = batch["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    p = model.hf_model(batch["input_ids"]).logits[0, at].softmax(-1)
    begins = "Ġ" if "Ġis" in tokenizer.get_vocab() else ""
    return {
        word: float(p[i])
        for token, i in tokenizer.get_vocab().items()
        if token.startswith(begins)
        and not token.startswith("##")
        and (word := tokenizer.convert_tokens_to_string([token]).strip()).isalpha()
    }


def test_words_are_the_likeliest_whole_ones(model: MaskedModel) -> None:
    found = fillings(model, GAPS, ALL)
    for gap, words in zip(GAPS, found, strict=True):
        expected = by_hand(model, gap)
        assert words
        assert [p for _, p in words] == sorted((p for _, p in words), reverse=True)
        for word, probability in words:
            assert probability == pytest.approx(expected[word], rel=1e-4)
        missed = {w: p for w, p in expected.items() if p > words[-1][1] * 1.001}
        assert set(missed) <= {word for word, _ in words}


def test_no_more_words_come_than_were_asked_for(model: MaskedModel) -> None:
    every = fillings(model, GAPS, ALL)
    assert fillings(model, GAPS, ALL + 5) == every  # of so small a vocabulary
    for words, first in zip(every, fillings(model, GAPS, 1), strict=True):
        assert first == words[: len(first)]
        assert len(first) <= 1
    assert fillings(model, [], 3) == []


def test_a_text_beyond_the_context_is_refused(model: MaskedModel) -> None:
    with pytest.raises(UserError, match="exceeds the 32 tokens that tiny reads"):
        fillings(model, [Gap("Jane is a nurse. " * 20, "")], 1)
