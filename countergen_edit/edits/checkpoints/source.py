"""The folder that a model was loaded from, and its copy in which some tensors differ.

All other tensors are the source's, byte for byte, also those that the class does not know. One
shard is in memory at a time. transformers names the parameter of each tensor, as it loads them.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from countergen_edit.core.locating import ADAPTER, RECIPE, TRUTH
from countergen_edit.core.reading import json_mapping
from countergen_edit.edits.checkpoints.forms import Patch
from countergen_edit.edits.checkpoints.loading import CHECKSUMS
from countergen_edit.edits.checkpoints.stock import empty_stock_model
from countergen_edit.models import LanguageModel

PARITY, CARD = "parity.json", "README.md"
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_WEIGHTS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".h5", ".msgpack", ".ot"),
    ".index.json",
)
_NOT_COPIED = (CARD, TRUTH, ADAPTER, RECIPE, CHECKSUMS, PARITY)
"""Files about the unedited model."""


@dataclass(frozen=True)
class SourceFiles:
    """A folder with the parameters of a model as safetensors, and its patch."""

    folder: Path
    patch: Patch
    wrapped: Any
    """The model in memory."""
    shards: Mapping[str, Path]
    """The file of each tensor."""
    shapes: Mapping[str, list[int]]
    keys: Mapping[str, list[str]]
    """The tensors of each parameter."""
    converted: Set[str]
    """Parameters that transformers computes from their tensors."""
    foreign: Set[str]
    """Tensors that the class does not know."""

    @cached_property
    def dtype(self) -> torch.dtype:
        """The type of the largest tensor."""
        return self._read(max(self.shapes, key=lambda key: math.prod(self.shapes[key]))).dtype

    @cached_property
    def _state(self) -> Mapping[str, Tensor]:
        return cast(Mapping[str, Tensor], self.patch.plain.state_dict())

    def write(self, folder: Path) -> None:
        """Write a copy of the folder with the patch."""
        for path in [*self.folder.iterdir(), *self.folder.glob("additional_chat_templates/*")]:
            left = path.name in _NOT_COPIED or path.name.endswith((".py", *_WEIGHTS))
            if path.is_file() and not left and not path.name.startswith("."):
                target = folder / path.relative_to(self.folder)
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, target)
        *_, last = paths = sorted({*self.shards.values()})
        end = f".{self.patch.variant}" if self.patch.variant else ""
        new = dict(self.patch.added)
        for name in _untied(self.patch.plain) - {*self.keys}:
            [(key, value)] = self._changed(name).items()
            new[key] = value.to("cpu", self.dtype).contiguous()
        places = dict[str, str]()
        for path in paths:
            tensors, metadata = self._patched(path)
            tensors |= new if path == last else {}
            name = f"{path.stem}{end}.safetensors" if path.name == _SINGLE else path.name
            places |= dict.fromkeys(tensors, name)
            save_file(tensors, folder / name, metadata)
        if last.name != _SINGLE:
            index = json_mapping(self.folder / _INDEX) | {"weight_map": places}
            index["metadata"]["total_size"] += sum(tensor.nbytes for tensor in new.values())
            text = json.dumps(index, indent=2, sort_keys=True) + "\n"
            (folder / _INDEX.replace(".json", f"{end}.json")).write_text(text, "utf-8")

    def _patched(self, path: Path) -> tuple[dict[str, Tensor], Any]:
        """The tensors of a shard after the patch, under the names of its class."""
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            keys = [key for key in sorted(file.keys()) if key in self.shards]
            tensors = {key: file.get_tensor(key) for key in keys}
        names = {key: name for name, keys in self.keys.items() for key in keys if key in tensors}
        for name in dict.fromkeys(names.values()):
            if name in self.patch.weights or not self._holds(name):
                for key, part in self._changed(name).items():
                    if key in tensors:
                        tensors[key] = part.to("cpu", tensors[key].dtype).contiguous()
        if self.patch.variant:
            tensors = {names.get(key, key): tensor for key, tensor in tensors.items()}
        return tensors, metadata

    def _changed(self, name: str) -> dict[str, Tensor]:
        """The tensors of a parameter after the patch, in float64."""

        def unedited(key: str) -> Tensor:
            """Of the source, which may be wider, unless another one is in memory."""
            tensor = self._state[key]
            if key in self.keys and key not in self.converted and self._holds(key):
                tensor = self._read(self.keys[key][0]).to(tensor.device)
            return tensor.double()

        return self._parts(name, self.patch.weights[name](unedited))

    def _parts(self, name: str, value: Tensor) -> dict[str, Tensor]:
        """The tensors of a parameter; a new one is beside its module's weight."""
        from transformers.core_model_loading import revert_weight_conversion

        if name in self.converted:
            return dict(revert_weight_conversion(self.wrapped, {name: value}))
        module, _, leaf = name.rpartition(".")
        weight = self.keys.get(f"{module}.weight", [name])[0]
        return {self.keys.get(name, [f"{weight.rpartition('.')[0]}.{leaf}"])[0]: value}

    def _holds(self, name: str) -> bool:
        """Whether the source's parameter is the one in memory."""
        return all(
            torch.equal(self._read(key).to(part.device, part.dtype), part)
            for key, part in self._parts(name, self._state[name]).items()
        )

    def _read(self, key: str) -> Tensor:
        with safe_open(self.shards[key], "pt") as file:
            return cast(Tensor, file.get_tensor(key))

    def fits(self, model: LanguageModel) -> bool:
        """Whether the source has the parameters of the model, each in its shape."""
        if self.patch.variant and self.converted:
            return False  # nothing is converted for its class
        for name, keys in self.keys.items():
            parts = self._parts(name, self._state[name].to("meta"))
            if {k: [*x.shape] for k, x in parts.items()} != {k: self.shapes[k] for k in keys}:
                return False
        return _untied(empty_stock_model(model)) <= {*self.keys}


