"""Sequence classifiers: the probability of a label of a task or by name; and VADER."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float64, Int

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.models.encoders import HeadModel
from countergen_edit.models.loading import load_head
from countergen_edit.models.progress import track
from countergen_edit.models.scoring import to_float64
from countergen_edit.models.tokens import excerpt

if TYPE_CHECKING:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer


BATCH_TOKENS = 8192
VADER = "vader"


@dataclass(frozen=True, eq=False)
class Classifier(HeadModel):
    """A sequence classifier and the labels to read.

    `roles` maps a task's roles, or a label, to outputs; `single` outputs are independent (sigmoid).
    """

    roles: Mapping[str, int]
    single: bool

    def encoded(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, cut: bool = False
    ) -> list[dict[str, list[int]]]:
        """Model inputs of texts, or pairs of texts; `UserError` beyond the context unless `cut`."""
        if not texts:
            return []
        longest, config = self.tokenizer.model_max_length, self.hf_model.config
        if positions := getattr(config, "max_position_embeddings", None):
            longest = positions
        if "roberta" in config.model_type:  # position tables begin behind the padding index
            longest -= (config.pad_token_id or 0) + 1
        encode = functools.partial(
            self.tokenizer, list(texts), list(pairs) if pairs is not None else None
        )
        table = encode(truncation=False, verbose=False)
        too_long = [i for i, ids in enumerate(table["input_ids"]) if len(ids) > longest]
        if too_long and cut:
            table = encode(truncation=True, max_length=longest)
        elif too_long:
            length = len(table["input_ids"][too_long[0]])
            raise UserError(
                f"a text of {length} tokens exceeds the context of {self.name} ({longest}): "
                f"{excerpt(texts[too_long[0]])}"
            )
        return [{key: table[key][i] for key in table} for i in range(len(texts))]

    def answers(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None
    ) -> Int[np.ndarray, " text"]:
        """The label of every text; of a lone label, whether it applies."""
        first, *others = self.probabilities(texts, pairs).values()
        if not others:
            return (first > 0.5).astype(np.int64)
        return np.asarray(np.stack([first, *others]).argmax(axis=0))

    def probabilities(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        cut: bool = False,
        progress: str | None = None,
    ) -> dict[str, Float64[np.ndarray, " text"]]:
        """Role → its probability for every text, (text,).

        `pairs` are the hypotheses of premises; `cut` truncates texts beyond the context, which
        otherwise raise a `UserError`.
        """
        rows = self.encoded(texts, pairs, cut)
        values = np.zeros((len(texts), len(self.roles)))
        for batch in track(_batches([len(row["input_ids"]) for row in rows]), progress):
            padded = self.tokenizer.pad([rows[i] for i in batch], return_tensors="pt")
            with torch.inference_mode():
                logits = to_float64(self.logits(padded))
            p = logits.sigmoid() if self.single else logits.softmax(-1)
            values[batch] = p[:, list(self.roles.values())].cpu().numpy()
        return dict(zip(self.roles, values.T, strict=True))


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Rows of similar length together, longest first."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def load_classifier(
    model: str | Path, task: str, *, labels: Sequence[str] | None = None, **where: Any
) -> Classifier:
    """Load a sequence classifier for a task, "sentiment", "nli" or "toxicity".

    `labels` names the model's outputs in order, where its config does not; `where` holds device,
    dtype and revision as for `load`.
    """
    hf_model, tokenizer = load_head("sequence classifier", model, **where)
    return classifier_from_objects(str(model), hf_model, tokenizer, task, labels)


def classifier_from_objects(
    name: str, hf_model: Any, tokenizer: Any, task: str, labels: Sequence[str] | None = None
) -> Classifier:
    """Wrap a sequence classifier in memory; `UserError` if labels do not map."""
    known, is_multi_label = _outputs(hf_model.config)
    if labels is not None and len(labels) != len(known):
        raise UserError(
            f"labels={list(labels)} names {len(labels)} label(s), but {name} has {len(known)}"
        )
    roles = map_labels(name, list(labels or known), task)
    single = is_multi_label or len(roles) < len(LABELS[task])
    return _wrapped(name, hf_model, tokenizer, roles, single)


def load_classifier_of_label(
    model: str | Path, label: str, *, multi_label: bool | None = None, device: str = "auto"
) -> Classifier:
    """Load a sequence classifier for one label of its config.

    `multi_label` labels are independent; None follows the config. `UserError` for another label.
    """
    hf_model, tokenizer = load_head("sequence classifier", model, device=device)
    known, is_multi_label = _outputs(hf_model.config)
    require_known(f"label of {model}:", label, known)
    if multi_label is None:  # the share of a lone output is always 1: it can only be a yes or no
        multi_label = is_multi_label or len(known) == 1
    return _wrapped(str(model), hf_model, tokenizer, {label: known.index(label)}, multi_label)


def _outputs(config: Any) -> tuple[list[str], bool]:
    """The labels of a config, and whether they are independent."""
    labels = [str(config.id2label[i]) for i in range(config.num_labels)]
    return labels, getattr(config, "problem_type", None) == "multi_label_classification"


def _wrapped(
    name: str, hf_model: Any, tokenizer: Any, roles: Mapping[str, int], single: bool
) -> Classifier:
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if hf_model.config.pad_token_id is None:
        hf_model.config.pad_token_id = tokenizer.pad_token_id
    return Classifier(name, hf_model.requires_grad_(False).eval(), tokenizer, roles, single)


LABELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sentiment": {
        "positive": ("positive", "pos", "good", "1"),
        "negative": ("negative", "neg", "bad", "0"),
    },
    "nli": {
        "entailment": ("entailment", "entail", "entails", "e"),
        "neutral": ("neutral", "n"),
        "contradiction": ("contradiction", "contradict", "contradicts", "c"),
    },
    "toxicity": {
        "toxic": ("toxic", "toxicity", "hate", "hateful", "hatespeech", "offensive", "abusive"),
        "nontoxic": (
            *("nontoxic", "nottoxic", "neutral", "nothate", "nonhate", "nohate", "normal"),
            *("notoffensive", "nonoffensive", "nonabusive", "notabusive", "clean", "ok"),
        ),
    },
}
"""Task → role → its names, in letters and digits."""


def map_labels(name: str, labels: Sequence[str], task: str) -> dict[str, int]:
    """Role → index of its label; multi-label models may have the first role alone.

    >>> map_labels("m", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], "nli")
    {'entailment': 2, 'neutral': 1, 'contradiction': 0}
    >>> map_labels("m", ["toxic", "obscene", "insult"], "toxicity")
    {'toxic': 0}

    `UserError` if a needed role has no label or two, as with LABEL_0, LABEL_1, ….
    """
    names_of = [re.sub(r"[^a-z0-9]", "", label.lower()) for label in labels]
    by_role = {
        role: [i for i, label in enumerate(names_of) if label in names]
        for role, names in LABELS[task].items()
    }
    first, *others = by_role.values()
    complete = all(len(indices) == 1 for indices in by_role.values())
    has_rest = sum(map(len, by_role.values())) < len(labels)
    is_whole = complete and (task == "sentiment" or not has_rest)
    # Further labels beside "toxic" are other kinds of toxicity.
    is_lone = len(by_role) == 2 and len(first) == 1 and not any(others)
    if not is_whole and not (is_lone and (len(labels) == 1 or task == "toxicity")):
        generic = all(re.fullmatch(r"label\d+", label) for label in names_of)
        why = "label order unknown" if generic else "labels cannot be mapped"
        roles = list(by_role)
        raise UserError(
            f"{name}: {task} {why}: its labels are {list(labels)}, the task needs {roles}; "
            f"say what they are in the model's order, such as labels=[{','.join(roles)}]"
        )
    return {role: indices[0] for role, indices in by_role.items() if indices}


@functools.cache
def analyzer() -> SentimentIntensityAnalyzer:
    """The one analyzer; its lexicon takes a moment to read."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()


def lexicon_words(texts: Iterable[str]) -> dict[str, float]:
    """The words of some texts that the lexicon rates, with their valence in [-4, 4].

    Names such as "Grace" move the score by themselves: a confound.

    >>> lexicon_words(["Grace", "Anna"])
    {'Grace': 1.8}
    """
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    lexicon = analyzer().lexicon
    return {word: float(lexicon[word.lower()]) for word in sorted(words) if word.lower() in lexicon}


class Vader:
    """VADER in place of a sentiment classifier."""

    name = VADER

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the lexicon."""
        return hashlib.sha256(repr(sorted(analyzer().lexicon.items())).encode()).hexdigest()

    def probabilities(
        self, texts: Sequence[str], *, progress: str | None = None
    ) -> dict[str, Float64[np.ndarray, " text"]]:
        """VADER's compound score, moved from [-1, 1] to [0, 1], for P(positive)."""
        scores = [analyzer().polarity_scores(text)["compound"] for text in texts]
        return {"positive": (np.array(scores, dtype=np.float64) + 1) / 2}
