"""Load a causal or encoder-decoder language model by hub id, directory or GGUF file.

Unusable models are refused before weights are read: a classifier would boot with a random head.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from countergen_edit.core.errors import UserError, require_known, unknown
from countergen_edit.core.locating import ADAPTER, Location, location_of
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import require
from countergen_edit.models.language_model import (
    ORIGIN,
    REVISION,
    LanguageModel,
    adds_bos,
    from_pretrained_objects,
)
from countergen_edit.models.tokens import NONE, in_template

MaxMemory = Mapping[int | str, int | str]
"""Device → most memory for its weights, such as {0: "20GiB", "cpu": "60GiB"}."""
Bos = bool | str
"""Whether texts begin with BOS; "auto" follows the tokenizer."""
_DTYPES = {k: getattr(torch, k) for k in ("float32", "float16", "bfloat16", "float64")}
_DEVICES = ("auto", "cpu", "cuda", "mps")
QUANTIZATIONS: dict[str, dict[str, Any]] = {
    "4bit": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    "8bit": {"load_in_8bit": True},
}
"""Settings of bitsandbytes."""
_BOS_PRE_TOKENIZERS = (
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    "jina-v5-nano",
)
"""Pre-tokenizers (`tokenizer.ggml.pre`) of GGUF files with BOS unless the file says otherwise:
llama.cpp, src/llama-vocab.cpp. transformers adds none."""
_WHOLE = re.compile(r"B?F\d+")
"""GGUF types of single numbers; others are blocks of small integers with a scale."""
_NUMBER = re.compile(r"\b\d+\b")


def load_model(
    model: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    device_map: str | None = None,
    max_memory: MaxMemory | None = None,
    quantization: str | None = None,
    revision: str | None = None,
    adapter: str | Path | None = None,
    bos: Bos = "auto",
    template: str = NONE,
    instruction: str | None = None,
) -> LanguageModel:
    """Load a model with `transformers` and wrap it in a TransformerBridge.

    `model` is a hub id, a directory, a GGUF file, or the directory of a PEFT adapter that names its
    base; the other arguments are those of `countergen_edit.load`. Linear layers are quantised by
    NF4 (Dettmers et al. 2023) or LLM.int8() (Dettmers et al. 2022), other weights not. `UserError`
    if the model is absent, incomplete or of an unsupported kind, or a setting is unknown.
    """
    require_known("dtype", dtype, _DTYPES)
    if device_map is not None and device != "auto":
        raise UserError(f"device={device} and device_map={device_map} exclude each other: give one")
    if max_memory is not None and device_map is None:
        raise UserError("max_memory needs a device_map: use device_map=auto")
    target = device_named(device)
    how = None if quantization is None else quantized(quantization, _DTYPES[dtype])
    # Quantised weights are placed while they are read.
    place = device_map if how is None or device_map else {"": str(target)}
    base = model
    if adapter is None and (recorded := base_of_adapter(model)):
        base, adapter = recorded, model
    hf_model, tokenizer = load_plain(base, dtype, place, revision, how, max_memory)
    if adapter is not None:
        hf_model = with_adapter(hf_model, adapter)
    setattr(hf_model, REVISION, revision)
    set_bos(tokenizer, bos, str(model))
    if place is None:
        hf_model.to(target)
    loaded = from_pretrained_objects(str(model), hf_model, tokenizer)
    return in_template(loaded, template, instruction)


def base_of_adapter(model: str | Path) -> str | None:
    """The base that an adapter's directory names; None for another directory."""
    file = Path(model).expanduser() / ADAPTER
    if not file.is_file() or file.with_name("config.json").is_file():
        return None
    return json_mapping(file).get("base_model_name_or_path") or None


def with_adapter(hf_model: Any, adapter: str | Path) -> Any:
    """The model with a PEFT adapter merged; `UserError` if it does not fit."""
    folder = Path(adapter).expanduser()
    if not (folder / ADAPTER).is_file():
        raise UserError(f"model.adapter={adapter} holds no {ADAPTER}: name an adapter's directory")
    try:
        from peft import PeftModel

        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Found missing adapter keys")
            return PeftModel.from_pretrained(hf_model, str(folder)).merge_and_unload()
    except Exception as error:  # it fails in as many ways as there are adapters
        raise UserError(f"cannot load the adapter {folder}: {_first_line(error)}") from error


