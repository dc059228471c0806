"""A search of attention heads: which are chosen, what is measured, and where it is refused."""

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import Distilled, make_eraser
from countergen_edit.metrics.locate import AGREEMENT, BIAS, HEAD_COUNTS, MOVED
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.models.capture import HEAD, head_of
from countergen_edit.runs.folder import read_records
from tests.runs.runs import run, value
from tests.runs.test_search import make_plan

ERASERS = {"mean_difference": make_eraser("mean_difference")}


@pytest.fixture(scope="module")
def path(testbed, tmp_path_factory):
    path = tmp_path_factory.mktemp("heads") / "run"
    run(testbed, make_plan(sites=(HEAD,), layers=None, erasers=ERASERS), path)
    return path


@pytest.fixture(scope="module")
def heads(path, rows):
    """The heads of every edit that was measured on validation data, few first."""
    measured = {row.edit for row in rows if row.split == "validation"}
    records = [record for edit, record in read_records(path).items() if edit in measured]
    heads = {record.id: {(p.layer, head_of(p.site)) for p in record.places} for record in records}
    return dict(sorted(heads.items(), key=lambda item: len(item[1])))


def test_heads_are_those_that_move_more_of_the_bias_than_of_agreement(rows, heads):
    share = {BIAS: {}, AGREEMENT: {}}
    for row in rows:
        if (row.metric, row.split) == (MOVED, "validation"):
            share[row.dataset][row.facets["layer"], row.facets["unit"]] = row.value
    margin = {h: max(0, s) - max(0, share[AGREEMENT][h]) for h, s in share[BIAS].items()}
    ordered = sorted((head for head in margin if margin[head] > 0), key=lambda h: -margin[h])
    sizes = [size for size in HEAD_COUNTS if size <= len(ordered)]
    assert [{*ordered[:size]} for size in sizes] == [*heads.values()]


def test_more_heads_remove_more(rows, heads):
    left = [value(rows, "mean_abs_r", edit=edit, split="validation") for edit in heads]
    before = value(rows, "mean_abs_r", edit=UNEDITED, split="validation")
    assert left[-1] < before


@pytest.mark.parametrize(
    "changes",
    [
        {"sites": (HEAD, "attn_out")},
        {"select": "eraser"},
        {"select": "task", "erasers": {"distilled": Distilled()}},
    ],
)
def test_heads_are_searched_alone_and_projected(testbed, changes):
    plan = make_plan(**{"sites": (HEAD,), "layers": None, "erasers": ERASERS} | changes)
    with pytest.raises(UserError, match="edit=head"):
        plan.check(testbed)
