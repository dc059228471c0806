"""Classifier testbeds: a BERT for each template task, with exact weights instead of training.

`classifiers.yaml` says what is planted. Attention gives every position the mean of the word
embeddings; the GELUs multiply two such means (gelu(x) + gelu(-x) ≈ √(2/π) x² for small x); a large
constant in each embedding makes layer norm change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)

from countergen_edit.core.errors import require_known
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.core.seeds import generator
from countergen_edit.data.template_bank import TemplateBank

CONTEXT = 64
LENGTH = 10.0
"""Tokens of a text in which effects count once."""
_SCALE = 0.03  # of an effect of one logit in an embedding
_SMALL = 0.3  # of a mean of counts where the square is taken
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_SQUARE = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class Interaction:
    """An effect of a word together with another one."""

    words: frozenset[str]
    others: frozenset[str]
    label: int
    effect: float


@dataclass(frozen=True)
class Planted:
    """A classifier's exact logits.

    An effect counts `LENGTH` / number of tokens for every such token, an interaction the square of
    that for every two.
    """

    task: str
    labels: tuple[str, ...]
    base: Float64[np.ndarray, " label"]
    effects: Mapping[str, Float64[np.ndarray, " label"]]
    interactions: tuple[Interaction, ...]
    vocabulary: tuple[str, ...]


def plant(bank: TemplateBank, *, biased: bool = True, seed: int = 0) -> Planted:
    """What is planted for a task, over the words of its templates; random effects by `seed`.

    `biased` treats groups differently. `UserError` for other tasks.
    """
    config = shipped_yaml(Path(__file__).with_name("classifiers.yaml"))
    require_known("task", bank.task, config)
    entry = config[bank.task]
    labels = tuple(entry["labels"])
    base = np.array([entry["base"].get(label, 0.0) for label in labels])
    effects: dict[str, Float64[np.ndarray, " label"]] = {}
    rng = generator(seed, "classifier", bank.task)
    for item in entry["effects"]:
        for word in sorted(_words(item, bank)):
            drawn = rng.normal(0.0, item["spread"]) if "spread" in item else item["effect"]
            if biased or not item.get("bias"):
                value = effects.setdefault(word, np.zeros(len(labels)))
                value[labels.index(item["label"])] += drawn
    interactions = tuple(
        Interaction(
            _words(item, bank), frozenset(item["with"]), labels.index(item["label"]), item["effect"]
        )
        for item in entry["interactions"]
        if biased or not item.get("bias")
    )
    return Planted(bank.task, labels, base, effects, interactions, _vocabulary(bank))


def build(planted: Planted) -> tuple[Any, PreTrainedTokenizerFast]:
    """The model and tokenizer with the planted logits, to within 0.01."""
    tokenizer = _tokenizer(planted.vocabulary)
    features = len(planted.labels) + 2 * len(planted.interactions)
    width = 2 * features + 2
    masked = planted.task == "masked"
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4 * max(1, len(planted.interactions)),
        max_position_embeddings=CONTEXT,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
        id2label=dict(enumerate(planted.labels)),
        label2id={label: i for i, label in enumerate(planted.labels)},
        tie_word_embeddings=False,
    )
    model: Any = (BertForMaskedLM if masked else BertForSequenceClassification)(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "LayerNorm.weight" in name else 0.0)
        body = model.bert
        body.embeddings.word_embeddings.weight.copy_(_embeddings(planted, tokenizer, width))
        layer = body.encoder.layer[0]
        effects = torch.eye(width)
        effects[2 * features :] = 0  # the constant is no effect: attention leaves it where it is
        layer.attention.self.value.weight.copy_(effects)
        layer.attention.output.dense.weight.copy_(torch.eye(width))
        _multiply(planted, layer)
        if masked:
            _read_masked(planted, model, tokenizer, width)
        else:
            body.pooler.dense.weight.copy_(effects)
            for label, base in enumerate(planted.base):
                model.classifier.weight[label, 2 * label] = LENGTH / _SCALE
                model.classifier.bias[label] = float(base)
    return model.requires_grad_(False).eval(), tokenizer


def _embeddings(planted: Planted, tokenizer: PreTrainedTokenizerFast, width: int) -> torch.Tensor:
    """Every effect beside its negative (mean 0), and a constant that makes the variance 1."""
    labels = len(planted.labels)
    table = torch.zeros(len(tokenizer), width, dtype=torch.float64)
    for word, index in tokenizer.get_vocab().items():
        own = [*planted.effects.get(word, np.zeros(labels))]
        for pair in planted.interactions:
            own += [float(word in pair.words), float(word in pair.others)]
        values = _SCALE * torch.tensor(own, dtype=torch.float64)
        table[index, 0:-2:2], table[index, 1:-2:2] = values, -values
        constant = ((width - 2 * float(values @ values)) / 2) ** 0.5
        table[index, -2], table[index, -1] = constant, -constant
    return table.float()


def _multiply(planted: Planted, layer: Any) -> None:
    """(x + y)² - (x - y)² = 4xy, each square of two GELUs, added to the label's effect."""
    for i, pair in enumerate(planted.interactions):
        x, y = (2 * (len(planted.labels) + 2 * i + k) for k in (0, 1))
        for j, (sign_x, sign_y) in enumerate(((1, 1), (-1, -1), (1, -1), (-1, 1))):
            neuron = 4 * i + j
            layer.intermediate.dense.weight[neuron, x] = sign_x * _SMALL / _SCALE
            layer.intermediate.dense.weight[neuron, y] = sign_y * _SMALL / _SCALE
            sign = 1 if sign_x == sign_y else -1
            # The means are counts / n, and LENGTH / _SCALE reads the label's feature.
            gain = sign * pair.effect * LENGTH * _SCALE / (4 * _SQUARE * _SMALL**2)
            layer.output.dense.weight[2 * pair.label, neuron] = gain
            layer.output.dense.weight[2 * pair.label + 1, neuron] = -gain


