"""Which rows erasers are fitted on, and what is known of each."""

from dataclasses import replace

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis
from countergen_edit.data.task import Task
from countergen_edit.data.templates import Template, expand
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.base import METRICS
from countergen_edit.models import capture, load_model
from countergen_edit.models.capture import sink_limit
from countergen_edit.runs.baselines import BASELINES
from countergen_edit.runs.fit_data import BEGINNINGS, capture_sites
from countergen_edit.runs.fits import Candidate, FitCache
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.plan import Plan
from tests.runs.runs import IDENTITY
from tests.tiny_models import tiny_model_dir

GROUPS = {
    "female": {"names": {"fit": ["Jane", "Emily"]}, "forms": {"subject": "she"}},
    "male": {"names": {"fit": ["John", "Ahmed"]}, "forms": {"subject": "he"}},
}
AXIS = Axis.from_config({"name": "gender", "groups": GROUPS})
ERASE = expand("erase", [Template("{name} is", (" a nurse", " an engineer"))], AXIS, "fit")
TEXTS = ["The hospital is at the café.", "Jane is a nurse", "John ran"]
KEEP = expand("keep", [Template("{name} said", (" she", " he"))], AXIS, "fit")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(tiny_model_dir("gpt2", tmp_path_factory.mktemp("gpt2")))


def make(
    model,
    positions="outputs",
    keep=False,
    sets=(ERASE,),
    texts=TEXTS[:1],
):
    place = {"sites": ["resid_post"], "layers": None, "positions": positions}
    return capture_sites(model, sets, [KEEP] if keep else [], texts, **place)["resid_post"]


def test_outputs_gives_a_row_wherever_an_output_token_is_predicted(model):
    data = make(model)
    prompt = "Jane is"
    expected = {prompt}
    for output in (" a nurse", " an engineer"):
        ids = model.tokenizer(prompt + output, return_offsets_mapping=True)
        for start, end in ids["offset_mapping"]:
            if end > len(prompt) and start >= len(prompt):
                expected.add((prompt + output)[:start])
    of_jane = data.name == "Jane"
    assert {c.replace("{name}", "Jane") for c in data.context[of_jane]} == expected
    for pair in np.unique(data.pair):
        assert sorted(data.group[data.pair == pair]) == ["female", "male"]
    onward = make(model, "onward")
    assert (onward.name == "Ahmed").sum() == len(model.tokenizer("Ahmed is").input_ids)
    for context, row in zip(data.context[of_jane], data.at(1)[of_jane], strict=True):
        text = context.replace("{name}", "Jane")
        alone = capture(model, [text], layers=[1]).values["resid_post"][0, 0]
        np.testing.assert_allclose(row, alone, atol=1e-5)


def test_of_many_beginnings_some_are_taken_the_same_for_all_people(model):
    words = (" a nurse", " an engineer", " a plumber", " a ballerina", " the mathematician")
    sets = [expand("erase", [Template("{name} is", words)], AXIS, "fit")]
    data = make(model, sets=sets)
    by_name = {str(n): sorted(data.context[data.name == n].tolist()) for n in np.unique(data.name)}
    [every] = {tuple(contexts) for contexts in by_name.values()}
    assert len(every) == BEGINNINGS
    assert every[0] == "{name} is"
    whole = ["{name} is" + word for word in words]
    assert all(any(w.startswith(one) and w != one for w in whole) for one in every)


def test_background_holds_every_token_of_every_text(model):
    data = make(model, texts=TEXTS)
    alone = capture(model, TEXTS, starts=[0, 0, 0], positions="onward").values["resid_post"]
    np.testing.assert_allclose(data.background, alone, atol=1e-5)
    assert data.background.shape[1] == sum(len(model.tokenizer(t).input_ids) for t in TEXTS)
    assert data.values.shape == make(model).values.shape


