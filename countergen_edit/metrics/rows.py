"""A result is a row: the one shape of every number that is shown anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import built
from countergen_edit.data.counterfactual import CounterfactualSet

if TYPE_CHECKING:
    from countergen_edit.metrics.statistics import Estimate

SCHEMA = 4
"""Version of the columns, facets and details of rows; a run's manifest tells it."""
SCREENING = "screening"
"""The split of what was measured on few names and texts of the validation data."""
UNEDITED = "none"
"""The edit of the unedited model."""
IN_CHAT = "_in_chat"
"""End of a set's name where its texts were replies in the chat template."""
GROUPS = "groups"
"""The facet of rows about two of several groups: the number of groups."""
OMNIBUS = "omnibus_effect"
"""The row of all groups of a set together."""


@dataclass(frozen=True)
class Row:
    """One line of `results.jsonl`."""

    metric: str
    """What was measured."""
    value: float | None
    """None where the metric is undefined; `detail` then says why."""
    task: str = ""
    """The task that the row belongs to, by which a run of several is parted."""
    dataset: str = ""
    """The set of prompts, texts or contexts that it was measured on."""
    axis: str = ""
    """What the groups differ in, such as `gender`."""
    group_a: str = ""
    """The group that the row is about, or the first of two."""
    group_b: str = ""
    """The second group; empty where the row is about one or about none."""
    facets: dict[str, str | float] = field(default_factory=dict)
    """What else tells rows of one metric and set apart: `phi`, `lambda`, `template`."""
    edit: str = UNEDITED
    """Id of the edit, which the run keeps under `edits/`."""
    eraser: str = ""
    """The name of the eraser that made the edit; empty without one."""
    site: str = ""
    """Where in a block the edit acts: `resid_post`, `attn_out`, `mlp_out`, `embed`."""
    layers: tuple[int, ...] = ()
    """The blocks in which it acts, counted from 0."""
    rank: int = 0
    """The dimensions that it takes out at each of them."""
    baseline: bool = False
    """Whether the edit is a control: others are compared with it, and it is never selected."""
    split: str = ""
    """The data that were measured: `fit`, `validation`, `test`, or `screening`."""
    lo: float | None = None
    """Lower end of the 95 % interval; None where there is none."""
    hi: float | None = None
    """Upper end of the 95 % interval."""
    n: int = 0
    """How many prompts, texts or pairs the value is over."""
    unit: str = ""
    """The unit of work that made the row, by which a run resumes."""
    seed: int = 0
    """The run's seed."""
    detail: dict[str, Any] = field(default_factory=dict)
    """What else the metric says of the value: its unit, tests, counts, reasons, single figures."""

    @property
    def key(self) -> tuple[object, ...]:
        """What tells the row from every other of its run."""
        facets = tuple(sorted(self.facets.items()))
        data = (self.task, self.dataset, self.group_a, self.group_b)
        return (self.metric, *data, facets, self.edit, self.split)

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON would have it, columns in their order."""
        columns = asdict(self) | {"layers": list(self.layers)}
        return {column: columns[column] for column in COLUMNS}

    @classmethod
    def of(
        cls,
        metric: str,
        value: Estimate | float | None,
        data: CounterfactualSet | None = None,
        **columns: Any,
    ) -> Row:
        """A row of a value, None where undefined, or an estimate; of a set, about its groups."""
        if data is not None:
            groups = dict(zip(("group_a", "group_b"), data.groups, strict=False))
            columns = {"dataset": data.name, "axis": data.axis} | groups | columns
        if value is None or isinstance(value, int | float):
            known = value is not None and math.isfinite(value)
            return cls(metric, **{"value": value if known else None} | columns)
        return cls(metric, **value.columns | columns)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str = "") -> Row:
        """Read a row back; `UserError` if a column is missing, unknown or of another type."""
        if set(content) != set(COLUMNS):
            odd = sorted(set(content) ^ set(COLUMNS))
            raise UserError(f"{where}a result row has missing or unknown columns: {', '.join(odd)}")
        built(cls, content, f"{where}not a result row: ")
        # As it stands there: a whole number that is read as a float would be written as another.
        return cls(**{**content, "layers": tuple(content["layers"])})


_OTHERS = [f.name for f in fields(Row) if f.name != "value"]
_LO = _OTHERS.index("lo")
COLUMNS = (*_OTHERS[:_LO], "value", *_OTHERS[_LO:])
"""The columns in the order of `results.jsonl`: the value is beside its interval."""


def dataset_label(dataset: str) -> str:
    """A set's name as a title.

    >>> dataset_label("double_bind_success_test")
    'double bind success'
    >>> dataset_label("hobbies_test_in_chat")
    'hobbies, in chat'
    """
    if dataset.endswith(IN_CHAT):
        return f"{dataset_label(dataset.removesuffix(IN_CHAT))}, in chat"
    for ending in ("_test", "_fit", "_validation"):
        dataset = dataset.removesuffix(ending)
    return dataset.replace("_", " ")


def set_label(row: Row) -> str:
    """A set's name as a title; of one pair among several, with the two groups."""
    label = dataset_label(row.dataset)
    pair = f"{row.group_a} and {row.group_b}".replace("_", " ")
    return f"{label}, {pair}" if GROUPS in row.facets and row.group_b else label


def with_holm(rows: Sequence[Row], key: str = "p") -> list[Row]:
    """The rows, with P of their details adjusted over all that have it; None is taken out.

    >>> rows = [Row("r", 0.1, detail={"p": p}) for p in (0.01, 0.04, None)]
    >>> [row.detail.get("p_adjusted") for row in with_holm(rows)], rows[2].detail
    ([0.02, 0.04, None], {})
    """
    from countergen_edit.metrics.statistics import adjusted  # late: help needs no SciPy

    tested = [row for row in rows if row.detail.get(key) is not None]
    for row, p in zip(tested, adjusted([row.detail[key] for row in tested]), strict=True):
        row.detail[f"{key}_adjusted"] = float(p)
    for row in rows:
        if row.detail.get(key) is None:
            row.detail.pop(key, None)
    return [*rows]
