"""Natural text mentions nobody, and natural templates are those that an axis can fill."""

import re
from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data import natural
from countergen_edit.data.axis import SPLITS, Axis, NoFormsError
from countergen_edit.data.natural import neutral_of, split_texts
from countergen_edit.data.task import Task
from tests.gender import GENDER

TEXTS = [text for texts in natural.neutral().values() for text in texts]
PERSONS = re.compile(r"\b(i|me|my|we|us|our|you|your|he|she|him|her|his|hers)\b", re.I)
TEST = [{"source": "templates", "templates": ["{name} ran the"], "outputs": [" shop"]}]
BY_WORDS = (
    *("religion", "age", "disability", "sexual_orientation", "social_class", "politics"),
    *("appearance", "gender_identity"),
)
BY_NAMES = ("gender", "nationality", "race", "pronouns")
AXES = (*BY_NAMES, *BY_WORDS)
FAMILIES = (
    *("occupations", "traits", "hobbies", "sentiment", "questions", "stereotypes"),
    *("double_bind_success", "double_bind_baseline", "words", "pronouns", "sentences", "several"),
)


def names_of(axis):
    groups = Axis.from_config(read_config("axis", axis)).groups.values()
    return {name for group in groups for name in group.all_names()}


def test_natural_text_mentions_nobody():
    names = set().union(*map(names_of, ("gender", "nationality", "race")))
    for text in TEXTS:
        assert not names & set(re.findall(r"[\w-]+", text)), text
        assert not PERSONS.search(text), text


@given(st.lists(st.text(), min_size=3, max_size=60))
def test_no_text_is_in_two_splits_and_none_is_lost(texts):
    if len(set(texts)) < 3:
        with pytest.raises(UserError, match="cannot be split"):
            split_texts(texts)
        return
    parts = split_texts(texts)
    assert all(parts[split] for split in SPLITS)
    assert {t for split in SPLITS for t in parts[split]} == set(texts)
    assert sum(len({*parts[split]}) for split in SPLITS) == len(set(texts))


def test_neutral_text_is_given_by_source_or_file(tmp_path):
    assert neutral_of("natural") == natural.neutral()
    file = tmp_path / "mine.txt"
    file.write_text("\n".join(TEXTS[:12]))
    assert neutral_of(str(file)) == split_texts(TEXTS[:12])


def test_a_task_refuses_neutral_text_of_two_splits():
    for a, b in combinations(SPLITS, 2):
        with pytest.raises(UserError, match="stands in both"):
            Task(GENDER, ("female", "male"), neutral={a: ("One.", "Two."), b: ("Two.",)})


def test_agreement_has_the_forms_of_the_groups_in_their_order():
    pair = ("egypt_male", "usa_female")
    task = Task.from_config("nationality", {"test": TEST}, texts="natural", groups=pair)
    assert task.remarks == ()
    assert {s.outputs for s in task.agreement["test"].samples} <= {
        *((" he", " she"), (" him", " her"), (" his", " her"), (" himself", " herself")),
        (" man", " woman"),
    }
    without_forms = ("usa_female", "mexico_female")
    task = Task.from_config("nationality", {"test": TEST}, texts="natural", groups=without_forms)
    assert task.agreement == {}
    assert [data.name for data in task.keep] == ["natural_facts_fit"]
    [remark] = task.remarks
    assert "'nationality'" in remark
    assert "agreement is not a cost here" in remark


def test_data_override_texts():
    keep = {**TEST[0], "name": "said", "templates": ["{name} said"], "outputs": [" she", " he"]}
    data = {"test": TEST, "keep": [keep], "neutral": {"source": "texts", "texts": TEXTS[:9]}}
    task = Task.from_config("gender", data, texts="natural")
    assert [kept.templates for kept in task.keep] == [("{name} said",)]
    assert task.neutral == split_texts(TEXTS[:9])
    assert task.agreement["test"].name == "natural_agreement_test"
    none = Task.from_config("gender", {"test": TEST, "keep": [], "agreement": None})
    assert (none.keep, none.agreement) == ((), {})
    with pytest.raises(UserError, match="no word forms"):
        Task.from_config("race", {"test": TEST, "keep": [{"source": "natural_agreement"}]})


def require_articles(data):
    """The article at the end of a template is right for every output."""
    for sample in data.samples:
        assert len(set(sample.outputs)) == len(sample.outputs)
        if sample.template.endswith(" a"):
            assert not [output for output in sample.outputs if output[1] in "aeiou"]


def of_family(family, axis="gender", groups=None, **drawn):
    data = {s: [{"source": "natural", "family": family, **drawn}] for s in SPLITS}
    task = Task.from_config(axis, data, texts="natural", groups=groups)
    return {split: task.sets(split)[0] for split in SPLITS}


