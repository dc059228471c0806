"""The recipe makes classifiers that learned what the texts say, and a killed grid goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from countergen_edit.cli.finetune import class_reader
from countergen_edit.cli.main import main
from countergen_edit.conf_path import read_config
from countergen_edit.data.labelled import LabelledTexts, labelled_texts
from countergen_edit.data.template_files import bank_from_config
from countergen_edit.experiments import finetuning
from countergen_edit.experiments.finetuning import finetuned, grid
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.classifier_tasks.metric import ClassifierTasks
from countergen_edit.metrics.rows import SCHEMA
from countergen_edit.models.classifiers import load_classifier
from countergen_edit.reports.run import open_run
from countergen_edit.testbed.classifiers import build, plant

IDENTITY = {"fingerprint": "test", "schema": SCHEMA}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT of random weights, as one pretrained on masks is saved: without a pooler."""
    found = bank_from_config(read_config("template", "sentiment"), {})
    tokenizer = build(plant(found))[1]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    path = tmp_path_factory.mktemp("base")
    BertForMaskedLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


GOOD, BAD = ("glad", "happy", "relieved", "ecstatic"), ("sad", "angry", "scared", "miserable")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts whose valence is that of their last word; of one row annotators disagree."""
    people = ("she", "he", "my sister", "my father", "this girl", "this man")
    lines = [
        f"{who} feels {word}.,{valence}"
        for words, valence in ((GOOD, 0.8), (BAD, 0.2))
        for word in words
        for who in people
    ]
    path = tmp_path_factory.mktemp("data") / "mine.csv"
    path.write_text("\n".join(["Tweet,Score", *lines, "it feels odd.,-"]) + "\n", "utf-8")
    return path


def words(base: Path, table: Path, run: Path) -> list[str]:
    return [
        *("finetune", f"base={base}", f"train={table}", f"run_dir={run}", "threshold=0.5"),
        *("columns={text: Tweet, pair: null, label: Score}", "epochs=[1,6]", "batch_size=8"),
        *("learning_rate=[1e-7,5e-3]", "device=cpu"),
    ]


@pytest.fixture(scope="module")
def run(base: Path, table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "one"
    assert main(words(base, table, path)) == 0
    return path


def test_the_grid_is_tried_and_the_recipe_that_learns_is_chosen(run: Path) -> None:
    """A rate of 1e-7 leaves a random head where it was; 5e-3 learns eight words."""
    results = open_run(run).results
    tried = results.of("validation_accuracy", split="")
    cells = [(r.facets["learning_rate"], r.facets["epochs"]) for r in tried]
    assert cells == [(1e-7, 1), (1e-7, 6), (5e-3, 1), (5e-3, 6)]
    [chosen] = results.of("chosen_accuracy", split="")
    assert chosen.facets["learning_rate"] == 5e-3
    assert chosen.value == max(r.value or 0.0 for r in tried) == 1.0
    assert chosen.n == 5  # a tenth of 48
    [section] = ClassifierTasks.sections(results)
    assert [line[5] for line in section.tables()[0].rows].count("chosen") == 1
    assert "learning rate 0.005" in ClassifierTasks.sentences(results)[0]


def test_the_classifier_it_leaves_is_one_to_measure(run: Path) -> None:
    model = load_classifier(run / "checkpoint", "sentiment", device="cpu")
    texts = [f"My aunt feels {word}." for word in (*GOOD, *BAD)]
    positive = model.probabilities(texts)["positive"] > 0.5
    assert positive.tolist() == [True] * 4 + [False] * 4


@pytest.mark.slow
def test_a_killed_grid_goes_on_and_ends_with_the_same_rows(
    base: Path, run: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the third recipe; the first two are not trained again."""
    read = class_reader("sentiment", threshold=0.5, leave_out=["-"])
    columns = {"text": "Tweet", "label": "Score"}
    parts = labelled_texts(str(table), columns, read).parted(0.1, 0)
    recipes, trained, plain = grid([1e-7, 5e-3], [8], [1, 6]), [], finetuning.finetune

    def go_on() -> None:
        folder = RunFolder(tmp_path / "run", {}, IDENTITY)
        labels = ("positive", "negative")
        finetuned(base, "sentiment", labels, *parts, recipes, folder, device="cpu")

    def dying(model: Any, tokenizer: Any, data: LabelledTexts, recipe: Any, **more: Any) -> Any:
        trained.append(recipe)
        if len(trained) == 3:
            raise KeyboardInterrupt
        return plain(model, tokenizer, data, recipe, **more)

    monkeypatch.setattr(finetuning, "finetune", dying)
    with pytest.raises(KeyboardInterrupt):
        go_on()
    go_on()
    assert trained == [*recipes[:3], *recipes[2:]]
    ours, whole = ((p / "results.jsonl").read_text("utf-8") for p in (tmp_path / "run", run))
    assert [json.loads(x) for x in ours.splitlines()] == [json.loads(x) for x in whole.splitlines()]
    same = [
        load_classifier(p / "checkpoint", "sentiment", device="cpu").fingerprint
        for p in (tmp_path / "run", run)
    ]
    assert same[0] == same[1]


