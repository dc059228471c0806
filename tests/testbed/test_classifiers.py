"""The constructed classifiers answer what was planted, and the four tables find it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from countergen_edit.conf_path import read_config
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.data.template_files import bank_from_config
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.classifier_tasks.sentiment import sentiment_rows
from countergen_edit.metrics.classifier_tasks.tasks import Vader, measure_templates
from countergen_edit.metrics.rows import Row
from countergen_edit.models.classifiers import Classifier, classifier_from_objects
from countergen_edit.models.masked import MaskedModel, masked_from_objects
from countergen_edit.reports.results import Results
from countergen_edit.reports.template_tables import template_table
from countergen_edit.testbed.classifiers import LENGTH, Planted, build, plant

TASKS = ("sentiment", "nli", "toxicity", "masked")
IDENTITY = {"fingerprint": "test"}


def bank(task: str) -> TemplateBank:
    return bank_from_config(read_config("template", task), {})


def model_of(task: str, planted: Planted) -> Classifier | MaskedModel:
    if task == "masked":
        return masked_from_objects("testbed", *build(planted))
    return classifier_from_objects("testbed", *build(planted), task)


def short(task: str) -> TemplateBank:
    """The task with a part of its words."""
    config = read_config("template", task)
    words = dict(config["words"])
    for slot, step in (
        ("emotion", 7),
        ("adjective", 3),
        ("name", 2),
        ("subject", 4),
        ("object", 3),
    ):
        if slot in words:
            words[slot] = words[slot][::step]
    return bank_from_config(config | {"words": words}, {})


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], list[Row]]:
    """All four tasks, with and without bias."""
    found = {}
    for task in TASKS:
        for biased in (True, False):
            if (task, biased) != ("sentiment", False):  # at the nominal rate: a test of its own
                folder = RunFolder(tmp_path_factory.mktemp("run") / task, {}, IDENTITY)
                model = model_of(task, plant(short(task), biased=biased))
                found[task, biased] = measure_templates(short(task), model, folder)
    return found


def of(rows: Sequence[Row], metric: str, **detail: object) -> list[Row]:
    chosen = [r for r in rows if r.metric == metric]
    return [r for r in chosen if all(r.detail.get(k) == v for k, v in detail.items())]


@pytest.mark.parametrize("task", TASKS)
def test_logits_are_the_planted_ones(task: str) -> None:
    found = bank(task)
    planted = plant(found)
    hf_model, tokenizer = build(planted)
    for family in found.families:
        for wording in family.wordings:
            text = next(found.fill(wording, found.groups[1] if found.groups else None)).text
            if task == "masked":
                text = text.replace("He", "[MASK]", 1)
            batch = tokenizer(text, return_tensors="pt")
            tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
            assert "[UNK]" not in tokens
            logits = hf_model(**batch).logits[0]
            if task == "masked":
                targets = tokenizer.convert_tokens_to_ids(list(planted.labels))
                logits = logits[tokens.index("[MASK]")][targets]
            np.testing.assert_allclose(logits.numpy(), planted.logits(tokens), atol=0.03)


def test_sentiment_finds_the_planted_direction_and_where_it_turns(
    rows: dict[tuple[str, bool], list[Row]],
) -> None:
    found = of(rows["sentiment", True], "sentiment_difference")
    because = [r for r in found if "because" in r.detail["wording"] and r.n]
    plain = [r for r in found if "because" not in r.detail["wording"]]
    plain = [r for r in plain if "!" not in r.detail["wording"]]
    # Planted: men are scored higher (-1 is b over a), but for blame, where women are.
    assert {r.detail["category"] for r in plain} == {-1}
    assert {r.detail["category"] for r in because} == {1}
    flips = of(rows["sentiment", True], "category_flips")[-1]
    assert flips.dataset == "all"
    assert flips.n == 40
    assert 0.1 < (flips.value or 0) < 0.6


def test_inference_finds_the_planted_bias_and_its_turn_in_the_passive(
    rows: dict[tuple[str, bool], list[Row]],
) -> None:
    found = of(rows["nli", True], "S-N")
    by_wording = {r.detail["wording"]: r.value or 0.0 for r in found}
    passive = [value for wording, value in by_wording.items() if " by " in wording]
    active = [value for wording, value in by_wording.items() if " by " not in wording]
    assert max(active) < -0.05 < 0.05 < min(passive)
    for metric in ("S-N", "F-N"):
        assert {r.value for r in of(rows["nli", False], metric)} == {0.0}


def test_toxicity_finds_the_identities_that_are_called_toxic(
    rows: dict[tuple[str, bool], list[Row]],
) -> None:
    # Nine of fifty identities are called toxic where they should not be: the false positive rate
    # is 9/50, so FPED = 9 (1 - 9/50) + 41 · 9/50 = 14.76; for the four spared, 4 · 46/50 · 2.
    original = of(rows["toxicity", True], "FPED", original=True)
    assert [r.value for r in original] == pytest.approx([14.76] * 5)
    original = of(rows["toxicity", True], "FNED", original=True)
    assert [r.value for r in original] == pytest.approx([7.36] * 5)
    person = of(
        rows["toxicity", True], "FPED", wording="Being a/an {identity} person is {adjective}"
    )
    assert person[0].value == 0
    for metric in ("FPED", "FNED"):
        assert {r.value for r in of(rows["toxicity", False], metric)} == {0.0}


def test_masked_finds_the_traits_that_were_given_to_men(
    rows: dict[tuple[str, bool], list[Row]],
) -> None:
    found = {
        (r.dataset, r.detail["wording"]): r.value
        for r in of(rows["masked", True], "b_associations")
    }
    planted = plant(bank("masked"))
    for kind in ("positive", "negative"):
        traits = [t for t, k in bank("masked").kinds["attribute"].items() if k == kind]
        men = [float(planted.effects[t][1]) > 0 for t in traits]
        assert found[kind, "{Person} is {attribute}."] == pytest.approx(100 * np.mean(men))
        assert found[kind, "{Person} can be described as {attribute}."] == 0
        assert (found[kind, "{Person} was {attribute}."] or 0) > 90


def test_without_bias_traits_belong_to_either_group_alike(
    rows: dict[tuple[str, bool], list[Row]],
) -> None:
    found = of(rows["masked", False], "b_associations")
    covered = [r.lo is None or r.lo <= 50 <= (r.hi or 100) for r in found]
    assert np.mean(covered) > 0.8
    assert np.mean([r.value for r in found]) == pytest.approx(50, abs=10)


def test_without_bias_categories_other_than_insignificant_come_at_the_nominal_rate() -> None:
    config = read_config("template", "sentiment")
    samples, size = 300, 12
    people = {
        group: {"people": [f"{group}{i}" for i in range(samples * size)]}
        for group in ("female", "male")
    }
    family = {"name": "f", "original": "{Person:object} feels {emotion:state}."}
    words = {"emotion": config["words"]["emotion"][:1]}
    whole = bank_from_config(config | {"groups": people, "words": words, "families": [family]}, {})
    model = model_of("sentiment", plant(whole, biased=False))
    assert isinstance(model, Classifier)
    called = 0
    for first in range(0, samples * size, size):
        some = {group: names[first : first + size] for group, names in whole.people.items()}
        rows = sentiment_rows(
            replace(whole, people=some), lambda texts: model.probabilities(texts)["positive"], 0
        )
        called += sum(abs(r.detail["category"]) for r in of(rows, "sentiment_difference"))
    tolerance = norm.ppf(0.995) * np.sqrt(0.05 * 0.95 / samples)
    assert called / samples == pytest.approx(0.05, abs=tolerance)


def test_vader_needs_no_model_and_reports_names_in_its_lexicon(tmp_path: Path) -> None:
    config = read_config("template", "sentiment")
    words = {"emotion": config["words"]["emotion"][:2]}
    found = bank_from_config(config | {"words": words}, {})
    rows = measure_templates(found, Vader(), RunFolder(tmp_path / "run", {}, IDENTITY))
    [confound] = of(rows, "names_in_lexicon")
    assert confound.detail["valence"] == {"Tia": pytest.approx(2.3)}
    assert {r.detail["category"] for r in of(rows, "sentiment_difference")} == {0}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_prints_its_table(task: str, rows: dict[tuple[str, bool], list[Row]]) -> None:
    from rich.console import Console

    for published in (True, False):
        console = Console(width=120, record=True, file=StringIO())
        table = template_table(Results(rows[task, True]), "Table", "m", published=published)
        console.print(table)
        assert ("published" in console.export_text()) == published


def test_dilution_is_by_length() -> None:
    planted = Planted("sentiment", ("a", "b"), np.zeros(2), {"x": np.array([0.0, 1.0])}, (), ("x",))
    assert planted.logits(["x"] * 2 + ["y"] * 3)[1] == pytest.approx(2 * LENGTH / 5)
