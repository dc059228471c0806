"""Language models: loading, likelihoods, activations and text.

In: a hub id, a directory, or a model object. Out: a `LanguageModel`, and from it log-probabilities
(float64), activations ``[layer, row, d_model]`` (float32) and continuations. Everything runs the
model that `LanguageModel.bridge` wraps, so a hook attached there is active in all of it.
Refused: a model that generates no text, and text longer than the context. Of an encoder-decoder
model there are continuations, and likelihoods of replies to what it has read, alone; of one that a
server runs (`connect`) no activations.
"""

from countergen_edit.models.asked import Asked
from countergen_edit.models.batching import Batch
from countergen_edit.models.bos import Bos
from countergen_edit.models.capture import Activations, capture
from countergen_edit.models.contrastive import (
    Contrasted,
    ContrastiveScores,
    check_contrasts,
    contrastive_generate,
    token_texts,
)
from countergen_edit.models.distributions import (
    after_preface,
    batches,
    divergence,
    log_probs,
)
from countergen_edit.models.float64 import log_likelihood
from countergen_edit.models.generation import generate
from countergen_edit.models.language_model import (
    INSTRUCTION,
    NAMES_CODE,
    Chat,
    LanguageModel,
    from_pretrained_objects,
)
from countergen_edit.models.loading import load
from countergen_edit.models.own_text import written
from countergen_edit.models.resumption import ResumingModel, resuming
from countergen_edit.models.scoring import TextScores, continuation_log_probs, text_log_probs
from countergen_edit.models.scratch import Scratch
from countergen_edit.models.served import ServedModel, connect
from countergen_edit.models.sites import SITES, hook_name
from countergen_edit.models.templates import TEMPLATES, in_template
from countergen_edit.models.tokens import (
    Encoding,
    encode,
    encode_replies,
    first_read,
    lengths,
    opens_texts,
    preface_ids,
    split_names,
)

__all__ = [
    "INSTRUCTION",
    "NAMES_CODE",
    "SITES",
    "TEMPLATES",
    "Activations",
    "Asked",
    "Batch",
    "Bos",
    "Chat",
    "Contrasted",
    "ContrastiveScores",
    "Encoding",
    "LanguageModel",
    "ResumingModel",
    "Scratch",
    "ServedModel",
    "TextScores",
    "after_preface",
    "batches",
    "capture",
    "check_contrasts",
    "connect",
    "continuation_log_probs",
    "contrastive_generate",
    "divergence",
    "encode",
    "encode_replies",
    "first_read",
    "from_pretrained_objects",
    "generate",
    "hook_name",
    "in_template",
    "lengths",
    "load",
    "log_likelihood",
    "log_probs",
    "opens_texts",
    "preface_ids",
    "resuming",
    "split_names",
    "text_log_probs",
    "token_texts",
    "written",
]
