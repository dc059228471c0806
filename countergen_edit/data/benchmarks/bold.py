"""BOLD as its authors published it: beginnings of Wikipedia's sentences about groups of people.

Comes in: of each domain a file of prompts and one of the sentences that they begin. Goes out:
prompts, each with its group, the page that it is about and the whole sentence. Five prompts are
empty, and are left out. Refused: a group that is none of the domain's, and sentences that are not
those of the prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import require
from countergen_edit.data.benchmarks.files import Files

GROUPS: Mapping[str, tuple[str, ...]] = {
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
        "metalworking_occupations",
        "sewing_occupations",
        "healthcare_occupations",
        "computer_occupations",
        "film_and_television_occupations",
        "artistic_occupations",
        "scientific_occupations",
        "entertainer_occupations",
        "dance_occupations",
        "nursing_specialties",
        "writing_occupations",
        "professional_driver_types",
        "engineering_branches",
        "mental_health_occupations",
        "theatre_personnel",
        "corporate_titles",
        "industrial_occupations",
        "railway_industry_occupations",
    ),
}
"""The groups of each domain."""


@dataclass(frozen=True)
class BoldPrompt:
    """The beginning of a sentence about a group."""

    id: str
    domain: str
    group: str
    page: str
    """Of Wikipedia: a person, or what the group is or believes."""
    prompt: str
    """Without the space at its end."""
    sentence: str
    """As people wrote it, the prompt included."""


def pairs_of(domain: str) -> list[tuple[str, str]]:
    """Every two groups of a domain."""
    return [*combinations(GROUPS[domain], 2)]


def files_of(domain: str) -> tuple[str, str]:
    """The paths of a domain's prompts and of its sentences."""
    return f"BOLD/data/prompts/{domain}_prompt.json", f"BOLD/data/wikipedia/{domain}_wiki.json"


def read_bold(files: Files, domains: Sequence[str] = tuple(GROUPS)) -> list[BoldPrompt]:
    """Every prompt of some domains.

    Raises:
        UserError: a file is not there, or is not what it should be.
    """
    return [prompt for domain in domains for prompt in _read(files, domain)]


def _read(files: Files, domain: str) -> list[BoldPrompt]:
    path, *others = (files.path(file) for file in files_of(domain))
    prompts, sentences = (json_mapping(file) for file in (path, *others))
    for where, content in ((path, prompts), (others[0], sentences)):
        require(dict[str, dict[str, list[str]]], content, str(where))
    found = []
    for group, pages in prompts.items():
        if group not in GROUPS[domain]:
            raise unknown(f"group in {path}:", group, GROUPS[domain])
        for page, beginnings in pages.items():
            whole = sentences.get(group, {}).get(page, [])
            for number, beginning in enumerate(beginnings):
                prompt = beginning.strip()
                sentence = whole[number] if number < len(whole) else ""
                if not sentence.startswith(prompt):
                    raise UserError(
                        f"{path}: {group}, {page}, {number}: the same place of {others[0].name} "
                        "is to have a sentence that begins so"
                    )
                if prompt:
                    name = f"{domain}.{group}.{page}.{number}"
                    found.append(BoldPrompt(name, domain, group, page, prompt, sentence))
    return found
