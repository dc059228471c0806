"""Benchmarks that score sentences: StereoSet, CrowS-Pairs and BOLD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import csv_table, json_mapping
from countergen_edit.core.typed import built, require
from countergen_edit.data.benchmarks import Files

STEREOSET = "StereoSet/data/dev.json"
PARTS = ("intrasentence", "intersentence")
STEREOSET_TYPES = ("gender", "profession", "race", "religion")
LABELS = ("stereotype", "anti-stereotype", "unrelated")
Part = Literal["intrasentence", "intersentence"]

CROWS_PAIRS = "CrowS-Pairs/data/crows_pairs_anonymized.csv"
CROWS_TYPES = (
    "age",
    "disability",
    "gender",
    "nationality",
    "physical-appearance",
    "race-color",
    "religion",
    "sexual-orientation",
    "socioeconomic",
)

BOLD_GROUPS: Mapping[str, tuple[str, ...]] = {
    "gender": ("American_actors", "American_actresses"),
    "race": (
        "Asian_Americans",
        "African_Americans",
        "European_Americans",
        "Hispanic_and_Latino_Americans",
    ),
    "religious_ideology": (
        *("judaism", "christianity", "islam", "hinduism"),
        *("buddhism", "sikhism", "atheism"),
    ),
    "political_ideology": (
        *("left-wing", "right-wing", "communism", "socialism", "democracy", "liberalism"),
        *("populism", "conservatism", "nationalism", "anarchism", "capitalism", "fascism"),
    ),
    "profession": (
        *("metalworking_occupations", "sewing_occupations", "healthcare_occupations"),
        *("computer_occupations", "film_and_television_occupations", "artistic_occupations"),
        *("scientific_occupations", "entertainer_occupations", "dance_occupations"),
        *("nursing_specialties", "writing_occupations", "professional_driver_types"),
        *("engineering_branches", "mental_health_occupations", "theatre_personnel"),
        *("corporate_titles", "industrial_occupations", "railway_industry_occupations"),
    ),
}
"""The groups of each domain of BOLD."""


@dataclass(frozen=True)
class StereoSetItem:
    """A context about a target, and one sentence of each label."""

    id: str
    part: str
    target: str
    """The group, such as `schoolgirl`."""
    bias_type: str
    context: str
    """The text before the sentences; in `intrasentence` a sentence with a gap, `BLANK`."""
    stereotype: str
    anti_stereotype: str
    unrelated: str

    @property
    def sentences(self) -> tuple[str, str, str]:
        """In the order of `LABELS`."""
        return self.stereotype, self.anti_stereotype, self.unrelated


@dataclass(frozen=True)
class _Sentence:
    sentence: str
    gold_label: str


@dataclass(frozen=True)
class _Entry:
    id: str
    target: str
    bias_type: str
    context: str
    sentences: list[_Sentence]


def read_stereoset(files: Files) -> list[StereoSetItem]:
    """Every item of `dev.json`, the labelled part, those within a sentence first.

    Raises:
        UserError: the file is absent or of another form.
    """
    path = files.path(STEREOSET)
    data: Any = json_mapping(path).get("data")
    items = []
    for part in PARTS:
        for number, content in enumerate(data[part]):
            where = f"{path}: {part} {number}: "
            entry = built(_Entry, content, where)
            by_label = {one.gold_label: one.sentence for one in entry.sentences}
            if sorted(one.gold_label for one in entry.sentences) != sorted(LABELS):
                raise UserError(f"{where}one sentence each of {', '.join(LABELS)} is needed")
            sentences = [by_label[label] for label in LABELS]
            own = (entry.id, part, entry.target, entry.bias_type, entry.context)
            items.append(StereoSetItem(*own, *sentences))
    return items


@dataclass(frozen=True)
class CrowsPair:
    """Two sentences that differ in the group they name."""

    id: str
    """Its number in the table."""
    sent_more: str
    """The sentence that is more of a stereotype, of either group."""
    sent_less: str
    direction: str
    """`stereo` where `sent_more` is about the disadvantaged group, `antistereo` elsewhere."""
    bias_type: str
    writer: str


def read_crows_pairs(files: Files) -> list[CrowsPair]:
    """Every pair, in the order of the table.

    Raises:
        UserError: the file is absent or of another form.
    """
    columns = ("sent_more", "sent_less", "stereo_antistereo", "bias_type", "anon_writer")
    pairs = []
    for number, (where, row) in enumerate(csv_table(files.path(CROWS_PAIRS))[1]):
        try:
            pairs.append(CrowsPair(str(number), *(row[column] for column in columns)))
        except KeyError as error:
            raise UserError(f"{where}no column {error}") from None
    return pairs


@dataclass(frozen=True)
class BoldPrompt:
    """The beginning of a sentence of Wikipedia about a group."""

    id: str
    domain: str
    group: str
    page: str
    """Of Wikipedia."""
    prompt: str
    """Without the space at its end."""
    sentence: str
    """The whole sentence, with the prompt."""


def bold_pairs(domain: str) -> list[tuple[str, str]]:
    """Every two groups of a domain."""
    return [*combinations(BOLD_GROUPS[domain], 2)]


def read_bold(files: Files, domains: Sequence[str] = tuple(BOLD_GROUPS)) -> list[BoldPrompt]:
    """Every prompt of some domains, without the five that are empty.

    Raises:
        UserError: a file is absent or of another form.
    """
    return [prompt for domain in domains for prompt in _bold_domain(files, domain)]


def _bold_domain(files: Files, domain: str) -> list[BoldPrompt]:
    path = files.path(f"BOLD/data/prompts/{domain}_prompt.json")
    other = files.path(f"BOLD/data/wikipedia/{domain}_wiki.json")
    prompts, sentences = json_mapping(path), json_mapping(other)
    for where, content in ((path, prompts), (other, sentences)):
        require(dict[str, dict[str, list[str]]], content, str(where))
    found = []
    for group, pages in prompts.items():
        if group not in BOLD_GROUPS[domain]:
            raise unknown(f"group in {path}:", group, BOLD_GROUPS[domain])
        for page, beginnings in pages.items():
            whole = sentences.get(group, {}).get(page, [])
            for number, beginning in enumerate(beginnings):
                prompt = beginning.strip()
                sentence = whole[number] if number < len(whole) else ""
                if not sentence.startswith(prompt):
                    raise UserError(
                        f"{path}: {group}, {page}, {number}: the sentence at this place of "
                        f"{other.name} must begin with the prompt"
                    )
                if prompt:
                    name = f"{domain}.{group}.{page}.{number}"
                    found.append(BoldPrompt(name, domain, group, page, prompt, sentence))
    return found
