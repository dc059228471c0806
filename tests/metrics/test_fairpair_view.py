"""The view of FairPair shows the rows of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from countergen_edit.edits import EditRecord, Place
from countergen_edit.metrics.fairpair import FairPair
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Section, Words, plain
from countergen_edit.reports.views.fairpair import FairPairView

VIEW = FairPairView(FairPair, "fairpair")
TERM = {"text": "her hobby", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.8, "p": 0.001}
RECORD = EditRecord("leace-1f", "leace", {}, (Place("resid_post", 3, 1),))


def rows(edit: str, f: float | None) -> list[Row]:
    about: dict[str, Any] = {"dataset": "common_sents", "group_a": "female", "group_b": "male"}
    about |= {"split": "test", "edit": edit, "n": 2}
    of_phi = about | {"facets": {"phi": "jaccard"}}
    reason = {} if f else {"reason": "V = 0: all texts of one side are alike"}
    prompts = [["nurse", 0.8, 0.7, 0.75, 1.2, 0.01], ["clerk", 0.8, 0.7, 0.75, None, None]]
    sides = {"source": "male", "target": "female"}
    tests = {"p_adjusted": 0.008 if f else None, "undefined": {}, "prompts": prompts}
    tests |= {"t_p_v_pg": 0.0004, "t_p_v_gp": 0.25}
    lo, hi = (1.01, 1.21) if f else (None, None)
    return [
        Row("fairpair_f", f, lo=lo, hi=hi, detail=tests | sides | reason, **of_phi),
        Row("fairpair_bias", 0.8, **of_phi),
        Row("fairpair_v_gp", 0.7, **of_phi),
        Row("fairpair_v_pg", 0.75, **of_phi),
        Row("fairpair_energy", 0.15, lo=0.1, hi=0.2, **of_phi),
        Row("fairpair_perturbed", 0.98, detail={"empty_continuations": 5}, **about),
        Row("fairpair_ngrams", 1.0, detail={"terms": [TERM]} | sides, **about),
    ]


def results(*measured: list[Row]) -> Results:
    return Results([row for rows in measured for row in rows], {RECORD.id: RECORD})


def tab(of: Results) -> Section:
    [section] = [s for s in VIEW.sections(of) if s.name == "fairpair"]
    return section


def briefly(of: Results) -> list[str]:
    [words] = [b for b in tab(of).blocks if isinstance(b, Words)]
    return list(words.sentences)


def test_table_3_has_every_row_and_without_rows_nothing_is_shown() -> None:
    after = rows(RECORD.id, 1.01)
    change = replace(after[0], metric="fairpair_f_change", value=-0.1, detail={})
    of = results(rows(UNEDITED, 1.11), after, [change])
    table, *_ = tab(of).tables()
    lines = {line[0]: tuple(map(plain, line[1:])) for line in table.rows}
    assert lines["F, jaccard"] == ("1.11*", "1.01*")
    assert lines["change of F, jaccard"] == ("", "−0.10")
    assert lines["perturbations that pass the filters"] == ("98.0 %", "98.0 %")
    assert {line.split(",")[0] for line in lines} > {"B", "V_gp", "V_pg", "2B−V−V"}
    [tests] = [t for t in tab(of).tables() if t.name == "fairpair_tests"]
    assert [*map(plain, tests.rows[0])] == ["jaccard", "unedited", "0.008", "< 0.001", "0.250"]
    [sentence] = VIEW.sentences(of)
    test = "(permutation test, P 0.008, Holm; F"
    assert f"before any edit differ {test} 1.11 [1.01, 1.21]); after {RECORD.label}" in sentence
    assert VIEW.remaining(of, RECORD) == ["texts differ by jaccard (permutation test)"]
    [main] = [quantity for quantity in VIEW.quantities(of) if quantity.main]
    assert (main.how.label, main.of, main.number(RECORD.id).text) == (
        "FairPair, F (1 = no bias)",
        "jaccard",
        "1.01",
    )
    assert briefly(of) == ["10 continuations were empty."]
    nothing = Results([Row("r", 0.1)])
    assert VIEW.sections(nothing) == VIEW.quantities(nothing) == VIEW.sentences(nothing) == []


@pytest.mark.parametrize(
    ("lo", "p", "said"),
    [
        (1.02, 0.002, "differ (permutation test, P 0.002, Holm; F 1.11 [1.02, 1.21])"),
        (0.95, 0.002, "differ on these prompts alone (permutation test, P 0.002, Holm; F 1.11 "),
        (1.02, 0.3, "do not differ detectably (permutation test, P 0.300, Holm; F 1.11 [1.02"),
    ],
)
def test_the_sentence_says_by_which_test_texts_differ_and_on_how_many_templates(
    lo: float, p: float, said: str
) -> None:
    """Intervals of F, of 1.1 on every template, that hold 1 on three of four."""
    row, *rest = rows(UNEDITED, 1.11)
    of_each = [
        replace(
            row,
            metric="fairpair_f_of_paraphrase",
            lo=own,
            facets=row.facets | {"paraphrase": str(own)},
            detail={"p_adjusted": p_own},
        )
        for own, p_own in ((0.7, 0.003), (0.85, 0.003), (0.86, 0.2), (1.05, 0.003))
    ]
    other = [replace(one, facets=one.facets | {"phi": "sentiment"}) for one in of_each]
    before = replace(row, lo=lo, detail=row.detail | {"p_adjusted": p})
    [sentence] = VIEW.sentences(results([before, *rest], of_each, other))
    assert f"the two groups {said}" in sentence
    assert sentence.endswith(", by the test on 3 of 4 templates, by F's interval on 1.")


def test_b_and_v_are_drawn_by_the_number_of_continuations_and_of_folds() -> None:
    about: dict[str, Any] = {"dataset": "common_sents", "split": "test"}
    sizes = [
        Row(f"fairpair_by_{of}", size / 100, facets={"phi": phi, "quantity": q, of: size}, **about)
        for of in ("samples", "folds")
        for phi in ("jaccard", "sentiment")
        for q in ("B", "V_gp")
        for size in (10, 50)
    ]
    [figure] = [f for f in tab(results(sizes)).figures() if f.name == "fairpair_sizes"]
    assert [(p.title, p.x_label) for p in figure.panels[:2]] == [
        ("B, jaccard", "samples of each side"),
        ("V_gp, jaccard", "samples of each side"),
    ]
    assert len(figure.panels) == 8
    for panel in figure.panels:
        [line] = panel.series
        assert (line.x, line.y) == ((10.0, 50.0), (0.1, 0.5))
