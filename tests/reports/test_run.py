"""A run that cannot be read is refused in one line, and what was there stays as it was."""

import json

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.run import open_run
from tests.cli.support import call
from tests.reports.runs import GROUPS, LABELS, LEACE, RANDOM, columns, edit_at, in_memory, make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "audit", outputs=2)


def cut(run):
    content = (run / "results.jsonl").read_bytes()
    (run / "results.jsonl").write_bytes(content[: len(content) // 2])


FAULTS = {
    "was cut off or changed: its SHA-256 is not that in manifest.json": cut,
    "none.jsonl, line 1: ": lambda run: (run / "store/gender/r/none.jsonl").write_text('{"edit'),
    "record.json is damaged": lambda run: (
        run / "edits" / LEACE["edit"] / "record.json"
    ).write_text("{"),
}
"""Further ones: tests/cli/bad_inputs.yaml."""


@pytest.mark.parametrize("says", FAULTS)
def test_a_damaged_run_gets_one_line_and_its_old_report_stays(says, run, tmp_path):
    (run / "report.html").write_text("the good one")
    FAULTS[says](run)
    other = make_run(tmp_path / "other", outputs=2)
    for command, more in {"report": (), "gate": ("group_effect=9",), "compare": (other,)}.items():
        if "none.jsonl" in says and command == "gate":
            continue  # it reads no single texts
        ended = call(command, run, *more)
        [line] = ended.err.strip().splitlines()
        assert (ended.code, says in line) == (2, True), command
    assert (run / "report.html").read_text() == "the good one"


def test_a_folder_that_cannot_be_written_is_named(run):
    (run / "report.html.tmp").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        open_run(run).report()


def test_the_page_goes_where_it_is_wanted_and_shows_the_manifest(run):
    place = run / "elsewhere" / "page.html"
    assert open_run(run).report(place) == place
    text = place.read_text("utf-8")
    assert json.loads((run / "manifest.json").read_text())["model_hash"] in text
    assert "countergen-edit audit seed=0" in text


def test_rows_become_a_frame_with_facets_as_columns(run):
    opened = open_run(run)
    frame = opened.to_frame()
    assert len(frame) == len(opened.results.rows)
    assert {"metric", "value", "lo", "hi", "edit", "label", "phi", "lambda"} <= {*frame.columns}
    assert "facets" not in frame
    assert not frame.columns.duplicated().any()
    kept = (frame.metric == "group_effect") & (frame.label == LABELS["leace"])
    assert frame[kept & (frame.dataset == "jobs_test")].value.item() == pytest.approx(0.3)
    alike = in_memory([Row("mine", 0.1, facets={"value": "other", "label": 2.0})]).to_frame()
    assert [*alike.value, *alike.facet_value] == [0.1, "other"]
    assert [*alike.label, *alike.facet_label] == ["unedited", 2.0]


def test_edits_are_read_from_the_folder(run):
    edits = open_run(run).edits
    assert LEACE["edit"] in edits
    assert edits[LEACE["edit"]].edit.digest == edit_at("leace", 2).edit.digest
    with pytest.raises(KeyError):
        edits["another"]


def bare(edit, bias, perplexity):
    set_ = {"dataset": "jobs_test", **GROUPS, "split": "test", **edit}
    neutral = {"dataset": "neutral", "split": "test", **edit}
    return [Row("group_effect", bias, **set_), Row("perplexity_ratio", perplexity, **neutral)]


def test_the_best_of_an_audit_is_its_only_edit_or_that_which_its_judgement_names():
    few, many = (columns(name, 1) for name in ("few", "many"))
    before = [*bare({}, 0.6, 1.0), *bare(RANDOM, 0.1, 1.0), *bare(few, 0.3, 1.0)]
    assert in_memory(before).best_record.id == few["edit"]
    before += bare(many, 0.1, 1.0)
    assert in_memory(before).best_record is None  # test data choose no edit

    def best(*judged):
        rows = [
            Row("judgement", 0.1, split="test", detail={"word": word, "named": named}, **edit)
            for edit, word, named in judged
        ]
        record = in_memory([*before, *rows]).best_record
        return record and record.id

    # By validation data, though another leaves less on test data.
    assert best((few, "recommended", True), (many, "recommended", False)) == few["edit"]
    assert best((few, "recommended", True), (many, "does harm", False)) == few["edit"]
    assert best((few, "recommended", False), (many, "recommended", False)) is None
    assert best((few, "shows nothing", False), (many, "costs too much", False)) is None


def test_an_edit_cannot_be_used_without_a_model(run):
    best = open_run(run).best
    with pytest.raises(UserError, match="give the unedited model, 'testbed'"):
        best.save(run / "checkpoint")
