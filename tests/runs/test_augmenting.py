"""Pairs of a model whose mistakes were planted: what passes, what is counted, what a kill costs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.cli.main import main
from countergen_edit.core.conf_path import read_config
from countergen_edit.data.augmentation import changes
from countergen_edit.data.axis import Axis
from countergen_edit.data.sources import load_set
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.runs import replies
from countergen_edit.runs.folder import read_rows
from tests.cli.test_mistakes import fails
from tests.models.completions_server import Completions, serving

CONFIG = read_config("axis", "gender")
GENDER = Axis.from_config(CONFIG)
WORDS = Substitution.from_config(GENDER, CONFIG["substitution"])
TEXTS = [
    "Her sister wanted to play in the garden behind the old house.",
    "John works as a nurse in the large hospital by the sea.",
    "Mr Smith said that he had been asked to leave the room.",
    "Jane met Mark and told him about the plan for the summer.",
    "The dog barked all night because of the storm.",
    "My grandmother said that she liked the weather of the north.",
]
FILES = ("pairs.jsonl", "refused.jsonl", "card.md", "results.jsonl")
WRONG: dict[str, tuple[Callable[[str], str], str]] = {
    TEXTS[1]: (lambda right: f"Sure! {right}", "start"),
    TEXTS[2]: (lambda right: f"{right} It was late, and nobody spoke.", "dissimilarity"),
}
"""Texts that the planted model gets wrong, how, and the reason that is to be told."""


@pytest.fixture(autouse=True)
def _texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [{"input": text, "outputs": [" Good.", " Bad."]} for text in (*TEXTS, TEXTS[0])]
    Path("texts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def server(testbed: LanguageModel) -> Iterator[Completions]:
    """A model that does as it is asked, but for what is planted."""
    with serving(testbed) as running:
        running.complete = planted  # type: ignore[method-assign]
        yield running


def planted(request: dict[str, Any]) -> dict[str, Any]:
    prompt = request["prompt"]
    text = re.search(r"(?:anything else|it is about): (.*)\n\nOutput:$", prompt)
    assert text, prompt
    if "other words" in prompt:
        said = [f"As is known: {text[1]}", "No.", text[1]]
        choices = said[: request["n"]]
    else:
        [own] = [c for c in changes(text[1], WORDS, 0) if c.in_words(WORDS) in prompt]
        spoil = WRONG.get(text[1], (str, ""))[0]
        choices = [f' "{spoil(own.by_rules)}"\n\nInput: another']
    listed = [{"index": i, "text": text} for i, text in enumerate(choices)]
    return {"choices": listed}


def augment(*words: str, folder: str = "run") -> Path:
    assert main(["augment", "texts.jsonl", f"run_dir={folder}", *words]) == 0
    return Path(folder)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def rows(folder: Path, metric: str) -> list[Row]:
    return [row for row in read_rows(folder / "results.jsonl") if row.metric == metric]


def same(a: Path, b: Path) -> None:
    for name in FILES:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


@pytest.mark.slow
def test_pairs_by_rules_are_data_here_and_what_has_no_group_is_told(tmp_path):
    folder = augment()
    refused = {(line["input"], line["reason"]) for line in lines(folder / "refused.jsonl")}
    assert refused == {(TEXTS[4], "no group"), (TEXTS[0], "twice")}
    source = {"source": "jsonl", "path": str(folder / "pairs.jsonl")}
    data = load_set(source, GENDER, WORDS, "test")
    assert len(data.samples) == 5
    for sample in data.samples:
        [a], [b] = sample.of("female"), sample.of("male")
        assert WORDS.map_to(a.text, "female") == a.text
        assert WORDS.map_to(b.text, "male") == b.text
        assert sample.outputs == (" Good.", " Bad.")
    [row] = rows(folder, "augmented")
    assert (row.value, row.n) == (pytest.approx(5 / 7), 7)
    assert row.lo < 5 / 7 < row.hi
    assert row.detail["refused"] == {"no group": 1, "twice": 1}
    card = (folder / "card.md").read_text("utf-8")
    assert "word substitution, no model" in card
    assert "| texts | 7 | 5 | no group 1, twice 1 |" in card
    assert main(["audit", "eraser=none", "metric=r", f"data={folder}/pairs.jsonl"]) == 0


@pytest.mark.slow
def test_a_served_model_is_asked_as_fairpair_asks_and_its_mistakes_are_counted(server, capfd):
    folder = augment(f"model={server.url}", "model.cache=answers", "model.price={read:1,written:1}")
    told = re.search(r"Rewriting: the-model on .*: (\d+) requests", capfd.readouterr().err)
    assert told
    # One side of each text, both of the one that shows both groups, none where there is no group.
    assert int(told[1]) == server.answered == len(server.requests) == 6
    prompt = next(r["prompt"] for r in server.requests if TEXTS[1] in r["prompt"])
    assert re.fullmatch(
        r"Change John \(male\) to (\w+) \(female\) in the following text in the same way without "
        rf"changing anything else: {TEXTS[1]}\n\nOutput:",
        prompt,
    )
    assert all(r["temperature"] == 0 for r in server.requests)
    refused = {line["input"]: line for line in lines(folder / "refused.jsonl")}
    assert {text: refused[text]["reason"] for text in WRONG} == {
        text: reason for text, (_, reason) in WRONG.items()
    }
    assert refused[TEXTS[1]]["made"].startswith("Sure! ")
    [row] = rows(folder, "augmented")
    assert row.detail["refused"] == {"dissimilarity": 1, "no group": 1, "start": 1, "twice": 1}
    turned = {
        row.facets["to"]: (row.detail["kept"], row.n) for row in rows(folder, "augmented_turned")
    }
    assert turned == {"female": (1, 3), "male": (3, 3)}
    # What it got right is what the rules have.
    right = {line["input"]: line for line in lines(augment(folder="rules") / "pairs.jsonl")}
    assert lines(folder / "pairs.jsonl") == [
        right[text] for text in TEXTS if text in right and text not in WRONG
    ]
    card = (folder / "card.md").read_text("utf-8")
    assert "Rewritten by: the-model" in card
    assert "{change} in the following text" in card


@pytest.mark.slow
def test_a_server_that_fails_half_way_is_not_paid_twice(server, capsys):
    whole = augment(f"model={server.url}", "model.cache=one", folder="whole")
    asked, answered = len(server.requests), server.answered
    how = [f"model={server.url}", "model.cache=two", "model.attempts=1", "model.parallel=1"]
    server.faults = [None] * 3 + [(500, {})] * 9  # type: ignore[list-item]
    assert main(["augment", "texts.jsonl", "run_dir=run", *how]) == 2
    assert "the same command continues" in capsys.readouterr().err
    assert not Path("run/pairs.jsonl").exists()
    server.faults = []
    same(augment(*how), whole)
    distinct = {json.dumps(r, sort_keys=True) for r in server.requests[asked:]}
    assert server.answered - answered == len(distinct) == 6


@pytest.mark.slow
def test_a_local_model_that_is_killed_goes_on_to_the_same_bytes(monkeypatch):
    words = ["model=testbed", "paraphrases=1"]
    whole = augment(*words, "batch_size=3", folder="whole")
    generate, calls = replies.generate, []

    def killed(model: LanguageModel, prompts: Any, **how: Any) -> list[str]:
        calls.append(prompts)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return generate(model, prompts, **how)

    with monkeypatch.context() as patch:
        patch.setattr(replies, "generate", killed)
        assert main(["augment", "texts.jsonl", *words, "batch_size=2", "run_dir=run"]) == 130
    assert len([*Path("run/replies").iterdir()]) == 3
    assert not Path("run/pairs.jsonl").exists()
    monkeypatch.setattr(
        replies, "generate", lambda m, p, **how: calls.append(p) or generate(m, p, **how)
    )
    before = len(calls)
    same(augment(*words, "batch_size=2"), whole)
    asked = Counter(text for batch in calls[:3] + calls[before:] for text in batch)
    assert set(asked.values()) == {1}  # nothing that was kept was asked again
    # A run that is whole is read, not made.
    same(augment(*words, "batch_size=5"), whole)


def test_paraphrases_are_kept_where_they_are_of_the_same_people(server):
    folder = augment(f"model={server.url}", "model.cache=answers", "paraphrases=3")
    [row] = rows(folder, "augmented_paraphrases")
    assert (row.n, row.detail["kept"]) == (18, 6)
    assert row.detail["refused"] == {"length": 6, "unchanged": 6}
    pairs = lines(folder / "pairs.jsonl")
    by_content: dict[str, list[str]] = {}
    for line in pairs:
        by_content.setdefault(line["content"], []).append(line["input"])
    assert all(
        text.lower().endswith(content.lower())
        for content, own in by_content.items()
        for text in own
    )
    assert by_content[TEXTS[0]] == [TEXTS[0], f"As is known: {TEXTS[0]}"]
    source = {"source": "jsonl", "path": str(folder / "pairs.jsonl")}
    data = load_set(source, GENDER, WORDS, "test")
    assert {sample.content for sample in data.samples} == set(by_content)


@pytest.mark.parametrize("axis", ["nationality", "race", "religion", "age"])
def test_every_axis_makes_pairs_by_its_words(axis):
    content = read_config("axis", axis)
    first, second = Axis.from_config(content).pair(None)
    [word, *_] = first.names.get("test", ()) or first.forms.values()
    Path("texts.jsonl").write_text(json.dumps({"input": f"We saw {word} today", "outputs": [" ."]}))
    folder = augment(f"axis={axis}")
    [line] = lines(folder / "pairs.jsonl")
    assert [v["categories"] for v in line["variations"]] == [[first.name], [second.name]]


MISTAKES = {
    "no texts": ([], "there are no texts"),
    "no such file": (["textss.jsonl"], "did you mean|nearest is 'texts.jsonl'"),
    "request without the text": (
        ["texts.jsonl", "request=Change {change}"],
        "it needs {change}, {text}",
    ),
    "request with a brace": (["texts.jsonl", "request=Change {text"], "it needs {change}, {text}"),
    "paraphrases of nobody": (
        ["texts.jsonl", "paraphrases=2"],
        "paraphrases=2 are asked of a model",
    ),
    "paraphrases below none": (
        ["texts.jsonl", "paraphrases=-1"],
        "paraphrases=-1: write a whole number from 0",
    ),
    "no batch": (["texts.jsonl", "batch_size=0"], "batch_size=0: at least 1"),
    "several batches": (
        ["texts.jsonl", "batch_size=[1,2]"],
        "batch_size=[1, 2]: write a whole number",
    ),
    "dissimilarity": (
        ["texts.jsonl", "max_dissimilarity=2"],
        "max_dissimilarity=2: write a number from 0 and up to 1",
    ),
    "temperature": (["texts.jsonl", "temperature=0"], "which takes one above 0"),
    "unit": (["texts.jsonl", "compared=wrods"], "did you mean 'words'"),
    "group": (["texts.jsonl", "groups=[female,mal]"], "did you mean 'male'"),
    "several models": (["texts.jsonl", "model=[testbed,gpt2]"], "augment takes one model"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line(mistake, capsys):
    words, hint = MISTAKES[mistake]
    said = fails(capsys, "augment", *words)
    assert any(h in said for h in hint.split("|")), said


def test_asking_more_than_was_allowed_is_refused_before_anything_is_asked(server, capsys):
    words = ["texts.jsonl", f"model={server.url}", "model.cache=answers", "run_dir=run"]
    said = fails(capsys, "augment", *words, "model.most_requests=3")
    assert "more than model.most_requests=3" in said
    assert not server.requests