def quantized(quantization: str, dtype: torch.dtype) -> Any:
    """The config of bitsandbytes; `UserError` if it is unknown or not installed."""
    from transformers import BitsAndBytesConfig

    require_known("quantization", quantization, QUANTIZATIONS)
    if find_spec("bitsandbytes") is None:
        raise UserError(
            f"model.quantization={quantization} needs bitsandbytes: "
            "pip install 'countergen-edit[quantization]'"
        )
    settings = {**QUANTIZATIONS[quantization], "bnb_4bit_compute_dtype": dtype}
    return BitsAndBytesConfig(**settings)  # type: ignore[no-untyped-call]


def load_plain(
    model: str | Path,
    dtype: str,
    device_map: str | dict[str, str] | None = None,
    revision: str | None = None,
    quantization: Any = None,
    max_memory: MaxMemory | None = None,
) -> tuple[Any, Any]:
    """The model and tokenizer that `load_model` wraps, under the same checks."""
    place = location_of(model, revision)
    header = _read_header(place.gguf) if place.gguf else None
    if header and quantization:
        raise UserError(f"{model} is a GGUF file, which has its own rounding: no quantization")

    # First: importing it silences the report of missing weights, which is read here instead.
    import transformer_lens  # noqa: F401

    with _alone(place) as location:
        kind = _auto_class(location)
        tokenizer = load_tokenizer(location)
        spread = {"device_map": device_map, "max_memory": max_memory and {**max_memory}}
        hf_model = _read_weights(kind, location, _DTYPES[dtype], quantization, **spread)
    if header:
        bos, origin, count = header
        set_bos(tokenizer, bos, str(model))
        setattr(hf_model.config, ORIGIN, origin)
        hf_model.config.name_or_path = str(place)  # was the folder of `_alone`
        tensors = {tensor.data_ptr(): tensor for tensor in hf_model.state_dict().values()}
        lost = count - sum(tensor.numel() for tensor in tensors.values())
        if lost > 0:
            warnings.warn(
                f"transformers leaves out {lost:,} of the {count:,} numbers in {place} (a scaling "
                "of positions, for instance): the model may not be quite what llama.cpp runs",
                stacklevel=2,
            )
    return hf_model, tokenizer


def _read_header(path: Path) -> tuple[Bos, dict[str, str], int]:
    """What transformers loses of a GGUF file: BOS, its origin, and the number of its weights.

    BOS is "auto" where neither the file nor llama.cpp decides. `UserError` if the file is damaged.
    """
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise UserError(
            f"{path} takes the package gguf, which is not installed: "
            "pip install 'countergen-edit[gguf]'"
        ) from error
    try:
        reader = GGUFReader(path)
        fields = {k: f.contents() for k, f in reader.fields.items() if len(f.data) == 1}
    except (ValueError, LookupError, OSError, OverflowError) as error:
        raise UserError(
            f"{path} is not a whole GGUF file: {error or type(error).__name__}"
        ) from error
    numbers: Counter[str] = Counter()
    for tensor in reader.tensors:
        numbers[tensor.tensor_type.name] += int(tensor.n_elements)
    kind = max(numbers, key=numbers.__getitem__, default="F32")
    bits = re.search(r"\d+", kind)
    words = f"a {f'{bits[0]}-bit ' if bits else ''}rounding ({kind}), dequantised"
    if _WHOLE.fullmatch(kind):
        words = f"weights as stored ({kind})"
    default = True if fields.get("tokenizer.ggml.pre") in _BOS_PRE_TOKENIZERS else "auto"
    bos = fields.get("tokenizer.ggml.add_bos_token", default)
    origin = {"file": path.name, "sha256": sha256(path), "weights": words}
    return bos, origin, numbers.total()


def sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(location: Location) -> Iterator[Location]:
    """The location with the GGUF file alone, without the config of another model."""
    if location.gguf is None:
        yield location
        return
    with TemporaryDirectory() as place:
        (Path(place) / location.gguf.name).symlink_to(location.gguf.resolve())
        yield replace(location, name=place)


