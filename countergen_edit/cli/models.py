"""The model of a command: on this machine, or behind a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from countergen_edit import api
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import hints_of, require
from countergen_edit.models import Bos, LanguageModel, connect

T = TypeVar("T")
Content = Mapping[str, Any]
REQUESTING = ("parallel", "attempts", "cache")
"""Settings of a served model that no row depends on."""


@dataclass(frozen=True)
class ModelSettings:
    """A model on this machine; the arguments of `api.load`."""

    name: str
    device: str
    dtype: str
    device_map: str | None
    revision: str | None
    bos: Bos
    template: str
    instruction: str | None

    def load(self) -> LanguageModel:
        """Load the model."""
        return api.load(**asdict(self))


@dataclass(frozen=True)
class ServedSettings:
    """A model behind a server; the arguments of `connect`."""

    name: str
    """Address of the server."""
    served_name: str | None
    template: str
    log_probs: str
    parallel: int
    attempts: int
    cache: str

    def load(self) -> LanguageModel:
        """Connect to the server."""
        return connect(self.name, **{k: v for k, v in asdict(self).items() if k != "name"})


def model_settings(content: Content) -> ModelSettings | ServedSettings:
    """The settings of either kind of model."""
    if "served_name" in content:
        return make_settings(ServedSettings, "model", content)
    return make_settings(ModelSettings, "model", content)


def without_requesting(content: Content) -> dict[str, Any]:
    """The settings of a model on which rows depend."""
    return {key: value for key, value in content.items() if key not in REQUESTING}


def make_settings(cls: type[T], section: str, content: Content) -> T:
    """A dataclass from a section of the configuration."""
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for key in content:
        if key not in names:
            raise unknown(f"{section} setting", key, names)
    for name in names:
        if name not in content:
            raise UserError(f"{section}.{name} is missing from the configuration")
    hints = hints_of(cls)
    for name, value in content.items():
        require(hints[name], value, f"{section}.{name}")
    return cls(**content)