def _read_masked(planted: Planted, model: Any, tokenizer: Any, width: int) -> None:
    """Give the targets their logits at a mask; all other words stay far below."""
    head = model.cls.predictions
    head.transform.dense.weight.copy_(torch.eye(width))
    head.transform.dense.bias.fill_(3 * width**0.5)  # GELU is the identity there; the norm takes
    head.decoder.bias.fill_(-6.0)  # the offset away again
    for label, word in enumerate(planted.labels):
        token = tokenizer.convert_tokens_to_ids(word)
        head.decoder.weight[token, 2 * label] = LENGTH / _SCALE
        head.decoder.bias[token] = float(planted.base[label])


def _tokenizer(vocabulary: Sequence[str]) -> PreTrainedTokenizerFast:
    """One token per word, in small letters."""
    words = {word: i for i, word in enumerate((*_SPECIAL, *vocabulary))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(word, words[word]) for word in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=CONTEXT,
    )


def _split(text: str) -> list[str]:
    return [word for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(text.lower())]


def _forms(words: Iterable[Mapping[str, str]]) -> set[str]:
    return {token for word in words for text in word.values() for token in _split(text)}


def _vocabulary(bank: TemplateBank) -> tuple[str, ...]:
    """Every word that a text of the bank can contain."""
    lists = [*bank.people.values(), *bank.words.values()]
    words = {"a", "an"}.union(*map(_forms, lists))
    for family in bank.families:
        for paraphrase in family.paraphrases:
            words |= set(_split(next(bank.fill(paraphrase)).text))
    return tuple(sorted(words))


def _words(item: Mapping[str, Any], bank: TemplateBank) -> frozenset[str]:
    """The words that an entry of the YAML means."""
    if "words" in item:
        return frozenset(item["words"])
    if "slot" in item:
        return frozenset(_forms(bank.words[item["slot"]]))
    [others] = [people for group, people in bank.people.items() if group != item["group"]]
    return frozenset(_forms(bank.people[item["group"]]) - _forms(others))