HEADS = {
    "sequence classifier": ("SequenceClassification", "SEQUENCE_CLASSIFICATION"),
    "masked language model": ("MaskedLM", "MASKED_LM"),
}
"""Kind of model → its head in names of classes, and of their table."""


def load_head(
    kind: str,
    model: str | Path,
    *,
    device: str = "auto",
    dtype: str = "float32",
    revision: str | None = None,
    adapter: str | Path | None = None,
) -> tuple[Any, Any]:
    """Load a model of `HEADS` and its tokenizer; `UserError` as `load_model`."""
    import transformers
    from transformers.models.auto import modeling_auto

    require_known("dtype", dtype, _DTYPES)
    target = device_named(device)
    location = location_of(model, revision)
    config = _read_config(location)
    name = str((config.architectures or [config.model_type])[0])
    head, table = HEADS[kind]
    if name not in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").values():
        raise UserError(f"{location} is a {name}, not a {kind}: give one such as a …For{head}")
    tokenizer = load_tokenizer(location)
    hf_model = _read_weights(getattr(transformers, f"AutoModelFor{head}"), location, _DTYPES[dtype])
    if adapter is not None:
        hf_model = with_adapter(hf_model, adapter)
    return hf_model.to(target), tokenizer


def device_named(device: str) -> torch.device:
    """The device of a setting."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.partition(":")[0] not in _DEVICES[1:]:
        raise unknown("device", device, _DEVICES)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"device={device} is not available here: use device=auto or device=cpu"
        ) from error


def set_bos(tokenizer: Any, bos: Bos, name: str) -> None:
    """Let a fast tokenizer begin texts with BOS or not; "auto" leaves it unchanged.

    The change is saved with the tokenizer. `UserError` for another `bos`, or a tokenizer without.
    """
    if not isinstance(bos, bool) and bos != "auto":
        raise UserError(f"bos={bos!r}: write auto, true or false")
    if bos == "auto" or adds_bos(tokenizer) == bos:
        return
    if tokenizer.bos_token_id is None:
        raise UserError(f"bos=true, but {name} has no beginning-of-text token: use bos=auto")
    # The setter writes the whole post-processor anew: say what it must keep.
    tokenizer.add_eos_token = tokenizer("a").input_ids[-1] == tokenizer.eos_token_id
    tokenizer.add_bos_token = bos


def _auto_class(location: Location) -> Any:
    """The class that loads a model; `UserError` unless it writes text and fits the bridge."""
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
    from transformers.models.auto import modeling_auto

    config = _read_config(location)
    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    default = causal.get(config.model_type)
    name = str((config.architectures or [default or config.model_type])[0])
    # A bare base model passes: its output matrix may be tied, else it is found missing.
    bases = modeling_auto.MODEL_MAPPING_NAMES.values()
    continues = default is not None and (name in causal.values() or name in bases)
    answers = name in modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.values()
    if not continues and not answers:
        advice = "give a …ForCausalLM, a …LMHeadModel or a …ForConditionalGeneration"
        if name.endswith(("ForMaskedLM", "ForSequenceClassification")):
            advice = "countergen-edit classifiers measures it"
        raise UserError(f"{location} is a {name}, not a causal language model: {advice}")
    if name not in SUPPORTED_ARCHITECTURES and default not in SUPPORTED_ARCHITECTURES:
        raise UserError(
            f"unknown architecture {name} in {location}: TransformerBridge has no adapter for it"
        )
    return AutoModelForSeq2SeqLM if answers else AutoModelForCausalLM


def _read_config(location: Location) -> Any:
    """A model's config, of a kind that transformers has code for."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

    try:
        content = PreTrainedConfig.get_config_dict(location.name, **location.options)[0]
        require(dict[str, Any], content, f"config.json of {location}")
        kind = content.get("model_type")
        if kind in CONFIG_MAPPING:
            return AutoConfig.from_pretrained(location.name, **location.options)
    except UserError:
        raise
    except (OSError, ValueError, KeyError, TypeError, StrictDataclassError) as error:
        raise UserError(f"cannot read the config of {location}: {_first_line(error)}") from error
    if "auto_map" in content:
        raise UserError(
            f"{location} is a {kind} with code of its own, which is not run here; read a "
            "checkpoint of this package by countergen_edit.edits.checkpoints.load_checkpoint"
        )
    raise UserError(f"unknown architecture {kind!r} in {location}: transformers has no such")


