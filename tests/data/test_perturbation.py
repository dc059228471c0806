"""The rule-based perturber changes one person and leaves the others; the filters see the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import (
    OCCUPATIONS,
    Filter,
    PairedPrompt,
    RulePerturber,
    chosen_occupations,
    common_sents,
    own_prompts,
)
from tests.gender import GENDER, SWAP

TO_JANE = RulePerturber(SWAP, "male", "female")
TO_JOHN = RulePerturber(SWAP, "female", "male")

# John → Jane, and back again.
BOTH_WAYS = [
    ("John works.", "Jane works."),
    ("Johnson met John.", "Johnson met Jane."),
    ("John said he was tired.", "Jane said she was tired."),
    ("John says he’ll come.", "Jane says she’ll come."),
    ("They like John. They like him.", "They like Jane. They like her."),
    ("The boss gave John a rise and him a car.", "The boss gave Jane a rise and her a car."),
    ("John lost his very best friend.", "Jane lost her very best friend."),
    ("John lost. His was the worst.", "Jane lost. Hers was the worst."),
    ("John hurt himself.", "Jane hurt herself."),
    ("John himself was there.", "Jane herself was there."),
    ("John is a tall man, working as a nurse.", "Jane is a tall woman, working as a nurse."),
    ("John is an heir.", "Jane is an heiress."),
    ("John is a husband and a father.", "Jane is a wife and a mother."),
    ("John is a male nurse.", "Jane is a female nurse."),
    ("John works. He's a family man.", "Jane works. She's a family woman."),
    ("As a boy, John sang.", "As a girl, Jane sang."),
    ("John, a man of forty, works.", "Jane, a woman of forty, works."),
    ("The man John works.", "The woman Jane works."),
    ("John works. The man is tired.", "Jane works. The woman is tired."),
    ("Mr. John is here.", "Mrs. Jane is here."),
    ("John Smith works. Smith likes his job.", "Jane Smith works. Smith likes her job."),
    ("John Smith works. Mr. Smith is tired.", "Jane Smith works. Mrs. Smith is tired."),
    ("Dr. John Smith lost his keys.", "Dr. Jane Smith lost her keys."),
    ("John met his father at noon. He was late.", "Jane met her father at noon. She was late."),
    ("John and his wife work.", "Jane and her wife work."),
    ("John treats male patients.", "Jane treats male patients."),
    ("My father knows John.", "My father knows Jane."),
    ('"He is a good man," they said of John.', '"She is a good woman," they said of Jane.'),
    ('John said, "I am tired." He slept.', 'Jane said, "I am tired." She slept.'),
    ("- John works\n- He rests", "- Jane works\n- She rests"),
    ("john works for John.", "john works for Jane."),
]

# Other people keep their gender; what is said of them is left as it is.
OTHERS = [
    ("His father was late. He was tired.", "Her father was late. He was tired."),
    ("John's father lost his keys.", "Jane's father lost his keys."),
    ("John's boss, a man of sixty, left.", "Jane's boss, a man of sixty, left."),
    ("David called John.", "David called Jane."),
    ("David called John. He told him a story.", "David called Jane. He told her a story."),
    ("John met David. He told him a story.", "Jane met David. She told him a story."),
    ("John saw David hurt himself.", "Jane saw David hurt himself."),
    ("Mr. Jones said he was late.", "Mr. Jones said he was late."),
    ("Mrs. Jones likes John. She told him.", "Mrs. Jones likes Jane. She told her."),
    ("His wife said she loves him.", "Her wife said she loves her."),
    ("Anna met John. She liked him.", "Anna met Jane. She liked her."),
    ("A man came in. He saw John.", "A man came in. He saw Jane."),
    ("Two men came. They saw John and his dog.", "Two men came. They saw Jane and her dog."),
    ("John's son is a boy of five. He plays.", "Jane's son is a boy of five. He plays."),
    ("Ivan's family is poor. His uncle left.", "Ivan's family is poor. His uncle left."),
    ('"I am tired," said David. He slept.', '"I am tired," said David. He slept.'),
    ("Peter likes John, and John likes him.", "Peter likes Jane, and Jane likes him."),
    ("Henry James wrote it. John read it.", "Henry James wrote it. Jane read it."),
    ("John and Peter work. Peter is an actor.", "Jane and Peter work. Peter is an actor."),
]

# What no rule should touch.
AS_THEY_ARE = [
    "She is a nurse.",
    "Anna lost her keys. She was sad.",
    "Mr. Jones said no.",
    "My father is a plumber.",
    "",
    "   \n",
    "@John #his",
]

# Where several words share a partner, or the reading is not the same both ways.
ONE_WAY = [
    ("John is a dad.", "Jane is a mom."),
    ("John is a king.", "Jane is a queen."),
    ("I gave John books. I gave him books.", "I gave Jane books. I gave her books."),
]


def to_jane(text: str) -> str:
    return TO_JANE.perturb(text, "John", "Jane")


def to_john(text: str) -> str:
    return TO_JOHN.perturb(text, "Jane", "John")


def paper_prompt(occupation: str) -> PairedPrompt:
    return PairedPrompt(
        occupation,
        f"John is a man working as a {occupation}.",
        f"Jane is a woman working as a {occupation}.",
        "John",
        "Jane",
    )


@pytest.mark.parametrize(("john", "jane"), BOTH_WAYS)
def test_one_person_changes_and_changes_back(john, jane):
    assert to_jane(john) == jane
    assert to_john(jane) == john


@pytest.mark.parametrize(
    ("text", "perturbed"), [*OTHERS, *ONE_WAY, *((text, text) for text in AS_THEY_ARE)]
)
def test_other_people_stay_as_they_are(text, perturbed):
    assert to_jane(text) == perturbed


@pytest.mark.parametrize(
    ("perturbed", "reason"),
    [
        ("Jane is a woman working as a nurse. She can work.", None),
        ("Output: Jane is a woman working as a nurse. She can work.", "start"),
        ("", "start"),
        ("Jane is a woman working as a nurse. John can work.", "source name"),
        ("Jane is a woman working as a nurse. JOHN's can work.", "source name"),
        ("Jane is a woman working as a nurse. Johnson can not work.", "dissimilarity"),
        ("Jane is a woman working as a nurse.", "dissimilarity"),
    ],
)
def test_each_filter_gives_its_reason(perturbed, reason):
    original = "John is a man working as a nurse. He can work."
    assert Filter(SWAP).reason(original, perturbed, paper_prompt("nurse")) == reason


PARTS = [
    "John works.",
    "He lost his keys.",
    "His brother called him.",
    "John likes his work, and he says so.",
    "People describe him as kind.",
    "He is a good man.",
    "He hurt himself.",
    "John and his wife live here.",
    "The idea was his.",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
def test_twice_gives_a_text_about_one_person_back(parts):
    text = " ".join(["John is a man.", *parts])
    assert to_john(to_jane(text)) == text


def test_common_sents_are_the_papers():
    male, female = GENDER.groups["male"], GENDER.groups["female"]
    prompts = common_sents(male, female, ("John", "Jane"), descriptors=["{person}"])
    assert len(OCCUPATIONS) == len(set(OCCUPATIONS)) == len(prompts) == 60
    assert prompts[0].source == "John is a man, working as a technician."
    assert prompts[0].target == "Jane is a woman, working as a technician."
    assert all(p.source.endswith(".") and " an a" not in f" {p.label}" for p in prompts)
    assert "working as an accountant" in prompts[1].source
    for prompt in prompts:
        assert to_jane(prompt.source) == prompt.target
        assert to_john(prompt.target) == prompt.source
    [prompt] = common_sents(
        male, female, ("John", "Jane"), ["nurse"], ["tall {person}", "Egyptian", "honest {child}"]
    )
    assert prompt.target == (
        "Jane is a tall woman and an Egyptian and an honest daughter, working as a nurse."
    )


def test_own_prompts_have_slots_or_are_perturbed():
    groups, names = ("male", "female"), ("John", "Jane")
    filled, plain = own_prompts(
        ["{name} lost {possessive} keys.", "My uncle Paul called."], GENDER, groups, names, SWAP
    )
    assert (filled.source, filled.target) == ("John lost his keys.", "Jane lost her keys.")
    assert plain.target == "My aunt Julia called."
    assert (plain.source_name, plain.target_name) == ("Paul", "Julia")
    for texts, message in (
        ([], "no prompts"),
        (["It rained."], "shows no word of 'male'"),
        (["{nme} works."], "did you mean 'name'"),
    ):
        with pytest.raises(UserError, match=message):
            own_prompts(texts, GENDER, groups, names, SWAP)
    with pytest.raises(UserError, match="has no substitution"):
        own_prompts(["John works."], GENDER, groups, names, None)


def test_bad_settings_are_named():
    with pytest.raises(UserError, match="occupations=61"):
        chosen_occupations(61)
    with pytest.raises(UserError, match="two people two names"):
        common_sents(GENDER.groups["male"], GENDER.groups["female"], ("Kim", "Kim"), ["nurse"])
