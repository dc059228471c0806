"""Load a causal language model, or an encoder-decoder one, by hub id, directory or GGUF file.

In: ``model=``, ``device=``, ``dtype=``. Out: a `LanguageModel` in eval mode, without gradients.
Refused in one line: a model that is not there, generates no text (a classifier would boot as a
language model with a random head), lacks weights or a tokenizer, or that TransformerBridge does not
know; a device or dtype that does not exist here.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from countergen_edit.errors import UserError, unknown
from countergen_edit.locating import Location, locate
from countergen_edit.models.bos import Bos, set_bos
from countergen_edit.models.gguf import alone, read_header
from countergen_edit.models.language_model import LanguageModel, from_pretrained_objects
from countergen_edit.models.templates import NONE, in_template
from countergen_edit.models.weights import first_line, read_weights
from countergen_edit.typed import require

_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}
_DEVICES = ("auto", "cpu", "cuda", "mps")


def load(
    model: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    device_map: str | None = None,
    revision: str | None = None,
    bos: Bos = "auto",
    template: str = NONE,
    instruction: str | None = None,
) -> LanguageModel:
    """Load `model` with plain `transformers`, then wrap it in a TransformerBridge.

    Args:
        model: A directory written by `save_pretrained`, a GGUF file, or a hub id.
        device: "auto" takes a CUDA device where there is one, else the CPU.
        dtype: Of the weights: float32, float16, bfloat16 or float64.
        device_map: Spread a large model over devices ("auto", "balanced", …) instead of `device`.
        revision: Branch, tag or commit of a hub model.
        bos: Whether texts begin with the beginning-of-text token; "auto" leaves that to the model's
            own tokenizer.
        template: Whether texts stand in the chat template, as the beginning of the model's reply:
            "none", "auto" (where it has one) or "chat".
        instruction: What a user says there; None takes `INSTRUCTION`.
    """
    if dtype not in _DTYPES:
        raise unknown("dtype", dtype, _DTYPES)
    if device_map is not None and device != "auto":
        raise UserError(f"device={device} and device_map={device_map} exclude each other: give one")
    target = device_named(device)
    hf_model, tokenizer = load_plain(model, dtype, device_map, revision)
    set_bos(tokenizer, bos, str(model))
    if device_map is None:
        hf_model.to(target)
    loaded = from_pretrained_objects(str(model), hf_model, tokenizer)
    return in_template(loaded, template, instruction)


def load_plain(
    model: str | Path, dtype: str, device_map: str | None = None, revision: str | None = None
) -> tuple[Any, Any]:
    """The model and tokenizer of `transformers` that `load` wraps, under the same checks."""
    place = locate(model, revision)
    header = read_header(place.gguf) if place.gguf else None

    # First, because importing it silences the transformers logger, and with it the report of
    # missing weights that is read here from `output_loading_info` instead.
    import transformer_lens  # noqa: F401
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    with alone(place) as location:
        architecture = _architecture(location)
        kind = (
            AutoModelForSeq2SeqLM if architecture in _encoder_decoders() else AutoModelForCausalLM
        )
        tokenizer = load_tokenizer(location)
        hf_model = read_weights(kind, location, _DTYPES[dtype], device_map)
    if header:
        header.settle(hf_model, tokenizer)
    return hf_model, tokenizer


@dataclasses.dataclass(frozen=True)
class Head:
    """A kind of model that answers instead of continuing: what it is and which classes have it."""

    what: str
    example: str
    auto: str
    """Class of transformers that loads it."""
    classes: str
    """Name of the table of transformers that lists its classes."""


def load_head(
    head: Head,
    model: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    revision: str | None = None,
) -> tuple[Any, Any]:
    """Load a model with a head, and its tokenizer, under the checks of `load`.

    Raises:
        UserError: as `load`; a model without that head is refused, as its head would be random.
    """
    import transformers
    from transformers.models.auto import modeling_auto

    if dtype not in _DTYPES:
        raise unknown("dtype", dtype, _DTYPES)
    target = device_named(device)
    location = locate(model, revision)
    config = read_config(location)
    name = str((config.architectures or [config.model_type])[0])
    if name not in getattr(modeling_auto, head.classes).values():
        raise UserError(
            f"{location} is a {name}, not a {head.what}: give one such as a {head.example}"
        )
    tokenizer = load_tokenizer(location)
    hf_model = read_weights(getattr(transformers, head.auto), location, _DTYPES[dtype])
    return hf_model.to(target).requires_grad_(False).eval(), tokenizer


def device_named(device: str) -> torch.device:
    """The device of a setting."""
    cuda = torch.cuda.is_available()
    if device == "auto":
        return torch.device("cuda" if cuda else "cpu")
    kind, _, index = device.partition(":")
    if kind not in _DEVICES[1:] or (index and not index.isdigit()):
        raise unknown("device", device, _DEVICES)
    usable = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if cuda else 0,
        "mps": int(torch.backends.mps.is_available()),
    }[kind]
    if int(index or 0) >= usable:
        raise UserError(f"device={device} is not available here: use device=auto or device=cpu")
    return torch.device(device)


def _architecture(location: Location) -> str:
    """The model's class name, once it is known to generate text and to fit into the bridge."""
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    from transformers.models.auto import modeling_auto

    config = read_config(location)
    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    default = causal.get(config.model_type)
    name = str((config.architectures or [default or config.model_type])[0])
    # A bare base model passes: its output matrix may be tied, and if not it is found missing.
    bases = modeling_auto.MODEL_MAPPING_NAMES.values()
    continues = default is not None and (name in causal.values() or name in bases)
    if not continues and name not in _encoder_decoders():
        raise UserError(
            f"{location} is a {name}, not a causal language model: give one that continues text "
            "(…ForCausalLM, …LMHeadModel), or an encoder-decoder one (…ForConditionalGeneration)"
        )
    encoder = config.num_hidden_layers
    decoder = getattr(config, "decoder_layers", getattr(config, "num_decoder_layers", encoder))
    if name in _encoder_decoders() and encoder != decoder:
        raise UserError(
            f"{location} has {encoder} encoder and {decoder} decoder layers: TransformerBridge "
            "wraps encoder-decoder models with as many of one as of the other"
        )
    if name not in SUPPORTED_ARCHITECTURES and default not in SUPPORTED_ARCHITECTURES:
        raise UserError(
            f"unknown architecture {name} in {location}: TransformerBridge has no adapter for it"
        )
    return name


