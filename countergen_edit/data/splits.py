"""Splits that cannot leak.

Comes in: the sets an eraser is fitted on and those it is measured on. Refused: a name, a wording, a
prompt or a data set that both have (CounterGen, section 3.4: test data "far from" training data).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from countergen_edit.data.axis import SPLITS
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.errors import UserError, unknown
from countergen_edit.seeds import generator


def check_leakage(fit: Sequence[CounterfactualSet], test: Sequence[CounterfactualSet]) -> None:
    """Refuse test sets that share anything with the fitting sets.

    Wordings and prompts are compared without regard to case and spacing. A fitting name counts as
    shared wherever it stands as a word in a test prompt, known to the test set as a name or not,
    and the other way round.

    Raises:
        UserError: naming the culprit and both sets.
    """
    for fitted in fit:
        for tested in test:
            for kind, culprit in _shared(fitted, tested):
                raise UserError(
                    f"{kind} {culprit!r} is in fitting set {fitted.name!r} and in test set "
                    f"{tested.name!r}: figures would be measured on what was fitted; "
                    "take it out of one of them"
                )


def hold_out(
    data: CounterfactualSet, shares: Mapping[str, float], seed: int = 0
) -> dict[str, CounterfactualSet]:
    """Split a set by wordings, the same way for the same seed whatever else is drawn.

    Every sample of a wording goes to one part, so parts share no wording; parts of a set that
    crosses wordings with names still share the names. A part is named `<set>_<split>`.

    Args:
        data: The set to split.
        shares: Split → its share of the wordings; shares are taken relative to their sum.
        seed: The run's seed.

    Raises:
        UserError: a share is not positive, or there are fewer wordings than parts.
    """
    for split, share in shares.items():
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        if not share > 0:
            raise UserError(f"share {share} of the {split!r} split is not positive")
    wordings = data.templates
    if not shares or len(wordings) < len(shares):
        raise UserError(
            f"set {data.name!r} has {len(wordings)} wording(s): "
            f"they cannot be split into {len(shares)} parts"
        )
    order = generator(seed, "hold_out", data.name).permutation(len(wordings))
    sizes = _sizes(len(wordings), list(shares.values()))
    parts, begin = {}, 0
    for split, size in zip(shares, sizes, strict=True):
        chosen = {wordings[i] for i in order[begin : begin + size]}
        samples = tuple(s for s in data.samples if s.template in chosen)
        parts[split] = replace(data, name=f"{data.name}_{split}", samples=samples)
        begin += size
    return parts


def _sizes(total: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers close to the shares, at least one each, that sum to `total`."""
    sizes = [1] * len(shares)
    for _ in range(total - len(shares)):
        behind = [
            share / sum(shares) * total - size for share, size in zip(shares, sizes, strict=True)
        ]
        sizes[behind.index(max(behind))] += 1
    return sizes


def _shared(a: CounterfactualSet, b: CounterfactualSet) -> Iterator[tuple[str, str]]:
    if a.name == b.name:
        yield "data set", a.name
    wordings = {_plain(template) for template in b.templates}
    yield from (("template", t) for t in a.templates if _plain(t) in wordings)
    prompts = {_plain(text) for text in _prompts(b)}
    yield from (("prompt", text) for text in _prompts(a) if _plain(text) in prompts)
    for names_of, texts_of in ((a, b), (b, a)):
        words = {word for text in _prompts(texts_of) for word in re.findall(r"\w+", text)}
        for name in names_of.names:
            if name in texts_of.names or set(re.findall(r"\w+", name)) <= words:
                yield "name", name


def _prompts(data: CounterfactualSet) -> list[str]:
    return [v.text for sample in data.samples for v in sample.variations]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
