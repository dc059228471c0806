"""Where the truth and the axes of the testbed lie on disk."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from countergen_edit.conf_path import read_config
from countergen_edit.data.axis import Axis
from countergen_edit.errors import UserError
from countergen_edit.reading import text_of, yaml_mapping
from countergen_edit.testbed.compiler import compile_truth
from countergen_edit.testbed.truth import Truth

TRUTH = "truth.yaml"
"""The file in a model's directory that says what was planted."""
TESTBED = "testbed"
"""What commands and Python call the shipped model."""
SHIPPED = Path(__file__).parent / "model"
"""The directory of the shipped model."""


def truth_in(directory: Path) -> Truth | None:
    """The truth that a model's directory brings, if its biases were planted.

    Raises:
        UserError: the directory has a file of that name which holds no truth.
    """
    path = directory / TRUTH
    if not path.is_file():
        return None
    content = yaml_mapping(path)
    try:
        return replace(compile_truth(content), text=text_of(path))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} holds no planted truth: {error!r}") from error


@cache
def load_truth() -> Truth:
    """The truth of the shipped testbed."""
    truth = truth_in(SHIPPED)
    assert truth is not None
    return truth


@cache
def load_axis(name: str) -> Axis:
    """An axis the testbed was trained on (`gender` or `nationality`)."""
    return Axis.from_config(read_config("axis", name))
