"""Warnings about prompts: doubtful substitution, missing spaces, words outside a vocabulary."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample
from countergen_edit.data.language import Labels, labelled
from countergen_edit.data.sources import Request
from countergen_edit.data.sources.files import OUTPUTS, prompt_rows, samples_of
from countergen_edit.data.subsets import NameDraw
from countergen_edit.data.text import grammar
from countergen_edit.data.text.grammar import Word
from countergen_edit.data.text.substitution import Substitution

CONTROL = re.compile(r"<[|｜]\S+?[|｜]>|\[/?INST]|<</?SYS>>|<(?:\w+_of_turn|/?s|[be]os|pad|unk)>")
"""Control tokens of chat templates and common tokenizers."""
IN_VOCABULARY = 0.5
"""Least share of a group's texts in vocabulary for a set to be measured."""
_MOST = 3
"""Most words or names that a message lists."""
_MIXED = re.compile(r"(?!Mc|Mac|De).*[a-z][A-Z]")  # LinkedIn, PhD
_USES: Mapping[Split, str] = {"fit": "fitted on", "validation": "chosen with"}
_CLOSING = ",.;:!?)]}%”’»…"  # before a space; straight quotes open as often as they close
_WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


@dataclass(frozen=True)
class CheckedPrompt:
    """A prompt with the variations that a run would use: texts of the first and second group."""

    line: str
    text: str
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    findings: tuple[str, ...]


def check_prompts(path: str, substitution: Substitution) -> list[CheckedPrompt]:
    """Check every prompt of a file that `data=FILE` takes; `UserError` if it is empty."""
    axis, groups = substitution.axis, substitution.groups
    request = Request(axis, "test", groups, substitution, None, axis, NameDraw())
    prompts: dict[Any, Any] = {}
    keys: dict[str, Sample] = {}
    for where, row in prompt_rows(path, groups):
        line = where.rpartition(", ")[2].rstrip(": ")
        try:
            samples = samples_of(row, where, request)
        except UserError as error:
            text = str(row.get("input") or row.get(groups[0]))
            finding = str(error).removeprefix(where)
            prompts[where] = CheckedPrompt(line, text, ((), ()), (finding,))
        else:
            prompt = repr({key: row[key] for key in row if key not in OUTPUTS})
            key = keys.setdefault(prompt, replace(samples[0], outputs=()))  # of a mirrored pair too
            prompts.setdefault(key, []).extend((line, row, sample) for sample in samples)
    if not prompts:
        raise UserError(f"{path} is empty: it has no prompts to check")
    return [p if isinstance(p, CheckedPrompt) else _checked(p, request) for p in prompts.values()]


def _checked(rows: Sequence[tuple[str, Any, Sample]], request: Request) -> CheckedPrompt:
    """A prompt, from all of its samples with the line and content of their rows."""
    _, row, _ = rows[0]
    samples = [sample for _, _, sample in rows]
    words = request.substitution
    sides = (dict.fromkeys(v.text for s in samples for v in s.of(g)) for g in request.groups)
    first, second = map(tuple, sides)
    text = str(row.get("input") or first[0])
    has_variations = bool({*row} & {*request.groups} or row.get("variations"))
    texts = [*first, *second] if has_variations else [text]
    outputs = [output for sample in samples for output in sample.outputs]
    findings = [] if has_variations else [f for o in outputs for f in _doubtful(text, o, words)]
    findings += _used_names(texts, words)
    for output in outputs:
        if shown := [word.text for word in words.words(output) if word.side is not None]:
            findings.append(f"output {output!r} names a group itself ({', '.join(shown)})")
    findings += faults(texts, outputs).values()
    lines = ", ".join(dict.fromkeys(line for line, _, _ in rows))
    return CheckedPrompt(lines, text, (first, second), tuple(dict.fromkeys(findings)))


def _doubtful(text: str, output: str, substitution: Substitution) -> Iterator[str]:
    """Doubts about the variations of a text that `output` continues."""
    words = substitution.words(text, output)
    of_text = words[: len(substitution.words(text))]
    yourself = "give its variations yourself"
    changing = [word for word in of_text if word.side is not None and word.stays is None]
    by_side = [dict.fromkeys(w.text for w in changing if w.side == side) for side in (0, 1)]
    if all(by_side):
        sides = zip(substitution.groups, by_side, strict=True)
        shown = "; ".join(f"{group}: {', '.join(texts)}" for group, texts in sides)
        yield (
            f"both groups are in it ({shown}), and everybody becomes one: {yourself}, or leave the "
            "others out"
        )
    for name in _unknown_names(of_text):
        yield f"{name!r} is not a known name and stays as it is: {yourself}, or use another name"
    for i, word in enumerate(of_text):
        phrase = " ".join(w.text for w in words[max(0, i - 1) : i + 2])
        before, after = grammar.before(words, i), grammar.at(words, i + 1)
        is_person = word.rules.answer("unsure", before, word.own_labels, after) == "yes"
        if word.stays and (word.stays != word.text or is_person):
            yield f"{word.stays!r} stays on both sides: {yourself}, or reword it"
        if len(partners := substitution.partners(words, i)) > 1:
            yield (
                f"{word.text!r} is read as {partners[0]!r} in {phrase!r}, and may be "
                f"{partners[1]!r}: rephrase it, or {yourself}"
            )
        if substitution.is_of_several(word):
            yield f"{word.text!r} may mean several people: {yourself}"
        placed = before & {"in", "near", "into"} and not word.gap.startswith(("'", "’"))
        if word.kind == "name" and word.stays is None and placed:
            yield f"{word.text!r} may be a place in {phrase!r}: rephrase it, or {yourself}"


