"""R of Table 1 and the curves of Figures 2 and 3 of CounterGen, from plain `transformers`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import countergen_edit as ce
from countergen_edit.data.task import Task
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.metric import R
from countergen_edit.testbed import directory
from tests.metrics.small import plain_log_p
from tests.papers.test_inlp import textbook

JOBS = [" nurse", " engineer", " teacher"]


def prompts(name, *templates, **more):
    return {"source": "templates", "name": name, "templates": [*templates], "outputs": JOBS} | more


SETS = {
    "fit": [prompts("appendix", "{name} works as a", "{name} has a job as a", outputs=JOBS[:2])],
    "validation": [prompts("chosen", "{name} is a")],
    "test": [
        prompts(name, "I think that {name} is a", "{name} was a", sum_outputs=name == "any")
        for name in ("each", "any")
    ],
}


class Plain:
    """GPT-2 of `transformers`, with the paper's projection after a block if there is one."""

    def __init__(self):
        self.model = AutoModelForCausalLM.from_pretrained(directory(), dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(directory())

    def project(self, layer, m, d):
        """π(x) = x - Σ_k <x - m, d_k> d_k, after block `layer`."""
        m, d = (torch.tensor(x, dtype=torch.float32) for x in (m, d))

        def hook(block, args, out):
            x = out[0] if isinstance(out, tuple) else out
            x = x - ((x - m) @ d.T) @ d
            return (x, *out[1:]) if isinstance(out, tuple) else x

        self.model.transformer.h[layer].register_forward_hook(hook)

    def p(self, prompt, output):
        """P(y|x), the product over the tokens of y."""
        before, ids = (self.tokenizer(text).input_ids for text in (prompt, prompt + output))
        return np.exp(plain_log_p(self.model, ids, len(before)))

    @torch.no_grad()
    def activation(self, prompt, layer):
        """After block `layer`, at the last token."""
        ids = torch.tensor([self.tokenizer(prompt).input_ids])
        out = self.model.transformer(ids, output_hidden_states=True)
        return np.asarray(out.hidden_states[layer + 1][0, -1].double())

    def r(self, data, summed):
        """Equation 1: of each output, or of the sum of a prompt's; P is averaged over names."""
        terms = []
        for sample in data.samples:
            sides = [
                np.mean([[self.p(v.text, y) for y in sample.outputs] for v in sample.of(g)], axis=0)
                for g in data.groups
            ]
            f, m = ([side.sum()] if summed else side for side in sides)
            terms += [(a - b) / max(a, b) for a, b in zip(f, m, strict=True)]
        return np.mean(terms)


@pytest.fixture(scope="module")
def task():
    names = {"fit": 6, "validation": 2, "test": 3}
    return Task.from_config("gender", {**SETS, "keep": [], "agreement": {}}, names=names)


def row_of(rows, **columns):
    [row] = [row for row in rows if all(getattr(row, k) == v for k, v in columns.items())]
    return row


def test_table_1_takes_an_output_each_or_their_sum(testbed, task, tmp_path):
    rows = R().bound(task).measure(EvaluationContext(testbed, tmp_path), None)
    plain, values = Plain(), []
    for data in task.test:
        row = row_of(rows, metric="r", dataset=data.name)
        assert row.value == pytest.approx(plain.r(data, data.sum_outputs), abs=2e-5)
        assert row.n == len(data.samples) * (1 if data.sum_outputs else len(JOBS))
        assert ("outputs" in row.detail) == data.sum_outputs
        values.append(row.value)
    assert abs(np.subtract(*values)) > 0.01  # they differ where outputs disagree


def test_the_curves_of_figure_2_are_of_fitting_and_of_test_data(testbed, task, tmp_path):
    layers, [fit] = (1, 3), task.fit
    run = ce.search(
        testbed,
        task,
        {"inlp": ce.erasers.INLP(rank=2)},
        R(fit_data=True),
        tmp_path / "run",
        layers=layers,
        combine=1,
        successive_halving=False,
        tested="every",
        positions="last",
        skip_attention_sinks=False,
    )
    for layer in layers:
        plain = Plain()
        labelled = [(v.text, v.group) for s in fit.samples for v in s.variations]
        X = np.stack([plain.activation(text, layer) for text, _ in labelled])
        z = np.array([fit.groups.index(group) for _, group in labelled])
        plain.project(layer, X.mean(axis=0), textbook(X, z, rank=2))
        for data, split in ((fit, "fit"), (task.test[0], "test")):
            about = {"dataset": data.name, "split": split, "layers": (layer,), "eraser": "inlp"}
            row = row_of(run.results.rows, metric="r", **about)
            # Activations are float32, and rounds of INLP amplify rounding.
            assert row.value == pytest.approx(plain.r(data, summed=False), abs=1e-3)
