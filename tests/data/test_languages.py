"""A language is data: Spanish is whole, and German is added by files in a folder of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.language import language_of
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.task import Task
from tests.gender import SPANISH
from tests.tiny_models import tiny_model_dir

GERMAN = {
    "geschlecht.yaml": """
name: geschlecht
language: deutsch
data: daten.yaml
groups:
  female:
    names: {fit: [Anna, Greta, Heike], validation: [Ute, Elke], test: [Lena, Sabine, Petra]}
    forms: {subject: sie, article: die, worker: Arbeiterin, person: Frau, sibling: Schwester}
  male:
    names: {fit: [Hans, Bernd, Jürgen], validation: [Uwe, Ralf], test: [Lutz, Stefan, Klaus]}
    forms: {subject: er, article: der, worker: Arbeiter, person: Mann, sibling: Bruder}
substitution:
  columns: [female, male]
  words: [[Ärztin, Arzt], [Lehrerin, Lehrer], [Freundin, Freund]]
""",
    "daten.yaml": """
fit: [{source: natural, family: berufe}]
validation: [{source: natural, family: berufe}]
test: [{source: natural, family: berufe}]
""",
    "deutsch/families.yaml": """
outputs: {felder: [Pflege, Technik, Schule]}
families: {berufe: {templates: rahmen, contents: {arbeit: felder}}}
""",
    "deutsch/templates.yaml": """
rahmen:
  fit: ["Also, {content}", "Man sagt: {content}"]
  validation: ["{Content}", "Na ja, {content}"]
  test: ["Übrigens, {content}", "Kurz: {content}"]
""",
    "deutsch/contents.yaml": """
arbeit:
  fit: ["{who} mag die", "{who} kennt die"]
  validation: ["{who} lernt für die"]
  test: ["{who} lebt für die", "{who} träumt von der"]
""",
    "deutsch/mentions.yaml": """
familie: {fit: ["unsere {person}"], validation: ["eine {person}"], test: ["jene {person}"]}
""",
    "deutsch/agreement.yaml": """
fit:
  subject: ["{name} lacht, denn heute gewinnt", "{name} ruht, weil"]
  worker: ["In der Schule ist {name}"]
validation: {subject: ["{name} singt, wenn"]}
test: {subject: ["{name} weint, weil"], worker: ["Im Werk ist {name}"]}
""",
    "deutsch/substitution.yaml": """
agreement_form: article
pronoun_forms: [article]
agreeing:
  articles: [[die, der], [Die, Der], [eine, ein], [meine, mein], [diese, dieser]]
  adjectives: [[-e, -er]]
rules:
  before_head: |
    !DONE | KINDS | ARTICLES -> pass            # die nette
    !DONE | KINDS | -> adjectives               # eine nette
    !DONE | ARTICLES INDEFINITE | -> articles DONE
classes:
  articles: die der diese dieser
  indefinite: eine ein meine mein
  kinds: nette netter alte alter