def _unknown_names(words: Sequence[Word]) -> Iterator[str]:
    """Capitalised words that may be names; the first of a sentence if no name is known."""
    is_named = any(word.kind in ("name", "title") for word in words)
    before: Labels = frozenset(["OPENS"])
    for i, word in enumerate(words):
        shapes = {"MIXED": _MIXED.match(word.text), "ORDINARY": word.key in word.rules.ordinary}
        at = labelled(word.own_labels, **shapes, LETTER=len(word.text) == 1, NAMED=is_named)
        if word.rules.answer("unknown", before, at, grammar.at(words, i + 1)) == "yes":
            yield word.text
        opens = not grammar.within_a_phrase(word.gap)
        before = labelled(at, OPENS=opens, UNKNOWN=word.capitalised and "ORDINARY" not in at)


def _used_names(texts: Iterable[str], substitution: Substitution) -> Iterator[str]:
    """Warnings about names on which erasers are fitted or with which layers are chosen."""
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


def faults(texts: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """The faults of a prompt that change its figures, by kind."""
    plain = [" ".join(unicodedata.normalize("NFKC", output).split()) for output in outputs]
    kinds = {
        "output {0!r} has no leading space, so that it joins the last word of the prompt: write "
        "' {0}'": unspaced(texts, outputs),
        "the prompt ends with a space, which is a token of its own before most outputs: take it "
        "away, and begin the outputs with it": (t for t in texts if t.rstrip(" \t\xa0") != t),
        "{0!r} is a control token, which a model does not read as text: take it out, or set "
        "model.template=chat": CONTROL.findall("\n".join([*texts, *outputs])),
        "output {0!r} is given twice, and counts double": (
            output for i, output in enumerate(outputs) if plain[i] in plain[:i]
        ),
    }
    return {kind: kind.format(case) for kind, cases in kinds.items() for case in [*cases][:1]}


def set_warnings(sets: Iterable[CounterfactualSet]) -> Iterator[str]:
    """One warning for each kind of fault."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for data in sets:
        for sample in data.samples:
            texts = [v.text for v in sample.variations]
            for kind, fault in faults(texts, sample.outputs).items():
                by_kind.setdefault(kind, []).append((data.name, f"{texts[0]!r}: {fault}"))
    for doubtful in by_kind.values():
        names = ", ".join(dict.fromkeys(name for name, _ in doubtful))
        yield f"Doubtful prompts of {names}: {len(doubtful)}, such as {doubtful[0][1]}."


def small_words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return [word.casefold() for word in re.findall(r"[^\W_]+", text)]


def unknown_words(words: Collection[str], text: str) -> list[str]:
    """The words of a text that are not among `words`."""
    return [word for word in small_words(text) if word not in words]


@dataclass(frozen=True)
class OutOfVocabulary:
    """A set with words outside a model's vocabulary."""

    data: CounterfactualSet
    share: float
    """As `in_vocabulary_share`."""
    words: tuple[str, ...]
    """Words outside the vocabulary, those that tell the groups apart first."""


def in_vocabulary_share(words: Collection[str], data: CounterfactualSet) -> float:
    """The share of prompts with outputs in vocabulary, of the group with fewest."""
    shares = []
    for group in data.groups:
        texts = [v.text + output for s in data.samples for v in s.of(group) for output in s.outputs]
        shares.append(sum(not unknown_words(words, text) for text in texts) / len(texts))
    return min(shares)


def out_of_vocabulary(words: Collection[str], data: CounterfactualSet) -> OutOfVocabulary | None:
    """The out-of-vocabulary words of a set; None where `IN_VOCABULARY` of it is in vocabulary."""
    share = in_vocabulary_share(words, data)
    if share >= IN_VOCABULARY:
        return None
    by_group = [
        [w for s in data.samples for v in s.of(group) for w in unknown_words(words, v.text)]
        for group in data.groups
    ]
    shared = set.intersection(*map(set, by_group))
    of_texts = [*chain.from_iterable(by_group)]
    outputs = [w for s in data.samples for o in s.outputs for w in unknown_words(words, o)]
    telling = [word for word in of_texts if word not in shared]
    return OutOfVocabulary(data, share, tuple(dict.fromkeys([*telling, *outputs, *of_texts])))


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
            examples = ", ".join(map(repr, [*dict.fromkeys(first)][:_MOST]))
            yield (
                f"{len(first)} of {len(data.samples)} prompts of {data.name} contain words "
                f"outside the vocabulary of {model} ({examples}): their figures mean nothing."
            )
