"""Numbers beyond a model's dtype end in a line that says on which text, and what helps."""

from pathlib import Path

import pytest

from countergen_edit.data.template_bank import load_bank
from countergen_edit.testbed.classifiers import build, plant
from tests import tiny_models
from tests.cli.support import fails, names, said
from tests.tiny_models import tiny_hf_model, tiny_tokenizer

pytestmark = pytest.mark.slow  # every test is of whole runs

HALF = "model.dtype=float16"
ADVICE = "use model.dtype=bfloat16 or float32"
PROMPTS = '{"input": "Jane is a nurse", "outputs": [" she", " home"]}\n'
HUGE = '''
from countergen_edit.erasers import LEACE
from countergen_edit.erasers.affine import AffineErasure


class Huge(LEACE):
    """Multiplies one direction by a million, which the first weights of float16 cannot hold."""

    def fit(self, X, y, **more):
        fitted = super().fit(X, y, **more).erasure_
        huge = AffineErasure(1e6 * fitted.left, fitted.right, fitted.mean + 1)
        self._store(huge, self.classes_)
        return self
'''


def scaled(family, *names, by):
    def make():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiny_models, "CONTEXT", 256)  # the shipped texts fit
            model = tiny_hf_model(family, tiny_tokenizer())
        model.config.tie_word_embeddings = family == "gpt2"
        for name in names:
            # Also where it was tied to the embedding, which stays as it is.
            module = model.get_submodule(name)
            module.weight = type(module.weight)(by * module.weight.detach().clone())
        return model

    return make


MODELS = {
    "gpt2": scaled("gpt2", "transformer.h.1.mlp.c_proj", by=5e4),
    "logits": scaled("llama", "lm_head", by=1e5),
    "t5": scaled("t5", "lm_head", "decoder.final_layer_norm", by=400.0),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    def save(name):
        path = tmp_path_factory.mktemp("overflow") / name
        MODELS[name]().half().save_pretrained(path)
        tiny_tokenizer().save_pretrained(path)
        return path

    return save


@pytest.fixture(autouse=True)
def _prompts(here):
    Path("p.jsonl").write_text(PROMPTS)


@pytest.mark.parametrize(
    ("name", "metric"), [("gpt2", "r"), ("logits", "r"), ("gpt2", "fairpair"), ("t5", "fairpair")]
)
def test_an_overflow_names_text_and_dtype(name, metric, saved):
    path, quick = saved(name), ["data=p.jsonl", "eraser=none", f"metric={metric}", "cost=[]"]
    line = fails("audit", f"model={path}", HALF, *quick, "run_dir=run")
    assert f"error: {path} overflows float16 on the text 'J" in line
    assert line.endswith(ADVICE)
    assert not Path("run/results.jsonl").read_bytes()
    said("audit", f"model={path}", "model.dtype=bfloat16", *quick, "run_dir=wider")


@pytest.mark.parametrize(("layers", "layer"), [("[2]", 2), ("best", 0)])
def test_an_edit_that_overflows_is_named(layers, layer):
    Path("mine.py").write_text(HUGE)
    words = ["eraser=mine.py:Huge", "metric=r", "cost=[]", f"edit.layers={layers}"]
    line = fails("audit", HALF, *words, names(3, 2, 2, 2, few=2), "run_dir=run")
    edit = f"Huge-1@resid_post.{layer}"
    assert f"error: under {edit}, testbed overflows float16 on the text '" in line
    assert line.endswith(ADVICE)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (1e5, f"m overflows float16 in weights, transformer.h.0.mlp.c_proj.weight: {ADVICE}"),
        (float("inf"), "m has 1 weights of NaN or infinity: transformer.h.0.mlp.c_proj."),
    ],
)
def test_a_cast_that_overflows_is_told_from_damaged_weights(value, says):
    model = tiny_hf_model("gpt2", tiny_tokenizer())
    model.transformer.h[0].mlp.c_proj.weight.data[0, 0] = value
    model.save_pretrained("m")
    tiny_tokenizer().save_pretrained("m")
    assert says in fails("audit", "model=./m", HALF, "data=p.jsonl", "eraser=none")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("task", "slot", "head"),
    [("sentiment", "emotion", "classifier"), ("masked", "attribute", "cls.predictions.decoder")],
)
def test_a_head_that_overflows_is_refused(task, slot, head):
    model, tokenizer = build(plant(load_bank(task)))
    model.get_submodule(head).bias.data.fill_(7e4)
    model.save_pretrained("m")
    tokenizer.save_pretrained("m")
    words = ["model=./m", f"task={task}", f"task.most={{{slot}: 2}}", "run_dir=run"]
    line = fails("classifiers", *words, HALF)
    assert line.endswith(f"m overflows float16 in weights, {head}.bias: {ADVICE}")
    model.get_submodule(head).bias.data.fill_(6.5e4)
    weight = model.get_submodule(head).weight.data
    weight[:, ::2], weight[:, 1::2] = 6e4, -6e4
    model.save_pretrained("m")
    assert "m overflows float16 on the text '" in fails("classifiers", *words, HALF)
