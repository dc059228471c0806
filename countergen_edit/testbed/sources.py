"""The testbed's prompts as a data source: `{source: testbed, family: occupations}`.

The text suits any model; only on the testbed is the truth behind it known.
"""

from __future__ import annotations

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.forms import NoFormsError, differs
from countergen_edit.data.neutral import TextsBySplit, parted
from countergen_edit.data.sources.base import Request
from countergen_edit.testbed.files import load_truth
from countergen_edit.testbed.truth import People


def family_set(request: Request, *, family: str, people: People = "planted") -> CounterfactualSet:
    """A family's wordings of the split asked for, crossed with the axis's names of that split.

    Args:
        request: axis, split and groups.
        family: whose wordings.
        people: `planted` asks about those of the axis's names that the truth speaks of, or about
            all if it speaks of none; `all` always asks about all.
    """
    truth = load_truth()
    return truth.counterfactual_set(family, request.split, request.axis, request.groups, people)


def testbed_agreement(request: Request) -> CounterfactualSet:
    """Prompts after which one form agrees with the person and the other does not.

    Raises:
        NoFormsError: the forms of the two groups do not differ.
    """
    a, b = (request.axis.groups[group] for group in request.groups)
    if not all(differs(prompt.form, a, b) for prompt in load_truth().agreement):
        raise NoFormsError(request.axis.name, request.groups)
    return load_truth().agreement_set(request.split, request.axis, request.groups)


def testbed_neutral() -> TextsBySplit:
    """Every sentence about nobody that the testbed's grammar can make."""
    return parted(load_truth().neutral_texts())