""",
    "deutsch/neutral.txt": "\n".join(
        f"Am {day}. Mai fiel im Norden etwas Regen." for day in range(1, 23)
    ),
}


@pytest.fixture(scope="module")
def axis(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("mein")
    for name, content in GERMAN.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(content, "utf-8")
    return str(place / "geschlecht.yaml")


def test_prompts_and_agreement_of_a_third_language_read_right(axis):
    task = Task.from_config(axis, texts="natural", names=None)
    [data] = task.test
    texts = {variation.text for sample in data.samples for variation in sample.variations}
    assert "Übrigens, Lena lebt für die" in texts
    assert {sample.outputs for sample in data.samples} == {(" Pflege", " Technik", " Schule")}
    assert {text.split(", ")[0].split(": ")[0] for text in texts} == {"Übrigens", "Kurz"}
    forms = {sample.template: sample.outputs for sample in task.agreement["test"].samples}
    assert forms == {
        "{name} weint, weil": (" sie", " er"),
        "Im Werk ist {name}": (" Arbeiterin", " Arbeiter"),
    }
    assert len(task.neutral["fit"]) == 12
    assert task.legitimate_differences == {"validation": (), "test": ()} or not any(
        task.legitimate_differences.values()
    )
    assert {data.axis for data in task.other_axes} >= {"gender", "race"}  # in their own language


def test_substitution_of_a_third_language_agrees_by_its_tables(axis):
    swap = Task.from_config(axis, texts="natural").substitution
    assert swap is not None
    for one, other in {
        "Die Ärztin lacht.": "Der Arzt lacht.",
        "Eine nette Lehrerin singt.": "Ein netter Lehrer singt.",
        "Die alte Frau kennt die Schule.": "Der alte Mann kennt die Schule.",
        "Lena und diese Freundin von Greta": "Lutz und dieser Freund von Bernd",
        "Die Nacht war lang.": "Die Nacht war lang.",
    }.items():
        assert (swap(one), swap(other)) == (other, one)


@pytest.mark.slow
def test_a_third_language_is_audited_by_one_setting(axis, tmp_path):
    model = tiny_model_dir("llama", tmp_path / "model")
    words = [f"model={model}", f"axis={axis}", "eraser=leace", "metric=r"]
    words += ["texts.other_axes=null", "precision=null"]
    names = "names={fit: 3, few: 2, agreement: 2, validation: 2, test: 3}"
    assert main(["audit", *words, names, "edit.layers=[1]", f"run_dir={tmp_path / 'run'}"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run/results.jsonl").open(encoding="utf-8")]
    measured = {(row["metric"], row["axis"]) for row in rows}
    assert {("group_effect", "geschlecht"), ("agreement", "geschlecht")} <= measured


def test_a_language_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(UserError, match="language or folder 'ess': did you mean 'es'"):
        language_of("ess")
    with pytest.raises(UserError, match=r"has no templates\.yaml"):
        language_of(str(Path(__file__).parent)).read("templates")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("| KINDS | ARTICLES", "| KINDS+ARTICLES", r"of before_head: write 3 fields"),
        ("articles DONE", "artikel DONE", "list of agreeing 'artikel': did you mean 'articles'"),
        ("rules:", "rulez:", "key of substitution.yaml: 'rulez': did you mean 'rules'"),
        ("[-e, -er]", "[-e]", "has 1 columns, the first row 2"),
        ("kinds: nette", "kinds: [nette]\n  x:", "substitution.classes.kinds"),
    ],
)
def test_wrong_rules_are_refused(old, new, message, axis, tmp_path):
    for file in Path(axis).parent.rglob("*.*"):
        copy = tmp_path / file.relative_to(Path(axis).parent)
        copy.parent.mkdir(exist_ok=True)
        text = file.read_text("utf-8")
        copy.write_text(
            text.replace(old, new) if "substitution.yaml" in file.name else text, "utf-8"
        )
    with pytest.raises(UserError, match=message):
        Task.from_config(str(tmp_path / "geschlecht.yaml"), texts="natural").substitution.swap(
            "Die Ärztin lacht."
        )


def test_spanish_prompts_agree_and_mention_nobody_by_accident(tmp_path):
    task = Task.from_config("gender_es", texts="natural", names=None)
    task.check_leakage()
    own = [data for data in task.every_set if data.axis == "gender_es"]
    assert not [text for data in own for text in data.texts if {*"{}"} & {*text}]
    for texts in task.neutral.values():
        for text in texts:
            kinds = {word.kind for word in SPANISH.words(text) if word.side is not None}
            assert kinds <= {"agreeing"}, text
    for data in (*task.sets("fit"), *task.sets("validation"), *task.sets("test")):
        for sample in data.samples:
            # No output shows a group: what a person is called after agrees with nobody.
            assert not [o for o in sample.outputs if SPANISH(o) != o], sample.outputs
    for split in SPLITS[1:]:
        for sample in task.agreement[split].samples:
            female, male = sample.outputs
            assert female != male
    path = tmp_path / "prompts.jsonl"
    prompts = sorted({sample.variations[0].text for sample in task.test[0].samples})
    rows = [{"input": text, "outputs": [" medicina"]} for text in prompts]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    asked = [f for one in check_prompts(str(path), SPANISH) for f in one.findings]
    assert len(asked) <= 0.1 * len(rows), asked
