"""Encoders of any family have the same hook points, and hooks there act and leave no trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import bank_from_config
from countergen_edit.edits import Edit, Placement, Shift, applied
from countergen_edit.models.classifiers import Classifier, classifier_from_objects
from countergen_edit.models.masked import Gap, MaskedModel, fill_in_words, masked_from_objects
from countergen_edit.testbed.classifiers import build, plant
from tests.tiny_models import CORPUS

SMALL: dict[str, Any] = {"num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 8}
FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": SMALL | {"intermediate_size": 16},
    "Roberta": SMALL | {"intermediate_size": 16, "pad_token_id": 0},
    "Electra": SMALL | {"intermediate_size": 16, "embedding_size": 8},
    "DistilBert": {"n_layers": 3, "n_heads": 2, "dim": 8, "hidden_dim": 16},
    "GPT2": {"n_layer": 3, "n_head": 2, "n_embd": 8, "pad_token_id": 0},
}
TEXTS = ["She feels sad.", "My brother told us all about the recent amazing events."]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build(plant(bank_from_config(read_config("template", "sentiment"))))[1]


def classifier(family: str, tokenizer: Any) -> Classifier:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer),
        id2label={0: "negative", 1: "positive"},
        **FAMILIES[family],
    )
    hf_model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    return classifier_from_objects(family, hf_model, tokenizer, "sentiment")


@pytest.mark.parametrize("family", FAMILIES)
def test_activations_are_the_hidden_states_of_transformers(family: str, tokenizer: Any) -> None:
    model = classifier(family, tokenizer)
    rows = model.encoded(TEXTS)
    sites: list[tuple[str, list[int]]] = [("embed", []), ("resid_post", [0, 1])]
    found = [
        model.encoder.activations(rows, site=site, layers=layers, tokens="all")
        for site, layers in sites
    ]
    whole = np.concatenate([a.values[site] for a, (site, _) in zip(found, sites, strict=True)])
    expected = []
    for text in TEXTS:
        batch = tokenizer(text, return_tensors="pt")
        states = model.hf_model(**batch, output_hidden_states=True).hidden_states
        expected.append(torch.cat(states[:3]).numpy())
    np.testing.assert_allclose(whole, np.concatenate(expected, axis=1), atol=1e-5)
    lengths = [len(row["input_ids"]) for row in rows]
    assert found[0].row_text.tolist() == [0] * lengths[0] + [1] * lengths[1]


@pytest.mark.parametrize(("family", "place"), [(f, -1 if f == "GPT2" else 0) for f in FAMILIES])
def test_the_token_that_the_head_reads_is_found(family: str, place: int, tokenizer: Any) -> None:
    """Encoders read the first token; a causal model that classifies reads the last."""
    model = classifier(family, tokenizer)
    rows = model.encoded(TEXTS)
    read = model.encoder.activations(rows, site="resid_post", layers=[2])
    every = model.encoder.activations(rows, site="resid_post", layers=[2], tokens="all")
    assert read.row_text.tolist() == [0, 1]
    for text in (0, 1):
        own = every.values["resid_post"][0, every.row_text == text]
        np.testing.assert_allclose(read.values["resid_post"][0, text], own[place], atol=1e-6)


@pytest.mark.parametrize("site", ["embed", "resid_post"])
def test_an_edit_acts_while_it_is_attached_and_leaves_no_trace(site: str, tokenizer: Any) -> None:
    model = classifier("Bert", tokenizer)
    before = model.probabilities(TEXTS)["positive"]
    moved = Edit((Placement(site, 1 if site == "resid_post" else None, Shift(np.arange(8.0))),))
    with applied(model.encoder, moved):
        edited = model.probabilities(TEXTS)["positive"]
    np.testing.assert_array_equal(model.probabilities(TEXTS)["positive"], before)
    assert np.abs(edited - before).min() > 1e-6


def test_what_an_encoder_has_not_is_refused_in_one_line(tokenizer: Any) -> None:
    encoder = classifier("Bert", tokenizer).encoder
    rows = [{"input_ids": [1, 2]}]
    with pytest.raises(UserError, match=r"valid are 0\.\.2"):
        encoder.activations(rows, site="resid_post", layers=[3])
    with pytest.raises(UserError, match="no site mlp_out"):
        encoder.activations(rows, site="mlp_out", layers=[0])
    with pytest.raises(UserError, match="does not continue"):
        encoder.logits(torch.ones(1, 2, dtype=torch.int64), torch.ones(1, 2, dtype=torch.int64))
    shared = transformers.AlbertForSequenceClassification(
        transformers.AlbertConfig(
            vocab_size=len(tokenizer),
            embedding_size=8,
            intermediate_size=16,
            id2label={0: "negative", 1: "positive"},
            **SMALL,
        )
    )
    with pytest.raises(UserError, match="no list of its 3 blocks"):
        _ = classifier_from_objects("albert", shared, tokenizer, "sentiment").encoder


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
    found = fill_in_words(model, GAPS, ALL)
    for gap, words in zip(GAPS, found, strict=True):
        expected = by_hand(model, gap)
        assert words
        assert [p for _, p in words] == sorted((p for _, p in words), reverse=True)
        for word, probability in words:
            assert probability == pytest.approx(expected[word], rel=1e-4)
        missed = {w: p for w, p in expected.items() if p > words[-1][1] * 1.001}
        assert set(missed) <= {word for word, _ in words}


def test_no_more_words_come_than_were_asked_for(model: MaskedModel) -> None:
    every = fill_in_words(model, GAPS, ALL)
    assert fill_in_words(model, GAPS, ALL + 5) == every  # of so small a vocabulary
    for words, first in zip(every, fill_in_words(model, GAPS, 1), strict=True):
        assert first == words[: len(first)]
        assert len(first) <= 1
    assert fill_in_words(model, [], 3) == []


def test_a_text_beyond_the_context_is_refused(model: MaskedModel) -> None:
    with pytest.raises(UserError, match="exceeds the 32 tokens that tiny reads"):
        fill_in_words(model, [Gap("Jane is a nurse. " * 20, "")], 1)
