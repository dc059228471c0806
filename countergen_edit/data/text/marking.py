"""Which words of a text change: those of a group, but for some that stay, and those that agree.

A word of a group stays in a phrase that names both groups on purpose (he or she), in a proper name
(Lady Gaga, St. James), or in a word that is not exchanged whole (Anna-Maria, actor(s)).

The tables by which others agree (la enfermera cansada, el enfermero cansado) are explained in
docs/languages.md. Labels after an answer are added to those of what was passed; the answer `head`
of `loose` is a head that shows no group.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.data.language import Labels, Rules, labelled
from countergen_edit.data.text.grammar import Word, at, before, neighbour, reading

Meanings = frozenset[tuple[str, ...]]
_GLUE = re.compile(r"[(*]|\)(?=\w)")
_PASS, _HEAD, _END = "pass", "head", "end"


def settled(
    words: Sequence[Word], first_names: Collection[str], generic: Meanings, neutral: Meanings
) -> list[Word]:
    """The words of a text; where `stays` has a phrase, a word of a group has lost its side.

    `first_names` are not surnames, even after a title; words of `generic` meaning stay where all
    but those of `neutral` meaning are of the other group.
    """
    marked = [*words]
    for i, word in enumerate(words):
        if word.side is None or marked[i].stays is not None:
            continue
        if (half := _other_half(words, i)) is not None:
            j, phrase = half
            marked[i], marked[j] = _plain(word, phrase), _plain(words[j], phrase)
        elif (name := _in_a_name(words, i, first_names)) is not None:
            marked[i] = _plain(word, name) if name else replace(word, stays=name)
    changing = [w for w in marked if w.side is not None and w.stays is None]
    sides = {word.side for word in changing if word.meaning not in generic | neutral}
    if len(sides) != 1:
        return marked
    staying = [w for w in changing if w.meaning in generic and w.side not in sides]
    return [replace(w, side=None, stays="") if w in staying else w for w in marked]


def _plain(word: Word, stays: str) -> Word:
    return replace(word, kind="plain", side=None, meaning=(), stays=stays)


def _other_half(words: Sequence[Word], i: int) -> tuple[int, str] | None:
    """The word of the other group that is joined to the word at `i` in one meaning.

    With the phrase, if it may as well be two: "told her and his brother".
    """
    word = words[i]
    j = next((k for k in range(i + 1, min(i + 4, len(words))) if words[k].side is not None), None)
    if word.kind == "name" or j is None or words[j].side == word.side:
        return None
    joint = word.gap + "".join(w.text + w.gap for w in words[i + 1 : j])
    owns = words[j].kind == "pronoun" and reading(words, j).owns
    if owns and "determiner" not in word.meaning:
        return None  # "told him and her brother"
    shared = {*word.meaning} & {*words[j].meaning} - ({"determiner"} if not owns else set())
    listed = joint == ", " and word.kind != "pronoun"
    doubtful = owns and "object" in word.meaning and "and" in joint
    if shared and (listed or word.rules.joining.fullmatch(joint.lower())):
        return j, f"{word.text}{joint}{words[j].text}" if doubtful else ""
    return None


def _in_a_name(words: Sequence[Word], i: int, first_names: Collection[str]) -> str | None:
    """The phrase in which a word stays, empty where that is certain; None where it does not."""
    word = words[i]
    nothing = Word("", "plain", "", rules=word.rules)
    before = words[i - 1] if i else nothing
    k = i + (2 if word.gap in ("'", "’") else 1)  # past the s of "King's College"
    after = words[k] if k < len(words) else nothing
    joint = "".join(w.text + w.gap for w in words[i:k]).removeprefix(word.text)
    phrases = {"sure": "", "before": before.text + before.gap + word.text}
    phrases |= {"after": word.text + joint + after.text}
    labels = labelled(word.own_labels, FIRST_NAME=word.text in first_names)
    near, following = _joined_to(before, before.gap), _joined_to(after, joint.replace("’", "'"))
    return phrases.get(word.rules.answer("staying", near, labels, following))


def _joined_to(word: Word, gap: str) -> Labels:
    """Of a word, and of the characters between it and the word that may stay."""
    named = gap in (" ", ". ") and word.text[:1].isupper()
    joint = {" ": "SPACE", "-": "HYPHEN", ". ": "DOT", "'s ": "GENITIVE"}.get(gap, "FAR")
    return labelled(word.own_labels | {joint}, GLUE=_GLUE.fullmatch(gap), NAMED=named)


def columns_of(rules: Rules, groups: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
    """The column of `agreeing` of each group, by its forms; empty if nothing tells them apart."""
    first = next(iter(rules.agreeing.values()), [[]])[0]
    forms = [group.get(rules.agreement_form) for group in groups]
    if len(set(forms)) < len(forms) or not {*forms} <= {*first}:
        return ()
    columns = tuple(first.index(str(form)) for form in forms)
    for row in (row for rows in rules.agreeing.values() for row in rows):
        if len(row) <= max(columns):
            raise UserError(f"agreeing {[*row]} has {len(row)} columns, the first row {len(first)}")
    return columns


def with_agreeing(words: Sequence[Word], columns: Sequence[int]) -> list[Word]:
    """The words of a text, of which those that agree with a word of a group have its side."""
    marked = [*words]
    if not columns:
        return marked
    for i, word in enumerate(words):
        if word.side is not None and word.stays is None:
            _from_head(marked, i, word.own_labels, columns)
    for i, word in enumerate(words):
        if marked[i] == word and word.kind == "plain":
            near, after = before(marked, i), at(marked, i + 1)
            answer, *labels = word.rules.answer("loose", near, word.labels, after).split() or [""]
            if answer == _HEAD:
                _from_head(marked, i, frozenset(labels), columns)
            elif answer:
                marked[i] = _agreeing(word, answer, None, columns, word.text)
    return marked


def _from_head(words: list[Word], i: int, labels: Labels, columns: Sequence[int]) -> None:
    governed = _walk(words, i, -1, "before_head", labels, columns)
    _walk(words, i, 1, "after_head", labelled(labels, GOVERNED=governed), columns)


def _walk(
    words: list[Word], start: int, step: int, table: str, passed: Labels, columns: Sequence[int]
) -> bool:
    """Mark the words that agree with the head at `start`; whether a preposition ends them."""
    head, k = words[start], start
    while "END" not in (near := neighbour(words, k, step)):
        k += step
        answer = head.rules.answer(table, passed, near, neighbour(words, k, step))
        verdict, *labels = answer.split() or [_END]
        if verdict == _END:
            break
        passed |= {*labels}
        if verdict != _PASS and words[k].kind == "plain" and words[k].stays is None:
            phrase = " ".join(w.text for w in words[min(start, k) : max(start, k) + 1])
            words[k] = _agreeing(words[k], verdict, head.side, columns, phrase)
    return "PREPOSITIONS" in near


def _agreeing(
    word: Word, answer: str, side: int | None, columns: Sequence[int], phrase: str
) -> Word:
    """The word with its partner; as it is where the list has none of its side."""
    small = word.text.lower()
    name = answer.rstrip("?~")
    require_known("list of agreeing", name, word.rules.agreeing)
    rows = word.rules.agreeing[name]
    for i in (0, 1) if side is None else (side,):
        for row in rows:
            from_, to = row[columns[i]], row[columns[1 - i]]
            is_ending = from_.startswith("-")
            if small.endswith(from_[1:]) if is_ending else small == from_:
                if answer.endswith("~"):
                    return replace(word, stays=phrase)
                partner = small.removesuffix(from_[1:]) + to[1:] if is_ending else to
                partners = (partner, small) if answer.endswith("?") else (partner,)
                return replace(word, kind="agreeing", side=i, partners=partners)
    return word
