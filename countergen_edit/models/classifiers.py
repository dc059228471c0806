"""Sequence classifiers: the probability of a label that a task means, or that the user names.

In: a hub id or directory, or objects in memory, and a task or a label. Out: a `Classifier`, and
from it the probabilities of texts, or of pairs of texts, in float64. Which of a model's labels a
task means is read from their names; conventions are rows of `LABELS`. Refused: labels that cannot
be told apart, above all LABEL_0, LABEL_1, …, until the user says what they are; a label that the
model lacks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from countergen_edit.errors import UserError, unknown
from countergen_edit.models.class_labels import LABELS, map_labels
from countergen_edit.models.encoders import Encoder, Hooks
from countergen_edit.models.float64 import widen
from countergen_edit.models.language_model import weights_hash
from countergen_edit.models.loading import Head, load_head
from countergen_edit.models.progress import track
from countergen_edit.models.tokens import excerpt

HEAD = Head(
    "sequence classifier",
    "…ForSequenceClassification",
    "AutoModelForSequenceClassification",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
)
BATCH_TOKENS = 8192


@dataclass(frozen=True, eq=False)
class Classifier:
    """A sequence classifier and those of its labels that are read.

    Attributes:
        name: Hub id, directory or any label.
        hf_model: The `transformers` model, in eval mode.
        tokenizer: Its tokenizer.
        roles: Role in a task, or label → index of the model's output.
        single: Whether each output is a yes or no of its own (sigmoid) instead of a share of one.
    """

    name: str
    hf_model: Any
    tokenizer: Any
    roles: Mapping[str, int]
    single: bool

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of config and weights."""
        return weights_hash(self.hf_model)

    @functools.cached_property
    def encoder(self) -> Encoder:
        """What edits attach to; with one attached the classifier answers as edited."""
        return Encoder(self.name, Hooks(self.name, self.hf_model), self.tokenizer)

    def encoded(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None
    ) -> list[dict[str, list[int]]]:
        """What the model is given of each text, or pair of texts.

        Raises:
            UserError: a text is longer than the model's context.
        """
        return _encode(self, texts, pairs, cut=False)

    def answers(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None
    ) -> Int[np.ndarray, " text"]:
        """Of every text which label it gets; of a lone one, whether it gets it."""
        values = np.stack([*self.probabilities(texts, pairs).values()])
        answers = (values[0] > 0.5).astype(np.int64) if len(values) == 1 else values.argmax(axis=0)
        return np.asarray(answers)

    def probabilities(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        cut: bool = False,
        progress: str | None = None,
    ) -> dict[str, Float64[np.ndarray, " text"]]:
        """For each role, its probability for every text.

        Args:
            texts: Texts, or premises.
            pairs: Hypotheses, one for each premise.
            cut: Whether of a text that is longer than the model's context the beginning is read.
            progress: Description of a progress bar.

        Raises:
            UserError: a text is longer than the model's context, and is not to be cut.
        """
        rows = _encode(self, texts, pairs, cut)
        values = np.zeros((len(texts), len(self.roles)))
        order = sorted(range(len(rows)), key=lambda i: (-len(rows[i]["input_ids"]), i))
        for batch in track(_batches(order, [len(row["input_ids"]) for row in rows]), progress):
            padded = self.tokenizer.pad([rows[i] for i in batch], return_tensors="pt")
            with torch.inference_mode():
                logits = self.hf_model(**padded.to(self.hf_model.device)).logits
            values[batch] = self._roles_of(widen(logits)).cpu().numpy()
        return dict(zip(self.roles, values.T, strict=True))

    def _roles_of(self, logits: Tensor) -> Tensor:
        p = logits.sigmoid() if self.single else logits.softmax(-1)
        return p[:, list(self.roles.values())]


def load_classifier(
    model: str | Path,
    task: str,
    *,
    labels: Sequence[str] | None = None,
    device: str = "auto",
    dtype: str = "float32",
    revision: str | None = None,
) -> Classifier:
    """Load a sequence classifier for a task.

    Args:
        model: A directory written by `save_pretrained`, or a hub id.
        task: `sentiment`, `nli` or `toxicity`.
        labels: What the model's outputs are, in order, where its config does not say.
        device: As for `load`.
        dtype: As for `load`.
        revision: As for `load`.
    """
    hf_model, tokenizer = load_head(HEAD, model, device=device, dtype=dtype, revision=revision)
    return classifier_from_objects(str(model), hf_model, tokenizer, task, labels)


