"""Words of a group that a substitution leaves as they are.

They stand in a phrase that names both groups on purpose (he or she, ladies and gentlemen), in a
proper name (Gossip Girl, Lady Gaga, St. James), or in a word that is not exchanged whole
(Anna-Maria, she-wolf, actor(s)).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from countergen_edit.data.text.grammar import Word, reading
from countergen_edit.data.text.rules import Labels, labelled

Meanings = frozenset[tuple[str, ...]]
_GLUE = re.compile(r"[(*]|\)(?=\w)")


def settled(
    words: Sequence[Word], first_names: Collection[str], generic: Meanings, neutral: Meanings
) -> list[Word]:
    """The words of a text; where `stays` has a phrase, a word of a group has lost its side.

    `first_names` are not surnames, even after a title; words of `generic` meaning stay where all
    but those of `neutral` meaning are of the other group.
    """
    result = [*words]
    for i, word in enumerate(words):
        if word.side is None or result[i].stays is not None:
            continue
        if (both := _other_half(words, i)) is not None:
            for k in (i, both[0]):
                result[k] = _plain(words[k], both[1])
        elif (name := _in_a_name(words, i, first_names)) is not None:
            result[i] = _plain(word, name) if name else replace(word, stays=name)
    changing = [w for w in result if w.side is not None and w.stays is None]
    sides = {word.side for word in changing if word.meaning not in generic | neutral}
    some = generic if len(sides) == 1 else frozenset()
    others = [w for w in changing if w.meaning in some and w.side not in sides]
    return [replace(w, side=None, stays="") if w in others else w for w in result]


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
    word, nothing = words[i], Word("", "plain", "", rules=words[i].rules)
    before = words[i - 1] if i else nothing
    k = i + (2 if word.gap in ("'", "’") else 1)  # past the s of "King's College"
    after = words[k] if k < len(words) else nothing
    joint = "".join(w.text + w.gap for w in words[i:k]).removeprefix(word.text)
    phrases = {"sure": "", "before": before.text + before.gap + word.text}
    phrases |= {"after": word.text + joint + after.text}
    own = labelled(word.own_labels, FIRST_NAME=word.text in first_names)
    near, following = _beside(before, before.gap), _beside(after, joint.replace("’", "'"))
    return phrases.get(word.rules.answer("staying", near, own, following))


def _beside(word: Word, gap: str) -> Labels:
    """Of a word, and of the characters between it and the word that may stay."""
    named = gap in (" ", ". ") and word.text[:1].isupper()
    joint = {" ": "SPACE", "-": "HYPHEN", ". ": "DOT", "'s ": "GENITIVE"}.get(gap, "FAR")
    return labelled(word.own_labels | {joint}, GLUE=_GLUE.fullmatch(gap), NAMED=named)
