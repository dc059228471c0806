"""Words that agree with a word of a group: la enfermera cansada, el enfermero cansado.

From each word of a group, its head, the words before it are read leftwards by the table
`before_head`, and those after it rightwards by `after_head`. The fields of both are the labels of
what was passed (the head at first), the word, and the word beyond it. Then `loose` reads the words
that agree with no head, with the words before and after each.

An answer is the name of a list of `agreeing`, whose partner a word becomes; with "?" where that is
not sure, with "~" for a word that may agree and stays. Or it is `pass` or `end`; or, of `loose`,
`head`, for a head that shows no group. Labels after it are added to those of what was passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.data.text.grammar import Word, at, before, within_a_phrase
from countergen_edit.data.text.rules import NO_WORD, Labels, Rules, labelled

_PASS, _HEAD, _END = "pass", "head", "end"


def columns_of(rules: Rules, groups: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
    """The column of `agreeing` of each group, by its forms; empty if nothing tells them apart."""
    rows = next(iter(rules.agreeing.values()), [[]])
    own = [forms.get(rules.agreement_form) for forms in groups]
    if len(set(own)) < len(own) or not {*own} <= {*rows[0]}:
        return ()
    columns = tuple(rows[0].index(str(form)) for form in own)
    for row in (row for rows in rules.agreeing.values() for row in rows):
        if len(row) <= max(columns):
            raise UserError(
                f"agreeing {[*row]} has {len(row)} columns, the first row {len(rows[0])}"
            )
    return columns


def with_agreeing(words: Sequence[Word], columns: Sequence[int]) -> list[Word]:
    """The words of a text, of which those that agree with a word of a group have its side."""
    result = [*words]
    if not columns:
        return result
    for i, word in enumerate(words):
        if word.side is not None and word.stays is None:
            _from_head(result, i, word.own_labels, columns)
    for i, word in enumerate(words):
        if result[i] == word and word.kind == "plain":
            near, after = before(result, i), at(result, i + 1)
            found, *labels = word.rules.answer("loose", near, word.labels, after).split() or [""]
            if found == _HEAD:
                _from_head(result, i, frozenset(labels), columns)
            elif found:
                result[i] = _agreeing(word, found, None, columns, word.text)
    return result


def _from_head(words: list[Word], i: int, labels: Labels, columns: Sequence[int]) -> None:
    governed = _walk(words, i, -1, "before_head", labels, columns)
    _walk(words, i, 1, "after_head", labelled(labels, GOVERNED=governed), columns)


def _walk(
    words: list[Word], start: int, step: int, table: str, passed: Labels, columns: Sequence[int]
) -> bool:
    """Mark the words that agree with the head at `start`; whether a preposition ends them."""
    head, k = words[start], start
    while "END" not in (near := _further(words, k, step)):
        k += step
        found, *labels = head.rules.answer(
            table, passed, near, _further(words, k, step)
        ).split() or [""]
        if found in ("", _END):
            break
        passed |= {*labels}
        if found != _PASS and words[k].kind == "plain" and words[k].stays is None:
            phrase = " ".join(word.text for word in words[min(start, k) : max(start, k) + 1])
            words[k] = _agreeing(words[k], found, head.side, columns, phrase)
    return "PREPOSITIONS" in near


def _further(words: Sequence[Word], k: int, step: int) -> Labels:
    """The labels of the word beside word `k` in its phrase."""
    j = k + step
    joined = 0 <= j < len(words) and within_a_phrase(words[min(j, k)].gap)
    return words[j].labels if joined else NO_WORD


def _agreeing(
    word: Word, answer: str, side: int | None, columns: Sequence[int], phrase: str
) -> Word:
    """The word with its partner; as it is where the list has none of its side."""
    small, name = word.text.lower(), answer.rstrip("?~")
    require_known("list of agreeing", name, word.rules.agreeing)
    rows = word.rules.agreeing[name]
    for own in (0, 1) if side is None else (side,):
        for row in rows:
            from_, to = row[columns[own]], row[columns[1 - own]]
            is_ending = from_.startswith("-")
            if small.endswith(from_[1:]) if is_ending else small == from_:
                if answer.endswith("~"):
                    return replace(word, stays=phrase)
                partner = small.removesuffix(from_[1:]) + to[1:] if is_ending else to
                partners = (partner, small) if answer.endswith("?") else (partner,)
                return replace(word, kind="agreeing", side=own, partners=partners)
    return word