def test_a_study_weighs_its_neutral_text_and_an_edit_depends_on_it(model, tmp_path):
    task = Task(AXIS, ("female", "male"), fit=(ERASE,))
    by_hand = make(model, texts=TEXTS)
    folder = RunFolder(tmp_path / "run", {}, IDENTITY)
    cell = Candidate("resid_post", 1, "leace", make_eraser("leace"))
    ids = set()
    for texts in (TEXTS[:1], TEXTS, TEXTS[:2]):
        weighed = replace(task, neutral={"fit": tuple(texts)})
        plan = Plan(tasks=[weighed], metrics=[METRICS.make("r")])
        fits = FitCache(model, weighed, folder, plan)
        ids.add(fits.id_of(cell))
        if len(texts) == len(TEXTS):
            np.testing.assert_array_equal(fits.data(cell).background, by_hand.background)
    assert len(ids) == 3


def test_folds_never_part_a_pair_without_names(model):
    jobs = (" a nurse", " an engineer")
    paraphrases = [Template(f"In {i} {{subject}} was", jobs) for i in range(9)]
    data = make(model, sets=[expand("pronouns", paraphrases, AXIS, "fit")])
    for context in set(data.context):
        of_pair = data.context == context
        assert set(data.group[of_pair]) == {"female", "male"}
        assert len(set(data.name[of_pair])) == 1
    assert len(set(data.name)) == len(paraphrases)
    fitted = data.fit(make_eraser("preserving"), 1)
    assert np.isfinite(data.certify(fitted, 1, 0).linear_accuracy_before)


def test_rows_to_keep_reach_only_the_erasers_that_know_of_keeping(model):
    with_keep, without = make(model, keep=True), make(model)
    assert with_keep.keep.sum() == 4
    same = [data.fit(make_eraser("leace"), 0).erasure_.right for data in (with_keep, without)]
    np.testing.assert_array_equal(*same)
    kept = with_keep.fit(make_eraser("preserving", shrinkage=0.5, keep_within=0.5), 0)
    free = without.fit(make_eraser("preserving", shrinkage=0.5), 0)
    rows = with_keep.at(0)
    assert not np.allclose(kept.erasure_(rows), free.erasure_(rows), atol=1e-4)


def test_a_limit_lies_in_the_widest_gap_between_three_and_five_medians():
    crowd = [1.0] * 50
    for above, limit in (
        ([8.0], np.sqrt(3 * 5)),
        ([3.3, 8.0], np.sqrt(3.3 * 5)),
        ([4.6, 4.8], np.sqrt(3 * 4.6)),
        ([3.2, 4.5, 40.0], np.sqrt(3.2 * 4.5)),
    ):
        assert sink_limit(np.array(crowd + above, np.float32)) == pytest.approx(limit, rel=1e-5)
    assert sink_limit(np.array([*crowd, 3.4], np.float32)) is None


@pytest.mark.parametrize("name", ["leace", "preserving"])
def test_the_means_of_several_groups_become_one(name, model):
    texts = {"fit": ["{name} is", "{name} was"], "test": ["{name} works as"]}
    of_texts = {"source": "templates", "outputs": [" a nurse", " an engineer"]}
    sets = {s: [of_texts | {"name": s, "templates": forms}] for s, forms in texts.items()}
    names = {"fit": 12, "few": 12, "validation": 2, "test": 2}
    task = Task.from_config("race", sets | {"keep": []}, groups="all", names=names)
    data = make(model, sets=task.fit)
    counts = {(data.group == group).sum() for group in task.groups}
    assert counts == {len(set(data.pair))}  # no prompt is captured twice

    def gaps(rows):
        """How far the mean of each group is from that of all."""
        means = np.stack([rows[data.group == group].mean(axis=0) for group in task.groups])
        return np.asarray(np.linalg.norm(means - means.mean(axis=0), axis=1))

    rows = data.at(1).astype(float)
    after = gaps(data.fit(make_eraser(name), 1).transform(rows))
    assert gaps(rows).min() > 1e-3
    assert after.max() < 1e-4 * gaps(rows).max()
    with pytest.raises(UserError, match="4 are compared"):
        BASELINES.make("steering", {"strengths": [1.0]}).check(model, task)
