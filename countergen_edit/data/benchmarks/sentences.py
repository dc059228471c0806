"""Benchmarks that score sentences: StereoSet, CrowS-Pairs and BOLD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from countergen_edit.core.reading import csv_table, json_mapping
from countergen_edit.data.benchmarks import Files

STEREOSET = "StereoSet/data/dev.json"
PARTS = ("intrasentence", "intersentence")
STEREOSET_TYPES = ("gender", "profession", "race", "religion")
LABELS = ("stereotype", "anti-stereotype", "unrelated")
Part = Literal["intrasentence", "intersentence"]

CROWS_PAIRS = "CrowS-Pairs/data/crows_pairs_anonymized.csv"
CROWS_TYPES = (
    *("age", "disability", "gender", "nationality", "physical-appearance"),
    *("race-color", "religion", "sexual-orientation", "socioeconomic"),
)

BOLD_GROUPS: Mapping[str, tuple[str, ...]] = {
    domain: tuple(groups.split())
    for domain, groups in {
        "gender": "American_actors American_actresses",
        "race": """Asian_Americans African_Americans European_Americans
            Hispanic_and_Latino_Americans""",
        "religious_ideology": "judaism christianity islam hinduism buddhism sikhism atheism",
        "political_ideology": """left-wing right-wing communism socialism democracy liberalism
            populism conservatism nationalism anarchism capitalism fascism""",
        "profession": """metalworking_occupations sewing_occupations healthcare_occupations
            computer_occupations film_and_television_occupations artistic_occupations
            scientific_occupations entertainer_occupations dance_occupations nursing_specialties
            writing_occupations professional_driver_types engineering_branches
            mental_health_occupations theatre_personnel corporate_titles industrial_occupations
            railway_industry_occupations""",
    }.items()
}
"""The groups of each domain of BOLD."""


@dataclass(frozen=True)
class StereoSetItem:
    """A context about a target group, and one sentence of each label.

    In `intrasentence` the context is a sentence with a gap, `BLANK`.
    """

    id: str
    part: str
    target: str
    bias_type: str
    context: str
    stereotype: str
    anti_stereotype: str
    unrelated: str

    @property
    def sentences(self) -> tuple[str, str, str]:
        """In the order of `LABELS`."""
        return self.stereotype, self.anti_stereotype, self.unrelated


def read_stereoset(files: Files) -> list[StereoSetItem]:
    """Every item of `dev.json`, the labelled part, those within a sentence first."""
    data = json_mapping(files.path(STEREOSET))["data"]
    items = []
    for part in PARTS:
        for entry in data[part]:
            by_label = {one["gold_label"]: one["sentence"] for one in entry["sentences"]}
            own = (entry["id"], part, entry["target"], entry["bias_type"], entry["context"])
            items.append(StereoSetItem(*own, *(by_label[label] for label in LABELS)))
    return items


@dataclass(frozen=True)
class CrowsPair:
    """Two sentences that differ in the group they name; `sent_more` is more of a stereotype.

    `direction` is `stereo` where `sent_more` is about the disadvantaged group.
    """

    id: str
    sent_more: str
    sent_less: str
    direction: str
    bias_type: str
    writer: str


def read_crows_pairs(files: Files) -> list[CrowsPair]:
    """Every pair, in the order of the table."""
    columns = ("sent_more", "sent_less", "stereo_antistereo", "bias_type", "anon_writer")
    return [
        CrowsPair(str(number), *(row[column] for column in columns))
        for number, (_, row) in enumerate(csv_table(files.path(CROWS_PAIRS))[1])
    ]


@dataclass(frozen=True)
class BoldPrompt:
    """The beginning of a sentence of Wikipedia about a group, without the space at its end."""

    id: str
    domain: str
    group: str
    page: str
    prompt: str
    sentence: str


def bold_pairs(domain: str) -> list[tuple[str, str]]:
    """Every two groups of a domain."""
    return [*combinations(BOLD_GROUPS[domain], 2)]


def read_bold(files: Files, domains: Sequence[str] = tuple(BOLD_GROUPS)) -> list[BoldPrompt]:
    """Every prompt of some domains, without the five that are empty."""
    found = []
    for domain in domains:
        prompts = json_mapping(files.path(f"BOLD/data/prompts/{domain}_prompt.json"))
        sentences = json_mapping(files.path(f"BOLD/data/wikipedia/{domain}_wiki.json"))
        for group, pages in prompts.items():
            for page, beginnings in pages.items():
                whole = sentences.get(group, {}).get(page, [])
                for number, (beginning, sentence) in enumerate(
                    zip(beginnings, whole, strict=False)
                ):
                    if prompt := beginning.strip():
                        name = f"{domain}.{group}.{page}.{number}"
                        found.append(BoldPrompt(name, domain, group, page, prompt, sentence))
    return found
