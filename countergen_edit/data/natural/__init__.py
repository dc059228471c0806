"""Natural English that ships: neutral text, agreement and legitimate differences by split."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.reading import shipped_yaml
from countergen_edit.data.axis import DoesNotFitError, NoFormsError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.neutral import TextsBySplit, split_texts
from countergen_edit.data.sources import Request
from countergen_edit.data.templates import Template, slot_names

_HERE = Path(__file__).parent


def neutral() -> TextsBySplit:
    """Texts of one to three sentences that mention nobody, from many kinds of writing."""
    return split_texts((_HERE / "neutral.txt").read_text("utf-8").splitlines())


def agreement(request: Request) -> CounterfactualSet:
    """Prompts of a split whose i-th output is the form that agrees with the i-th group.

    `NoFormsError` if the axis has no form that differs and follows a template it can fill.
    """
    slots, telling = _slots(request)
    sides = [request.axis.groups[group].forms for group in request.groups]
    templates = [
        Template(text, tuple(f" {forms[form]}" for forms in sides))
        for form, texts in _read("agreement")[request.split].items()
        if form in telling
        for text in texts
        if slot_names(text) <= slots
    ]
    if not templates:
        raise NoFormsError(request.axis.name, request.groups)
    return request.expand(f"natural_agreement_{request.split}", templates)


def _slots(request: Request) -> tuple[set[str], set[str]]:
    """The slots that both groups can fill, and those of them that tell the groups apart."""
    a, b = (request.axis.groups[group] for group in request.groups)
    telling = {form for form in a.forms if a.forms[form] != b.forms[form]}
    if not a.names.get(request.split):
        return {*a.forms}, telling
    # Groups of crossed axes may have the same names.
    return {*a.forms, "name"}, telling | ({"name"} if a.names != b.names else set())


def legitimate_differences(request: Request) -> CounterfactualSet:
    """Factual differences between groups of an axis, such as the voices that people sing with."""
    axes = _read("legitimate_differences")
    if request.axis.name not in axes:
        raise DoesNotFitError(
            f"no natural legitimate differences are on record for axis {request.axis.name!r}, only "
            f"for {', '.join(axes)}"
        )
    templates = [
        Template(text, tuple(f" {output}" for output in kind["outputs"]))
        for kind in axes[request.axis.name]
        for text in kind[request.split]
    ]
    return request.expand(f"natural_facts_{request.split}", templates)


@cache
def _read(file: str) -> dict[str, Any]:
    content: dict[str, Any] = shipped_yaml(_HERE / f"{file}.yaml")
    return content


def capability() -> dict[str, list[list[str]]]:
    """Kind → questions, each with its right answer and three wrong ones."""
    return _read("capability")
