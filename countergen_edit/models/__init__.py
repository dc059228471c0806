"""Language models: loading, likelihoods, activations and text.

Everything runs the model that `LanguageModel.bridge` wraps, so a hook attached there is active in
all of it. Log-probabilities are float64 in nats, activations float32 ``[layer, row, d_model]``.
Encoder-decoder models give continuations only, served models (`connect`) no activations.
"""

from countergen_edit.models.capture import SITES as SITES
from countergen_edit.models.capture import capture as capture
from countergen_edit.models.capture import hook_name as hook_name
from countergen_edit.models.contrastive import ContrastiveScores as ContrastiveScores
from countergen_edit.models.contrastive import check_contrasts as check_contrasts
from countergen_edit.models.contrastive import contrastive_generate as contrastive_generate
from countergen_edit.models.contrastive import token_texts as token_texts
from countergen_edit.models.generation import generate as generate
from countergen_edit.models.language_model import LanguageModel as LanguageModel
from countergen_edit.models.language_model import from_pretrained_objects as from_pretrained_objects
from countergen_edit.models.loading import Bos as Bos
from countergen_edit.models.loading import MaxMemory as MaxMemory
from countergen_edit.models.loading import load_model as load_model
from countergen_edit.models.memory import announce_memory as announce_memory
from countergen_edit.models.memory import reductions_kept as reductions_kept
from countergen_edit.models.memory import return_memory as return_memory
from countergen_edit.models.resumption import Scratch as Scratch
from countergen_edit.models.resumption import resuming as resuming
from countergen_edit.models.scoring import TextScores as TextScores
from countergen_edit.models.scoring import continuation_log_probs as continuation_log_probs
from countergen_edit.models.scoring import text_log_probs as text_log_probs
from countergen_edit.models.served import connect as connect
from countergen_edit.models.tokens import check_texts as check_texts
from countergen_edit.models.tokens import encode as encode
from countergen_edit.models.tokens import encode_replies as encode_replies
from countergen_edit.models.tokens import first_read as first_read
from countergen_edit.models.tokens import in_template as in_template
from countergen_edit.models.tokens import lengths as lengths
from countergen_edit.models.tokens import opens_texts as opens_texts
from countergen_edit.models.tokens import preface_ids as preface_ids
from countergen_edit.models.tokens import replying as replying
from countergen_edit.models.tokens import split_names as split_names
