"""What people and rows are told of an edit: its label and its columns."""

from __future__ import annotations

import pytest

from countergen_edit.edits import NamedEdit
from countergen_edit.edits.record import COMBINED
from countergen_edit.errors import UserError
from tests.edits.test_named import named


def test_labels_are_made_for_people() -> None:
    assert named(3, eraser="rlace").label == "rlace-1@resid_post.3"
    assert named(None, site="embed").label == "leace-1@embed"
    assert named(2, 3, 5).label == "leace-3@resid_post.2+3+5"
    one_eraser = NamedEdit.combined([named(2), named(3)])
    assert one_eraser.record.eraser == "leace"
    assert one_eraser.label == "leace-2@resid_post.2+3"
    mixed = NamedEdit.combined([named(2), named(3), named(4, eraser="sal", rank=2)])
    assert mixed.record.eraser == COMBINED
    assert mixed.label == "leace-1@resid_post.2 + .3 + sal-2@resid_post.4"
    sites = NamedEdit.combined([named(2), named(2, site="mlp_out"), named(None, site="embed")])
    assert sites.label == "leace-1@resid_post.2 + leace-1@mlp_out.2 + leace-1@embed"
    own = [named(2, eraser="own.py:Mine"), named(3, eraser="sal"), named(4, eraser="own.py:Mine")]
    assert NamedEdit.combined(own).label == (
        "own.py:Mine-1@resid_post.2 + sal-1@resid_post.3 + own.py:Mine-1@resid_post.4"
    )


def test_edits_of_two_tasks_are_never_told_as_one() -> None:
    whole = NamedEdit.combined([named(2, task="gender"), named(3, task="nationality")])
    assert whole.record.eraser == COMBINED
    assert whole.record.task == "gender+nationality"
    assert whole.label == "leace-1@resid_post.2 (gender) + leace-1@resid_post.3 (nationality)"


def test_one_eraser_with_two_settings_is_a_combination() -> None:
    parts = [named(2, params={"shrinkage": 0.1}), named(3, params={"shrinkage": 0.2})]
    assert NamedEdit.combined(parts).record.eraser == COMBINED
    same = [named(2, params={"shrinkage": 0.1}), named(3, params={"shrinkage": 0.1})]
    assert NamedEdit.combined(same).record.params == {"shrinkage": 0.1}


def test_a_combination_of_combinations_is_that_of_all_their_parts() -> None:
    a, b, c = named(2), named(3, eraser="sal"), named(4, eraser="rlace", baseline=True)
    flat, nested = (
        NamedEdit.combined([a, b, c]),
        NamedEdit.combined([NamedEdit.combined([a, b]), c]),
    )
    assert nested.record == flat.record
    assert nested.edit.digest == flat.edit.digest
    assert flat.record.rank == 3
    assert not flat.record.baseline
    assert NamedEdit.combined([a]) is a


def test_a_records_columns_are_those_of_its_rows() -> None:
    whole = NamedEdit.combined(
        [named(2, rank=2), named(1, site="mlp_out"), named(None, site="embed")]
    )
    assert whole.record.columns == {
        "edit": whole.id,
        "eraser": COMBINED,
        "site": "resid_post+mlp_out+embed",
        "layers": (2, 1),
        "rank": 4,
        "baseline": False,
    }


def test_two_parts_at_one_place_are_refused() -> None:
    with pytest.raises(UserError, match="two erasures at site 'resid_post', layer 2"):
        NamedEdit.combined([named(2, task="gender"), named(2, task="nationality", eraser="sal")])
