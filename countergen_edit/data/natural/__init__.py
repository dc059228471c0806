"""Natural English that ships with us: neutral text, templates whose next word must agree,
templates in which people are stereotyped, and templates in which they differ by fact.

Goes out: `neutral`, texts by split, their `openings`, `agreement`, prompts by split for an axis
that has the forms, `stereotypes`, prompts of an axis that are only measured, and `facts`, prompts
of an axis by split. Refused: an axis on which no template shows an agreement (`NoFormsError`), one
that has no stereotypes or facts here. Texts and templates are our own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import unknown
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.forms import NoFormsError, differs
from countergen_edit.data.neutral import TextsBySplit, parted
from countergen_edit.data.sources.base import Request
from countergen_edit.data.templates import Template, expand, slot_names

_HERE = Path(__file__).parent


def neutral() -> TextsBySplit:
    """One to three sentences a text, about nobody, from many kinds of writing."""
    return parted(_texts())


def openings(words: int = 5) -> list[str]:
    """The first words of every text."""
    return [" ".join(text.split()[:words]) for text in _texts()]


def _texts() -> list[str]:
    return (_HERE / "neutral.txt").read_text("utf-8").splitlines()


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
    name = request.name or f"natural_agreement_{request.split}"
    return expand(name, templates, request.axis, request.split, request.groups)


def stereotypes(request: Request) -> CounterfactualSet:
    """Traits and jobs that people of an axis are said to have, the same templates in every split.

    Raises:
        UserError: there are none for the axis.
    """
    axes = _read("stereotypes")
    if request.axis.name not in axes:
        raise unknown("axis with natural stereotypes", request.axis.name, axes)
    templates = [
        Template(paraphrase, tuple(f" {output}" for output in kind["outputs"]))
        for kind in axes[request.axis.name]
        for paraphrase in kind["templates"]
    ]
    name = request.name or f"{request.axis.name}_stereotypes_{request.split}"
    return expand(name, templates, request.axis, request.split, request.groups)


def legitimate_differences(request: Request) -> CounterfactualSet:
    """What people of an axis differ in by fact, such as the voices that they sing with.

    Raises:
        UserError: there are none for the axis.
    """
    axes = _read("facts")
    if request.axis.name not in axes:
        raise unknown("axis with natural facts", request.axis.name, axes)
    templates = [
        Template(paraphrase, tuple(f" {output}" for output in kind["outputs"]))
        for kind in axes[request.axis.name]
        for paraphrase in kind[request.split]
    ]
    name = request.name or f"natural_facts_{request.split}"
    return expand(name, templates, request.axis, request.split, request.groups)


@cache
def _read(name: str) -> dict[str, Any]:
    """One of our files: split → form → templates, or axis → templates with their outputs."""
    content: dict[str, Any] = shipped_yaml(_HERE / f"{name}.yaml")
    return content
