"""Code that a source's config names is neither run nor passed on; a carried checkpoint has ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits.checkpoints import (
    fold,
    load_checkpoint,
    load_unedited,
    open_checkpoint,
    save_checkpoint,
)
from countergen_edit.edits.checkpoints.parity import edited_logits, reload
from countergen_edit.models import LanguageModel, from_pretrained_objects, load
from tests.edits.checkpoints.conftest import TEXT, edit_at
from tests.tiny_models import tiny_hf_model, tiny_model_dir, tiny_tokenizer

pytestmark = pytest.mark.slow  # every test is of whole runs

CODE = """
open({marker!r}, "w").close()
from transformers import GPT2Config, GPT2LMHeadModel

class OwnConfig(GPT2Config):
    pass

class Own(GPT2LMHeadModel):
    config_class = OwnConfig
"""
REFERENCES = {"its own": "own.", "elsewhere": "{folder}--own."}
"""To a file beside the weights, and as hub models refer to one of another repository."""


def content(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def name_code(path: Path, module: str, **more: Any) -> None:
    """Name custom code in the configs, as hub models do."""
    classes = {"AutoConfig": "OwnConfig", "AutoModelForCausalLM": "Own"}
    of_model = {auto: module + cls for auto, cls in classes.items()}
    for name, auto_map in (
        ("config.json", of_model),
        ("tokenizer_config.json", {"AutoTokenizer": [None, f"{module}Own"]}),
    ):
        code = {"auto_map": auto_map, "custom_pipelines": {"own": {"impl": f"{module}Own"}}}
        (path / name).write_text(json.dumps(content(path / name) | code | more))


@pytest.fixture(scope="module", params=REFERENCES)
def source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[LanguageModel, Path]:
    """A GPT-2 that names code, and the file that this code would write."""
    folder = tiny_model_dir("gpt2", tmp_path_factory.mktemp("code") / "source")
    marker = folder.parent / "marker"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    name_code(folder, REFERENCES[request.param].format(folder=folder))
    return load(folder), marker


def test_a_folded_model_names_no_code_and_loads_without_trust(
    source: tuple[LanguageModel, Path], tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, marker = source
    edit, ids = edit_at(model, "mlp_out"), model.tokenizer(TEXT).input_ids
    folder = save_checkpoint(model, edit, tmp_path / "folded", form="folded").folder
    for name in ("config.json", "tokenizer_config.json"):
        assert not {"auto_map", "custom_pipelines"} & set(content(folder / name))
    assert not list(folder.glob("*.py"))
    plain = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    with torch.inference_mode():
        logits = plain(torch.tensor([ids])).logits[0].double()
    torch.testing.assert_close(logits, edited_logits(model, edit, ids), atol=1e-5, rtol=0)
    assert AutoTokenizer.from_pretrained(folder)(TEXT).input_ids == ids
    torch.testing.assert_close(
        edited_logits(load_checkpoint(folder), None, ids), logits, atol=1e-5, rtol=0
    )
    assert not marker.exists()


def test_a_carried_model_names_our_code_alone(
    source: tuple[LanguageModel, Path], tmp_path: Path
) -> None:
    model, marker = source
    folder = save_checkpoint(
        model, edit_at(model, "mlp_out"), tmp_path / "carried", form="carried"
    ).folder
    config = content(folder / "config.json")
    assert config["auto_map"] == {
        "AutoConfig": "modeling_edited.EditedConfig",
        "AutoModelForCausalLM": "modeling_edited.EditedForCausalLM",
    }
    assert "custom_pipelines" not in config
    assert not {"auto_map", "custom_pipelines"} & set(content(folder / "tokenizer_config.json"))
    assert [path.name for path in folder.glob("*.py")] == ["modeling_edited.py"]
    assert load_unedited(open_checkpoint(folder)).fingerprint == model.fingerprint
    assert not marker.exists()


def test_the_model_in_memory_is_left_as_it_was(source: tuple[LanguageModel, Path]) -> None:
    model, _ = source
    assert not hasattr(fold(model, edit_at(model, "mlp_out")).config, "auto_map")
    assert model.bridge.original_model.config.auto_map


def test_a_part_of_a_config_names_no_code_either(models: dict[str, LanguageModel]) -> None:
    from transformers import GPT2Config

    from countergen_edit.edits.checkpoints.stock import empty_stock_model

    config = models["gpt2"].bridge.original_model.config
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "part", GPT2Config(auto_map={"AutoConfig": "own.Own"}), raising=False)
        assert "auto_map" in str(config)
        assert "auto_map" not in str(empty_stock_model(models["gpt2"]).config)


def test_the_proof_runs_no_code_unless_it_is_said_to_be_ours(tmp_path: Path) -> None:
    folder, marker = tiny_model_dir("gpt2", tmp_path / "source"), tmp_path / "marker"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    name_code(folder, "own.", model_type="own")
    with pytest.raises(UserError, match="does not load in a fresh process"):
        reload({"saved": (folder, [[1, 2]], "float32", False)})
    assert not marker.exists()
    # A type that transformers does not have can be loaded by its code alone.
    (folder / "own.py").write_text(
        CODE.format(marker=str(marker)).replace("pass", 'model_type = "own"')
    )
    assert reload({"saved": (folder, [[1, 2]], "float32", True)})[1] == {"saved": []}
    assert marker.exists()


def test_a_model_that_needs_code_of_its_own_is_not_saved(tmp_path: Path) -> None:
    from transformers import GPT2LMHeadModel

    class Own(GPT2LMHeadModel):
        """Any class that transformers does not have."""

    tokenizer = tiny_tokenizer()
    own = Own(tiny_hf_model("gpt2", tokenizer).config)
    own.config.architectures = ["GPT2LMHeadModel"]
    model = from_pretrained_objects("own", own, tokenizer)
    for form, site in (("folded", "mlp_out"), ("carried", "resid_post")):
        with pytest.raises(UserError, match="Own of own is not a class of transformers"):
            save_checkpoint(model, edit_at(model, site), tmp_path / form, form=form)
    assert not list(tmp_path.iterdir())
