"""Code that a source's config names is neither run nor passed on; a carried checkpoint has ours."""

import json

import pytest
import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.edits.checkpoints import fold, load_checkpoint, save_checkpoint
from countergen_edit.edits.checkpoints.parity import reload
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.edits.checkpoints.stock import empty_stock_model
from countergen_edit.models import from_pretrained_objects, load_model
from tests.edits.checkpoints.conftest import TEXT, edit_at, logits, plain_logits
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


def name_code(path, module, **more):
    """Name custom code in the configs, as hub models do."""
    (path / "own.py").write_text(CODE.format(marker=str(path.parent / "marker")))
    classes = {"AutoConfig": "OwnConfig", "AutoModelForCausalLM": "Own"}
    of_model = {auto: module + cls for auto, cls in classes.items()}
    for name, auto_map in (
        ("config.json", of_model),
        ("tokenizer_config.json", {"AutoTokenizer": [None, f"{module}Own"]}),
    ):
        code = {"auto_map": auto_map, "custom_pipelines": {"own": {"impl": f"{module}Own"}}}
        (path / name).write_text(json.dumps(json_mapping(path / name) | code | more))


@pytest.fixture(scope="module", params=["own.", "{folder}--own."])
def source(request, tmp_path_factory):
    """A GPT-2 that names code, beside its weights or of another repository; what it writes."""
    folder = tiny_model_dir("gpt2", tmp_path_factory.mktemp("code") / "source")
    name_code(folder, request.param.format(folder=folder))
    return load_model(folder), folder.parent / "marker"


@pytest.mark.parametrize("form", ["folded", "carried"])
def test_a_saved_model_names_no_code_but_ours(form, source, tmp_path):
    model, marker = source
    edit = edit_at(model, "mlp_out")
    write_model(model, edit, tmp_path, form)
    config = json_mapping(tmp_path / "config.json")
    of_tokenizer = json_mapping(tmp_path / "tokenizer_config.json")
    assert not {"auto_map", "custom_pipelines"} & {*of_tokenizer}
    assert "custom_pipelines" not in config
    is_carried = form == "carried"
    classes = {"AutoConfig": "EditedConfig", "AutoModelForCausalLM": "EditedForCausalLM"}
    ours = {auto: f"modeling_edited.{name}" for auto, name in classes.items()}
    assert config.get("auto_map") == (ours if is_carried else None)
    assert [p.name for p in tmp_path.glob("*.py")] == ["modeling_edited.py"] * is_carried
    expected = logits(model, edit)
    torch.testing.assert_close(plain_logits(tmp_path, model), expected, atol=1e-5, rtol=0)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer(TEXT).input_ids == model.tokenizer(TEXT).input_ids
    assert not marker.exists()
    assert not hasattr(fold(model, edit).config, "auto_map")
    assert model.bridge.original_model.config.auto_map  # the model in memory is as it was


def test_a_part_of_a_config_names_no_code_either(models):
    config = models["gpt2"].bridge.original_model.config
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "part", GPT2Config(auto_map={"AutoConfig": "own.Own"}), raising=False)
        assert "auto_map" in str(config)
        assert "auto_map" not in str(empty_stock_model(models["gpt2"]).config)


def test_no_code_is_run_unless_it_is_said_to_be_ours(tmp_path):
    folder, marker = tiny_model_dir("gpt2", tmp_path / "source"), tmp_path / "marker"
    name_code(folder, "own.", model_type="own")
    with pytest.raises(UserError, match="does not load in a fresh process"):
        reload({"saved": (folder, [[1, 2]], "float32", False)})
    with pytest.raises(UserError, match="is not a checkpoint of this package"):
        load_checkpoint(folder)
    assert not marker.exists()


def test_a_model_that_needs_code_of_its_own_is_not_saved(tmp_path):
    class Own(GPT2LMHeadModel):
        """Any class that transformers does not have."""

    tokenizer = tiny_tokenizer()
    plain = Own(tiny_hf_model("gpt2", tokenizer).config)
    plain.config.architectures = ["GPT2LMHeadModel"]
    model = from_pretrained_objects("own", plain, tokenizer)
    for form, site in (("folded", "mlp_out"), ("carried", "resid_post")):
        with pytest.raises(UserError, match="Own of own is not a class of transformers"):
            save_checkpoint(model, edit_at(model, site), tmp_path / form, form=form)
    assert not list(tmp_path.iterdir())
