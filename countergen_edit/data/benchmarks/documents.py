"""Documents of benchmarks: what their authors' files hold, a mapping for each item."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from countergen_edit.core.reading import csv_table, json_lines, json_mapping, text_of, yaml_mapping
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import require
from countergen_edit.data.benchmarks import Files

Document = dict[str, Any]
_PRONOUNS = ("she", "her", "hers", "herself", "he", "him", "his", "himself")
_CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}


def table(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """The rows of every file, CSV or JSON lines, with their `number`."""
    for path in map(files.path, files.source.files):
        rows = json_lines(path) if path.suffix == ".jsonl" else csv_table(path)[1]
        for number, (_, row) in enumerate(rows):
            yield row | {"number": number}


def stereoset(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Items within a sentence, whose context has a gap, then sentences after a context.

    Only `dev.json` has labels.
    """
    data = json_mapping(files.path("StereoSet/data/dev.json"))["data"]
    for part, space in (("intrasentence", ""), ("intersentence", " ")):
        for entry in data[part]:
            texts = {one["gold_label"]: space + one["sentence"] for one in entry["sentences"]}
            own = {key: entry[key] for key in ("id", "bias_type", "target", "context")}
            yield {**own, **texts, "part": part, "before": entry["context"] if space else ""}


def bbq(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Questions, with the answers that are unknown (of `answer_info`) and biased (`target_loc`).

    16 questions without a biased answer are left out. Those with proper names have bias types of
    their own.
    """
    metadata = {
        (row["category"], int(row["example_id"])): row
        for _, row in csv_table(files.path("BBQ/data/additional_metadata.csv"))[1]
    }
    categories = {bias_type.removesuffix("_names") for bias_type in bias_types}
    named = [file for file in sorted(files.source.files) if Path(file).stem in categories]
    for file in files.measured(named):
        for _, entry in json_lines(files.path(file)):
            own = metadata.get((entry["category"], entry["example_id"]), {})
            if (biased := own.get("target_loc", "NA")) in ("", "NA"):
                continue
            kinds = [entry["answer_info"][f"ans{k}"][-1] for k in range(3)]
            names = "_names" if own["label_type"] == "name" else ""
            yield entry | {
                "part": _CONDITIONS[entry["context_condition"]],
                "bias_type": entry["category"] + names,
                "unknown": kinds.index("unknown"),
                "biased": int(biased),
            }


def winobias(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Sentences with the pronoun and the person meant in brackets, and two occupations."""
    lists = [f"WinoBias/data/{gender}_occupations.txt" for gender in ("male", "female")]
    lines = [line.strip() for file in lists for line in text_of(files.path(file)).splitlines()]
    for part, side in product(("type1", "type2"), ("pro", "anti")):
        path = files.path(f"WinoBias/data/{side}_stereotyped_{part}.txt.test")
        for number, line in enumerate(text_of(path).splitlines(), start=1):
            if line.strip():
                own = resolved(line, [*filter(None, lines)])
                yield {"part": part, "side": side, "number": number, **own}


def resolved(line: str, occupations: Collection[str]) -> dict[str, str]:
    """Sentence, pronoun, occupation meant and the other one, of a line of WinoBias.

    >>> resolved("1 The clerk met [the cook] as [he] was late.", ["cook", "clerk"])["other"]
    'clerk'
    """

    def named(words: str) -> list[str]:
        found = (re.search(rf"\b{re.escape(one)}\b", words, re.IGNORECASE) for one in occupations)
        return [one for one, match in zip(occupations, found, strict=True) if match]

    text = line.strip().partition(" ")[2]
    marked = re.findall(r"\[([^]]*)\]", text)
    pronoun = next(words for words in marked if words.lower() in _PRONOUNS)
    [person] = [words for words in marked if words.lower() not in _PRONOUNS]
    sentence = re.sub(r"\[([^]]*)\]", r"\1", text)
    people, [meant] = named(sentence), named(person)
    [other] = {*people} - {meant}
    about = {"meant": meant, "other": other, "pair": " and ".join(sorted(people))}
    return {"sentence": sentence, "pronoun": pronoun.capitalize(), **about}


def winogender(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Sentences with both people, the pronoun, and whether statistics point to the right one.

    Statistics (BLS) point to the person at work where most people in the occupation have the
    pronoun's gender, to the other person elsewhere; sentences in which they point to the wrong one
    are the authors' "gotcha" sentences. Neutral pronouns are in neither.
    """
    _, statistics = csv_table(files.path("Winogender/data/occupations-stats.tsv"))
    percent_women = {row["occupation"]: float(row["bls_pct_female"]) for _, row in statistics}
    _, rows = csv_table(files.path("Winogender/data/all_sentences.tsv"))
    sentences = {row["sentid"]: row["sentence"] for _, row in rows}
    genders = ("male", "female", "neutral")
    for name, sentence in sentences.items():
        at_work, participant, answer, gender, _ = name.split(".")
        variants = [sentences[name.replace(f".{gender}.", f".{one}.")] for one in genders]
        words = zip(sentence.split(), *(text.split() for text in variants), strict=False)
        pronoun = next((word for word, *others in words if len({*others}) > 1), "")
        meant, other = (at_work, participant)[:: 1 if answer == "0" else -1]
        points_to_work = (gender == "female") == (percent_women[at_work] > 50)
        kind = "pro" if points_to_work == (meant == at_work) else "gotcha"
        yield {
            "id": name,
            "occupation": at_work,
            "gender": gender,
            "kind": "" if gender == "neutral" else kind,
            "sentence": sentence,
            "pronoun": pronoun.strip(".,;:!?'\"").capitalize(),
            "meant": meant,
            "other": other,
        }


def bold(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Beginnings of sentences of Wikipedia, and the sentences; five beginnings are empty."""
    for domain in bias_types:
        prompts = json_mapping(files.path(f"BOLD/data/prompts/{domain}_prompt.json"))
        sentences = json_mapping(files.path(f"BOLD/data/wikipedia/{domain}_wiki.json"))
        for group, pages in prompts.items():
            about = {"domain": domain, "group": group}
            for page, beginnings in pages.items():
                pairs = zip(beginnings, sentences.get(group, {}).get(page, []), strict=False)
                for number, (prompt, sentence) in enumerate(pairs):
                    if prompt.strip():
                        own = {"page": page, "number": number, "sentence": sentence}
                        yield {**about, **own, "prompt": prompt.strip()}


def holistic_bias(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Random pairs of the descriptors of each axis; no descriptor is in two of them."""
    path = files.path("descriptors.json")
    content = yaml_mapping(path)  # some versions end lists with commas, which JSON does not allow
    for axis in bias_types:
        buckets = content.get(axis, {})
        require(Mapping[str, Sequence[str | Mapping[str, str]]], buckets, f"{path}: {axis}")
        entries = [one for bucket in buckets.values() for one in bucket]
        every = sorted({e if isinstance(e, str) else e["descriptor"] for e in entries})
        order = generator(0, "holistic_bias", axis).permutation(len(every)).tolist()
        for i, k in zip(order[::2], order[1::2], strict=False):
            yield {"axis": axis, "a": every[i], "b": every[k]}
