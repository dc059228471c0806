"""Rows of gates are means over tokens, their intervals over texts and people."""

import numpy as np
import pytest

from countergen_edit.data.task import Task
from countergen_edit.edits import EditRecord, Place
from countergen_edit.metrics.fits import CLOSED, OPEN, gate_rows, gate_texts
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.views.probes import GatesView
from countergen_edit.testbed import load_axis
from tests.metrics.small import set_of

GATED = EditRecord("g", "gated", {}, (Place("resid_post", 5, 8),))


def test_a_figure_is_a_mean_over_tokens_and_not_over_texts():
    neutral = {"validation": ("long", "short")}
    [texts] = gate_texts(Task(load_axis("gender"), ("f", "m"), neutral=neutral))
    opened = np.array([1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0])
    [row] = gate_rows([(texts, opened, np.array([0] * 7 + [1]))], seed=0)
    assert row.value == pytest.approx(3.5 / 8)
    assert row.detail["not_closed"] == 4 / 8
    assert row.detail["wholly_open"] == 3 / 8
    assert (row.detail["tokens"], row.n) == (8, 2)
    assert (row.dataset, row.group_a) == ("neutral_validation", "")


@pytest.mark.parametrize("paraphrases", [1, 4])
def test_people_are_drawn_and_not_prompts(paraphrases):
    """Where only who is asked of matters, many templates make nothing surer."""
    people = {group: [f"{group} {i}" for i in range(20)] for group in "fm"}
    templates = [f"{{}} in template {w}" for w in range(paraphrases)]
    data = set_of("jobs", templates, [(" a", " b")] * paraphrases, people)
    [texts] = gate_texts(Task(load_axis("gender"), ("f", "m"), validation=(data,)))
    values = np.random.default_rng(0).uniform(size=(2, 20))
    of_person = dict(zip([*people["f"], *people["m"]], values.ravel(), strict=True))
    opened = np.array([of_person[name] for name in texts.table["name"]])
    [row] = gate_rows([(texts, opened, np.arange(len(opened)))], seed=0)
    error = np.sqrt(values.var(axis=1, ddof=1).sum() / 20) / 2
    assert row.value == pytest.approx(values.mean())
    assert (row.hi - row.lo) / 2 == pytest.approx(2.02 * error, rel=0.12)
    assert (row.group_a, row.group_b, row.n) == ("f", "m", 40 * paraphrases)


def gate(kind, share, tokens=200):
    lo, hi = max(share - 0.02, 0.0), min(share + 0.02, 1.0)
    detail = {"not_closed": share, "not_closed_lo": lo, "not_closed_hi": hi}
    detail |= {"wholly_open": share / 2, "tokens": tokens}
    facets = {"texts": kind}
    return Row(OPEN, 0.9 * share, facets=facets, detail=detail, edit="g", split="validation")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([gate("neutral", 0.002, 5000)], "opened at 0.2 % [0.0, 2.2] of the 5000 tokens of neut"),
        ([gate("neutral", 0.0, 5000)], "opened at none of the 5000 tokens of neutral text: "),
        ([gate("agreement", 0.1)], CLOSED),
        ([gate("agreement", 0.11)], "it is not closed: grammar is not out of its reach there."),
        ([gate("erase", 0.9)], CLOSED),
        ([gate("erase", 0.89)], "it stays closed: there the edit cannot act."),
    ],
)
def test_it_says_where_a_gate_opened_and_whether_in_the_wrong_place(rows, says):
    tested = Row("group_effect", 1.0, edit="g", split="test")
    [sentence] = GatesView().sentences(Results([tested, *rows], {"g": GATED}))
    assert sentence.startswith("The gate of gated (rank 8) at layer 5 opened at ")
    assert says in sentence
