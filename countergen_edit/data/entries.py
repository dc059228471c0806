"""The entries of a data config: the sets that it lists under a key, and the role of each.

Comes in: a data config's content. Goes out: entries as mappings with the keys of their source, and
what an eraser is to do with each fitting set: on sets to `erase` the groups are to be made equal,
on sets to `keep` the model is to stay as it is, and the prompts of sets of `background` enter the
covariance of activations as neutral text does. Refused: what is no list, no set or no role, a
role of what is not fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal, cast

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.counterfactual import CounterfactualSet

Role = Literal["erase", "keep", "background"]
ROLES: tuple[Role, ...] = ("erase", "keep", "background")


def entries_of(content: Mapping[str, Any], key: str) -> Sequence[Any]:
    """The sets that a data config lists under a key.

    Raises:
        UserError: there is something else than a list.
    """
    entries = content.get(key) or []
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise UserError(
            f"data.{key}={entries!r}: write a list of sets"
            + (", or own, which fits on a part of the prompts of your file" if key == "fit" else "")
        )
    return entries


def entry_of(entry: Any) -> dict[str, Any]:
    """A set as a data config names it, with the keys of its source.

    Raises:
        UserError: it is neither a name nor a mapping.
    """
    if isinstance(entry, str):
        entry = {"dataset": entry}
    if not isinstance(entry, Mapping):
        raise UserError(f"a data set is a name or a mapping with its source, not {entry!r}")
    content = dict(entry)
    if "dataset" in content:
        content = read_config("dataset", str(content.pop("dataset"))) | content
    return content


def take_role(entry: MutableMapping[str, Any], key: str) -> Role:
    """The role that an entry says, which is taken out of it; `erase` where it says none.

    Args:
        entry: a set, with the keys of its source.
        key: of the data config, under which the entry stands.

    Raises:
        UserError: there is no such role, or the entry is not one of `fit`.
    """
    if "role" not in entry:
        return "erase"
    role = entry.pop("role")
    if key != "fit":
        raise UserError(
            f"role={role!r} of a set of data.{key}: only sets of data.fit have roles; leave it out"
        )
    if role not in ROLES:
        raise unknown("role of a set of data.fit:", role, ROLES)
    return cast(Role, role)


def prompts_of(sets: Sequence[CounterfactualSet]) -> tuple[str, ...]:
    """The prompts of sets, of every group and person, each once."""
    every = (v.text for data in sets for sample in data.samples for v in sample.variations)
    return tuple(dict.fromkeys(every))
