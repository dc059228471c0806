"""Ids, folders, labels and columns of named edits."""

from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, LowRankUpdate, NamedEdit, Placement, Shift, read_record
from countergen_edit.edits.record import COMBINED, RECORD
from countergen_edit.erasers import AffineErasure, Gate


def erasure(rank=2, d=32, seed=0):
    rng = np.random.default_rng(seed)
    right = rng.normal(size=(rank, d))
    return AffineErasure(rng.normal(size=(d, rank)), right, rng.normal(size=d))


def named(*layers, eraser="leace", site="resid_post", rank=1, **record):
    edit = Edit.at(site, {layer: erasure(rank, seed=layer or 0) for layer in layers})
    return NamedEdit.of(edit, eraser, **record)


def test_an_id_depends_on_the_basis_or_else_on_the_tensors():
    assert named(3).id == named(3).id != named(4).id
    assert named(3, basis=["a"]).id == named(4, basis=["a"]).id != named(3, basis=["b"]).id
    assert named(3, basis=["a"]).id != named(3, basis=["a"], eraser="sal").id
    long = named(3, eraser="/a/very/long/path" * 30 + "/own.py:Mine").id
    assert len(long) < 60
    assert "own-py-Mine-" in long


def test_edits_that_differ_in_anything_have_other_digests_and_come_back_from_files(tmp_path):
    """In a bit, a place, a shape, a limit, a gate, an update or words."""
    one = erasure()
    maps = [one, erasure(rank=1), Shift(one.mean)]
    for part in ("left", "right", "mean"):
        value = getattr(one, part).copy()
        value.view(np.uint64).reshape(-1)[-1] ^= 1
        maps.append(replace(one, **{part: value}))
    maps += [replace(one, gate=Gate(one.mean, bias)) for bias in (0.5, 0.4)]
    places = [Placement("resid_post", 3, of_map) for of_map in maps]
    places += [Placement("resid_post", 3, one, limit) for limit in (7.5, np.nextafter(7.5, 8))]
    places += [Placement(*at, one) for at in (("resid_post", 4), ("mlp_out", 3), ("embed", None))]
    edits = [Edit((place,)) for place in places] + [updated(2, "a").edit, updated(3, "a").edit]
    edits += [Edit(()), Edit((), "words"), Edit((places[0],), "words")]
    assert len({edit.digest for edit in edits}) == len(edits)
    for edit in edits:
        of_edit = NamedEdit.of(edit, "own", baseline_kind="prompting", variant="x")
        of_edit.save(tmp_path / "edit")
        again = NamedEdit.load(tmp_path / "edit")
        assert again.record == of_edit.record
        assert again.record.baseline
        assert (again.edit.digest, again.edit.preface) == (edit.digest, edit.preface)
        limits = [place.limit for place in edit.placements]
        assert [p.limit for p in again.record.places if p.site != "weights"] == limits


def test_save_and_load_is_bit_for_bit(tmp_path):
    edit = Edit.at("resid_post", {2: erasure(1), 3: erasure(2)})
    edit += Edit.at("embed", {None: AffineErasure(*map(np.asfortranarray, tensors(erasure(3))))})
    params = {"rank": np.int64(2), "layers": (1, 2), "tolerance": 1e-6, "name": "é"}
    original = NamedEdit.of(edit, "own", params, basis="x", baseline=True, task="gender")
    original.save(tmp_path / original.id, made_for="abc")
    loaded = NamedEdit.load(tmp_path / original.id)
    assert loaded.record == original.record == read_record(tmp_path / original.id)
    assert loaded.record.params == {"rank": 2, "layers": [1, 2], "tolerance": 1e-6, "name": "é"}
    assert loaded.edit.digest == original.edit.digest
    for mine, its in zip(original.edit.placements, loaded.edit.placements, strict=True):
        for a, b in zip(tensors(mine.erasure), tensors(its.erasure), strict=True):
            assert a.tobytes() == b.tobytes()
        np.testing.assert_array_equal(mine.erasure.offset, its.erasure.offset)
    update, other = updated(3, "a"), named(3, eraser="rlace", task="b", rank=2)
    whole = NamedEdit.combined([update, named(2, task="a"), other])
    whole.save(tmp_path / "whole")
    again = NamedEdit.load(tmp_path / "whole")
    assert (again.record, again.edit.digest) == (whole.record, whole.edit.digest)


def updated(rank, *matrices):
    rng = np.random.default_rng(rank)
    factors = {name: (rng.normal(size=(rank, 4)), rng.normal(size=(5, rank))) for name in matrices}
    edit = Edit((), update=LowRankUpdate(factors))
    return NamedEdit.of(edit, "distilled", task=f"t{rank}")


def tensors(one):
    return one.left, one.right, one.mean


def test_a_folder_that_holds_no_edit_is_refused_in_one_line(tmp_path):
    with pytest.raises(UserError, match=r"holds no edit: record\.json is missing"):
        NamedEdit.load(tmp_path / "nothing")
    named(2).save(tmp_path / "edit")
    record = (tmp_path / "edit" / RECORD).read_text()
    named(3).save(tmp_path / "other")
    for text, message in (
        ("{", r"record\.json is damaged"),
        ("[]", r"record\.json: a mapping .* is needed"),
        (record.replace("places", "place"), r"record\.json is damaged: places is missing"),
        ((tmp_path / "other" / RECORD).read_text(), "has other places than the edit"),
    ):
        (tmp_path / "edit" / RECORD).write_text(text)
        with pytest.raises(UserError, match=message):
            NamedEdit.load(tmp_path / "edit")


def test_one_eraser_with_two_settings_is_a_combination():
    parts = [named(2, params={"shrinkage": 0.1}), named(3, params={"shrinkage": 0.2})]
    assert NamedEdit.combined(parts).record.eraser == COMBINED
    same = [named(2, params={"shrinkage": 0.1}), named(3, params={"shrinkage": 0.1})]
    assert NamedEdit.combined(same).record.params == {"shrinkage": 0.1}


def test_a_combination_is_of_its_parts():
    parts = [named(2), named(3, eraser="sal"), named(4, eraser="rlace", baseline=True)]
    whole = NamedEdit.combined(parts)
    assert whole.record.parts == tuple(part.record for part in parts)
    assert (whole.record.rank, whole.record.baseline) == (3, False)
    assert NamedEdit.combined(parts[:1]) is parts[0]


def test_two_parts_at_one_place_are_refused():
    with pytest.raises(UserError, match="two erasures at site 'resid_post', layer 2"):
        NamedEdit.combined([named(2, task="gender"), named(2, task="nationality", eraser="sal")])
    apart = NamedEdit.combined([named(2, task="gender"), named(3, task="nationality")])
    assert (apart.record.eraser, apart.record.task) == (COMBINED, "gender+nationality")
    assert apart.label == "leace-1@resid_post.2 (gender) + leace-1@resid_post.3 (nationality)"
