"""An audit leaves a planted attention sink alone, and edits every position where it is told to."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from countergen_edit.edits import EditRecord
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.folder import read_records
from tests.edits.test_sinks import sunk
from tests.runs.test_audit import make_plan, make_task, run, thin

pytestmark = pytest.mark.slow  # every test is of whole runs

Audited = tuple[list[Row], Mapping[str, EditRecord]]


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Audited]:
    """Rows and records of an audit that skips attention sinks and of one that does not."""
    model, root = sunk("llama"), tmp_path_factory.mktemp("audits")
    by_setting = {}
    for name, skips in (("skipped", True), ("edited", False)):
        erasers = {"leace": make_eraser("leace")}
        few = thin(make_task(("stereotypes",)), 8)
        plan = make_plan(task=few, layers=(0,), skip_attention_sinks=skips, erasers=erasers)
        by_setting[name] = run(model, plan, root / name), read_records(root / name)
    return by_setting


def test_edits_and_their_controls_have_a_limit_and_ids_of_their_own(
    audits: dict[str, Audited],
) -> None:
    left, edited = (records for _, records in audits.values())
    assert {record.eraser for record in left.values()} == {"leace", "random"}
    limits = {place.limit for record in left.values() for place in record.places}
    assert len(limits) == 1
    assert None not in limits
    assert {p.limit for record in edited.values() for p in record.places} == {None}
    assert not left.keys() & edited.keys()
    assert {r.label for r in left.values()} == {r.label for r in edited.values()}


def test_skipping_the_sink_costs_less(audits: dict[str, Audited]) -> None:
    left, edited = (
        next(r.value for r in rows if (r.metric, r.eraser, r.split) == ("kl", "leace", "test"))
        for rows, _ in audits.values()
    )
    assert left is not None
    assert edited is not None
    assert 0 < left < edited  # these fits hardly know the direction that the sink lies along
