"""Natural templates in which a group shows in other ways than by a name alone, by family.

Goes out: prompts of a family and split, for an axis that has the forms. Refused: an unknown family,
an axis on which none of its templates tells the groups apart (`NoFormsError`). All text is our own.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import unknown
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.forms import NoFormsError, differs
from countergen_edit.data.sources.base import Request, as_texts
from countergen_edit.data.templates import Template, expand, slot_names

_FILE = Path(__file__).parent / "people.yaml"


def people(request: Request, *, family: str | list[str]) -> CounterfactualSet:
    """The prompts of a family that the axis can fill, each with the outputs of its kind.

    Args:
        request: axis, split and groups.
        family: `names` (the group shows in a name), `words` (in a noun or an adjective), `pronouns`
            (in pronouns alone), `several` (one person of several is asked about), `sentences` (from
            letters and other prose), `questions` (answered by yes or no), `described` (in a name or
            noun and in an adjective or age); or several of them, as one set.

    Raises:
        UserError: the family is unknown.
        NoFormsError: no template of it tells the two groups apart.
    """
    content = _content()
    families = as_texts(family, "family")
    for own in families:
        if own not in content["families"]:
            raise unknown("family of natural_people", own, content["families"])
    a, b = (request.axis.groups[group] for group in request.groups)
    named = bool(a.names.get(request.split))
    available = {*a.forms, *({"name"} if named else ())}
    telling = {form for form in a.forms if differs(form, a, b)}
    if a.names != b.names:  # people of crossed axes may bear the same
        telling |= available & {"name"}
    templates = [
        Template(text, tuple(f" {output}" for output in content["outputs"][kind]))
        for own in families
        for kind, texts in content["families"][own][request.split].items()
        for text in texts
        if slot_names(text) <= available and slot_names(text) & telling
    ]
    if not templates:
        prompts = f"the templates of family {' and '.join(families)!r}"
        raise NoFormsError(request.axis.name, request.groups, prompts)
    name = request.name or f"natural_{'_'.join(families)}_{request.split}"
    return expand(name, templates, request.axis, request.split, request.groups)


@cache
def _content() -> dict[str, Any]:
    """Outputs by kind, and family → split → kind → templates."""
    content: dict[str, Any] = shipped_yaml(_FILE)
    return content
