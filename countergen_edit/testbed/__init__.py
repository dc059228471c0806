"""The testbed: a small language model whose biases were planted and are therefore known."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import TRUTH
from countergen_edit.core.reading import yaml_mapping
from countergen_edit.data.axis import Axis, NoFormsError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.natural import TextsBySplit, split_texts
from countergen_edit.data.prompt_check import small_words
from countergen_edit.data.sources import Request
from countergen_edit.testbed.truth import Truth, compile_truth

__all__ = ["Truth", "directory", "load_axis", "load_truth", "truth_in"]

TESTBED = "testbed"
"""Name of the shipped model."""


def directory() -> Path:
    """Where the shipped weights and tokenizer lie."""
    return Path(__file__).parent / "model"


def truth_in(folder: Path) -> Truth | None:
    """The truth in a model's directory, if its biases were planted; `UserError` if unreadable."""
    path = folder / TRUTH
    if not path.is_file():
        return None
    content = yaml_mapping(path)
    try:
        return compile_truth(content)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} holds no planted truth: {error!r}") from error


@cache
def load_truth() -> Truth:
    """The truth of the shipped testbed."""
    truth = truth_in(directory())
    assert truth is not None
    return truth


@cache
def load_axis(name: str) -> Axis:
    """An axis the testbed was trained on (`gender` or `nationality`)."""
    return Axis.from_config(read_config("axis", name))


def vocabulary(truth: Truth) -> frozenset[str]:
    """Every word of the training corpus, in small letters."""
    groups = load_axis("gender").groups.values()
    texts = [word for group in groups for word in (*group.forms.values(), *group.all_names())]
    texts += [name for axis in truth.people.values() for names in axis.values() for name in names]
    for prompt in (*truth.prompts, *truth.follow_ups):
        texts += [prompt.template, *prompt.outputs, prompt.ending]
    for form in (*truth.agreement, *truth.agreement_follow_ups):
        texts += [form.template, *form.rest]
    texts += truth.descriptors
    texts += [part for columns in truth.neutral for parts in columns for part in parts]
    return frozenset(small_words(re.sub(r"\{.*?\}", " ", "\n".join(texts))))


def family_set(request: Request, *, family: str) -> CounterfactualSet:
    """A family's prompts crossed with the names of the same split that the truth knows, if any."""
    return load_truth().counterfactual_set(family, request.split, request.axis, request.groups)


def testbed_agreement(request: Request) -> CounterfactualSet:
    """Prompts whose outputs agree with one group each; `NoFormsError` if forms are equal."""
    a, b = (request.axis.groups[group] for group in request.groups)
    if any(a.forms.get(p.form) == b.forms.get(p.form) for p in load_truth().agreement):
        raise NoFormsError(request.axis.name, request.groups)
    return load_truth().agreement_set(request.split, request.axis, request.groups)


def testbed_neutral() -> TextsBySplit:
    """Every neutral sentence of the testbed's grammar."""
    return split_texts(load_truth().neutral_texts())
