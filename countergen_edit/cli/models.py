"""Which model a command is about: one on this machine, or one that a server runs.

Comes in: the section `model` of a composed config. Goes out: settings that load the model.
Refused: a missing or unknown key.
"""

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
HOW_ASKED = (
    *("key_variable", "parallel", "timeout", "attempts"),
    *("cache", "most_requests"),
)
"""Settings of a served model that no row depends on."""


@dataclass(frozen=True)
class ModelSettings:
    """Which model, where and how precise."""

    name: str
    device: str
    dtype: str
    device_map: str | None
    revision: str | None
    bos: Bos
    template: str
    instruction: str | None

    def load(self) -> LanguageModel:
        """The model."""
        return api.load(**asdict(self))


@dataclass(frozen=True)
class ServedSettings:
    """Which model of which server, and how it is asked; as `connect` has them."""

    name: str
    """The server's address."""
    served_name: str | None
    template: str
    log_probs: str
    n: int
    key_variable: str
    parallel: int
    timeout: float
    attempts: int
    cache: str
    most_requests: int | None

    def load(self) -> LanguageModel:
        """The model, once its server was found to have it."""
        return connect(self.name, **{k: v for k, v in asdict(self).items() if k != "name"})


def model_settings(content: Content) -> ModelSettings | ServedSettings:
    """The settings of either kind, by what their section has.

    Raises:
        UserError: a key is unknown or missing.
    """
    if "served_name" in content:
        return make_settings(ServedSettings, "model", content)
    return make_settings(ModelSettings, "model", content)


def told(content: Content) -> dict[str, Any]:
    """What rows depend on of a section `model`."""
    return {key: value for key, value in content.items() if key not in HOW_ASKED}


def make_settings(cls: type[T], section: str, content: Content) -> T:
    """A settings class filled from a section of the config.

    Raises:
        UserError: a key is unknown or missing, or a value is not of the type of its field.
    """
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
