"""Outputs that join the last word of their prompt, as "works asa nurse" does.

Comes in: texts and the outputs after them. Goes out: the outputs that lack their leading space, and
a warning for each set that has some. Scripts without spaces between words join nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from countergen_edit.data.counterfactual import CounterfactualSet

CLOSING = ",.;:!?)]}%”’»…"
"""What a space stands after, in most scripts; straight quotes open as often as they close."""
WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts by the first word of their characters' names in Unicode."""


def unspaced(texts: Iterable[str], outputs: Iterable[str]) -> Iterator[str]:
    """The outputs that join the last word of one of the texts.

    >>> [*unspaced(["Jane works as", "Jane (30)"], ["a nurse", " a nurse", ", she says,"])]
    ['a nurse']
    >>> [*unspaced(["小红的工作是"], ["护士"])]
    []
    """
    ends = {text[-1:] for text in texts if text}
    if any(end in CLOSING or _is_of_word(end) for end in ends):
        yield from (output for output in outputs if _is_of_word(output[:1]))


def spacing_warnings(sets: Iterable[CounterfactualSet]) -> Iterator[str]:
    """One line for each set with outputs that lack their leading space."""
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


def _is_of_word(character: str) -> bool:
    """Whether it is a letter or digit of a script that has spaces between words."""
    return character.isalnum() and not unicodedata.name(character, "").startswith(WITHOUT_SPACES)
