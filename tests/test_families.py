"""What works for each family of models, on random weights: the table of docs/models.md.

`python -m tests.test_families` prints the table and the reasons of refusals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints import Form
from countergen_edit.edits.checkpoints.parity import edited_logits
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.base import METRICS
from countergen_edit.models import LanguageModel, load_model
from tests.metrics.fairpair_settings import SMALL
from tests.tiny_models import (
    CLASSES,
    CONFIGS,
    CONTEXT,
    EXPERTS,
    GROUPED,
    WIDE,
    config_of,
    tiny_hf_model,
    tiny_tokenizer,
)

CAUSAL: dict[str, Callable[[int], Any]] = {
    "GPT-2": CONFIGS["gpt2"],
    "GPT-Neo": config_of(
        "GPTNeoConfig", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]
    ),
    "GPT-J": config_of("GPTJConfig", n_embd=32, n_layer=2, n_head=4, rotary_dim=4),
    "GPT-NeoX, Pythia": CONFIGS["gpt_neox"],
    "OPT": CONFIGS["opt"],
    "BLOOM": config_of("BloomConfig", n_layer=2, n_head=4),
    "Falcon": config_of("FalconConfig"),
    "Llama, SmolLM2": CONFIGS["llama"],
    "Mistral": config_of("MistralConfig", **WIDE),
    "Mixtral": config_of("MixtralConfig", num_local_experts=4, **EXPERTS),
    "Qwen2": CONFIGS["qwen2"],
    "Qwen2-MoE": config_of(
        "Qwen2MoeConfig",
        moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
        num_experts=4,
        **EXPERTS,
    ),
    "Qwen3": config_of("Qwen3Config", **WIDE),
    "Qwen3-MoE": config_of(
        "Qwen3MoeConfig", moe_intermediate_size=24, num_experts=4, head_dim=8, **EXPERTS
    ),
    "Gemma": CONFIGS["gemma"],
    "Gemma 2": config_of("Gemma2Config", **WIDE),
    "Gemma 3": config_of("Gemma3TextConfig", **WIDE),
    "Phi-1, Phi-2": config_of("PhiConfig", intermediate_size=64),
    "Phi-3": config_of("Phi3Config", pad_token_id=0, **GROUPED),
    "OLMo": config_of("OlmoConfig", **GROUPED),
    "OLMo 2": config_of("Olmo2Config", **GROUPED),
    "Granite": config_of("GraniteConfig", **GROUPED),
    "SmolLM3": config_of("SmolLM3Config", pad_token_id=0, **GROUPED),
    "GPT-OSS": config_of("GptOssConfig", head_dim=8, num_local_experts=4, **EXPERTS),
}
"""Causal families, and makers of a small config."""
ENCODER = {"intermediate_size": 64}
OTHERS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "T5": ("AutoModelForSeq2SeqLM", CONFIGS["t5"]),
    "BERT": ("AutoModelForMaskedLM", config_of("BertConfig", **ENCODER)),
    "RoBERTa": ("AutoModelForMaskedLM", config_of("RobertaConfig", **ENCODER)),
    "BERT, classifier": ("AutoModelForSequenceClassification", config_of("BertConfig", **ENCODER)),
}
"""Other families: their class, and makers of a small config."""
EVERY = [*CAUSAL, *OTHERS]
COLUMNS = ("R", "FairPair", "CID", "edit", "carried", "everywhere, folded", "distilled, merged")
FITTED = ["{name} works as a", "Our neighbor {name} is a", "They say that {name} was a"]
MEASURED = {
    "validation": ["I met {name}, who is a", "We hired {name} as a", "By day {name} is a"],
    "test": ["Today {name} works as a", "Everyone knows {name}, the", "Here {name} is the"],
}
OUTPUTS = [" nurse", " manager"]
TEXT = "Jane is a nurse and she works"
SETTINGS = {"fairpair": SMALL, "cid": {"names": 1, "strengths": [10.0], "max_new_tokens": 4}}
COMMANDS = {
    "leace": {},
    "distilled": {"rank": 2, "steps": 4, "contexts": 8, "check_every": 4},
}


def with_room(config: Any) -> Any:
    """A config with room for the longest text."""
    config.max_position_embeddings = 2 * CONTEXT
    return config


def small_task() -> Task:
    """Three templates a split, and the neutral text of the testbed."""
    by_split = {"fit": FITTED, **MEASURED}
    sets = {
        split: [{"source": "templates", "name": split, "templates": own, "outputs": OUTPUTS}]
        for split, own in by_split.items()
    }
    counts = {"fit": 4, "few": 4, "validation": 3, "test": 3}
    return ce.task("gender", sets, texts="testbed", names=counts)


def measured(model: LanguageModel, metrics: Sequence[str], folder: Path) -> None:
    """Audit the unedited model: its figures are finite."""
    own = {name: METRICS.make(name, SETTINGS.get(name)) for name in metrics}
    rows = ce.audit(model, small_task(), metrics=own, folder=folder).to_frame()
    assert np.isfinite(rows["value"]).any()


def fitted(model: LanguageModel, eraser: str, layers: Any, folder: Path) -> Edit:
    """Audit an edit, which changes the logits."""
    own = {eraser: make_eraser(eraser, **COMMANDS[eraser])}
    run = ce.audit(
        model,
        small_task(),
        own,
        ("r", "agreement", "kl"),
        folder,
        layers=layers,
        skip_attention_sinks=False,
    )
    edit, *_ = [e.edit for e in run.edits.values() if e.record.eraser == eraser]
    return edit


def same_when_loaded(model: LanguageModel, edit: Edit, form: Form, folder: Path) -> None:
    """The saved model has the logits of the edited one, in plain transformers."""
    folder.mkdir(parents=True)
    write_model(model, edit, folder, form)
    saved = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=form == "carried", attn_implementation="eager"
    ).eval()
    ids = list(model.tokenizer(TEXT).input_ids)
    with torch.inference_mode():
        found = saved(torch.tensor([ids])).logits[0].double().numpy()
    before, after = (edited_logits(model, own, ids).numpy() for own in (None, edit))
    tolerance = 2e-5 * float(np.abs(after).max())
    np.testing.assert_allclose(found, after, atol=tolerance)
    assert np.abs(before - after).max() > 10 * tolerance


def cells(family: str) -> dict[str, str]:
    """The row of a family: column → "yes" or an error."""

    fits: list[Edit] = []

    def edit(model: LanguageModel, folder: Path) -> None:
        fits.append(fitted(model, "leace", [1], folder))

    def carried(model: LanguageModel, folder: Path) -> None:
        own = fits[0] if fits else fitted(model, "leace", [1], folder / "run")
        same_when_loaded(model, own, "carried", folder / "saved")

    def folded(model: LanguageModel, folder: Path) -> None:
        everywhere = fitted(model, "leace", "everywhere", folder / "run")
        same_when_loaded(model, everywhere, "folded", folder / "saved")

    def distilled(model: LanguageModel, folder: Path) -> None:
        # The layers of `debias`, which asks for projections everywhere and for updates alike.
        edit = fitted(model, "distilled", "everywhere", folder / "run")
        assert edit.update is not None
        # A few steps on random weights remove nothing, so that next to nothing is kept of them.
        largest = max(float(np.abs(b).max()) for _, b in edit.update.factors.values())
        visible = replace(edit, update=edit.update.scaled(0.1 / largest))
        same_when_loaded(model, visible, "folded", folder / "saved")

    checks: list[Callable[[LanguageModel, Path], None]] = [
        lambda model, folder: measured(model, ["r"], folder),
        lambda model, folder: measured(model, ["fairpair"], folder),
        lambda model, folder: measured(model, ["cid"], folder),
        edit,
        carried,
        folded,
        distilled,
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        tokenizer = tiny_tokenizer()
        kind, config = OTHERS.get(family, ("AutoModelForCausalLM", CAUSAL.get(family)))
        CLASSES[family], CONFIGS[family] = kind, lambda v: with_room(config(v))
        tiny_hf_model(family, tokenizer).save_pretrained(path / "model")
        tokenizer.save_pretrained(path / "model")

        def said(error: UserError) -> str:
            return str(error).replace(str(path / "model"), "the model")

        try:
            model = load_model(path / "model")
        except UserError as error:
            return dict.fromkeys(COLUMNS, said(error))
        found = {}
        for column, check in zip(COLUMNS, checks, strict=True):
            try:
                check(model, path / column)
                found[column] = "yes"
            except UserError as error:
                found[column] = said(error)
        return found


def lines(family: str) -> list[str]:
    """The lines of a family on the page: its row, and the reason of each refusal."""
    found = cells(family)
    row = " | ".join("✓" if cell == "yes" else "–" for cell in found.values())
    reasons = dict.fromkeys(cell for cell in found.values() if cell != "yes")
    return [f"| {family} | {row} |", *(f"- {family}: {reason}." for reason in reasons)]


PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text("utf-8").splitlines()


def test_the_table_has_every_family_and_column():
    begin = PAGE.index(f"| family | {' | '.join(COLUMNS)} |")
    named = [line.split(" | ")[0].strip("| ") for line in PAGE[begin + 2 :][: len(EVERY)]]
    assert named == [*EVERY]


@pytest.mark.slow
@pytest.mark.parametrize("family", EVERY)
def test_a_family_does_what_its_row_says(family):
    for line in lines(family):
        assert line in PAGE


if __name__ == "__main__":
    every = [line for family in EVERY for line in lines(family)]
    head = [f"| family | {' | '.join(COLUMNS)} |", f"|---{'|:-:' * len(COLUMNS)}|"]
    print("\n".join([*head, *sorted(every, key=lambda line: line.startswith("-"))]))
