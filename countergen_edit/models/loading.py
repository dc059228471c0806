"""Load a causal or encoder-decoder language model by hub id, directory or GGUF file.

What cannot be used is refused before any weights are read, such as a classifier, which would boot
as a language model with a random head.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.locating import Location, locate
from countergen_edit.core.typed import require
from countergen_edit.models.gguf import alone, read_header
from countergen_edit.models.language_model import LanguageModel, adds_bos, from_pretrained_objects
from countergen_edit.models.tokens import NONE, in_template
from countergen_edit.models.weights import first_line, read_weights

Bos = bool | str
"""Whether texts begin with BOS; `auto`, the only word, as the model's own tokenizer does."""


def set_bos(tokenizer: Any, bos: Bos, name: str) -> None:
    """Let a fast tokenizer begin texts with BOS or not, through its post-processor.

    `auto` leaves it unchanged; the change is saved with the tokenizer. `UserError` if `bos` is
    neither auto nor a boolean, the tokenizer has no BOS, or its post-processor cannot be changed.
    """
    if not isinstance(bos, bool) and bos != "auto":
        raise UserError(f"bos={bos!r}: write auto, true or false")
    if bos == "auto" or adds_bos(tokenizer) == bos:
        return
    if tokenizer.bos_token_id is None:
        raise UserError(
            f"bos=true, but the tokenizer of {name} has no beginning-of-text token: use bos=auto"
        )
    processor = tokenizer.backend_tokenizer.post_processor
    state = {} if processor is None else json.loads(processor.__getstate__())
    token, index = str(tokenizer.bos_token), int(tokenizer.bos_token_id)
    content = _with_bos(state, token, index) if bos else _without_bos(state, token)
    if content != state:
        tokenizer.backend_tokenizer.post_processor = _processor(content)
    if adds_bos(tokenizer) != bos:
        raise UserError(
            f"bos={str(bos).lower()}, but how the tokenizer of {name} begins a text "
            f"({type(processor).__name__}) cannot be changed here: use bos=auto"
        )


def _with_bos(state: dict[str, Any], token: str, index: int) -> dict[str, Any]:
    """A post-processor's state with BOS put first after its own step."""
    first = {"SpecialToken": {"id": token, "type_id": 0}}
    a, b = ({"Sequence": {"id": text, "type_id": i}} for i, text in enumerate("AB"))
    template = {
        "type": "TemplateProcessing",
        "single": [first, a],
        "pair": [first, a, b],
        "special_tokens": {token: {"id": token, "ids": [index], "tokens": [token]}},
    }
    return template if not state else {"type": "Sequence", "processors": [state, template]}


def _without_bos(state: dict[str, Any], token: str) -> dict[str, Any]:
    """A post-processor's state without BOS in its templates."""
    if state.get("type") == "Sequence":
        steps = [_without_bos(step, token) for step in state["processors"]]
        return state | {"processors": steps}
    if state.get("type") != "TemplateProcessing":
        return state
    templates = {}
    for key in ("single", "pair"):
        pieces = state[key]
        templates[key] = [
            piece
            for piece, following in zip(pieces, [*pieces[1:], {}], strict=True)
            if not ("Sequence" in following and piece.get("SpecialToken", {}).get("id") == token)
        ]
    return state | templates


def _processor(content: dict[str, Any]) -> Any:
    """A post-processor from its state, which `tokenizers` reads only within a tokenizer."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    bare = json.loads(Tokenizer(BPE()).to_str())
    return Tokenizer.from_str(json.dumps(bare | {"post_processor": content})).post_processor


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
    """Load a model with `transformers` and wrap it in a TransformerBridge.

    Parameters
    ----------
    model : str or Path
        A directory written by `save_pretrained`, a GGUF file, or a hub id.
    device : str
        "auto" takes a CUDA device where there is one, else the CPU.
    dtype : {"float32", "float16", "bfloat16", "float64"}
        Of the weights.
    device_map : str, optional
        Spread over devices ("auto", "balanced", …) instead of `device`.
    revision : str, optional
        Branch, tag or commit of a hub model.
    bos : bool or "auto"
        Whether texts begin with BOS; "auto" follows the tokenizer.
    template, instruction
        As in `in_template`.

    Raises
    ------
    UserError
        The model is absent, incomplete or of an unsupported kind, or a setting is unknown.
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
    """The `transformers` model and tokenizer that `load` wraps, under the same checks."""
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
    """A kind of model with a head other than for generation.

    `auto` is the class of transformers that loads it, `classes` the name of its table of classes.
    """

    what: str
    example: str
    auto: str
    classes: str


def load_head(
    head: Head,
    model: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    revision: str | None = None,
) -> tuple[Any, Any]:
    """Load a model with a head and its tokenizer; `UserError` as `load`, or without that head."""
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
    """The model's class name, once it is known to generate text and to fit the bridge."""
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
            f"{location} is a {kind} with code of its own, which is not run here; read a "
            "checkpoint of this package by countergen_edit.edits.checkpoints.load_checkpoint"
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