def find_source(model: LanguageModel, patch: Patch) -> SourceFiles | None:
    """The folder of a model's safetensors; None for GGUF or other weights."""
    folder = _folder(model)
    if folder is None or not any((folder / name).is_file() for name in (_SINGLE, _INDEX)):
        return None
    names = {_SINGLE}
    if not (folder / _SINGLE).is_file():
        names = {*json_mapping(folder / _INDEX)["weight_map"].values()}
    shards: dict[str, Path] = {}
    shapes: dict[str, list[int]] = {}
    for path in (folder / name for name in sorted(names)):
        with safe_open(path, "pt") as file:
            # Of a carried checkpoint, all but its erasures.
            parameters = [key for key in sorted(file.keys()) if ".erasure." not in key]
            shapes |= {key: file.get_slice(key).get_shape() for key in parameters}
            shards |= dict.fromkeys(parameters, path)
    keys = defaultdict[str, list[str]](list)
    converted: set[str] = set()
    foreign: set[str] = set()
    state = patch.plain.state_dict()
    for key, name, is_converted in _renamed(patch.plain, shards):
        if name not in state:
            foreign |= {key, name}
            continue
        keys[name].append(key)
        if is_converted:
            converted.add(name)
    wrapped = model.bridge.original_model
    source = SourceFiles(folder, patch, wrapped, shards, shapes, {**keys}, converted, foreign)
    return source if source.fits(model) else None


def _folder(model: LanguageModel) -> Path | None:
    """The folder of a model; on the hub its snapshot, with the smaller files."""
    from huggingface_hub import snapshot_download

    name = model.directory
    if not name or Path(name).exists():
        return Path(name) if name and Path(name).is_dir() else None
    weights = [f"*{suffix}" for suffix in _WEIGHTS]
    try:
        return Path(snapshot_download(name, revision=model.revision, ignore_patterns=weights))
    except (OSError, ValueError):  # no name of the hub, or nothing in the cache
        return None


def _renamed(plain: Any, keys: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    """Each tensor, its parameter, and whether transformers computes that from it."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import (
        WeightConverter,
        WeightRenaming,
        dot_natural_key,
        rename_source_key,
    )

    rules = get_model_conversion_mapping(plain)
    state = plain.state_dict()
    renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
    converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
    how: dict[str, Any] = {"base_model_prefix": plain.base_model_prefix, "meta_state_dict": state}
    for key in sorted(keys, key=dot_natural_key):
        name, pattern = rename_source_key(key, renamings, converters, **how)
        if name not in state and key in state:
            name, pattern = rename_source_key(key, [], [], **how)
        yield key, name, pattern is not None


def _untied(plain: Any) -> set[str]:
    """Names of the tensors of a model's state that no other one is tied to."""
    tied = plain.all_tied_weights_keys
    return {*plain.state_dict()} - {*tied} - {*tied.values()}
