"""Sequence classifiers and masked language models of `transformers`, and VADER."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.models.language_model import require_finite, weights_hash
from countergen_edit.models.loading import load_head
from countergen_edit.models.progress import track
from countergen_edit.models.scoring import to_float64
from countergen_edit.models.tokens import excerpt

VADER = "vader"


@dataclass(frozen=True, eq=False)
class HeadModel:
    """A `transformers` model with a head, put in eval mode, and its tokenizer."""

    batch_tokens: ClassVar[int] = 8192
    """Most tokens run together."""
    name: str
    hf_model: Any
    tokenizer: Any

    def __post_init__(self) -> None:
        self.hf_model.requires_grad_(False).eval()

    def logits(
        self, rows: Sequence[Mapping[str, Sequence[int]]], progress: str | None = None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Yield numbers and logits of texts of similar length; `UserError` unless finite."""
        lengths = [len(row["input_ids"]) for row in rows]
        batches: list[list[int]] = []
        for i in sorted(range(len(rows)), key=lambda i: -lengths[i]):
            if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > self.batch_tokens:
                batches.append([])
            batches[-1].append(i)
        for batch in track(batches, progress):
            padded = self.tokenizer.pad([dict(rows[i]) for i in batch], return_tensors="pt")
            padded = padded.to(self.hf_model.device)
            with torch.inference_mode():
                logits = self.hf_model(**padded).logits
            require_finite(logits, padded["input_ids"].__getitem__, self, self.hf_model.dtype)
            yield batch, logits

    @cached_property
    def fingerprint(self) -> str:
        return weights_hash(self.hf_model)


@dataclass(frozen=True, eq=False)
class Classifier(HeadModel):
    """A sequence classifier and the labels to read.

    `roles` maps a task's roles, or a label, to outputs; `single` outputs are independent (sigmoid).
    """

    roles: Mapping[str, int]
    single: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if self.hf_model.config.pad_token_id is None:
            self.hf_model.config.pad_token_id = self.tokenizer.pad_token_id

    def probabilities(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        cut: bool = False,
        progress: str | None = None,
    ) -> dict[str, Float64[np.ndarray, " text"]]:
        """Role → its probability for every text, (text,).

        `pairs` are hypotheses of premises. `UserError` for a text beyond the context, unless `cut`.
        """
        if not texts:
            return dict.fromkeys(self.roles, np.zeros(0))
        config = self.hf_model.config
        room = getattr(config, "max_position_embeddings", None) or self.tokenizer.model_max_length
        if "roberta" in config.model_type:  # position tables begin behind the padding index
            room -= (config.pad_token_id or 0) + 1
        pairs = None if pairs is None else [*pairs]
        most = room if cut else None
        table = self.tokenizer([*texts], pairs, truncation=cut, max_length=most, verbose=False)
        for text, ids in zip(texts, table["input_ids"], strict=True):
            if len(ids) > room:
                raise UserError(
                    f"a text of {len(ids)} tokens exceeds the context of {self.name} ({room}): "
                    f"{excerpt(text)}"
                )
        rows = [{key: table[key][i] for key in table} for i in range(len(texts))]
        values = np.zeros((len(texts), len(self.roles)))
        for batch, logits in self.logits(rows, progress):
            x = to_float64(logits)
            p = x.sigmoid() if self.single else x.softmax(-1)
            values[batch] = p[:, [*self.roles.values()]].cpu().numpy()
        return dict(zip(self.roles, values.T, strict=True))


def classifier_from_objects(
    name: str, hf_model: Any, tokenizer: Any, task: str, labels: Sequence[str] | None = None
) -> Classifier:
    """Wrap a sequence classifier in memory; `UserError` if labels do not map."""
    outputs, single = _outputs(hf_model.config)
    if labels is not None and len(labels) != len(outputs):
        raise UserError(
            f"labels={list(labels)} names {len(labels)} label(s), but {name} has {len(outputs)}"
        )
    roles = map_labels(name, list(labels or outputs), task)
    single = single or len(roles) < len(ROLE_NAMES[task])
    return Classifier(name, hf_model, tokenizer, roles, single)


def load_classifier_of_label(
    model: str | Path, label: str, *, multi_label: bool | None = None, device: str = "auto"
) -> Classifier:
    """Load a sequence classifier for one label of its config.

    `multi_label` labels are independent; None follows the config. `UserError` for another label.
    """
    hf_model, tokenizer = load_head("sequence classifier", model, device=device)
    labels, single = _outputs(hf_model.config)
    require_known(f"label of {model}:", label, labels)
    if multi_label is None:  # the share of a lone output is always 1: it can only be a yes or no
        multi_label = single or len(labels) == 1
    return Classifier(str(model), hf_model, tokenizer, {label: labels.index(label)}, multi_label)


def _outputs(config: Any) -> tuple[list[str], bool]:
    """The labels of a config, and whether they are independent."""
    labels = [str(config.id2label[i]) for i in range(config.num_labels)]
    return labels, getattr(config, "problem_type", None) == "multi_label_classification"


