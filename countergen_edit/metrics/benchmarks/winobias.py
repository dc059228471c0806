"""WinoBias (Zhao et al. 2018): pronoun resolution with and against a stereotype.

    gap = accuracy on pro-stereotyped sentences - accuracy on anti-stereotyped ones

Type 1 sentences need world knowledge, type 2 can be resolved by syntax. The paper gives F1 of
coreference systems; between two people a model always prefers one, so that accuracy says the same.
Clusters are pairs of occupations. A file has the pronoun and the person meant in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from countergen_edit.core.reading import text_of
from countergen_edit.metrics.benchmarks.base import Benchmark, described
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.benchmarks.winogender import is_right, referents

PRONOUNS = ("she", "her", "hers", "herself", "he", "him", "his", "himself")


@described("winobias")
class WinoBias(Benchmark):
    """Accuracy with and against the stereotype, and the gap between them."""

    def items(self, bias_types: Sequence[str]) -> Iterator[Item]:
        lists = [f"WinoBias/data/{gender}_occupations.txt" for gender in ("male", "female")]
        lines = [line for file in lists for line in text_of(self.files.path(file)).splitlines()]
        occupations = [line.strip() for line in lines if line.strip()]
        for part, stereotype in product(("type1", "type2"), ("pro", "anti")):
            path = self.files.path(f"WinoBias/data/{stereotype}_stereotyped_{part}.txt.test")
            for number, line in enumerate(text_of(path).splitlines(), start=1):
                if line.strip():
                    sentence, pronoun, meant, other = parsed(line, occupations)
                    pair = " and ".join(sorted((meant, other)))
                    texts = referents(sentence, pronoun, meant, other)
                    name = f"{part}.{stereotype}.{number}"
                    yield Item(name, part, "gender", pair, texts, entry=stereotype)

    def count(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        counts = dict.fromkeys(("pro", "anti", "pro_right", "anti_right"), 0.0)
        return counts | {item.entry: 1.0, f"{item.entry}_right": is_right(scores)}


def parsed(line: str, occupations: Sequence[str]) -> tuple[str, str, str, str]:
    """Sentence, pronoun, occupation meant and the other one, of a line of a file.

    >>> parsed("1 The clerk met [the cook] as [he] was late.", ["cook", "clerk"])
    ('The clerk met the cook as he was late.', 'he', 'cook', 'clerk')
    """
    text = line.strip().partition(" ")[2]
    marked = re.findall(r"\[([^]]*)\]", text)
    pronoun = next(words for words in marked if words.lower() in PRONOUNS)
    [person] = [words for words in marked if words.lower() not in PRONOUNS]
    sentence = re.sub(r"\[([^]]*)\]", r"\1", text)
    named = [one for one in occupations if _has_words(sentence, one)]
    [meant] = [one for one in named if _has_words(person, one)]
    [other] = [one for one in named if one != meant]
    return sentence, pronoun, meant, other


def _has_words(text: str, words: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text, re.IGNORECASE) is not None
