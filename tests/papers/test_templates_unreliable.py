"""The shipped templates and words are those of Seshadri et al. (2022)."""

import re
from collections import Counter

import numpy as np
import pytest

from countergen_edit.data.template_bank import load_bank
from countergen_edit.metrics.classifier_tasks import TASKS
from countergen_edit.testbed.classifiers import plant
from tests.papers.source import paper
from tests.testbed.test_classifiers import model_of

NAMES = ("Name+adj", "Being+adj", "You+are+adj", "Verb+adj", "Am/Hate+noun")


def instances():
    """Line of Table 4 → texts of its original."""
    bank = load_bank("toxicity")
    counts = Counter()
    for family in bank.families:
        counts[family.row] += bank.whole(family.original)
    return counts


def lines_of_table_4():
    """Of each line thousands of instances, and FPED and FNED of original and paraphrases."""
    number = r"([\d.]+)"
    change = r"\s?\(?[^)]*\)"
    line = re.compile(
        rf"^\S+ {number}K {number} {number}{change} (?:{number}|-) {number} (\d\.\d\d)", re.M
    )
    text = paper("templates_unreliable")
    lines = []
    for k, *figures in line.findall(text[text.index("Table 4:") :]):
        a, b, _, c, d = (float(f) if f else 0.0 for f in figures)
        lines.append((float(k), {"FPED": (a, b), "FNED": (c, d)}))
    return lines


def test_our_words_make_the_published_numbers_of_texts():
    """As printed, but for 16K in the second line: only with 1.6K do the lines make 75.7K."""
    printed = [k for k, _ in lines_of_table_4()]
    assert printed == [72, 16, 1.6, 0.4, 0.1, 75.7]
    ours = instances()
    assert tuple(ours) == NAMES
    assert [n / 1000 for n in ours.values()] == [72, 1.6, *printed[2:-1]]
    assert sum(ours.values()) == 75_700


def test_the_published_figures_of_the_templates_are_those_of_table_4():
    *lines, _ = lines_of_table_4()
    published = {f.row: f.published for f in load_bank("toxicity").families if f.published}
    for name, (_, line) in zip(NAMES, lines, strict=True):
        for measure, figures in line.items():
            assert tuple(published[name][measure][:2]) == figures


def test_our_last_line_weighs_as_the_papers_however_few_words_are_used():
    whole = load_bank("toxicity")
    thin = whole.thinned({"name": 1, "adjective": 8, "verb": 2, "identity": 3})
    model = model_of("toxicity", plant(whole))
    rows = TASKS.make("toxicity").rows(thin, model, 0)
    over = {r.dataset: r.detail for r in rows if r.metric == "FPED over templates"}
    assert {name: over[name]["whole"] for name in NAMES} == instances()
    assert [over[name]["used"] for name in NAMES] == [48, 48, 48, 12, 6]
    assert (over["all"]["used"], over["all"]["whole"]) == (162, 75_700)
    mean = sum(n * over[name]["original"] for name, n in instances().items()) / 75_700
    assert over["all"]["original"] == pytest.approx(mean)


def test_of_inference_it_is_told_what_share_of_the_published_instances_was_used():
    """The paper has roughly two million instances of its one template."""
    assert "roughly 2 million instances" in paper("templates_unreliable")

    class Neutral:
        def probabilities(self, premises, *_, **__):
            return {"neutral": np.full(len(premises), 0.5)}

    words = load_bank("nli").words
    used = len(words["subject"]) * len(words["verb"]) * len(words["object"]) * 6  # people
    rows = TASKS.make("nli").rows(load_bank("nli"), Neutral(), 0)
    over = [row for row in rows if "over templates" in row.metric]
    assert [(row.detail["used"], row.detail["whole"]) for row in over] == [(used, 2_000_000)] * 2
