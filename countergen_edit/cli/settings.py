"""Settings, checked once at the door: from composed Hydra config to typed values.

Goes out: frozen dataclasses. Refused: a missing or unknown key, a value of the wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.fit_data import POSITIONS, Positions

T = TypeVar("T")


@dataclass(frozen=True)
class ModelSettings:
    """Which model, where and how precise."""

    name: str
    device: str
    dtype: str
    device_map: str | None
    revision: str | None


@dataclass(frozen=True)
class EditSettings:
    """Where an erasure goes and at which tokens it is fitted."""

    site: str
    layers: tuple[int, ...] | None
    """None: the best one on the validation sets."""
    positions: Positions


@dataclass(frozen=True)
class DataSettings:
    """Sets by split, each a name under conf/dataset or a mapping with its source."""

    fit: tuple[Mapping[str, Any], ...]
    keep: tuple[Mapping[str, Any], ...]
    validation: tuple[Mapping[str, Any], ...]
    test: tuple[Mapping[str, Any], ...]
    single_token_names: bool


@dataclass(frozen=True)
class AuditSettings:
    """Everything an audit is told."""

    model: ModelSettings
    axis: Mapping[str, Any]
    data: DataSettings
    eraser: Mapping[str, Mapping[str, Any]]
    metric: Mapping[str, Mapping[str, Any]]
    edit: EditSettings
    groups: tuple[str, str] | None
    seed: int
    run_dir: str | None


def audit_settings(config: Mapping[str, Any]) -> AuditSettings:
    """Check a composed config.

    Raises:
        UserError: a key is unknown or missing, or a value has the wrong type.
    """
    edit = dict(config["edit"])
    edit["layers"] = _layers(edit.get("layers"))
    if edit["positions"] not in POSITIONS:
        raise unknown("edit.positions", edit["positions"], POSITIONS)
    data = {
        key: tuple(map(_set, value)) if isinstance(value, list) else value
        for key, value in config["data"].items()
    }
    groups = config["groups"]
    if groups is not None and (not isinstance(groups, list) or len(groups) != 2):
        raise UserError(f"groups={groups!r}: name two groups, such as groups=[female,male]")
    return AuditSettings(
        model=make_settings(ModelSettings, "model", config["model"]),
        axis=config["axis"],
        data=make_settings(DataSettings, "data", data),
        eraser=_by_name(config["eraser"]),
        metric=_by_name(config["metric"]),
        edit=make_settings(EditSettings, "edit", edit),
        groups=None if groups is None else (str(groups[0]), str(groups[1])),
        seed=integer("seed", config["seed"]),
        run_dir=config["run_dir"],
    )


def _by_name(section: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: dict(content or {}) for name, content in section.items()}


def make_settings(cls: type[T], section: str, content: Mapping[str, Any]) -> T:
    """A settings class filled from a section of the config.

    Raises:
        UserError: a key is unknown or missing.
    """
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for key in content:
        if key not in names:
            raise unknown(f"{section} setting", key, names)
    for name in names:
        if name not in content:
            raise UserError(f"{section}.{name} is missing from the configuration")
    return cls(**content)


def integer(key: str, value: Any) -> int:
    """The value, if it is a whole number.

    Raises:
        UserError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{key}={value!r} is not a whole number")
    return value


def _layers(value: Any) -> tuple[int, ...] | None:
    if value == "best":
        return None
    layers: Sequence[Any] = value if isinstance(value, list) else [value]
    if not layers:
        raise UserError("edit.layers=[] names no layer: write edit.layers=best, or a list")
    for layer in layers:
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise UserError(
                f"edit.layers={value!r}: write edit.layers=best, a number, or a list such as [2,3]"
            )
    return tuple(dict.fromkeys(layers))


def _set(entry: Any) -> Mapping[str, Any]:
    if isinstance(entry, str):
        return {"dataset": entry}
    if isinstance(entry, Mapping):
        return entry
    raise UserError(f"a data set is a name or a mapping with its source, not {entry!r}")
