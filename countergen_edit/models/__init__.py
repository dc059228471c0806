"""Language models: loading, likelihoods, activations and text.

Everything runs the model that `LanguageModel.bridge` wraps, so a hook attached there is active in
all of it. Log-probabilities are float64 in nats, activations float32 ``[layer, row, d_model]``.
Encoder-decoder models give continuations only; served models (`connect`)
no activations.
"""

from countergen_edit.models.capture import SITES, Activations, capture, hook_name
from countergen_edit.models.contrastive import (
    Contrasted,
    ContrastiveScores,
    check_contrasts,
    contrastive_generate,
    token_texts,
)
from countergen_edit.models.generation import generate, generate_neutral_text
from countergen_edit.models.language_model import (
    NAMES_CODE,
    LanguageModel,
    from_pretrained_objects,
)
from countergen_edit.models.loading import Bos, load
from countergen_edit.models.resumption import Scratch, resuming
from countergen_edit.models.scoring import (
    TextScores,
    after_preface,
    batches,
    continuation_log_probs,
    divergence,
    log_likelihood,
    text_log_probs,
)
from countergen_edit.models.served import connect
from countergen_edit.models.tokens import (
    encode,
    encode_replies,
    first_read,
    in_template,
    lengths,
    opens_texts,
    preface_ids,
    split_names,
)

__all__ = [
    "NAMES_CODE",
    "SITES",
    "Activations",
    "Bos",
    "Contrasted",
    "ContrastiveScores",
    "LanguageModel",
    "Scratch",
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
    "generate_neutral_text",
    "hook_name",
    "in_template",
    "lengths",
    "load",
    "log_likelihood",
    "opens_texts",
    "preface_ids",
    "resuming",
    "split_names",
    "text_log_probs",
    "token_texts",
]
