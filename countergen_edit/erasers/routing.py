"""What of the data on hand an eraser is fitted with, by scikit-learn's metadata routing.

Comes in: an eraser and what is offered beside rows and classes. Goes out: the part that its `fit`
requests. Refused: an eraser whose `fit` takes something that is offered, and that neither requests
nor declines it.

A class requests in `__metadata_request__fit`, its user with `set_fit_request`, which scikit-learn
allows under `enable_metadata_routing` only; an alias given there is looked up among what is
offered. Reading the requests needs no such switch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator

from countergen_edit.errors import UserError


def fit_metadata(eraser: BaseEstimator, offered: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `eraser.fit`, from what is offered.

    Args:
        eraser: fitted or not; a clone has the same requests.
        offered: name → values, such as `contexts` and `pairs` with an id per row.

    Raises:
        UserError: `fit` takes a name that is offered, and no request says whether it should get it.
            Passing it over would fit the eraser on less than its author meant.

    >>> from countergen_edit.erasers import SentenceDebias
    >>> offered = {"pairs": [0, 0, 1, 1], "contexts": ["a", "a", "b", "b"]}
    >>> fit_metadata(SentenceDebias(), offered)
    {'pairs': [0, 0, 1, 1]}
    """
    routing = eraser.get_metadata_routing()
    requests: Mapping[str, bool | str | None] = routing.fit.requests
    for name, request in requests.items():
        if request is None and name in offered:
            raise UserError(
                f"the fit of {type(eraser).__name__} takes {name!r} without a request for it: "
                f"give the class __metadata_request__fit = {{{name!r}: True}}, or False"
            )
    consumed = routing.consumes("fit", offered)
    keys = {name: name if request is True else str(request) for name, request in requests.items()}
    return {name: offered[key] for name, key in keys.items() if key in consumed}