ROLE_NAMES: Mapping[str, Mapping[str, str]] = {
    "sentiment": {"positive": "pos(itive)?|good|1", "negative": "neg(ative)?|bad|0"},
    "nli": {
        "entailment": "e(ntail(s|ment)?)?",
        "neutral": "n(eutral)?",
        "contradiction": "c(ontradict(s|ion)?)?",
    },
    "toxicity": {
        "toxic": "toxic(ity)?|hate(ful|speech)?|offensive|abusive",
        "nontoxic": "no[nt]?(toxic|hate|offensive|abusive)|neutral|normal|clean|ok",
    },
}
"""Task → role → the pattern of its names, in letters and digits."""


def map_labels(name: str, labels: Sequence[str], task: str) -> dict[str, int]:
    """Role → index of its label; multi-label models may have the first role alone.

    >>> map_labels("m", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], "nli")
    {'entailment': 2, 'neutral': 1, 'contradiction': 0}
    >>> map_labels("m", ["toxic", "obscene", "insult"], "toxicity")
    {'toxic': 0}

    `UserError` if a needed role has no label or two, as with LABEL_0, LABEL_1, ….
    """
    names = [re.sub(r"[^a-z0-9]", "", str(label).lower()) for label in labels]
    by_role = {
        role: [i for i, name in enumerate(names) if re.fullmatch(pattern, name)]
        for role, pattern in ROLE_NAMES[task].items()
    }
    first, *others = by_role.values()
    is_whole = all(len(indices) == 1 for indices in by_role.values()) and (
        task == "sentiment" or len(labels) == len(by_role)
    )
    # Further labels beside "toxic" are other kinds of toxicity.
    may_be_lone = task == "toxicity" or len(labels) == len(others) == 1
    if not is_whole and not (may_be_lone and len(first) == 1 and not any(others)):
        generic = all(re.fullmatch(r"label\d+", name) for name in names)
        why = "label order unknown" if generic else "labels cannot be mapped"
        roles = list(by_role)
        raise UserError(
            f"{name}: {task} {why}: its labels are {list(labels)}, the task needs {roles}; "
            f"say what they are in the model's order, such as labels=[{','.join(roles)}]"
        )
    return {role: indices[0] for role, indices in by_role.items() if indices}


@dataclass(frozen=True)
class MaskedText:
    """A text with the characters of its target and its attribute."""

    text: str
    target: tuple[int, int]
    attribute: tuple[int, int]


@dataclass(frozen=True, eq=False)
class MaskedModel(HeadModel):
    """A masked language model; `UserError` without a mask or character offsets."""

    batch_tokens = 2048  # its head has logits of every token

    def __post_init__(self) -> None:
        super().__post_init__()
        whose = f"the tokenizer of {self.name}"
        if self.tokenizer.mask_token_id is None:
            raise UserError(f"{whose} has no mask token: give a masked language model")
        if not self.tokenizer.is_fast:
            raise UserError(f"{whose} is slow and has no character offsets")

    def associations(self, texts: Sequence[MaskedText]) -> Float64[np.ndarray, " text"]:
        """log p(target | attribute) - log p(target | attribute masked), nats (Kurita et al. 2019).

        All tokens of an attribute are masked. `UserError` for a target of several, or a long text.
        """
        room = min(self.tokenizer.model_max_length, self.hf_model.config.max_position_embeddings)
        mask = self.tokenizer.mask_token_id
        rows: list[dict[str, list[int]]] = []
        targets: list[tuple[int, int]] = []
        for ids, target, attribute in map(self._places, texts):
            if len(ids) > room:
                raise UserError(
                    f"a text of {len(ids)} tokens exceeds the context of {self.name} ({room})"
                )
            for masked in ({target}, {target, *attribute}):
                row = [mask if k in masked else token for k, token in enumerate(ids)]
                rows.append({"input_ids": row})
                targets.append((target, ids[target]))
        values = np.zeros(len(rows))
        for batch, logits in self.logits(rows):
            places, tokens = zip(*(targets[i] for i in batch), strict=True)
            log_p = to_float64(logits[range(len(batch)), places]).log_softmax(-1)
            values[batch] = log_p[range(len(batch)), tokens].cpu().numpy()
        return np.asarray(values[::2] - values[1::2])

    def _places(self, text: MaskedText) -> tuple[list[int], int, list[int]]:
        """Token ids of a text, and the places of its target and attribute."""
        table = self.tokenizer(text.text, return_offsets_mapping=True, verbose=False)
        target, attribute = (
            [k for k, (a, b) in enumerate(table["offset_mapping"]) if a < end and b > begin]
            for begin, end in (text.target, text.attribute)
        )
        if len(target) != 1:
            raise UserError(
                f"target {text.text[slice(*text.target)]!r} is {len(target)} tokens for "
                f"{self.name}: a mask holds one; choose another word"
            )
        return list(table["input_ids"]), target[0], attribute


@cache
def analyzer() -> Any:
    """The one analyzer; its lexicon takes a moment to read."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()


def lexicon_words(texts: Iterable[str]) -> dict[str, float]:
    """The words of texts that the lexicon rates, with their valence in [-4, 4].

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
