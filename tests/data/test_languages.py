"""A language is data: Spanish is whole, and German is added by files in a folder of one's own."""

import shutil
from itertools import chain
from pathlib import Path

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.language import language_of
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.task import Task
from tests.cli.support import names, rows_of, said
from tests.data.test_splits import file_of
from tests.gender import SPANISH
from tests.tiny_models import tiny_model_dir

AXIS = Path(__file__).parent / "german/geschlecht.yaml"


def test_prompts_and_agreement_of_a_third_language_read_right():
    task = Task.from_config(AXIS, texts="natural", names=None)
    [data] = task.test
    texts = {variation.text for sample in data.samples for variation in sample.variations}
    assert "Übrigens, Lena lebt für die" in texts
    assert {sample.outputs for sample in data.samples} == {(" Pflege", " Technik", " Schule")}
    assert {text.split(", ")[0].split(": ")[0] for text in texts} == {"Übrigens", "Kurz"}
    forms = {sample.template: sample.outputs for sample in task.agreement["test"].samples}
    assert forms.pop("{name} weint, weil") == (" sie", " er")
    assert forms == {"Im Werk ist {name}": (" Arbeiterin", " Arbeiter")}
    assert len(task.neutral["fit"]) == 12
    assert not any(task.legitimate_differences.values())
    assert {data.axis for data in task.other_axes} >= {"gender", "race"}  # in their own language


def test_substitution_of_a_third_language_agrees_by_its_tables():
    swap = Task.from_config(AXIS, texts="natural").substitution
    for one, other in {
        "Die Ärztin lacht.": "Der Arzt lacht.",
        "Eine nette Lehrerin singt.": "Ein netter Lehrer singt.",
        "Die alte Frau kennt die Schule.": "Der alte Mann kennt die Schule.",
        "Lena und diese Freundin von Greta": "Lutz und dieser Freund von Bernd",
        "Die Nacht war lang.": "Die Nacht war lang.",
    }.items():
        assert (swap(one), swap(other)) == (other, one)


@pytest.mark.slow
def test_a_third_language_is_audited_by_one_setting(tmp_path):
    model = tiny_model_dir("llama", tmp_path / "model")
    words = [f"model={model}", f"axis={AXIS}", "eraser=leace", "edit.layers=[1]", "metric=r"]
    words += ["texts.other_axes=null", "precision=null", names(3, 2, 3, 2, few=2)]
    said("audit", *words, f"run_dir={tmp_path / 'run'}")
    measured = {(row.metric, row.axis) for row in rows_of(tmp_path / "run")}
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
def test_wrong_rules_are_refused(old, new, message, tmp_path):
    folder = shutil.copytree(AXIS.parent, tmp_path / "german")
    file = folder / "deutsch/substitution.yaml"
    file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(UserError, match=message):
        Task.from_config(folder / AXIS.name, texts="natural").substitution.swap("Die Ärztin lacht.")


def test_spanish_prompts_agree_and_mention_nobody_by_accident(tmp_path):
    task = Task.from_config("gender_es", texts="natural", names=None)
    task.check_leakage()
    texts = [text for data in task.every_set if data.axis == "gender_es" for text in data.texts]
    assert not [text for text in texts if {*"{}"} & {*text}]
    for texts in task.neutral.values():
        for text in texts:
            kinds = {word.kind for word in SPANISH.words(text) if word.side is not None}
            assert kinds <= {"agreeing"}, text
    for data in chain.from_iterable(map(task.sets, SPLITS)):
        for sample in data.samples:
            # No output shows a group: what a person is called after agrees with nobody.
            assert not [o for o in sample.outputs if SPANISH(o) != o], sample.outputs
    for split in SPLITS[1:]:
        for sample in task.agreement[split].samples:
            female, male = sample.outputs
            assert female != male
    prompts = sorted({sample.variations[0].text for sample in task.test[0].samples})
    path = file_of(tmp_path, prompts, outputs=[" medicina"])
    doubts = [f for one in check_prompts(path, SPANISH) for f in one.findings]
    assert len(doubts) <= 0.1 * len(prompts), doubts
