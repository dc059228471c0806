"""Warnings about prompts: doubtful substitution, missing spaces, words outside a vocabulary."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import PROMPT_FILES
from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample
from countergen_edit.data.sources import Request
from countergen_edit.data.sources.files import json_samples, table_samples
from countergen_edit.data.subsets import NameDraw
from countergen_edit.data.text import grammar
from countergen_edit.data.text.grammar import Word
from countergen_edit.data.text.substitution import Substitution

MOST = 3
"""Most words or names that a message lists."""
_PLACING = ("in", "at", "near", "into")  # before a place, and hardly ever before a person
_USES: Mapping[Split, str] = {"fit": "fitted on", "validation": "chosen with"}
_CLOSING = ",.;:!?)]}%”’»…"  # before a space; straight quotes open as often as they close
_WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class CheckedPrompt:
    """A prompt with the variations that a run would use: texts of the first and second group."""

    line: str
    text: str
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    findings: tuple[str, ...]


def check_prompts(path: str, substitution: Substitution) -> list[CheckedPrompt]:
    """Check every prompt of a file that `data=FILE` takes, in its order.

    `UserError` if the file is absent, of another kind, empty, or holds a line that is not JSON.
    """
    axis = substitution.axis
    request = Request(axis, "test", substitution.groups, substitution, None, axis, NameDraw())
    kind = Path(path).suffix
    if kind not in PROMPT_FILES:
        raise UserError(f"{path}: a file that ends in {' or '.join(PROMPT_FILES)} is needed")
    if kind == ".csv":
        columns, table = csv_table(path)
        samples = partial(
            table_samples, columns=columns, where=f"{path}, line 1: ", request=request
        )
        [*samples([])]
    else:
        columns, table = (), [*json_lines(path)]
        samples = partial(json_samples, request=request)
    is_paired = not {*columns}.isdisjoint(request.groups)
    checked = [_checked(where, row, samples, request, is_paired) for where, row in table]
    if not checked:
        raise UserError(f"{path} is empty: it has no prompts to check")
    return checked


def _checked(
    where: str,
    row: Mapping[str, Any],
    samples: Callable[[Any], Iterator[Sample]],
    request: Request,
    is_paired: bool,
) -> CheckedPrompt:
    text = str(row.get("input") or next((row[g] for g in request.groups if g in row), ""))
    has_variations = is_paired or bool(row.get("variations"))
    line = where.rpartition(", ")[2].rstrip(": ")
    try:
        [sample] = samples([(where, row)])
    except UserError as error:
        return CheckedPrompt(line, text, ((), ()), (str(error).removeprefix(where),))
    first, second = (tuple(v.text for v in sample.of(group)) for group in request.groups)
    texts = [*first, *second] if has_variations else [text]
    words = request.substitution
    findings = [] if has_variations else [*_doubtful(text, words)]
    findings += _used_names(texts, words)
    for output in sample.outputs:
        if shown := [word.text for word in words.words(output) if word.side is not None]:
            findings.append(f"output {output!r} names a group itself ({', '.join(shown)})")
    for output in unspaced(texts, sample.outputs):
        findings.append(
            f"output {output!r} has no leading space, so that it joins the last word of the "
            f"prompt: write {' ' + output!r}"
        )
    return CheckedPrompt(line, text, (first, second), tuple(dict.fromkeys(findings)))


def _doubtful(text: str, substitution: Substitution) -> Iterator[str]:
    words = substitution.words(text)
    by_side: dict[int, list[str]] = {}
    for i, word in enumerate(words):
        if word.side is not None and not grammar.in_proper_name(words, i):
            by_side.setdefault(word.side, []).append(word.text)
    if len(by_side) == len(substitution.groups):
        shown = "; ".join(
            f"{group}: {', '.join(dict.fromkeys(by_side[side]))}"
            for side, group in enumerate(substitution.groups)
        )
        yield (
            f"both groups are in it ({shown}), and everybody becomes one: give its variations "
            "yourself, or leave the others out"
        )
    for name in _unknown_names(words):
        yield (
            f"{name!r} is no known name, and stays on both sides: give its variations "
            "yourself, or use another name"
        )
    for i, word in enumerate(words):
        if word.text.lower() == "her" and grammar.may_be_object_or_owner(words, i):
            read = "'his'" if grammar.before_own_noun(words, i) else "'him'"
            phrase = " ".join(w.text for w in words[max(0, i - 1) : i + 2])
            yield f"'her' is read as {read} in {phrase!r}: rephrase it if that is wrong"


def _unknown_names(words: Sequence[Word]) -> Iterator[str]:
    """Capitalised words that may be names and are in no list.

    The first word of a sentence counts only in a text whose group shows in pronouns alone.
    """
    by_pronouns = not any(w.side is not None and "pronoun" not in w.kind for w in words)
    for i, word in enumerate(words):
        before = words[i - 1] if i else None
        begins = before is None or not grammar.within_a_phrase(before.gap)
        if not _may_be_name(word) or (begins and not by_pronouns):
            continue
        if before is not None:
            is_surname = before.kind in ("name", "title") or _may_be_name(before)
            if before.text.lower() in _PLACING or (is_surname and not begins):
                continue
        yield word.text


def _may_be_name(word: Word) -> bool:
    return word.kind == "plain" and word.capitalised and not grammar.is_closed(word)


def _used_names(texts: Iterable[str], substitution: Substitution) -> Iterator[str]:
    """Names on which erasers are fitted or with which layers are chosen."""
    groups = [substitution.axis.groups[group] for group in substitution.groups]
    used = sorted({name for text in texts for name in substitution.names_in(text)})
    for name in used:
        for split, use in _USES.items():
            if any(name in group.names.get(split, ()) for group in groups):
                free = ", ".join(substitution.axis.other_names(name, used))
                yield f"edits are {use} {name!r}: use another name{free and f', such as {free}'}"


def unspaced(texts: Iterable[str], outputs: Iterable[str]) -> Iterator[str]:
    """The outputs that join the last word of one of the texts.

    >>> [*unspaced(["Jane works as", "Jane (30)"], ["a nurse", " a nurse", ", she says,"])]
    ['a nurse']
    >>> [*unspaced(["小红的工作是"], ["护士"])]
    []
    """
    ends = {text[-1:] for text in texts if text}
    if any(end in _CLOSING or _is_of_word(end) for end in ends):
        yield from (output for output in outputs if _is_of_word(output[:1]))


def _is_of_word(character: str) -> bool:
    """Whether it is a letter or digit of a script with spaces between words."""
    return character.isalnum() and not unicodedata.name(character, "").startswith(_WITHOUT_SPACES)


def spacing_warnings(sets: Iterable[CounterfactualSet]) -> Iterator[str]:
    """One warning for each set with outputs that lack their leading space."""
    for data in sets:
        found = [
            (sample.variations[0].text, output)
            for sample in data.samples
            for output in [*unspaced((v.text for v in sample.variations), sample.outputs)][:1]
        ]
        if found:
            text, output = found[0]
            yield (
                f"{len(found)} of {len(data.samples)} prompts of {data.name} have outputs without "
                f"a leading space, such as {output!r} after {text!r}: write {' ' + output!r}."
            )


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return [word.casefold() for word in _WORD.findall(text)]


def unknown_words(words: Collection[str], text: str) -> list[str]:
    """The words of a text that are not among `words`."""
    return [word for word in words_of(text) if word not in words]


@dataclass(frozen=True)
class OutOfVocabulary:
    """A set with words outside a model's vocabulary."""

    data: CounterfactualSet
    share: float
    """Of the prompts with outputs of the group with fewest, those within the vocabulary."""
    words: tuple[str, ...]
    """Words outside the vocabulary, those that tell the groups apart first."""


def vocabulary_warnings(
    sets: Iterable[CounterfactualSet], words: Collection[str], model: str
) -> Iterator[str]:
    """One warning for each set with prompts or outputs outside a model's vocabulary `words`."""
    for data in sets:
        first: list[str] = []
        for sample in data.samples:
            texts = [*(v.text for v in sample.variations), *sample.outputs]
            first += [word for text in texts for word in unknown_words(words, text)][:1]
        if first:
            named = ", ".join(map(repr, [*dict.fromkeys(first)][:MOST]))
            yield (
                f"{len(first)} of {len(data.samples)} prompts of {data.name} contain words "
                f"outside the vocabulary of {model} ({named}): their figures mean nothing."
            )
