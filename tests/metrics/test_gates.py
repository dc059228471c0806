"""Rows of gates are means over tokens, their intervals over texts and people; sentences follow."""

from __future__ import annotations

import numpy as np
import pytest

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import COMBINED, Place
from countergen_edit.metrics.gates import CLOSED, OPEN, Opening, Text, Texts, gate_rows
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean
from countergen_edit.reports.blocks import plain
from countergen_edit.reports.views.gates import GatesView

GATED = EditRecord("g", "gated", {}, (Place("resid_post", 5, 8),))
OTHER = EditRecord("o", "gated", {}, (Place("mlp_out", 2, 1),))
CONTROL = EditRecord("c", "random", {}, (Place("resid_post", 5, 8),), baseline=True)
BOTH = EditRecord("b", COMBINED, {}, (*GATED.places, *OTHER.places), (GATED, OTHER))
RECORDS = {record.id: record for record in (GATED, OTHER, CONTROL, BOTH)}


def names(group: str, count: int) -> list[str]:
    return [f"{group} {i}" for i in range(count)]


def people(count: int, paraphrases: int = 1) -> CounterfactualSet:
    samples = tuple(
        Sample(
            f"template {w}",
            (" a", " b"),
            tuple(
                Variation(group, f"{name} in template {w}", name)
                for group in ("f", "m")
                for name in names(group, count)
            ),
        )
        for w in range(paraphrases)
    )
    return CounterfactualSet("jobs", "gender", ("f", "m"), samples)


def prompts(data: CounterfactualSet) -> Texts:
    each = tuple(
        Text(v.text, sample.template, v.group, v.name)
        for sample in data.samples
        for v in sample.variations
    )
    return Texts("erase", each, (data,))


def test_a_figure_is_a_mean_over_tokens_and_not_over_texts() -> None:
    texts = Texts("nobody", (Text("long", "long"), Text("short", "short")))
    opened = np.array([1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0])
    [row] = gate_rows([Opening(texts, opened, np.array([0] * 7 + [1]))], seed=0)
    assert row.value == pytest.approx(3.5 / 8)
    assert row.detail["not_closed"] == 4 / 8
    assert row.detail["wholly_open"] == 3 / 8
    assert (row.detail["tokens"], row.n) == (8, 2)
    assert (row.dataset, row.group_a) == ("neutral_validation", "")


def test_the_interval_is_over_texts() -> None:
    """As if each text were one value: its tokens, of which there are many, are all alike."""
    by_text = np.random.default_rng(0).uniform(size=30)
    texts = Texts("nobody", tuple(Text(f"{i}", f"{i}") for i in range(30)))
    text = np.repeat(np.arange(30), 50)
    [row] = gate_rows([Opening(texts, by_text[text], text)], seed=0)
    plain = bootstrap_mean(by_text, 1)
    assert row.value == pytest.approx(plain.value)
    assert row.lo == pytest.approx(plain.lo, abs=0.02)
    assert row.hi == pytest.approx(plain.hi, abs=0.02)


@pytest.mark.parametrize("paraphrases", [1, 4])
def test_people_are_drawn_and_not_prompts(paraphrases: int) -> None:
    """Where only who is asked of matters, many templates make nothing surer."""
    data = people(20, paraphrases)
    texts = prompts(data)
    of_person = dict(
        zip(
            [*names("f", 20), *names("m", 20)],
            np.random.default_rng(0).uniform(size=40),
            strict=True,
        )
    )
    opened = np.array([of_person[str(one.name)] for one in texts.each])
    [row] = gate_rows([Opening(texts, opened, np.arange(len(opened)))], seed=0)
    values = np.array(list(of_person.values()))
    halves = [values[:20], values[20:]]
    error = np.sqrt(sum(half.var(ddof=1) / 20 for half in halves)) / 2
    assert row.value == pytest.approx(values.mean())
    assert row.lo is not None
    assert row.hi is not None
    assert (row.hi - row.lo) / 2 == pytest.approx(2.02 * error, rel=0.12)
    assert (row.group_a, row.group_b, row.n) == ("f", "m", 40 * paraphrases)


def gate(kind: str, share: float, tokens: int = 200, edit: str = "g") -> Row:
    lo, hi = max(share - 0.02, 0.0), min(share + 0.02, 1.0)
    detail = {"not_closed": share, "not_closed_lo": lo, "not_closed_hi": hi}
    detail |= {"wholly_open": share / 2, "tokens": tokens}
    return Row(
        OPEN, 0.9 * share, edit=edit, split="validation", facets={"texts": kind}, detail=detail
    )


def results(*rows: Row, edits: str = "g") -> Results:
    tested = [Row("group_effect", 1.0, edit=edit, split="test") for edit in edits]
    return Results([*tested, *rows], RECORDS)


def test_a_sentence_says_where_a_gate_opened() -> None:
    rows = gate("nobody", 0.002, 5000), gate("agreement", 0.04, 80), gate("erase", 0.97, 90)
    assert GatesView().sentences(results(*rows)) == [
        "The gate of gated (rank 8) at layer 5 opened at 0.2 % [0.0, 2.2] of the 5000 tokens of "
        "neutral text, at the last token of 4 % [2, 6] of the 80 prompts whose next word "
        "must agree and at the last token of 97 % [95, 99] of the 90 prompts to be erased: "
        + CLOSED
    ]


def test_none_and_all_are_said_as_such_and_nearly_none_is_not() -> None:
    [sentence] = GatesView().sentences(results(gate("nobody", 0.0, 5000), gate("erase", 1.0, 90)))
    assert sentence == (
        "The gate of gated (rank 8) at layer 5 opened at none of the 5000 tokens of neutral "
        "text and at the last token of all 90 prompts to be erased: " + CLOSED
    )
    [sentence] = GatesView().sentences(results(gate("nobody", 0.0002, 5000)))
    assert " opened at 0.02 % [" in sentence
    [sentence] = GatesView().sentences(results(gate("nobody", 0.9998, 5000)))
    assert " opened at 99.98 % [" in sentence


@pytest.mark.parametrize(("share", "is_told"), [(0.1, False), (0.11, True)])
def test_it_says_where_grammar_is_within_reach(share: float, is_told: bool) -> None:
    [sentence] = GatesView().sentences(results(gate("agreement", share)))
    assert ("it is not closed: grammar is not out of its reach there." in sentence) == is_told


@pytest.mark.parametrize(("share", "is_told"), [(0.9, False), (0.89, True)])
def test_it_says_where_the_edit_cannot_act(share: float, is_told: bool) -> None:
    [sentence] = GatesView().sentences(results(gate("erase", share)))
    assert ("it stays closed: there the edit cannot act." in sentence) == is_told


def test_an_edit_of_several_parts_has_a_line_for_each_gate() -> None:
    about = results(gate("nobody", 0.1), gate("nobody", 0.2, edit="o"), edits="b")
    first, second = GatesView().sentences(about)
    assert "at layer 5 opened at 10 %" in first
    assert "at mlp_out.2 opened at 20 %" in second
    [section] = GatesView().sections(about)
    [table] = section.tables()
    assert table.columns == ("mean opening", GATED.label, OTHER.label)
    assert [[plain(cell) for cell in line] for line in table.rows] == [
        ["mean opening, neutral text", "9.0 %", "18.0 %"]
    ]
