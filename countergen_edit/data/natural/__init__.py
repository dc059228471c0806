"""Natural English of our own: neutral text, and templates about people by axis and split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import unknown
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.data.axis import NoFormsError, differs
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.neutral import TextsBySplit, split_texts
from countergen_edit.data.sources import Request, as_texts
from countergen_edit.data.templates import Template, expand, slot_names

_HERE = Path(__file__).parent


def neutral() -> TextsBySplit:
    """Texts of one to three sentences that mention nobody, from many kinds of writing."""
    return split_texts((_HERE / "neutral.txt").read_text("utf-8").splitlines())


def agreement(request: Request) -> CounterfactualSet:
    """Prompts of a split whose i-th output is the form that agrees with the i-th group.

    Raises:
        NoFormsError: the axis has no form that differs and follows a template it can fill.
    """
    a, b = (request.axis.groups[group] for group in request.groups)
    slots = {*a.forms, *({"name"} if a.names.get(request.split) else ())}
    templates = [
        Template(text, (f" {a.forms[form]}", f" {b.forms[form]}"))
        for form, texts in _read("agreement")[request.split].items()
        if differs(form, a, b)
        for text in texts
        if slot_names(text) <= slots
    ]
    if not templates:
        raise NoFormsError(request.axis.name, request.groups)
    return _expanded("natural_agreement", templates, request)


def stereotypes(request: Request) -> CounterfactualSet:
    """Traits and jobs that are stereotypical of groups of an axis; the templates have no splits."""
    name = request.axis.name
    kinds = _of_axis("stereotypes", name)
    return _expanded(f"{name}_stereotypes", _templates(kinds, "templates"), request)


def legitimate_differences(request: Request) -> CounterfactualSet:
    """Factual differences between groups of an axis, such as the voices that people sing with."""
    kinds = _of_axis("legitimate_differences", request.axis.name)
    return _expanded("natural_facts", _templates(kinds, request.split), request)


def people(request: Request, *, family: str | list[str]) -> CounterfactualSet:
    """The prompts of a family of templates that the axis can fill.

    Args:
        request: axis, split and groups.
        family: one or several of `names` (a name shows the group), `words` (a noun or adjective),
            `pronouns` (pronouns alone), `several` (several people, one of a group), `sentences`
            (letters and other prose), `questions` (yes or no) and `described` (a name or noun, and
            an adjective or age).

    Raises:
        UserError: the family is unknown.
        NoFormsError: no template of it tells the two groups apart.
    """
    content = _read("people")
    families = as_texts(family, "family")
    for own in families:
        if own not in content["families"]:
            raise unknown("family of natural_people", own, content["families"])
    a, b = (request.axis.groups[group] for group in request.groups)
    slots = {*a.forms, *({"name"} if a.names.get(request.split) else ())}
    telling = {form for form in a.forms if differs(form, a, b)}
    if a.names != b.names:  # groups of crossed axes may have the same names
        telling |= slots & {"name"}
    templates = [
        Template(text, tuple(f" {output}" for output in content["outputs"][kind]))
        for own in families
        for kind, texts in content["families"][own][request.split].items()
        for text in texts
        if slot_names(text) <= slots and slot_names(text) & telling
    ]
    if not templates:
        prompts = f"the templates of family {' and '.join(families)!r}"
        raise NoFormsError(request.axis.name, request.groups, prompts)
    return _expanded(f"natural_{'_'.join(families)}", templates, request)


def _templates(kinds: Iterable[Mapping[str, Any]], key: str) -> list[Template]:
    return [
        Template(text, tuple(f" {output}" for output in kind["outputs"]))
        for kind in kinds
        for text in kind[key]
    ]


def _expanded(name: str, templates: list[Template], request: Request) -> CounterfactualSet:
    name = request.name or f"{name}_{request.split}"
    return expand(name, templates, request.axis, request.split, request.groups)


def _of_axis(file: str, axis: str) -> Any:
    axes = _read(file)
    if axis not in axes:
        raise unknown(f"axis with natural {file.replace('_', ' ')}", axis, axes)
    return axes[axis]


@cache
def _read(file: str) -> dict[str, Any]:
    content: dict[str, Any] = shipped_yaml(_HERE / f"{file}.yaml")
    return content
