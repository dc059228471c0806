"""Classifier testbeds: a BERT for each template task, with exact weights instead of training.

`classifiers.yaml` lists the planted effects. Attention gives every position the mean of the word
embeddings; the GELUs multiply two such means (gelu(x) + gelu(-x) ≈ √(2/π) x² for small x); a large
constant in each embedding makes layer norm change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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
_SQUARE = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class Interaction:
    """An effect of a word together with another one."""

    words: frozenset[str]
    others: frozenset[str]
    label: int
    effect: float


@dataclass(frozen=True)
class PlantedBert:
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


def plant(bank: TemplateBank, *, biased: bool = True) -> PlantedBert:
    """The planted effects of a task, over the words of its templates.

    `biased` treats groups differently. `UserError` for other tasks.
    """
    config = shipped_yaml(Path(__file__).with_name("classifiers.yaml"))
    require_known("task", bank.task, config)
    entry = config[bank.task]
    rng = generator(0, "classifier", bank.task)
    labels = tuple(entry["labels"])
    effects: dict[str, Float64[np.ndarray, " label"]] = {}
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
    base = np.array([entry["base"].get(label, 0.0) for label in labels])
    vocabulary = {"a", "an", *_forms([*bank.people.values(), *bank.words.values()])}
    for family in bank.families:
        for template in family.paraphrases:
            vocabulary.update(_split(next(bank.fill(template)).text))
    return PlantedBert(bank.task, labels, base, effects, interactions, tuple(sorted(vocabulary)))


def build(planted: PlantedBert) -> tuple[Any, PreTrainedTokenizerFast]:
    """The model and tokenizer with the planted logits, to within 0.01."""
    tokenizer = _tokenizer(planted.vocabulary)
    vocabulary = tokenizer.get_vocab()
    pairs = planted.interactions
    features = len(planted.labels) + 2 * len(pairs)
    width = 2 * features + 2
    is_masked = planted.task == "masked"
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4 * max(1, len(pairs)),
        max_position_embeddings=CONTEXT,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
        id2label=dict(enumerate(planted.labels)),
        label2id={label: i for i, label in enumerate(planted.labels)},
        tie_word_embeddings=False,
    )
    model: Any = (BertForMaskedLM if is_masked else BertForSequenceClassification)(config)
    effects = torch.eye(width)
    effects[2 * features :] = 0  # attention leaves the constant where it is
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "LayerNorm.weight" in name else 0.0)
        layer = model.bert.encoder.layer[0]
        model.bert.embeddings.word_embeddings.weight.copy_(_embeddings(planted, vocabulary, width))
        layer.attention.self.value.weight.copy_(effects)
        layer.attention.output.dense.weight.copy_(torch.eye(width))
        # (x + y)² - (x - y)² = 4xy, each square of two GELUs, added to the label's effect.
        for i, pair in enumerate(pairs):
            x = 2 * (len(planted.labels) + 2 * i)
            # The means are counts / n, and LENGTH / _SCALE reads the label's feature.
            gain = pair.effect * LENGTH * _SCALE / (4 * _SQUARE * _SMALL**2)
            of_label = slice(2 * pair.label, 2 * pair.label + 2)
            sides = torch.tensor([gain, -gain])
            for j, signs in enumerate(((1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0))):
                weights = torch.tensor(signs) * (_SMALL / _SCALE)
                layer.intermediate.dense.weight[4 * i + j, [x, x + 2]] = weights
                layer.output.dense.weight[of_label, 4 * i + j] = math.prod(signs) * sides
        rows: Iterable[int] = range(len(planted.labels))
        if is_masked:  # the targets get their logits at a mask; all other words stay far below
            rows = map(vocabulary.__getitem__, planted.labels)
            transform, read = model.cls.predictions.transform.dense, model.cls.predictions.decoder
            transform.weight.copy_(torch.eye(width))
            transform.bias.fill_(3 * width**0.5)  # GELU is the identity there; the norm takes the
            read.bias.fill_(-6.0)  # offset away again
        else:
            model.bert.pooler.dense.weight.copy_(effects)
            read = model.classifier
        for label, row in enumerate(rows):
            read.weight[row, 2 * label] = LENGTH / _SCALE
            read.bias[row] = float(planted.base[label])
    return model.requires_grad_(False).eval(), tokenizer


def _embeddings(planted: PlantedBert, vocabulary: Mapping[str, int], width: int) -> torch.Tensor:
    """Every effect and its negative (mean 0), and a constant that makes the variance 1."""
    table = np.zeros((len(vocabulary), width))
    for word, index in vocabulary.items():
        features = [*planted.effects.get(word, np.zeros(len(planted.labels)))]
        for pair in planted.interactions:
            features += [float(word in pair.words), float(word in pair.others)]
        values = _SCALE * np.array(features)
        values = np.append(values, np.sqrt(width / 2 - values @ values))
        table[index, ::2], table[index, 1::2] = values, -values
    return torch.from_numpy(table).float()


def _tokenizer(vocabulary: Iterable[str]) -> PreTrainedTokenizerFast:
    """One token per word, in small letters."""
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    words = {word: i for i, word in enumerate((*names.values(), *vocabulary))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(word, words[word]) for word in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, model_max_length=CONTEXT, **names
    )


def _split(text: str) -> list[str]:
    return [word for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(text.lower())]


def _forms(lists: Iterable[Iterable[Mapping[str, str]]]) -> set[str]:
    """The tokens of all forms of the words of lists."""
    forms = (text for words in lists for word in words for text in word.values())
    return {token for text in forms for token in _split(text)}


def _words(item: Mapping[str, Any], bank: TemplateBank) -> frozenset[str]:
    if "words" in item:
        return frozenset(item["words"])
    if "slot" in item:
        return frozenset(_forms([bank.words[item["slot"]]]))
    others = [people for group, people in bank.people.items() if group != item["group"]]
    return frozenset(_forms([bank.people[item["group"]]]) - _forms(others))
