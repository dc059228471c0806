"""Edits of classifiers do to the planted ones what is known beforehand, and their rows say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import TemplateBank, bank_from_config
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.classifier_tasks import TASKS
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.models.classifiers import Vader
from countergen_edit.reports.views.classifiers import ClassifierTasksView
from countergen_edit.runs.classifiers import Where, classifier_audit
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.run import open_run
from countergen_edit.testbed.classifiers import build, plant
from tests.runs.runs import IDENTITY

EVERYWHERE = Where("embed", None, "all")


def bank(task: str, families: int = 2, **words: int) -> TemplateBank:
    """The first families of a task, and every n-th word of some slots."""
    config = read_config("template", task)
    own = {
        slot: w
        if slot not in words
        else {kind: own[:: words[slot]] for kind, own in w.items()}
        if isinstance(w, dict)
        else w[:: words[slot]]
        for slot, w in config["words"].items()
    }
    return bank_from_config(config | {"words": own, "families": config["families"][:families]})


def audited(task: str, own: TemplateBank, path: Path, where: Where, *names: str) -> list[Row]:
    kind = TASKS.make(task)
    model = kind.wrap("testbed", *build(plant(own)))
    erasers = {name: make_eraser(name) for name in names}
    return classifier_audit(kind, own, model, RunFolder(path, {}, IDENTITY), 0, erasers, where)


def of(rows: list[Row], metric: str, eraser: str = "", **detail: object) -> list[Row]:
    own = [r for r in rows if r.metric == metric and r.eraser == eraser]
    return [r for r in own if all(r.detail.get(k) == v for k, v in detail.items())]


@pytest.fixture(scope="module")
def sentiment(tmp_path_factory):
    """A family, an exclamation mark among its paraphrases, edited where words come in."""
    path, own = tmp_path_factory.mktemp("run") / "sentiment", bank("sentiment", 1, emotion=5)
    return path, audited("sentiment", own, path, EVERYWHERE, "leace", "random")


def test_erased_where_words_come_in_the_groups_are_scored_alike_in_every_template(sentiment):
    """What is left is of forms such as "his" that originals have not."""
    before = of(sentiment[1], "sentiment_difference")
    after = of(sentiment[1], "sentiment_difference", "leace")
    control = of(sentiment[1], "sentiment_difference", "random")
    sizes = [np.mean([abs(r.value or 0.0) for r in rows]) for rows in (before, after, control)]
    assert len(before) == len(after) == len(control)
    assert sizes[0] > 0.03
    assert sizes[1] < 0.15 * sizes[0]
    assert sizes[2] > 0.6 * sizes[0]
    reaching = [r for r in after if (r.lo or 0.0) <= 0.0 <= (r.hi or 0.0)]
    assert len(reaching) >= 0.8 * len(after)
    [every] = [r for r in of(sentiment[1], "answers_kept", "leace") if r.dataset == "all"]
    assert (every.value or 0) > 0.9
    assert every.n > 100


def test_the_report_has_before_and_after_with_intervals(sentiment):
    path, rows = sentiment
    run = open_run(path)
    results = run.results
    labels = {row.eraser: results.label(row.edit) for row in rows}
    assert labels == {"": "unedited", "leace": "leace-1@embed", "random": "random-1@embed"}
    assert set(run.edits) == {row.edit for row in rows} - {UNEDITED}
    assert len({row.key for row in rows}) == len(rows)
    [section] = ClassifierTasksView().sections(results)
    tables = {table.name: table for table in section.tables()}
    table = tables["classifiers"]
    assert table.columns[2:] == ("unedited", "leace-1@embed", "random-1@embed")
    own = of(rows, "sentiment_difference")
    shown = [line for line in table.rows if line[0] == "sentiment difference"]
    assert [line[2].value for line in shown] == [row.value for row in own]  # type: ignore[union-attr]
    # The paper's tables stay those of the unedited model.
    assert len(tables["classifier_categories"].rows) == 4
    assert run.report().is_file()


def test_a_run_goes_on_without_fitting_or_measuring_anew(sentiment, monkeypatch):
    path, rows = sentiment
    kind = type(TASKS.make("sentiment"))
    monkeypatch.setattr(kind, "rows", lambda *_: pytest.fail("measured again"))
    own = bank("sentiment", 1, emotion=5)
    assert audited("sentiment", own, path, EVERYWHERE, "leace", "random") == rows


def test_an_orthogonal_erasure_of_the_target_leaves_traits_to_neither(tmp_path):
    """Planted: a trait speaks for "he" and never against "she". With the difference of the two
    projected out their logits move together, so that every trait is half of each: 50 %."""
    where = Where("resid_post", None, "outputs")
    rows = audited("masked", bank("masked"), tmp_path / "run", where, "mean_difference")
    assert {r.value for r in of(rows, "b_associations", "mean_difference")} == {50.0}
    assert {r.value for r in of(rows, "b_associations")} != {50.0}


@pytest.mark.slow
def test_inference_and_identity_terms_are_edited_too(tmp_path):
    own = bank("nli", subject=6, object=3)
    rows = audited("nli", own, tmp_path / "nli", EVERYWHERE, "leace")
    for row in of(rows, "S-N", "leace"):
        assert row.value == pytest.approx(0.0, abs=0.02), row.facets
    assert max(abs(r.value or 0.0) for r in of(rows, "S-N")) > 0.05
    own = bank("toxicity", 1, adjective=3, name=2, identity=4)
    rows = audited("toxicity", own, tmp_path / "toxicity", EVERYWHERE, "leace")
    # Four of thirteen identities are called toxic: FPED is 4 · 9/13 · 2 = 5.54. In this model what
    # an identity says of toxicity has no other direction than what an adjective says of it, so that
    # erasing one takes the other, which is what the answers that stay are counted for.
    assert max(r.value or 0.0 for r in of(rows, "FPED")) == pytest.approx(5.54, abs=0.01)
    assert max(r.value or 0.0 for r in of(rows, "FPED", "leace")) < 2.0
    assert min(r.value or 0.0 for r in of(rows, "answers_kept", "leace")) < 0.8


MISTAKES: dict[str, tuple[Any, str, Where, str]] = {
    "nothing hidden": (Vader(), "leace", Where(), "vader has no hidden states"),
    "no such layer": (None, "leace", Where("resid_post", (4,)), "unknown layer 4"),
    "likelihoods": (None, "distilled", Where(), "use one of closed form, such as eraser=leace"),
    "no difference": (None, "leace", Where("embed"), "use edit.positions=all"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_edited_is_refused_in_one_line(mistake, tmp_path):
    model, name, where, message = MISTAKES[mistake]
    kind, own = TASKS.make("sentiment"), bank("sentiment", 1, emotion=19)
    own = replace(own, families=tuple(replace(f, paraphrases=()) for f in own.families))
    model = model or kind.wrap("testbed", *build(plant(own)))
    folder = RunFolder(tmp_path / "run", {}, IDENTITY)
    with pytest.raises(UserError, match=message):
        classifier_audit(kind, own, model, folder, 0, {name: make_eraser(name)}, where)
