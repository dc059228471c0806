"""A language model: its TransformerBridge and its tokenizer."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, wraps
from types import MethodType
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from countergen_edit.core.errors import UserError

_T = TypeVar("_T")
TokenIds = Int[Tensor, "row time"]
Mask = Int[Tensor, "row time"] | Bool[Tensor, "row time time"]
"""1 where a token is real; or, for each token, True where it attends."""
Cells = tuple[Int[Tensor, " read"], Int[Tensor, " read"]]
"""Rows and columns of the positions to read."""
RowScores = Float[Tensor, "row vocab"]
Vectors = Float[Tensor, "*batch d"]
Logits = Float[Tensor, "row time vocab"] | Float[Tensor, "read vocab"]
NAMES_CODE = ("auto_map", "custom_pipelines")
"""Keys of configs that name code beside the weights, which is never run."""
ORIGIN = "gguf_origin"
"""Key of a config that names the GGUF file of the weights."""
REVISION = "source_revision"
"""Attribute of a `transformers` model: the revision that was asked for."""
INSTRUCTION = "Write a short text in plain English. Begin at once."
"""Default message of the user in a chat template."""


@dataclass(frozen=True)
class Chat:
    """The user's messages in a model's chat template.

    `instruction` is the default message, `request` precedes it and every question, `is_on` puts
    all texts of the model within the template, and `is_beside` those of test data once more. An
    empty thought precedes replies if `thinks`, by the arguments `closing` of the template.
    """

    instruction: str = INSTRUCTION
    request: str = ""
    is_on: bool = False
    is_beside: bool = False
    thinks: bool = False
    closing: str = ""

    def message(self, words: str) -> str:
        """A user's message after the request."""
        return f"{self.request} {words}".strip()


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal or encoder-decoder language model with hook points.

    Hooks attached to `bridge`, a `TransformerBridge`, are active in everything that runs.
    `tokenizer` is the model's own fast tokenizer; `bridge.tokenizer` adds special tokens. `preface`
    holds the token ids before every text, BOS included where texts begin with it.
    """

    name: str
    bridge: Any
    tokenizer: Any
    preface: tuple[int, ...] = ()
    chat: Chat = Chat()

    @property
    def device(self) -> torch.device:
        """Device of the embedding, where token ids go."""
        return _device(self.bridge.original_model)

    @property
    def dtype(self) -> torch.dtype:
        return cast(torch.dtype, self.bridge.original_model.get_input_embeddings().weight.dtype)

    @property
    def is_quantized(self) -> bool:
        """Whether linear layers have few bits, neither trained nor folded."""
        return bool(getattr(self.bridge.original_model, "is_quantized", False))

    @property
    def is_stored_quantized(self) -> bool:
        """Whether its files hold quantised weights, as those of GPTQ and AWQ do."""
        quantizer = getattr(self.bridge.original_model, "hf_quantizer", None)
        return bool(getattr(quantizer, "pre_quantized", False))

    @property
    def n_layers(self) -> int:
        return int(self.bridge.cfg.n_layers)

    @property
    def d_model(self) -> int:
        return int(self.bridge.cfg.d_model)

    @property
    def context_length(self) -> int:
        """Most tokens in one text (2048 in families without a limit, as BLOOM)."""
        return int(self.bridge.cfg.n_ctx)

    @property
    def vocab_size(self) -> int:
        """Width of the logits, which may exceed the tokenizer's vocabulary."""
        return int(self.bridge.cfg.d_vocab)

    @property
    def is_encoder_decoder(self) -> bool:
        return bool(self.bridge.original_model.config.is_encoder_decoder)

    @property
    def no_likelihoods(self) -> str:
        """Why likelihoods of texts are unavailable, or empty."""
        return "as it is an encoder-decoder model" if self.is_encoder_decoder else ""

    @property
    def no_activations(self) -> str:
        """Why activations are unavailable, or empty."""
        return self.no_likelihoods

    @property
    def directory(self) -> str:
        """Directory or hub id of its weights, or empty."""
        return str(self.bridge.original_model.config.name_or_path)

    @property
    def revision(self) -> str | None:
        """Branch, tag or commit of its weights on the hub."""
        return getattr(self.bridge.original_model, REVISION, None)

    @property
    def origin(self) -> dict[str, str] | None:
        """Name, SHA-256 and type of the GGUF file of its weights, from its config."""
        return cast(dict[str, str] | None, getattr(self.bridge.original_model.config, ORIGIN, None))

    @property
    def adds_bos(self) -> bool | None:
        """Whether texts begin with BOS; None on a server."""
        return adds_bos(self.tokenizer)

    @property
    def conversation(self) -> dict[str, str] | None:
        """SHA-256 of the chat template, instruction, and arguments against thoughts."""
        chat = self.chat
        if not (chat.is_on or chat.is_beside):
            return None
        template = hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest()
        record = {"sha256": template, "instruction": chat.instruction}
        record |= {"thought": "empty"} if chat.thinks else {}
        record |= {"closing": chat.closing} if chat.closing else {}
        record |= {"beside": "plain texts"} if chat.is_beside else {}
        return record

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of config and weights; those on disk count by name and shape."""
        return weights_hash(self.bridge.original_model)

    @cached_property
    def is_identified(self) -> bool:
        """Whether `fingerprint` covers every weight."""
        return not any(x.is_meta for x in self.bridge.original_model.state_dict().values())

    def logits(self, ids: TokenIds, mask: Mask, at: Cells | None = None) -> Logits:
        """Next-token logits of right-padded rows, everywhere or `at` (rows, columns).

        A mask of three axes states the tokens that each token attends to, and thereby its position
        (`batching.runs_trees`). Only positions that are read go through the output matrix.
        """
        with torch.inference_mode():
            logits = self.differentiable_logits(ids, mask, at)

        def ids_of(i: int) -> Tensor:
            row, column = (i, -1) if at is None else (int(axis[i]) for axis in at)
            seen = mask[row, column] if mask.ndim == 3 else mask[row]
            return ids[row, seen.bool()]

        require_finite(logits, ids_of, self, self.dtype)
        return logits

    def differentiable_logits(self, ids: TokenIds, mask: Mask, at: Cells | None = None) -> Logits:
        """`logits` with the gradients of attached hooks."""
        return read_logits(self.bridge.original_model, self.inputs(ids, mask), at)

    def run_blocks(self, ids: TokenIds, mask: Mask) -> None:
        """Run right-padded rows up to the output matrix."""
        with torch.inference_mode():
            self.bridge.original_model.base_model(**self.inputs(ids, mask))

    def inputs(self, ids: TokenIds, mask: Mask) -> dict[str, Any]:
        """The arguments of a causal model's forward pass."""
        if self.is_encoder_decoder:
            raise UserError(
                f"{self.name} is an encoder-decoder model: it generates continuations, but scores "
                "and activations of a text take a causal language model"
            )
        inputs = {"input_ids": ids.to(self.device), "use_cache": False}
        mask = mask.to(self.device)
        if mask.ndim == 2:
            return inputs | {"attention_mask": mask}
        hidden = torch.zeros(mask.shape, dtype=self.dtype, device=self.device)
        hidden.masked_fill_(~mask.bool(), torch.finfo(self.dtype).min)
        return inputs | {"attention_mask": hidden[:, None], "position_ids": mask.sum(-1) - 1}

    def with_preface(self, preface: Sequence[int], request: str = "") -> LanguageModel:
        """The same model with this preface and a user's request."""
        chat = replace(self.chat, request=request)
        return LanguageModel(self.name, self.bridge, self.tokenizer, tuple(preface), chat)

    def memo(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """`make()`, which depends on the text alone; may be cached by its key."""
        return make()


def _device(hf_model: Any) -> torch.device:
    """Device that the embedding runs on, also where accelerate offloads weights."""
    embedding = hf_model.get_input_embeddings()
    at = getattr(getattr(embedding, "_hf_hook", None), "execution_device", None)
    return torch.device(embedding.weight.device if at is None else at)


_HASH_CHUNK = 1 << 24  # elements moved off the device at once while hashing
_UNHASHED = ("_name_or_path", "transformers_version", "_attn_implementation", ORIGIN, *NAMES_CODE)


class OverflowedError(UserError):
    """A text whose logits are not finite."""


def require_finite(
    logits: Tensor, ids_of: Callable[[int], Any], owner: Any, dtype: torch.dtype
) -> None:
    """Raise `OverflowedError` with the text of the first row that is not finite."""
    broken = (~(logits.amin(-1).isfinite() & logits.amax(-1).isfinite())).nonzero()
    if not len(broken):
        return
    text = owner.tokenizer.decode(ids_of(int(broken[0, 0])), skip_special_tokens=True)[:60]
    advice = "check its weights and config.json"
    if dtype == torch.float16:
        advice = "use model.dtype=bfloat16 or float32"
    kind = str(dtype).removeprefix("torch.")
    raise OverflowedError(f"{owner.name} overflows {kind} on the text {text!r}: {advice}")


def stock_name(name: str) -> str:
    """The name of a module or tensor without the bridge's wrappers."""
    return name.replace("._original_component", "")


def adds_bos(tokenizer: Any) -> bool:
    """Whether a text begins with the tokenizer's beginning-of-text token."""
    first: list[int] = tokenizer("a").input_ids[:1]
    return tokenizer.bos_token_id is not None and first == [tokenizer.bos_token_id]


def weights_hash(hf_model: Any) -> str:
    """SHA-256 of a model's config and weights."""
    config = {k: v for k, v in hf_model.config.to_dict().items() if k not in _UNHASHED}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    places = set()  # the bridge lists a tensor under several names; its content counts once
    for key, tensor in sorted(hf_model.state_dict().items()):
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        digest.update(f"{stock_name(key)} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.is_meta or place in places:
            continue
        places.add(place)
        for chunk in tensor.detach().reshape(-1).split(_HASH_CHUNK):
            digest.update(chunk.cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()


def read_logits(model: Any, inputs: Mapping[str, Any], at: Cells | None = None) -> Logits:
    """Logits of a `transformers` model, everywhere or `at` (rows, columns)."""
    if at is None:
        return cast(Tensor, model(**inputs).logits)
    with model.get_output_embeddings().register_forward_pre_hook(partial(_read_only, at)):
        return cast(Tensor, model(**inputs).logits[0])


def _read_only(at: Cells, module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A hook before the output matrix: one row of read positions instead of all."""
    hidden, *rest = inputs
    return hidden[tuple(x.to(hidden.device) for x in at)][None], *rest


def _norm_itself(norm: Any, hidden_states: Vectors, **more: Any) -> Vectors:
    """The Hugging Face norm, where the bridge would compute mean and variance by itself.

    The two differ by 1.5e-5 in logits of 20, after a residual stream that reaches 800.
    """
    if norm.hook_scale.has_hooks() or norm.hook_normalized.has_hooks():
        return cast(Tensor, type(norm).forward(norm, hidden_states, **more))
    normal = norm.original_component(norm.hook_in(hidden_states))
    return cast(Tensor, norm.hook_out(normal))


def from_pretrained_objects(name: str, hf_model: Any, tokenizer: Any) -> LanguageModel:
    """Wrap a generating `transformers` model in memory and its fast tokenizer, labelled `name`.

    It is frozen, in eval mode, with "eager" attention for hooks; `UserError` for a slow tokenizer.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise UserError(
            f"the tokenizer of {name} ({type(tokenizer).__name__}) is slow and has no character "
            "offsets: save it as a fast tokenizer (tokenizer.json)"
        )
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.model_bridge.generalized_components import NormalizationBridge

    hf_model.requires_grad_(False).eval()
    if not hf_model.config.architectures:  # set by save_pretrained; the bridge picks by it
        hf_model.config.architectures = [type(hf_model).__name__]
    # The bridge edits its tokenizer in place, and reloads it from the hub unless it already says
    # that it adds BOS: hand it a private copy that says so.
    private = copy.deepcopy(tokenizer)
    private.init_kwargs |= {"name_or_path": name, "add_bos_token": True}
    bridge = TransformerBridge.boot_transformers(
        name,
        hf_model=hf_model,
        tokenizer=private,
        dtype=hf_model.dtype,
        device=str(_device(hf_model)),
    )
    bridge.original_model.requires_grad_(False)
    bridge.eval()
    for module in bridge.original_model.modules():
        if getattr(type(module), "forward", None) is NormalizationBridge.forward:
            _set(module, _norm_itself)
    run_stock_blocks(bridge)
    return LanguageModel(name=name, bridge=bridge, tokenizer=tokenizer)


def run_stock_blocks(bridge: Any) -> None:
    """Let the blocks of a `TransformerBridge` run their wrappers only where one is hooked.

    The wrappers take as long as the model where batches are small or the device is fast. Copies
    without them share weights and PyTorch hooks with the stock modules.
    """
    from transformer_lens.model_bridge.generalized_components import BlockBridge

    for block in bridge.original_model.modules():
        if getattr(type(block), "forward", None) is BlockBridge.forward:
            _run_stock(block)


def _run_stock(block: Any) -> None:
    block._maybe_wire_capture_hooks()  # the bridge's own hooks, which alone need no wrappers
    whole = block.original_component
    stock, shared = _unwrapped(whole)
    wrappers = [module for module in block.modules() if id(module) not in shared | {id(block)}]

    @wraps(type(whole).forward)  # the bridge reads the signature
    def inner(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = self if self.hooked_inside() else self.stock
        return type(module).forward(module, *args, **kwargs)

    def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Called alone, without keywords, a block of the bridge returns a tuple.
        limits = ("_stop_at_layer_idx", "_start_at_layer_idx")  # of a part of the model
        is_part = any(getattr(self, name, None) is not None for name in limits)
        if is_part or not kwargs or self.hooked():
            return type(self).forward(self, *args, **kwargs)
        return self.original_component(*args, **kwargs)

    inside = [module for module in wrappers if module not in (block.hook_in, block.hook_out)]
    _set(whole, inner, stock=stock, hooked_inside=_Hooks(inside))
    _set(block, outer, hooked=_Hooks(wrappers))


def _set(module: Any, forward: Any, **attributes: Any) -> None:
    """Set attributes of a wrapper itself, `forward` bound, so that a copy has its own."""
    for name, value in {**attributes, "forward": MethodType(forward, module)}.items():
        object.__setattr__(module, name, value)


class _Hooks:
    """Whether modules have hooks beside the initial ones of the bridge."""

    def __init__(self, modules: Iterable[Any]) -> None:
        kinds = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks")
        tables = [getattr(module, kind) for module in modules for kind in kinds]
        self.empty = [hooks for hooks in tables if not hooks]
        self.filled = [(hooks, set(hooks)) for hooks in tables if hooks]

    def __call__(self) -> bool:
        return any(self.empty) or any(hooks.keys() - initial for hooks, initial in self.filled)


def _unwrapped(module: Any) -> tuple[nn.Module, set[int]]:
    """A copy of a module without wrappers, and the ids of the modules it shares."""
    inner = getattr(module, "original_component", None) or module
    plain = copy.copy(inner)
    shared = {id(inner)}
    children = {}
    for name, child in inner._modules.items():
        children[name] = child
        if child is not None:
            children[name], more = _unwrapped(child)
            shared |= more
    object.__setattr__(plain, "_modules", children)
    return plain, shared
