"""Perturbations that a masked language model proposes (Yona et al. 2023, appendix D).

The paper masked parts of a sentence and sorted the likeliest predictions of BERT by hand into
synonyms and subtle and significant changes of meaning. Here each word is masked in turn, and a mask
is put between each two; similarity to the source sorts what is proposed, until a person does.

Comes in: sentences, a masked language model, a measure of similarity. Goes out: the sentences with
their proposals by kind, also as a file to sort by hand, which `perturbation=FILE` reads back.
Refused: bands that do not fall, a file that exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.metrics.cid.perturbations import Source
from countergen_edit.metrics.cid.similarity import Similarity
from countergen_edit.models.masked import Gap, MaskedModel, fill_in_words

KINDS = ("synonym", "semantic (subtle)", "semantic (significant)")
"""The kinds of Figure 8 that no rule makes, from the most similar down."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def proposals(
    sources: Sequence[Source],
    model: MaskedModel,
    similarity: Similarity,
    *,
    substitution: Substitution | None = None,
    bands: Sequence[float] = (0.95, 0.85),
    per_place: int = 3,
    per_kind: int = 10,
) -> list[Source]:
    """The sentences with what a masked language model makes of them, after what they were given.

    Args:
        sources: The sentences.
        model: Proposes the words.
        similarity: Of a proposal to its source, by which its kind is told.
        substitution: Words of either group stay and are never proposed: they would change whom the
            sentence is about, which is a kind of its own.
        bands: Similarity from which a proposal is a synonym, and from which a subtle change.
        per_place: Words taken at each place.
        per_kind: At most so many proposals of a sentence and kind, the model's likeliest.

    Raises:
        UserError: the bands do not fall within (0, 1), or a number is below 1.
    """
    if len(bands) != 2 or not 0 < bands[1] < bands[0] <= 1:
        raise UserError(f"bands={[*bands]}: two similarities that fall, such as [0.95,0.85]")
    if per_place < 1:
        raise UserError(f"per_place={per_place}: at least 1")
    people = substitution.lexicon_words if substitution else frozenset()
    proposed = []
    for source in sources:
        gaps = _gaps(source.text, people)
        likely: dict[str, float] = {}
        for (gap, was), words in zip(
            gaps, fill_in_words(model, [gap for gap, _ in gaps], per_place + 1), strict=True
        ):
            others = [(w, p) for w, p in words if w.lower() not in {was.lower(), *people}]
            for word, probability in others[:per_place]:
                text = gap.filled(_like(word, was, first=not gap.before))
                likely[text] = max(probability, likely.get(text, 0.0))
        likely.pop(source.text, None)
        texts = sorted(likely, key=lambda text: -likely[text])
        given: dict[str, list[str]] = {k: [*own] for k, own in source.sentences.items()}
        known = {text for own in given.values() for text in own}
        of_kind: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for text, value in zip(texts, similarity([source.text] * len(texts), texts), strict=True):
            if text not in known:
                of_kind[KINDS[sum(value < band for band in bands)]].append(text)
        for kind, own in of_kind.items():
            given[kind] = [*given.get(kind, ()), *own[:per_kind]]
        proposed.append(replace(source, sentences=given))
    return proposed


def _gaps(text: str, people: frozenset[str]) -> list[tuple[Gap, str]]:
    """Every word in turn as a gap, with the word; and a gap between each two words, with none."""
    words = [m for m in _WORD.finditer(text) if m.group().lower() not in people]
    instead = [(Gap(text[: m.start()], text[m.end() :]), m.group()) for m in words]
    between = [
        (Gap(text[: m.start()], f" {text[m.start() :]}"), "")
        for m in _WORD.finditer(text)
        if m.start() and text[m.start() - 1] == " "
    ]
    return instead + between


def _like(word: str, was: str, first: bool) -> str:
    """A proposed word, with a capital where it begins the sentence as one did."""
    return word[:1].upper() + word[1:] if first and was[:1].isupper() else word


def new_file(path: Path) -> Path:
    """The path, where nothing stands that a person may have sorted already.

    Raises:
        UserError: the file exists.
    """
    if path.exists():
        raise UserError(f"{path} exists and may be sorted already: choose another candidates=FILE")
    return path


def write_sources(path: Path, sources: Sequence[Source], comment: str) -> None:
    """Write sentences as a file of the shape of `conf/perturbation`."""
    entries: list[Mapping[str, object]] = [
        {"source": s.text, "sentences": {kind: [*own] for kind, own in s.sentences.items() if own}}
        for s in sources
    ]
    content = yaml.safe_dump(
        {"sources": entries}, sort_keys=False, allow_unicode=True, width=10_000
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary:
        temporary.write_text(f"# {comment}\n{content}", "utf-8")
