"""Templates are filled grammatically, and a paraphrase compares what its original compares."""

import json

import pytest

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis
from countergen_edit.data.sources import load_set
from countergen_edit.data.template_bank import bank_from_config, load_bank
from countergen_edit.data.templates import fill, render
from tests.gender import GENDER

COUNTS = {"sentiment": (7, 40), "nli": (1, 3), "toxicity": (6, 43), "masked": (1, 4)}
"""Originals and paraphrases; of all but toxicity, those of the paper's Table 1."""


SMALL = {
    "task": "sentiment",
    "groups": {"female": {"people": ["Jane"]}, "male": {"people": ["John"]}},
    "words": {"emotion": ["sad"]},
    "families": [{"name": "f", "original": "{Person} is {emotion}."}],
}


def test_people_take_the_form_their_place_needs():
    people = load_bank("sentiment").people
    awful = {"situation": "awful"}
    she, ebony, he = people["female"][0], people["female"][10], people["male"][0]
    in_situation = "{Person} found {person:reflexive} in a/an {emotion:situation} situation."
    for template, person, text in (
        (in_situation, she, "She found herself in an awful situation."),
        ("A chat with {person:object}.", he, "A chat with him."),
        ("{Person:possessive} mood", he, "His mood"),
        ("{Person:possessive} mood", ebony, "Ebony's mood"),
    ):
        assert render(template, {"emotion": awful, "person": person})[0] == text


def test_an_article_shows_the_group_as_much_as_its_word_does():
    religion = Axis.from_config(read_config("axis", "religion"))
    assert fill("We met a/an {leader}.", religion.groups["muslim"], None) == ("We met an imam.", 7)


@pytest.mark.parametrize(("task", "counts"), COUNTS.items())
def test_the_papers_templates_are_all_there_and_no_text_keeps_a_slot(task, counts):
    bank = load_bank(task)
    assert (len(bank.families), sum(len(f.paraphrases) for f in bank.families)) == counts
    for family in bank.families:
        for template in family.templates:
            text = next(bank.fill(template)).text
            assert not set("{}/[]") & set(text), text


def test_a_users_own_task_has_the_templates_of_its_file_alone(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({**SMALL, "task": "mine"}))  # JSON is YAML
    assert [family.name for family in load_bank("mine", str(path)).families] == ["f"]
    with pytest.raises(UserError, match="is for task 'mine', but task=sentiment"):
        load_bank("sentiment", str(path))


def test_the_papers_figures_stand_beside_its_own_model_alone():
    masked = load_bank("masked")
    assert masked.for_model("roberta-base").published
    for other in ("roberta-base-openai-detector", "roberta", "distilroberta-base"):
        assert not masked.for_model(other).published
    toxicity = load_bank("toxicity")
    assert any(family.published for family in toxicity.families)
    assert not any(family.published for family in toxicity.for_model("roberta-base").families)


def test_a_thinned_bank_knows_what_it_had():
    toxicity = load_bank("toxicity")
    thin = toxicity.thinned({"name": 2, "verb": 3})
    verbs = [word["base"] for word in thin.words["verb"]]
    assert verbs == ["kill", "murder", "hate", "hug", "like", "love"]
    original = toxicity.families[0].original
    assert thin.words["name"] == toxicity.words["name"][:2]
    assert thin.words["adjective"] == toxicity.words["adjective"]
    assert len(list(thin.fill(original))) == 2 * 32 * 50
    assert thin.whole(original) == toxicity.whole(original) == 45 * 32 * 50
    assert thin.thinned({"name": 1}).whole(original) == 45 * 32 * 50
    assert toxicity.thinned({"name": None, "slot of another task": None}) == toxicity
    with pytest.raises(UserError, match="unknown slot 'nmae': did you mean 'name'"):
        toxicity.thinned({"nmae": 2})
    for count in (0, "two"):
        with pytest.raises(UserError, match=rf"most\.name={count!r}: Input should be"):
            toxicity.thinned({"name": count})


F = {"name": "f", "original": "{Person} is {emotion}."}
MISTAKES = [
    ({"families": [F | {"paraphrases": ["{Person} is here."]}]}, r"drops the slot \{emotion\}"),
    ({"families": [F | {"paraphrases": ["{Person} {name} {emotion}"]}]}, r"has a slot \{name\}"),
    ({"families": [F | {"original": "{Person} is {emotoin}."}]}, "did you mean 'emotion'"),
    ({"families": [F | {"original": "{Person} is {emotion:past}."}]}, "form of slot 'emotion'"),
    ({"families": [F | {"original": "It rains."}]}, "has no slot"),
    ({"families": [F | {"orginal": "x"}]}, "did you mean 'original'"),
    ({"groups": {"female": {"people": ["Jane"]}}}, "compare two groups"),
    ({"groups": {"a": {"people": ["Jane", "Ann"]}, "b": {"people": ["John"]}}}, "same number"),
    ({"groups": {"a": {"people": [5]}, "b": {}}}, r"groups\.a\.people"),
    ({"famlies": []}, "did you mean 'families'"),
    ({"words": {"emotion": [{}]}}, "at least 1 item"),
]


@pytest.mark.parametrize(("changes", "says"), MISTAKES)
def test_a_bank_that_does_not_fit_together_is_refused(changes, says):
    with pytest.raises(UserError, match=says):
        bank_from_config(SMALL | changes)


def test_a_bank_without_families_or_groups_is_refused():
    with pytest.raises(UserError, match="a template file needs 'families'"):
        bank_from_config({"task": "sentiment"})
    with pytest.raises(UserError, match=r"has a \{person\}, but there are no groups"):
        bank_from_config({key: SMALL[key] for key in SMALL if key != "groups"})
    with pytest.raises(UserError, match="compares two groups, but its templates have none"):
        _ = load_bank("toxicity").pair


def test_lists_of_templates_are_paraphrases_of_their_first():
    templates = ["Is {name} here?", ["Is {name} smart?", "Would you call {name} smart?"]]
    config = {"source": "templates", "outputs": [" Yes"], "templates": templates}
    data = load_set(config, GENDER, None, "test")
    assert [s.content for s in data.samples] == [None, "Is {name} smart?", "Is {name} smart?"]
    with pytest.raises(UserError, match="drops the slot"):
        load_set(config | {"templates": [["Is {name} smart?", "Smart?"]]}, GENDER, None, "test")


def test_lines_of_one_content_are_paraphrases(tmp_path):
    path = tmp_path / "pairs.jsonl"
    lines = [
        {"input": "She left", "outputs": [" home"], "content": "leaving"},
        {"input": "Home she left", "outputs": ["."]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    data = load_set({"source": "jsonl", "path": str(path)}, GENDER, None, "test")
    assert [s.content for s in data.samples] == ["leaving", None]
