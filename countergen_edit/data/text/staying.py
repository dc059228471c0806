"""Words of a group that a substitution leaves as they are.

They stand in a phrase that names both groups on purpose (he or she, ladies and gentlemen), in a
proper name (Gossip Girl, Lady Gaga, St. James), or in a word that is not exchanged whole
(Anna-Maria, she-wolf, actor(s)).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from countergen_edit.data.text.grammar import Word
from countergen_edit.data.text.possessives import reading
from countergen_edit.data.text.rules import Labels, answer, labelled, labels_of

_JOINING = re.compile(
    r"\.?(?:\s*[/&]\s*|,?[\s-](?:and|or|and/or|nor|&|vs\.?|versus)[\s-](?:(?:an?|the)\s)?)"
)
_GLUE = re.compile(r"[(*]|\)(?=\w)")


def settled(
    words: Sequence[Word], first_names: Collection[str], generic: Collection[tuple[str, ...]]
) -> list[Word]:
    """The words; where `stays` has a phrase, a word of a group has lost its side.

    Args:
        words: Of one text.
        first_names: No surnames, even after a title.
        generic: Meanings of words that stay where all others are of the other group.
    """
    result = [*words]
    for i, word in enumerate(words):
        if word.side is None or result[i].stays is not None:
            continue
        if (j := _other_half(words, i)) is not None:
            joint = words[i].gap + "".join(w.text + w.gap for w in words[i + 1 : j])
            owns = words[j].kind == "pronoun" and reading(words, j).owns
            doubtful = owns and "object" in word.meaning and "and" in joint
            stays = f"{word.text}{joint}{words[j].text}" if doubtful else ""
            for k in (i, j):
                result[k] = Word(words[k].text, "plain", words[k].gap, stays=stays)
        elif (phrase := _in_a_name(words, i, first_names)) is not None:
            plain = Word(word.text, "plain", word.gap, stays=phrase)
            result[i] = plain if phrase else replace(word, stays=phrase)
    changing = [w for w in result if w.side is not None and w.stays is None]
    sides = {word.side for word in changing if word.meaning not in generic}
    others = [w for w in changing if len(sides) == 1 and w.side not in sides]
    return [Word(w.text, "plain", w.gap, stays="") if w in others else w for w in result]


def _other_half(words: Sequence[Word], i: int) -> int | None:
    """The word of the other group that is joined to the word at `i` in one meaning."""
    word = words[i]
    j = next((k for k in range(i + 1, min(i + 4, len(words))) if words[k].side is not None), None)
    if word.kind == "name" or j is None or words[j].side == word.side:
        return None
    joint = word.gap + "".join(w.text + w.gap for w in words[i + 1 : j])
    shared = {*word.meaning} & {*words[j].meaning}
    if words[j].kind == "pronoun":
        owns = reading(words, j).owns
        shared = {case for case in shared if (case == "determiner") == owns}
    listed = joint == ", " and word.kind != "pronoun"
    return j if shared and (listed or _JOINING.fullmatch(joint.lower())) else None


def _in_a_name(words: Sequence[Word], i: int, first_names: Collection[str]) -> str | None:
    """The phrase in which a word stays, empty where that is certain; None where it does not."""
    word, gap = words[i], words[i - 1].gap if i else ""
    before, after = words[max(i - 1, 0)], words[min(i + 1, len(words) - 1)]
    found = answer(
        "staying",
        _neighbour(before, gap) if i else labels_of(""),
        labelled(word.own_labels, FIRST_NAME=word.text in first_names),
        _neighbour(after, word.gap) if i + 1 < len(words) else labels_of(""),
    )
    phrases = {
        "sure": "",
        "before": f"{before.text}{gap}{word.text}",
        "after": f"{word.text}{word.gap}{after.text}",
    }
    return phrases.get(found)


def _neighbour(word: Word, gap: str) -> Labels:
    """Of a word, and of the characters between it and the word that may stay."""
    return labelled(
        word.own_labels,
        SPACE=gap == " ",
        HYPHEN=gap == "-",
        GLUE=_GLUE.fullmatch(gap),
        NAMED=gap in (" ", ". ") and word.text[:1].isupper(),
        DOT=gap == ". ",
        JOINED=gap in (" ", "-") or (gap == ". " and word.kind == "title"),
    )
