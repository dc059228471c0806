"""An edit that is added to a checkpoint's own, at any place: the checkpoint of both is exact."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit
from countergen_edit.edits.checkpoints import Form, choose_form, fold, save_checkpoint
from countergen_edit.edits.checkpoints.parity import edited_logits, reload
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import LanguageModel, from_pretrained_objects
from tests.edits.checkpoints.conftest import TEXT, oblique_erasure

pytestmark = pytest.mark.slow  # each loads many checkpoints in a process of its own

PLACES = [(s, k) for s in ("resid_post", "attn_out", "mlp_out") for k in range(3)]
PLACES += [("embed", None), ("everywhere", 1)]
FOLDED = {"attn_out", "mlp_out", "everywhere"}
FIRST = [
    ("resid_post", 1, "carried"),
    ("attn_out", 1, "folded"),
    ("mlp_out", 1, "carried"),
    ("embed", None, "carried"),
    ("everywhere", 1, "folded"),
]


def edit_of(site: str, layer: int | None, seed: int) -> Edit:
    return Edit.at(site, {layer: oblique_erasure(32, 2, seed)})


def ids_of(model: LanguageModel) -> list[int]:
    ids: list[int] = model.tokenizer(TEXT).input_ids
    return ids


@pytest.mark.parametrize(("site", "layer", "form"), FIRST)
def test_what_loads_in_a_fresh_process_is_both_edits_wherever_they_are(
    site: str, layer: int | None, form: str, models: dict[str, LanguageModel], tmp_path: Path
) -> None:
    model, first, ids = models["gpt2"], edit_of(site, layer, 1), ids_of(models["gpt2"])
    base, given = model, first
    if form == "folded":
        base = from_pretrained_objects("first", fold(model, first), model.tokenizer)
        given = Edit(())
    jobs: dict[str, Any] = {}
    live: dict[str, torch.Tensor] = {}
    for (other, at), wanted in product(PLACES, get_args(Form)):
        both, folder = given.then(edit_of(other, at, 2)), tmp_path / f"{other}.{at}.{wanted}"
        folder.mkdir()
        sites = {place.site for place in both.placements}
        if sites <= FOLDED if wanted == "folded" else other != "everywhere":
            assert choose_form(base, both, wanted) == wanted
            write_model(base, both, folder, wanted)
        else:
            with pytest.raises(UserError, match="fold"):
                write_model(base, both, folder, choose_form(base, both, wanted))
            continue
        jobs[folder.name] = (folder, [ids], "float32", wanted == "carried")
        whole = model, first.then(edit_of(other, at, 2))
        if (site, other) == ("everywhere", "embed"):
            whole = base, both  # hooks at `embed` act before those of the whole stream
        live[folder.name] = edited_logits(*whole, ids)
    logits, absent = reload(jobs)
    assert not any(absent.values())
    alone = edited_logits(model, first, ids)
    for name, expected in live.items():
        assert (expected - alone).abs().max() > 0.01, name
        torch.testing.assert_close(logits[f"{name}.0"].double(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("other", "at"), [("resid_post", 0), ("mlp_out", 2), ("embed", None)])
def test_the_checkpoint_of_both_writes_what_the_edited_model_does(
    other: str, at: int | None, models: dict[str, LanguageModel], tmp_path: Path
) -> None:
    """Greedy text with the cache of transformers, against a pass of the hooked model per token."""
    from transformers import AutoModelForCausalLM

    model = models["gpt2"]
    edit, ids = edit_of("resid_post", 1, 1).then(edit_of(other, at, 2)), ids_of(models["gpt2"])
    folder = save_checkpoint(model, edit, tmp_path / "both").folder
    plain: Any = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=True, attn_implementation="eager"
    )
    written = plain.generate(
        torch.tensor([ids]), max_new_tokens=8, do_sample=False, eos_token_id=-1
    )
    for _ in range(8):
        ids = [*ids, int(edited_logits(model, edit, ids)[-1].argmax())]
    assert written[0].tolist() == ids
