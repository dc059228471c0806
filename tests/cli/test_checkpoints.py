"""Checkpoints hold the edit that was audited, of one axis or several, in a template or without."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

import countergen_edit as ce
from countergen_edit.edits.checkpoints import load_checkpoint, open_checkpoint
from countergen_edit.metrics.r.formula import r_values
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.metrics.scores import score
from countergen_edit.models import load_model
from countergen_edit.reports.blocks import Number
from countergen_edit.testbed import directory
from tests.cli.support import call, fails, names, rows_of, said, sets, value_of
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = ["data=testbed", "eraser=mean_difference", "edit=attn_out", "edit.layers=[3]"]
SMALL += [*sets("occupations", ["test"]), names(12, 6, 8, 4, few=6)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = tmp_path_factory.mktemp("edit")
    said("edit", *SMALL, f"run_dir={place / 'run'}", f"save={place / 'saved'}")
    return place / "saved"


def test_the_card_is_valid_and_its_figures_are_the_runs(finished):
    card = ModelCard.load(finished / "README.md")  # refuses metadata that the hub would
    assert card.data.library_name == "transformers"
    record = open_checkpoint(finished).record
    name = record["record"]["id"]
    for metric in ("mean_abs_r", "agreement", "perplexity_ratio"):
        rows = rows_of(finished.parent / "run", metric, split="test", edit=name)
        values = [Number(row.value).in_text for row in rows]
        assert any(value.split(" ")[0] in card.text for value in values)
    for text in (*(record[f"{of}_hash"] for of in ("model", "data")), "eraser=mean_difference"):
        assert text in card.text
    assert "trust_remote_code" not in card.text  # folded


def test_the_edit_that_a_run_kept_is_saved_as_it_was(finished):
    """Nothing is fitted or measured: the same weights, from the run's own folder."""
    run = finished.parent / "run"
    before = (run / "results.jsonl").read_bytes()
    assert "mean_difference-1@attn_out.3" in said("edit", f"run={run}", "save=again")
    first, second = (p / "model.safetensors" for p in (finished, Path("again")))
    assert first.read_bytes() == second.read_bytes()
    assert (run / "results.jsonl").read_bytes() == before


def test_chat_continues_each_line_of_a_pipe_with_both_models(finished, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("Mary works as a\n\nJohn is\n"))
    out = said("chat", finished, "max_new_tokens=3")
    assert out.count("original") == out.count("edited") == 2
    assert "> Mary works as a" in out
    assert "> John is" in out


def test_chat_refuses_a_line_that_is_not_utf_8(finished, monkeypatch):
    piped = io.TextIOWrapper(io.BytesIO("Mary is\nJosé is\n".encode("latin-1")), "utf-8")
    monkeypatch.setattr("sys.stdin", piped)
    error = fails("chat", finished, "max_new_tokens=1")
    assert "line 2: '\"Jos\\udce9 is\"': '\\udce9' is half of" in error


COUNTS = {"fit": 12, "validation": 6, "test": 8, "agreement": 4, "few": 6}
OF_LEACE = ["eraser=leace", "metric=r", "cost=kl", names(**COUNTS)]
AT_4 = [*OF_LEACE, "edit=mlp_out", "edit.layers=[4]"]


