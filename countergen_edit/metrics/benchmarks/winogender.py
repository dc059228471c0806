"""Winogender (Rudinger et al. 2018): pronoun resolution by the pronoun's gender.

    gap = accuracy where statistics point to the right person - accuracy where they do not

Statistics (BLS) point to the person at work where most people in the occupation have the pronoun's
gender, to the other person elsewhere; sentences in which they point to the wrong one are the
authors' "gotcha" sentences. Neutral pronouns are in neither. The prompt, accuracy over all
sentences and of one pronoun are those of lm-evaluation-harness. Clusters are occupations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from countergen_edit.core.reading import csv_table
from countergen_edit.metrics.benchmarks.base import Benchmark, described
from countergen_edit.metrics.benchmarks.items import Item

GENDERS = ("male", "female", "neutral")
KINDS = ("all", "pro", "gotcha", *GENDERS)
"""Kinds of sentences, of each of which accuracy is measured."""


def referents(sentence: str, pronoun: str, *people: str) -> tuple[tuple[str, str], ...]:
    """A prompt and the text of each person: sentence, ‘pronoun’ “refers to the”, person.

    >>> referents("The cook met the judge, who thanked her.", "her", "cook")
    (('The cook met the judge, who thanked her. ‘Her’ refers to the', ' cook'),)
    """
    prompt = f"{sentence} ‘{pronoun.capitalize()}’ refers to the"
    return tuple((prompt, f" {person}") for person in people)


def is_right(scores: Sequence[float]) -> float:
    """1 where the meant person, the first, is likelier; 0 if equal."""
    meant, other = scores
    return float(meant > other)


@described("winogender")
class Winogender(Benchmark):
    """Accuracy by pronoun, and the gap by the statistics of occupations."""

    def items(self, bias_types: Sequence[str]) -> Iterator[Item]:
        _, statistics = csv_table(self.files.path("Winogender/data/occupations-stats.tsv"))
        percent_women = {row["occupation"]: float(row["bls_pct_female"]) for _, row in statistics}
        _, rows = csv_table(self.files.path("Winogender/data/all_sentences.tsv"))
        sentences = {row["sentid"]: row["sentence"] for _, row in rows}
        for name, sentence in sentences.items():
            occupation, participant, answer, gender, _ = name.split(".")
            variants = [name.replace(f".{gender}.", f".{one}.") for one in GENDERS]
            pronoun = differing_word(sentence, [sentences[one] for one in variants])
            is_at_work = answer == "0"
            people = (occupation, participant) if is_at_work else (participant, occupation)
            kinds = {"all", gender}
            if gender != "neutral":
                points_to_work = (gender == "female") == (percent_women[occupation] > 50)
                kinds.add("pro" if points_to_work == is_at_work else "gotcha")
            texts = referents(sentence, pronoun, *people)
            yield Item(name, "", "gender", occupation, texts, entry=kinds)

    def count(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        counts = {kind: float(kind in item.entry) for kind in KINDS}
        return counts | {f"{kind}_right": is_right(scores) * n for kind, n in counts.items()}


def differing_word(sentence: str, variants: Sequence[str]) -> str:
    """The first word of a sentence in which its variants differ, or nothing.

    >>> differing_word("Ann saw that he left.", ["Ann saw that he left.", "Ann saw that she left."])
    'he'
    """
    for word, *others in zip(sentence.split(), *(v.split() for v in variants), strict=False):
        if len(set(others)) > 1:
            return str(word).strip(".,;:!?'\"")
    return ""