def test_the_grid_of_the_settings_is_the_papers() -> None:
    import yaml

    from countergen_edit.cli.finetune import rates
    from countergen_edit.conf_path import conf_dir

    config = yaml.safe_load((conf_dir() / "finetune.yaml").read_text("utf-8"))
    recipes = grid(rates(config["learning_rate"]), config["batch_size"], config["epochs"])
    assert len(recipes) == 2 * 2 * 4
    assert {r.learning_rate for r in recipes} == {2e-5, 5e-5}
    assert {r.batch_size for r in recipes} == {16, 32}
    assert {r.epochs for r in recipes} == {3, 4, 5, 6}
    assert config["base"].endswith("roberta-base")


def test_pairs_of_texts_are_read_by_the_names_and_numbers_of_their_labels(tmp_path: Path) -> None:
    rows = [("a", "b", 0), ("c", "d", 2), ("e", "f", -1), ("g", "h", 1)]
    path = tmp_path / "snli.jsonl"
    path.write_text(
        "\n".join(json.dumps({"premise": p, "hypothesis": h, "label": x}) for p, h, x in rows)
    )
    columns = {"text": "premise", "pair": "hypothesis", "label": "label"}
    order = ["contradiction", "neutral", "entailment"]
    read = class_reader("nli", labels=order, leave_out=["-1"])
    found = labelled_texts(str(path), columns, read)
    # The task's order: entailment, neutral, contradiction.
    assert found == LabelledTexts(("a", "c", "g"), ("b", "d", "h"), (2, 0, 1))
    train, apart = LabelledTexts(tuple("abcdefghij"), None, tuple(range(10))).parted(0.2, 0)
    assert sorted(train.texts + apart.texts) == list("abcdefghij")
    assert len(apart) == 2
    assert all("abcdefghij".index(t) == c for t, c in zip(apart.texts, apart.classes, strict=True))


MISTAKES = {
    "no data": (["train=null"], "give train=FILE.csv"),
    "no file": (["train=no.csv"], "no file 'no.csv'"),
    "no column": (["columns.text=tweet"], "'Tweet'"),
    "no class": (["threshold=null", "leave_out=null"], "is no class of task=sentiment"),
    "no task": (["task=masked"], "sentiment"),
    "no rate": (["learning_rate=fast"], "write a number such as 2e-5"),
    "no count": (["epochs=0"], "a whole number from 1 on"),
    "no encoder": (["base=/no/such/place"], "/no/such/place"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(
    mistake: str, base: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra, message = MISTAKES[mistake]
    try:
        code = main([*words(base, table, tmp_path / "run"), *extra])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    error = capsys.readouterr().err.strip()
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_equal_seeds_set_the_same_texts_apart() -> None:
    texts = LabelledTexts(tuple(map(str, range(50))), None, tuple([0, 1] * 25))
    assert texts.parted(0.1, 3) == texts.parted(0.1, 3)
    assert texts.parted(0.1, 3) != texts.parted(0.1, 4)
    assert np.unique(texts.parted(0.1, 3)[0].texts).size == 45