def of_axis(axis):
    # The testbed's own file says which texts it takes; a checkpoint's folder says nothing.
    if axis == "nationality":
        return ["axis=nationality", "data=nationality", "texts=testbed"]
    keep = "data.keep=[{source: testbed_agreement}]"
    return ["axis=gender", "data=testbed", *sets("questions"), keep, "texts=testbed"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An edit over gender, and one over nationality added to it."""
    place = tmp_path_factory.mktemp("axes")
    first = [*of_axis("gender"), f"run_dir={place}/run_1", f"save={place}/first"]
    said("edit", *AT_4, *first)
    added = [f"model={place}/first", *of_axis("nationality"), f"run_dir={place}/run_2"]
    printed = said("edit", *AT_4, *added, f"save={place}/added")
    assert "Edited before and not measured again: gender" in printed
    return place


def test_the_folder_tells_each_edit_with_its_axis(place):
    record = open_checkpoint(place / "added").record
    assert record["model"] == "first"  # no path
    edits = [(edit["axis"], edit["places"]) for edit in record["edits"]]
    assert edits == [("gender", ["mlp_out.4"]), ("nationality", ["mlp_out.4"])]
    card = ModelCard.load(place / "added" / "README.md")
    assert {"gender", "nationality"} <= {*card.data.tags}
    assert "| Concept | nationality: " in card.text


def test_a_checkpoint_with_code_takes_no_further_edit(place):
    carried = ["form=carried", *of_axis("gender"), "run_dir=run", "save=carried"]
    said("edit", *OF_LEACE, "edit.layers=[4]", *carried)
    error = fails("edit", *AT_4, "model=carried", *of_axis("nationality"), "save=both")
    assert "carries an edit beside its weights: edit a checkpoint of stock weights" in error


def rows_under(path, edit):
    return {(*r.key[:-2],): r for r in rows_of(path, edit=edit, split="test")}


def test_an_audit_of_the_checkpoint_measures_what_the_run_did(place):
    """From the saved folder, nothing fitted: the figures of the card."""
    words = [f"model={place}/added", "eraser=none", "metric=r", *of_axis("nationality")]
    said("audit", *words, names(**COUNTS), "run_dir=run")
    checkpoint = rows_under(Path("run"), UNEDITED)
    whole = rows_under(place / "run_2", open_checkpoint(place / "added").record["record"]["id"])
    figures = ("group_effect", "mean_abs_r")
    alike = [key for key in checkpoint if key in whole and key[0] in figures]
    assert len(alike) >= 2
    for key in alike:
        assert checkpoint[key].value == pytest.approx(whole[key].value, abs=1e-4)
    before = rows_under(place / "run_2", UNEDITED)
    effect = next(key for key in alike if key[0] == "group_effect")
    assert checkpoint[effect].value != pytest.approx(before[effect].value, abs=0.01)


TRAITS = sets("traits")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("debias") / "run"
    quick = ["eraser=preserving", "metric=[r]", "combine=2", "layers=[4,5]", *TRAITS]
    said("debias", "form=carried", *quick, f"run_dir={folder}")
    return folder


def edit_of(run):
    return next(r.edit for r in rows_of(run, eraser="preserving", split="test"))


def require_audited(run, edit):
    """The saved model has the mean |R| that the run has of its edit."""
    [data] = [s for s in ce.task("gender", "contexts").test if s.name == "traits_test"]
    again = float(np.abs(r_values(score(load_checkpoint(run / "checkpoint"), data))).mean())
    audited = value_of(run, "mean_abs_r", edit=edit, dataset=data.name)
    assert again == pytest.approx(audited, abs=1e-4)


def test_the_search_has_seen_no_test_set(run):
    rows = rows_of(run)
    first = next(i for i, row in enumerate(rows) if row.unit.startswith("gender/test/"))
    searched = rows[:first]
    assert searched[-1].unit == "gender/choice"
    assert {row.split for row in searched} == {"validation"}
    assert not {row.dataset for row in searched if row.dataset.endswith("_test")}
    assert all(row.detail["cost_test"] is None for row in searched if row.metric == "cost")


def test_the_edit_keeps_to_the_budgets_and_removes_the_bias(run):
    edit = edit_of(run)
    about = {"split": "test", "group_b": "male"}
    before, after = (value_of(run, "agreement", edit=e, **about) for e in ("none", edit))
    assert before - after <= 0.01
    assert value_of(run, "perplexity_ratio", edit=edit, split="test") <= 1.01
    assert value_of(run, "kl", edit=edit, split="test") <= 0.05
    assert value_of(run, "group_effect_removed", edit=edit) > 0.85


def test_the_saved_model_is_the_one_that_was_audited(run):
    require_audited(run, edit_of(run))
    saved = {p.name for p in (run / "checkpoint").iterdir()}
    assert saved >= {"README.md", "model.edited.safetensors"}
    assert (run / "report.html").is_file()


def test_where_no_edit_fits_nothing_is_saved():
    words = ["eraser=mean_difference", "metric=[r]", "combine=1", "layers=[1]"]
    ended = call("debias", *words, "cost.agreement.budget=1e-7", *TRAITS, "run_dir=run")
    assert ended.code == 1
    assert "no candidate removes bias within the budgets; nothing was saved" in ended.err
    assert "mean_difference-1@everywhere." in ended.out
    assert not Path("run/checkpoint").exists()
    assert "Page: run/report.html" in ended.out
    assert "mean_difference" in Path("run/report.html").read_text("utf-8")


def test_where_no_map_removes_enough_an_update_is_trained_and_saved_as_stock_weights():
    from transformers import AutoModelForCausalLM

    run = Path("run")
    words = ["eraser=[mean_difference,distilled]", "metric=[r]", "combine=1", "layers=[2,3,4,5]"]
    settings = {"steps": 60, "contexts": 64, "learning_rate": 0.01}
    words += [f"eraser.distilled.{key}={value}" for key, value in settings.items()]
    printed = said("debias", *words, *TRAITS, "run_dir=run")
    [contexts] = rows_of(run, "own_contexts")
    assert contexts.detail["to_erase"] > 0
    assert contexts.detail["examples"]
    [removed] = rows_of(run, "bias_removed", split="test", eraser="distilled")
    assert removed.value > 0.5
    assert "Saved (folded)" in printed
    assert "Contexts that the model wrote" in (run / "report.html").read_text("utf-8")
    merged = AutoModelForCausalLM.from_pretrained(run / "checkpoint")
    assert not hasattr(merged.config, "erasures")
    require_audited(run, removed.edit)
    said("edit", f"run={run}", "form=adapter", "save=adapter")
    assert Path("adapter/adapter_model.safetensors").is_file()


def against_original(checkpoint, folder, *words):
    """An audit of a checkpoint, which is compared with its unedited model."""
    small = ["texts=testbed", "eraser=none", "metric=[r]", "cost=[agreement]", *TRAITS]
    return call("audit", f"model={checkpoint}", f"run_dir={folder}", *small, *words)


def test_an_audit_of_a_checkpoint_says_what_it_changed(run):
    printed = against_original(run / "checkpoint", "after").words
    assert "Compared with the source model testbed:" in printed
    assert "after against original, group effect: lower on traits." in printed
    about = {"edit": "none", "dataset": "traits_test"}
    before, again = (value_of(p, "mean_abs_r", **about) for p in (run, "after/original"))
    assert again == pytest.approx(before, abs=1e-9)


def test_without_its_original_a_checkpoint_is_audited_alone(run, here):
    checkpoint = run / "checkpoint"
    ended = against_original(checkpoint, "after", "original=null")
    assert ended.code == 0
    assert "Compared with" not in ended.out
    assert not Path("after/original").exists()
    another = tiny_model_dir("gpt2", here / "another")
    for model, original, says in (
        (checkpoint, another, "is not the model that"),
        (another, "testbed", "another is not a checkpoint of this package"),
    ):
        ended = against_original(model, "refused", f"original={original}")
        assert (ended.code, says in ended.err) == (2, True)


def test_only_edits_that_stock_weights_hold_are_searched_unless_they_are_to_be_carried():
    budgets = {"perplexity": 100, "kl": 100, "legitimate_differences": 100, "agreement": 1}
    wide = [f"cost.{cost}.budget={budget}" for cost, budget in budgets.items()]
    words = ["eraser=[gated,preserving]", "metric=[r]", "combine=1", "layers=[4]", *wide, *TRAITS]
    printed = said("debias", *words, "run_dir=run")
    edited = [row for row in rows_of("run") if row.edit != "none"]
    assert {row.site for row in edited} == {"everywhere"}
    assert "gated" not in {row.eraser for row in edited}
    assert "Left out, as no stock weights (form=carried): gated" in printed
    assert "Saved (folded)" in printed
    line = fails("debias", "eraser=gated", "run_dir=none")
    assert "no edit of eraser=gated is stock weights" in line


TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}{{ eos_token }}"
TOLD = "The report was late."
RUN = ["data=testbed", "texts=testbed", *sets("occupations", ["test"]), names(8, 4, 4, 2)]
RUN += ["edit=attn_out", "edit.layers=[3]", "metric=r"]


@pytest.fixture(scope="module")
def templated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template") / "templated"
    shutil.copytree(directory(), folder)
    tokenizer = load_model(folder).tokenizer
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(templated):
    """A checkpoint that was made in the template; its run lies beside it."""
    chat = [f"model={templated}", "model.template=chat", f"model.instruction={TOLD}"]
    place = templated.parent
    chat += ["eraser=mean_difference", "cost=[perplexity]", f"run_dir={place / 'run'}"]
    said("edit", *RUN, *chat, f"save={place / 'saved'}")
    return place / "saved"


def test_the_run_and_what_is_saved_of_it_say_in_which_template(saved):
    run = saved.parent / "run"
    template = json.loads((run / "manifest.json").read_text())["template"]
    assert template["instruction"] == TOLD
    card, page = ((saved / "README.md").read_text(), (run / "report.html").read_text())
    assert all(f"as the beginning of its reply to “{TOLD}”" in text for text in (card, page))
    assert template["sha256"] in card
    # What was saved of a run is saved again as it was measured.
    said("edit", f"run={run}", "save=again")
    for folder in (saved, Path("again")):
        assert json.loads((folder / "recipe.json").read_text())["template"] == template


def test_no_figure_is_that_of_texts_as_they_stand(saved, templated):
    audit = ["audit", *RUN, "cost=null", "eraser=none", f"model={templated}", "run_dir=plain"]
    said(*audit)
    inside, plain = (
        {row.key: row.value for row in rows_of(run, "mean_abs_r")}
        for run in (saved.parent / "run", "plain")
    )
    assert not [key for key in plain if inside[key] == plain[key]]
    # The folder of one is not continued by the other.
    assert "belongs to another run" in fails(*audit, "model.template=auto")


def test_chat_replies_to_a_message_in_the_template_of_the_checkpoint(saved, templated, monkeypatch):
    replies = []
    for template in ([], ["model.template=none"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("Jane works as a\n"))
        words = [f"original={templated}", "max_new_tokens=6", *template]
        replies.append(said("chat", saved, *words))
    assert replies[0] != replies[1]
