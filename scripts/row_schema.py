"""Write the JSON Schema (draft 2020-12) of result rows: python scripts/row_schema.py."""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole
from countergen_edit.metrics.rows import COLUMNS, SCHEMA, Row

KEPT = ("type", "anyOf", "items", "additionalProperties")
"""The keys of pydantic's schema that restrict a column's values."""


def row_schema() -> dict[str, Any]:
    """The JSON Schema of one line of `results.jsonl`: every column stands in every row."""
    columns = TypeAdapter(Row).json_schema(mode="serialization")["properties"]
    meanings = _meanings()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A row of results.jsonl, version {SCHEMA}",
        "description": (
            f"Rows of runs whose manifest.json has `schema: {SCHEMA}`. A row is told from every "
            "other of its run by metric, task, dataset, group_a, group_b, facets, edit and split."
        ),
        "type": "object",
        "additionalProperties": False,
        "required": [*COLUMNS],
        "properties": {
            name: {"description": meanings[name]}
            | {k: v for k, v in columns[name].items() if k in KEPT and v is not True}
            for name in COLUMNS
        },
    }


def write_row_schema(folder: Path) -> Path:
    """Write the schema of this version as `rows-N.schema.json`.

    Raises:
        UserError: the file has other columns under the same version.
    """
    path = folder / f"rows-{SCHEMA}.schema.json"
    content = json.dumps(row_schema(), indent=2, ensure_ascii=False) + "\n"
    if path.is_file() and path.read_text("utf-8") != content:
        raise UserError(
            f"{path} is of other columns: raise SCHEMA in metrics/rows.py, now {SCHEMA}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary:
        temporary.write_text(content, "utf-8")
    return path


def _meanings() -> dict[str, str]:
    """The docstring under each column of `Row`."""
    [body] = ast.parse(textwrap.dedent(inspect.getsource(Row))).body
    assert isinstance(body, ast.ClassDef)
    return {
        column.target.id: inspect.cleandoc(meaning.value.value)
        for column, meaning in pairwise(body.body)
        if isinstance(column, ast.AnnAssign)
        and isinstance(column.target, ast.Name)
        and isinstance(meaning, ast.Expr)
        and isinstance(meaning.value, ast.Constant)
        and isinstance(meaning.value.value, str)
    }


if __name__ == "__main__":
    try:
        print(write_row_schema(Path(__file__).parent.parent / "docs" / "results"))
    except UserError as error:
        sys.exit(f"row_schema: {error}")