def test_an_axis_without_natural_templates_is_refused():
    groups = {g: {"names": {"test": [g.title()]}} for g in ("blue", "brown")}
    eyes = {"name": "eyes", "groups": groups}
    stereotypes = {"source": "natural", "family": "stereotypes"}
    with pytest.raises(UserError, match="axis with natural stereotypes 'eyes'"):
        Task.from_config(eyes, {"test": [stereotypes]})
    with pytest.raises(UserError, match="no natural legitimate differences"):
        Task.from_config(eyes, {"test": [{"source": "natural_facts"}]})


LACKING = [
    *product(("nationality", "pronouns"), ("words",)),
    ("pronouns", "pronouns"),
    *((axis, "pronouns") for axis in ("nationality", "race", *BY_WORDS)),
]


@pytest.mark.parametrize(("axis", "family"), [*product(AXES, FAMILIES)])
def test_every_axis_has_templates_enough_of_every_family_that_it_can_fill(axis, family):
    if (axis, family) in LACKING:
        with pytest.raises(NoFormsError, match=f"axis '{axis}' has no word forms"):
            of_family(family, axis)
        return
    # A task refuses splits that share a template, content, prompt or name.
    for split, data in of_family(family, axis).items():
        require_articles(data)
        assert not [text for text in data.texts if "{" in text]
        for part in ("frame", "content"):
            distinct = {getattr(sample, part) for sample in data.samples}
            assert len(distinct) >= (12 if split == "validation" else 24)


@pytest.mark.parametrize("family", FAMILIES)
@given(templates=st.integers(1, 70), more=st.integers(0, 40), people=st.integers(1, 6))
@settings(max_examples=5, deadline=None)
def test_smaller_draws_are_among_larger_ones_and_nothing_repeats_early(
    family, templates, more, people
):
    few = of_family(family, templates=templates, people=people)["test"]
    many = of_family(family, templates=templates + more, people=people + 1)["test"]
    for a, b in zip(few.samples, many.samples, strict=False):
        assert (a.frame, a.content) == (b.frame, b.content)
        assert {*a.variations} <= {*b.variations}
    for kind, count in (("frame", 24), ("content", 48)):
        first = [getattr(sample, kind) for sample in many.samples[:count]]
        assert len(set(first)) == len(first)
    assert len({(s.frame, s.content) for s in many.samples}) == len(many.samples)


def test_people_are_drawn_anew_for_each_template_and_evenly():
    data = of_family("occupations", templates=60, people=2)["test"]
    for group in data.groups:
        names = [v.name for sample in data.samples for v in sample.of(group)]
        assert set(Counter(names).values()) == {2}  # 120 places, 60 names
        assert all(len({v.name for v in s.of(group)}) == 2 for s in data.samples)


def test_groups_that_share_their_forms_are_told_apart_by_names_alone():
    with pytest.raises(NoFormsError):
        of_family("words", "nationality", ("usa_female", "mexico_female"))
    of_family("words", "nationality", ("usa_female", "usa_male"))
    with pytest.raises(UserError, match="'pronoun': did you mean 'pronouns'"):
        of_family("pronoun")
    several = of_family("several", "nationality", ("usa_female", "mexico_female"))
    assert all(v.name for s in several["fit"].samples for v in s.variations)


THREE = ("female", "male", "nonbinary")


def test_women_men_and_nonbinary_people_stand_in_the_same_prompts():
    data = {"test": [{"source": "natural", "family": "occupations"}]}
    [one] = Task.from_config("gender_identity", data, texts="natural", groups=THREE).test
    assert one.groups == THREE
    assert len(one.samples) == 48
    shown = {v.text.removesuffix(" works as a") for v in one.samples[0].variations}
    assert len(shown) == 6
    for sample in one.samples:
        words = [[v.mention for v in sample.of(group)] for group in THREE]
        assert words[0] == words[1] == words[2]
        assert all("nonbinary" in v.text for v in sample.of("nonbinary"))


@pytest.mark.parametrize(("group", "right"), [("they", "their"), ("xe", "xyr"), ("ze", "zir")])
def test_a_person_agrees_with_the_pronouns_that_stand_beside_the_name(group, right):
    task = Task.from_config("pronouns", {"test": TEST}, texts="natural", groups=(group, "she"))
    samples = task.agreement["test"].samples
    assert {form for sample in samples for form in sample.outputs} >= {f" {right}", " her"}
    assert len(samples) >= 15
    every = [v.text for sample in samples for v in sample.of(group)]
    assert all(f"({group}/" in text for text in every)
    [kept] = task.keep
    for text in kept.texts:
        assert not re.search(r"\bthey was\b|\b(she|he|xe|ze) were\b", text)
    assert any("they were" in text for text in kept.texts) == (group == "they")