def classifier_from_objects(
    name: str, hf_model: Any, tokenizer: Any, task: str, labels: Sequence[str] | None = None
) -> Classifier:
    """Wrap a sequence classifier in memory.

    Raises:
        UserError: the labels cannot be mapped to those of the task.
    """
    known = _labels(hf_model.config)
    if labels is not None and len(labels) != len(known):
        raise UserError(
            f"labels={list(labels)} names {len(labels)} label(s), but {name} has {len(known)}"
        )
    roles = map_labels(name, list(labels) if labels is not None else known, task)
    single = _is_multi_label(hf_model.config) or len(roles) < len(LABELS[task])
    return _wrapped(name, hf_model, tokenizer, roles, single)


def load_classifier_of_label(
    model: str | Path,
    label: str,
    *,
    multi_label: bool | None = None,
    device: str = "auto",
    dtype: str = "float32",
    revision: str | None = None,
) -> Classifier:
    """Load a sequence classifier for one of its labels, whatever it classifies.

    Args:
        model: A directory written by `save_pretrained`, or a hub id.
        label: By its name in the model's config.
        multi_label: Whether labels are independent, a yes or no each; None asks the model's config.
        device: As for `load`.
        dtype: As for `load`.
        revision: As for `load`.
    """
    hf_model, tokenizer = load_head(HEAD, model, device=device, dtype=dtype, revision=revision)
    return classifier_of_label(str(model), hf_model, tokenizer, label, multi_label)


def classifier_of_label(
    name: str, hf_model: Any, tokenizer: Any, label: str, multi_label: bool | None = None
) -> Classifier:
    """Wrap a sequence classifier in memory for one of its labels.

    Raises:
        UserError: the model has no such label; the message names the nearest.
    """
    known = _labels(hf_model.config)
    if label not in known:
        raise unknown(f"label of {name}:", label, known)
    single = multi_label
    if single is None:  # the share of a lone output is always 1: it can only be a yes or no
        single = _is_multi_label(hf_model.config) or len(known) == 1
    return _wrapped(name, hf_model, tokenizer, {label: known.index(label)}, single)


def _labels(config: Any) -> list[str]:
    return [str(config.id2label[i]) for i in range(config.num_labels)]


def _is_multi_label(config: Any) -> bool:
    return getattr(config, "problem_type", None) == "multi_label_classification"


def _wrapped(
    name: str, hf_model: Any, tokenizer: Any, roles: Mapping[str, int], single: bool
) -> Classifier:
    """The model, with what it needs to read texts of different lengths together."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if hf_model.config.pad_token_id is None:
        hf_model.config.pad_token_id = tokenizer.pad_token_id
    return Classifier(name, hf_model.requires_grad_(False).eval(), tokenizer, roles, single)


def _encode(
    model: Classifier, texts: Sequence[str], pairs: Sequence[str] | None, cut: bool
) -> list[dict[str, list[int]]]:
    if not texts:
        return []
    inputs = list(texts), list(pairs) if pairs is not None else None
    table = model.tokenizer(*inputs, truncation=False, verbose=False)
    # Position tables of RoBERTa begin behind the padding index.
    config = model.hf_model.config
    longest = getattr(config, "max_position_embeddings", None) or model.tokenizer.model_max_length
    longest -= (config.pad_token_id or 0) + 1 if "roberta" in config.model_type else 0
    if cut and any(len(ids) > longest for ids in table["input_ids"]):
        table = model.tokenizer(*inputs, truncation=True, max_length=longest)
    for text, ids in zip(texts, table["input_ids"], strict=True):
        if len(ids) > longest:
            raise UserError(
                f"a text of {len(ids)} tokens exceeds the context of {model.name} ({longest}): "
                f"{excerpt(text)}"
            )
    return [{key: table[key][i] for key in table} for i in range(len(texts))]


def _batches(order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Rows of like length together, longest first."""
    batches: list[list[int]] = []
    for i in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
