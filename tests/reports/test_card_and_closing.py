"""The card, the evidence and the last words of a command hold the rows' figures, of any metric."""

import re
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard

from countergen_edit.edits.checkpoints import Parity
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.findings import after_audit, after_search, nothing_fits
from countergen_edit.reports.render.card import eval_results, model_card, write_evidence
from tests.reports.runs import (
    EDITS,
    LABELS,
    LEACE,
    MANIFEST,
    audit_rows,
    choice_detail,
    in_memory,
    judgement,
    search_rows,
    unedited,
)

PARITY = Parity(1e-6, 1e-5, 3.2, 24.0, 8, 100)
RECORD = EDITS[LEACE["edit"]].record
CARD = (RECORD, "carried", PARITY)


@pytest.fixture(scope="module")
def card():
    return model_card(in_memory(audit_rows()), *CARD)


def line(card, label):
    [row] = [row for row in card.splitlines() if row.startswith(f"| {label} |")]
    return [cell.strip() for cell in row.strip("|").replace("\\|", "!").split("|")]


def test_the_card_has_every_quantity_before_and_after_and_the_control(card):
    for name in ("jobs", "traits", "hobbies"):
        assert [r for r in card.splitlines() if name in r and "0.6" in r and "0.3" in r]
    cost = line(card, "perplexity ratio")
    assert cost[1:4] == ["1.250 [1.200, 1.300]"] * 3
    assert "mean \\|R\\|" in card
    assert "Bias under leace (rank 1), 3 sets: no significant change on 3" in card


def test_the_hub_reads_every_figure_as_structured_metadata(card):
    run = in_memory(audit_rows())
    wanted = eval_results(run, RECORD)
    read = ModelCard(card, ignore_metadata_errors=False).data.eval_results

    def order(result):  # the hub's is by data set
        return [str(result.dataset_name), result.metric_type, str(result.metric_name)]

    assert sorted(read, key=order) == sorted(wanted, key=order)
    assert {"bias", "cost"} <= {q.kind for q in run.quantities("test")}
    for result in wanted:
        assert re.fullmatch(r"(?:[\w-]+/)?[\w.-]+", result.dataset_type)  # as the hub asks
        assert isinstance(result.metric_value, float)
    content = yaml.safe_load(card.split("---\n")[1])
    assert {"type", "name", "value"} <= {*content["model-index"][0]["results"][0]["metrics"][0]}


def test_an_adapters_card_names_its_library_and_how_it_is_loaded():
    text = model_card(in_memory(audit_rows()), RECORD, "adapter", PARITY)
    assert ModelCard(text).data.library_name == "peft"
    assert 'PeftModel.from_pretrained(model, "FOLDER OR HUB NAME")' in text
    assert 'AutoModelForCausalLM.from_pretrained("testbed")' in text


def test_a_card_has_no_path(tmp_path):
    (tmp_path / "my model").mkdir()
    command = ["countergen-edit", "edit", f"model={tmp_path}/my model", "run_dir=../run"]
    manifest = MANIFEST | {"model": f"{tmp_path}/my model", "command": command}
    text = model_card(in_memory(audit_rows(), manifest), *CARD)
    assert str(tmp_path.parent) not in text
    assert "countergen-edit edit 'model=my model' run_dir=run" in text
    assert "# my model, edited" in text


def test_a_warning_of_the_manifest_stands_in_the_verdict_the_page_and_the_card(tmp_path):
    doubt = "1 of 3 prompts of mine contain words outside the vocabulary of testbed."
    run = in_memory(audit_rows(), MANIFEST | {"warnings": [doubt]})
    assert run.findings[-1] == doubt
    assert doubt in run.report(tmp_path / "page.html").read_text("utf-8")
    assert doubt in model_card(run, *CARD)


def test_a_search_ends_with_the_line_that_saves_its_choice_or_with_the_budgets():
    cost = Row("cost", 0.5, split="validation", **LEACE)
    good, dear = (
        in_memory([*search_rows()[:2], replace(cost, detail=choice_detail(affordable=fits))])
        for fits in (True, False)
    )
    save = f"Save it, {LABELS['leace']}: countergen-edit edit run={good.path} form=carried save=DIR"
    assert after_search(good) == [save]
    assert after_search(dear) == []
    within = in_memory([*good.results.rows, *audit_rows()])
    assert nothing_fits(within)[0] == "Nothing was saved. Budgets: agreement 0.01, perplexity 0.5."


def test_an_audit_ends_with_the_line_that_keeps_what_is_recommended_or_searches():
    command = ["countergen-edit", "audit", "data=my prompts.jsonl", "eraser=leace", "run_dir=x"]
    manifest = MANIFEST | {"command": [*command, "data.fit=own"]}

    def closing(*rows):
        return after_audit(in_memory([*audit_rows(), *rows], manifest))

    keep = f"Save it, {LABELS['leace']}: countergen-edit edit run=nowhere form=carried save=DIR"
    search = "Next: countergen-edit debias 'data=my prompts.jsonl' data.fit=own"
    assert closing(judgement("recommended", named=True)) == [keep]
    assert closing(judgement("recommended")) == [search]  # of several that nothing was chosen among
    assert closing(judgement("costs too much")) == [search]
    assert closing(judgement("shows nothing", sets={"jobs": "no significant change"})) == [search]
    no_bias = ["Next, prompts of your own: countergen-edit check FILE"]
    assert closing() == no_bias
    assert closing(judgement("does harm", sets={"jobs": "increased"})) == no_bias
    before = in_memory(unedited(), manifest)
    assert after_audit(before) == [search]
    for p, least, then in ((0.003, 0.0, [search]), (0.6, 0.0, no_bias), (0.6, 0.3, no_bias)):
        test = {"p_adjusted": p, "least_p_adjusted": least}
        rows = [replace(row, detail=row.detail | test) for row in before.results.rows]
        assert after_audit(in_memory(rows, manifest)) == then


RAN = {"begin": "2026-11-24T08:00:00+00:00", "end": "2026-11-24T08:01:00+00:00"}
RAN |= {"seconds": 60.0, "hardware": ["a processor, 2 cores"]}


def test_evidence_says_both_figures_the_budget_and_what_is_missing(tmp_path):
    runs = in_memory(audit_rows(), MANIFEST | {"ran": RAN}), in_memory(unedited())
    text, alone = (write_evidence(run, tmp_path).read_text("utf-8") for run in runs)
    [row] = [row for row in text.splitlines() if row.startswith("| perplexity ratio |")]
    assert row.count("1.250 [1.200, 1.300]") == 2
    assert "| 0.5 |" in row
    for part in ("no legal advice", "Not covered", MANIFEST["model_hash"], "2026-11-24 08:00 UTC"):
        assert part in text
    assert "no edit was made" in alone
    assert "budget" not in alone