def _encoder_decoders() -> frozenset[str]:
    """The classes that read a text in an encoder and write another in a decoder."""
    from transformers.models.auto import modeling_auto

    return frozenset(modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.values())


def read_config(location: Location) -> Any:
    """A model's config, of a kind that transformers has code for."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

    try:
        content = PreTrainedConfig.get_config_dict(location.name, **location.options)[0]
        require(dict[str, Any], content, f"config.json of {location}")
        kind, config = content.get("model_type"), None
        if kind in CONFIG_MAPPING:
            config = AutoConfig.from_pretrained(location.name, **location.options)
    except UserError:
        raise
    except (OSError, ValueError, KeyError, TypeError, StrictDataclassError) as error:
        raise UserError(f"cannot read the config of {location}: {first_line(error)}") from error
    if config is None and "auto_map" in content:
        raise UserError(
            f"{location} is a {kind} with code of its own, which is not run here; what "
            "`countergen-edit edit` saved is read by countergen_edit.checkpoints.load_checkpoint"
        )
    if config is None:
        raise UserError(f"unknown architecture {kind!r} in {location}: transformers has no such")
    return config


def load_tokenizer(location: Location) -> Any:
    """The tokenizer that lies beside a model."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            location.name, trust_remote_code=False, **location.options
        )
    except Exception as error:  # it fails in as many ways as there are tokenizers
        raise UserError(
            f"no usable tokenizer in {location} ({first_line(error)}): save it there with "
            "tokenizer.save_pretrained"
        ) from error
    # transformers 5 builds one of special tokens only where the files are missing.
    if not set(tokenizer.get_vocab()) - set(tokenizer.get_added_vocab()):
        raise UserError(f"no tokenizer in {location}: save it there with tokenizer.save_pretrained")
    return tokenizer
