"""What was scored is kept by what it is, never by what it is called."""

from dataclasses import replace
from itertools import product

import numpy as np
from numpy.testing import assert_array_equal

from countergen_edit.edits import EditRecord, Place
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.scores import StoredScores, score
from tests.metrics import small

RECORD = EditRecord("same-1", "same", {}, (Place("resid_post", 0, 1),))
NURSE, ENGINEER = (small.set_of("same", ["{} is a"], [[o]]) for o in (" nurse", " engineer"))
TEXTS = ("John is an engineer.", "Jane is a nurse")


def edit_of(seed):
    return replace(small.edit_of(seed), record=RECORD)


def test_sets_and_edits_of_one_name_do_not_share_scores(context):
    edits = None, edit_of(0), edit_of(1)
    kept = set()
    for data, edit in product((NURSE, ENGINEER), edits):
        with context.under(edit) as edited:
            expected = score(edited, data).log_p
        log_p = context.scores(data, edit).log_p
        assert_array_equal(log_p, expected)
        kept.add(log_p.tobytes())
    assert len(kept) == 6
    one, other = (context.neutral(TEXTS, edit).kl for edit in edits[1:])
    assert not np.array_equal(one, other)


def test_what_was_scored_is_not_scored_again(context):
    assert context.scores(NURSE, None) is context.scores(replace(NURSE), None)
    assert context.neutral(TEXTS, edit_of(0)) is context.neutral([*TEXTS], edit_of(0))


def test_unedited_scores_are_read_from_a_run_beside(model, tmp_path):
    def stored(run, key="one", read=True):
        return StoredScores(tmp_path / run / "scores", key, read)

    def scored(by):
        context = EvaluationContext(model, tmp_path, stored=by)
        assert_array_equal(context.scores(NURSE, edit_of(0)).log_p, with_edit)
        return context.scores(NURSE, None).log_p.tobytes()

    with EvaluationContext(model, tmp_path).under(edit_of(0)) as edited:
        with_edit = score(edited, NURSE).log_p
    expected = score(model, NURSE).log_p
    assert scored(stored("a")) == expected.tobytes()
    [file] = (tmp_path / "a" / "scores").glob("*.npy")
    np.save(file, np.load(file) - 1)  # not what would be computed
    next_to_a = stored("b")
    assert scored(next_to_a) == (expected - 1).tobytes()
    assert next_to_a.others == {str(tmp_path / "a")}
    for other in (stored("c", key="other"), stored("d", read=False)):
        assert scored(other) == expected.tobytes()
        assert not other.others
    context = EvaluationContext(model, tmp_path, stored=stored("e"))
    assert_array_equal(context.scores(ENGINEER, None).log_p, score(model, ENGINEER).log_p)
    [of_d] = (tmp_path / "d" / "scores").glob("*.npy")
    of_d.unlink()
    for run, content in (("f", b"damaged"), ("g", b"")):
        file.write_bytes(content)
        assert scored(stored(run)) == expected.tobytes()
        [written] = (tmp_path / run / "scores").glob("*.npy")
        written.unlink()
