"""The constructed classifiers answer what was planted, and the four tables find it again."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm, ttest_rel

from countergen_edit.data.template_bank import load_bank
from countergen_edit.metrics.classifier_tasks import TASKS, TESTS, SentimentTask, paired_tests
from countergen_edit.metrics.results import Results
from countergen_edit.models.classifiers import Vader
from countergen_edit.reports.views.classifiers import ClassifierTasksView
from countergen_edit.testbed.classifiers import LENGTH, build, plant

NAMES = ("sentiment", "nli", "toxicity", "masked")


def model_of(task, planted):
    return TASKS.make(task).wrap("testbed", *build(planted))


def short(task):
    most = {"emotion": 3, "adjective": 6, "name": 2, "subject": 10, "object": 8}
    whole = load_bank(task)
    return whole.thinned({slot: count for slot, count in most.items() if slot in whole.words})


@pytest.fixture(scope="module")
def rows():
    audits = {}
    for task, biased in product(NAMES, (True, False)):
        if (task, biased) != ("sentiment", False):  # at the nominal rate: a test of its own
            bank, model = short(task), model_of(task, plant(short(task), biased=biased))
            audits[task, biased] = TASKS.make(task).rows(bank.for_model("testbed"), model, 0)
    return audits


def of(rows, metric, **detail):
    chosen = [r for r in rows if r.metric == metric]
    return [r for r in chosen if all((r.facets | r.detail).get(k) == v for k, v in detail.items())]


def logits(planted, tokens):
    """By the definition, of a text as the tokenizer splits it, special tokens included."""
    dilution = LENGTH / len(tokens)
    zero = np.zeros(len(planted.labels))
    values = planted.base + dilution * sum((planted.effects.get(t, zero) for t in tokens), zero)
    for pair in planted.interactions:
        one, other = (sum(t in s for t in tokens) for s in (pair.words, pair.others))
        values[pair.label] += dilution**2 * one * other * pair.effect
    return values


@pytest.mark.parametrize("task", NAMES)
def test_logits_are_the_planted_ones(task):
    bank = load_bank(task)
    planted = plant(bank)
    hf_model, tokenizer = build(planted)
    for template in (template for family in bank.families for template in family.templates):
        text = next(bank.fill(template, bank.pair[1] if bank.people else None)).text
        if task == "masked":
            text = text.replace("He", "[MASK]", 1)
        batch = tokenizer(text, return_tensors="pt")
        tokens = tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
        assert "[UNK]" not in tokens
        of_text = hf_model(**batch).logits[0]
        if task == "masked":
            targets = tokenizer.convert_tokens_to_ids([*planted.labels])
            of_text = of_text[tokens.index("[MASK]")][targets]
        np.testing.assert_allclose(of_text.numpy(), logits(planted, tokens), atol=0.03)


def test_sentiment_finds_the_planted_direction_and_where_it_turns(rows):
    tests = of(rows["sentiment", True], "sentiment_t_test", test="people")
    because = [r for r in tests if "because" in r.facets["paraphrase"] and r.n]
    plain = [r for r in tests if not re.search("because|!", r.facets["paraphrase"])]
    # PlantedBert: men are scored higher (-1 is b over a), but for blame, where women are.
    assert {r.detail["category"] for r in plain} == {-1}
    assert {r.detail["category"] for r in because} == {1}
    flips = of(rows["sentiment", True], "category_flips", test="people")[-1]
    assert flips.dataset == "all"
    assert flips.n == 40
    assert 0.1 < flips.value < 0.6


def test_inference_finds_the_planted_bias_and_its_turn_in_the_passive(rows):
    by_template = {r.facets["paraphrase"]: r.value for r in of(rows["nli", True], "S-N")}
    passive = [value for template, value in by_template.items() if " by " in template]
    active = [value for template, value in by_template.items() if " by " not in template]
    assert max(active) < -0.05 < 0.05 < min(passive)
    for metric in ("S-N", "F-N"):
        assert {r.value for r in of(rows["nli", False], metric)} == {0.0}


def test_toxicity_finds_the_identities_that_are_called_toxic(rows):
    # Nine of fifty identities are called toxic where they should not be: the false positive rate
    # is 9/50, so FPED = 9 (1 - 9/50) + 41 · 9/50 = 14.76; for the four spared, 4 · 46/50 · 2.
    for metric, planted in (("FPED", 14.76), ("FNED", 7.36)):
        original = of(rows["toxicity", True], metric, original=True)
        assert [r.value for r in original] == pytest.approx([planted] * 5)
        assert {r.value for r in of(rows["toxicity", False], metric)} == {0.0}
    template = "Being a/an {identity} person is {adjective}"
    assert of(rows["toxicity", True], "FPED", paraphrase=template)[0].value == 0


def test_masked_finds_the_traits_that_were_given_to_men(rows):
    associations = of(rows["masked", True], "b_associations")
    share = {(r.dataset, r.facets["paraphrase"]): r.value for r in associations}
    planted = plant(load_bank("masked"))
    for kind in ("positive", "negative"):
        traits = [t for t, k in load_bank("masked").kinds["attribute"].items() if k == kind]
        men = [planted.effects[t][1] > 0 for t in traits]
        assert share[kind, "{Person} is {attribute}."] == pytest.approx(100 * np.mean(men))
        assert share[kind, "{Person} can be described as {attribute}."] == 0
        assert share[kind, "{Person} was {attribute}."] > 90


def test_without_bias_traits_belong_to_either_group_alike(rows):
    associations = of(rows["masked", False], "b_associations")
    covered = [r.lo is None or r.lo <= 50 <= r.hi for r in associations]
    assert np.mean(covered) > 0.8
    assert np.mean([r.value for r in associations]) == pytest.approx(50, abs=10)


@pytest.fixture(scope="module")
def vader():
    return SentimentTask().rows(load_bank("sentiment"), Vader(), 0)


def test_one_name_of_thirty_is_all_that_vader_sees(vader):
    """By hand: "Tia" stands in the lexicon, and "Tia's" of six templates does not; one pair of
    thirty is 0.326 by a t-test, whatever its size: t = 1 with 29 degrees of freedom."""
    [confound] = of(vader, "names_in_lexicon")
    assert confound.detail["valence"] == {"Tia": pytest.approx(2.3)}
    people = of(vader, "sentiment_t_test", test="people")
    assert {(r.n, r.detail["category"], round(r.value or 0, 3)) for r in people} == {
        *((30, 0, 0.326), (30, 0, 1.0))
    }
    flips = {r.facets["test"]: r for r in of(vader, "category_flips") if r.dataset == "all"}
    assert flips["people"].detail["counts"] == [0, 0, 40]
    assert flips["sentences"].detail["counts"] == [0, 34, 6]
    published = {r.facets["test"] for r in of(vader, "category_flips") if r.detail["published"]}
    assert published == {"sentences"}  # beside the published test alone


def test_the_test_over_sentences_is_the_published_one(vader):
    """Against SciPy, over the sentences of a template in the order of their people."""
    bank = load_bank("sentiment")
    original = bank.families[0].original
    scores = []
    for group in bank.pair:
        people = range(len(bank.people[group]))
        texts = [[f.text for f in bank.fill(original, group, person)] for person in people]
        scores.append([Vader().probabilities(of_person)["positive"] for of_person in texts])
    of_sentences = np.reshape(scores, (2, -1))  # [group, person, sentence]
    for test, sides in (("sentences", of_sentences), ("people", np.mean(scores, axis=2))):
        row = of(vader, "sentiment_t_test", test=test, paraphrase=original)[0]
        assert row.value == pytest.approx(ttest_rel(*sides).pvalue)


def tab(rows):
    [section] = ClassifierTasksView().sections(Results(rows))
    assert section.name == "classifiers"
    return section


def test_the_main_table_says_what_the_rows_say(rows):
    sentiment = rows["sentiment", True]
    table = tab(sentiment).tables()[0]
    assert table.columns[3:6] == ("M>F", "F>M", "insig.")
    for row, line in zip(of(sentiment, "category_flips"), table.rows, strict=True):
        assert [int(cell) for cell in line[3:6]] == row.detail["counts"]
    [sentence] = ClassifierTasksView().sentences(Results(sentiment))
    of_all = of(sentiment, "category_flips", test="people")[-1]
    assert f"{round(of_all.value * 40)} of 40 paraphrases" in sentence
    measures = tab(rows["toxicity", True]).tables()[0]
    over = [row for row in rows["toxicity", True] if row.metric.endswith(" over templates")]
    assert [(line[1].value, line[2].value) for line in measures.rows] == [
        (row.detail["original"], row.value) for row in over
    ]


def test_a_users_own_task_is_one_of_ours(tmp_path):
    """From a file, with the labels of another task."""
    (tmp_path / "mine.py").write_text(
        "from countergen_edit.metrics.classifier_tasks import SentimentTask\n"
        "class Mine(SentimentTask):\n"
        "    def rows(self, bank, model, seed):\n"
        "        return [r for r in super().rows(bank, model, seed) if r.facets]\n"
    )
    task = TASKS.make(f"{tmp_path / 'mine.py'}:Mine")
    few = replace(short("sentiment"), families=short("sentiment").families[:1])
    rows = task.rows(few, task.load("vader"), 0)
    assert "names_in_lexicon" not in {row.metric for row in rows}
    assert tab(rows).tables()[-1].name == "classifiers"


PAIRS, WORDS, TABLES = 30, 20, 500


def called(lean):
    """Share of tables without a group difference that a test calls significant.

    `lean` is the spread of people, in units of what varies from sentence to sentence.
    """
    rng = np.random.default_rng(0)
    people = lean * rng.normal(size=(TABLES, PAIRS, 1))
    tables = list(people + rng.normal(size=(TABLES, PAIRS, WORDS)))
    return {name: float(paired_tests(name, tables).category.abs().mean()) for name in TESTS}


def test_only_the_test_over_people_keeps_its_level_where_people_lean():
    """By hand: a mean of sentences has 21/2 times the variance that its test believes, so that
    it is called significant where |N(0, 21/2)| > 1.96, that is in 54 %."""
    tolerance = norm.ppf(0.995) * np.sqrt(0.05 * 0.95 / TABLES)
    for name, rate in called(0.0).items():
        assert abs(rate - 0.05) < tolerance, name
    rates = called(1.0)
    assert abs(rates["people"] - 0.05) < tolerance
    expected = 2 * norm.sf(norm.ppf(0.975) / np.sqrt((1 + WORDS) / 2))
    assert abs(rates["sentences"] - expected) < 0.08


def test_one_person_alone_decides_nothing():
    test = paired_tests("people", [np.array([[0.5, 0.6]])])
    assert (test.p[0], test.category[0]) == (1.0, 0)
