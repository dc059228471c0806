"""What a masked language model proposes, sorted by similarity, and as a file to sort by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis
from countergen_edit.data.template_files import bank_from_config
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.metrics.cid.perturbations import (
    KINDS,
    Source,
    new_file,
    perturbations,
    proposals,
    sources_of,
    write_sources,
)
from countergen_edit.models.masked import MaskedModel, masked_from_objects
from countergen_edit.testbed.classifiers import build, plant

SOURCES = [Source("My father was brave.", {"synonym": ["My father is brave."]})]


@pytest.fixture(scope="module")
def model() -> MaskedModel:
    return masked_from_objects(
        "testbed", *build(plant(bank_from_config(read_config("template", "masked"), {})))
    )


def length(a: Sequence[str], b: Sequence[str]) -> np.ndarray:
    """A similarity that a test can foretell: 1 for texts of one length."""
    values = [1 - abs(len(x) - len(y)) / 20 for x, y in zip(a, b, strict=True)]
    return np.array(values, dtype=np.float64)


def test_proposals_differ_in_a_word_and_lie_in_the_band_of_their_kind(model: MaskedModel) -> None:
    bands = (0.95, 0.8)
    [found] = proposals(SOURCES, model, length, bands=bands, per_place=4, per_kind=6)
    given = SOURCES[0].sentences["synonym"]
    assert found.sentences["synonym"][: len(given)] == given
    own = {kind: [t for t in found.sentences[kind] if t not in given] for kind in KINDS}
    assert sum(map(len, own.values())) > 3
    source = SOURCES[0].text.rstrip(".").split()
    for kind, texts in own.items():
        assert len(texts) <= 6
        for text in texts:
            [value] = length([SOURCES[0].text], [text])
            assert KINDS.index(kind) == sum(1 for band in bands if value < band)
            words = text.rstrip(".").split()
            if len(words) == len(source):
                assert sum(a != b for a, b in zip(words, source, strict=True)) == 1
            else:
                assert len(words) == len(source) + 1
                assert any([*words[:i], *words[i + 1 :]] == source for i in range(len(words)))


def test_whom_a_sentence_is_about_is_never_changed(model: MaskedModel) -> None:
    content = read_config("axis", "gender")
    swap = Substitution.from_config(Axis.from_config(content), content["substitution"])
    [found] = proposals(SOURCES, model, length, substitution=swap, per_place=8, per_kind=99)
    made = perturbations([found], swap)
    told = [p.text for p in made if p.kind in KINDS]
    assert told
    assert all("father" in text for text in told)
    assert all(len(swap.lexicon_words & {*text.lower().strip(".").split()}) == 1 for text in told)


def test_what_was_written_and_sorted_is_read_back(model: MaskedModel, tmp_path: Path) -> None:
    path = new_file(tmp_path / "made" / "candidates.yaml")
    found = proposals(SOURCES, model, length)
    write_sources(path, found, "sort these")
    [again] = sources_of(yaml.safe_load(path.read_text("utf-8")))
    assert again.text == SOURCES[0].text
    assert again.sentences == {kind: own for kind, own in found[0].sentences.items() if own}
    assert path.read_text("utf-8").startswith("# sort these\n")
    with pytest.raises(UserError, match="may be sorted already: choose another candidates=FILE"):
        new_file(path)


@pytest.mark.parametrize("bands", [(0.9,), (0.8, 0.9), (0.9, 0.9), (1.2, 0.5)])
def test_bands_that_do_not_fall_are_refused(model: MaskedModel, bands: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="two similarities that fall"):
        proposals(SOURCES, model, length, bands=bands)
