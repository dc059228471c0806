"""Which data an axis is asked by where nobody names any: those that its own file names.

Comes in: what an axis file and a data config hold. Goes out: the data config in which nothing is
left to the axis, and the keys that the axis gave. Refused: an axis that names no data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.own_parts import OWN

OF_AXIS = "of_axis"
"""The data config, and the key in it, that leaves what is null to the axis."""
DATA = "data"
"""The key of an axis file that names its data."""


def data_of(
    axis: Mapping[str, Any], data: Mapping[str, Any]
) -> tuple[dict[str, Any], frozenset[str]]:
    """The data config with what its axis says of all that it leaves open.

    Args:
        axis: as an axis file holds it.
        data: as a data config holds it.

    Returns:
        The data config, and the keys that the axis gave; none where nothing was left to it.

    Raises:
        UserError: something is left to an axis that names no data.

    >>> data_of({"name": "age", "data": "age"}, {"of_axis": True, "facts": []})[0]["facts"]
    []
    """
    content = {key: value for key, value in data.items() if key != OF_AXIS}
    if content.get("fit") == OWN:  # layers are then chosen on a part of the user's prompts too
        content["validation"] = content.get("validation") or []
    if not data.get(OF_AXIS):
        return content, frozenset()
    if not axis.get(DATA):
        if all(content.get(split) is not None for split in SPLITS):
            return content, frozenset()
        raise UserError(
            f"axis {axis.get('name')!r} says of no data that they are its own: name some, such as "
            f"data=FILE.yaml, or write {DATA}: FILE.yaml into the axis; prompts of yours are "
            f"fitted on too with data.fit={OWN}"
        )
    own, _ = data_of({"name": axis.get("name")}, config_of("data", axis[DATA]))
    given = frozenset(key for key in own if content.get(key) is None)
    return content | {key: own[key] for key in given}, given