def load_tokenizer(location: Location) -> Any:
    """The tokenizer beside a model."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            location.name, trust_remote_code=False, **location.options
        )
    except Exception as error:  # it fails in as many ways as there are tokenizers
        raise UserError(
            f"no usable tokenizer in {location} ({_first_line(error)}): save it there with "
            "tokenizer.save_pretrained"
        ) from error
    # transformers 5 builds one of special tokens only where the files are missing.
    if not set(tokenizer.get_vocab()) - set(tokenizer.get_added_vocab()):
        raise UserError(f"no tokenizer in {location}: save it there with tokenizer.save_pretrained")
    return tokenizer


def _read_weights(
    auto: Any, location: Location, dtype: torch.dtype, quantization: Any = None, **spread: Any
) -> Any:
    """Load a model with all of its own weights, by a class of transformers.

    `UserError` if files cannot be read or would run code, or if weights are absent or of another
    shape (they would be random), not finite, or of layers that the config lacks.
    """
    from safetensors import SafetensorError
    from transformers import GgufConfig

    if how := GgufConfig(dequantize=True) if location.gguf else quantization:
        spread["quantization_config"] = how
    try:
        with without_progress_bar():
            hf_model, report = auto.from_pretrained(
                location.name,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by name
                trust_remote_code=False,
                **spread,
                **location.options,
            )
    except pickle.UnpicklingError as error:
        raise UserError(
            f"the weights of {location} are a pickle with more in it than tensors, which could run "
            "code: convert them to safetensors where they come from"
        ) from error
    except (OSError, ValueError, RuntimeError, EOFError, ImportError, SafetensorError) as error:
        raise UserError(f"cannot load the weights of {location}: {_first_line(error)}") from error
    absent = [*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])]
    if absent:
        raise UserError(
            f"{location} lacks {len(absent)} weights of a {type(hf_model).__name__} in the right "
            f"shape, which would be random: {_first(absent)}"
        )
    # Other unexpected weights are of other heads and masks.
    names = {_NUMBER.sub("#", key) for key in hf_model.state_dict()}
    if dropped := [key for key in report["unexpected_keys"] if _NUMBER.sub("#", key) in names]:
        raise UserError(
            f"{location} has {len(dropped)} weights of layers that its config.json does not have, "
            f"which would be dropped: {_first(dropped)}"
        )
    if not location.gguf and _says_tied(hf_model):
        raise UserError(
            f"{location} has an output matrix of its own, but its config.json says that it is the "
            'embedding: write "tie_word_embeddings": false there'
        )
    weights = hf_model.named_parameters()
    if broken := [name for name, w in weights if not (w.is_meta or w.isfinite().all())]:
        if dtype == torch.float16:
            del hf_model, weights
            # Refuses weights that are damaged themselves.
            _read_weights(auto, location, torch.float32, quantization, **spread)
            advice = "use model.dtype=bfloat16 or float32"
            raise UserError(f"{location} overflows float16 in weights, {_first(broken)}: {advice}")
        raise UserError(
            f"{location} has {len(broken)} weights of NaN or infinity: {_first(broken)}"
        )
    for module in hf_model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            # A kernel without gradients, in bfloat16, for widths in multiples of 64.
            module.support_avx512bf16_for_cpu = False
    return hf_model


def _says_tied(hf_model: Any) -> bool:
    """Whether embedding and output matrix differ, but the config ties them."""
    ends = [hf_model.get_input_embeddings(), hf_model.get_output_embeddings()]
    config = hf_model.config.get_text_config(decoder=True)
    is_choice = not getattr(type(config)(tie_word_embeddings=False), "tie_word_embeddings", True)
    if None in ends or not (is_choice and config.tie_word_embeddings):
        return False
    read, out = (end.weight for end in ends)
    return not out.is_meta and read.shape == out.shape and not torch.equal(read, out)


def _first(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3] + ["…"] * (len(listed) > 3))


@contextmanager
def without_progress_bar() -> Iterator[None]:
    """Silence the bar of transformers, which also goes to files and pipes."""
    from transformers.utils import logging

    is_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if is_enabled:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
