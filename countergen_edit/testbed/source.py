"""The testbed's prompts as a data source: `{source: testbed, family: occupations}`.

The text suits any model; only on the testbed is the truth behind it known.
"""

from __future__ import annotations

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.sources import Request, register_source
from countergen_edit.testbed.truth import load_truth


@register_source("testbed")
def testbed(request: Request, *, family: str) -> CounterfactualSet:
    """A family's wordings of the split asked for, crossed with the axis's names of that split."""
    return load_truth().counterfactual_set(family, request.split, request.axis, request.groups)


@register_source("testbed_agreement")
def testbed_agreement(request: Request) -> CounterfactualSet:
    """Prompts after which one form agrees with the person and the other does not."""
    return load_truth().agreement_set(request.split, request.axis, request.groups)
