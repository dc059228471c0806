"""`transformers serve` writes what the audited model does, from stock weights and carried ones."""

import sys
from pathlib import Path

import pytest
from transformers.utils.import_utils import is_serve_available

import countergen_edit
from countergen_edit.edits import applied
from countergen_edit.edits.checkpoints.saving import write_model
from countergen_edit.models import generate
from tests.edits.checkpoints.conftest import edit_at
from tests.models.test_gguf import script
from tests.printed import files

ROOT = Path(countergen_edit.__file__).parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_serve_available(), reason="pip install 'transformers[serving]'"),
]
PROMPTS = ["Jane is a nurse and", "John works as", "Emily was"]
ELSEWHERE = script("elsewhere")


@pytest.mark.parametrize(
    ("form", "family", "site"),
    [("folded", "gpt2", "attn_out"), ("carried", "testbed", "resid_post")],
)
def test_a_served_checkpoint_writes_what_the_edited_model_does(
    form, family, site, models, tmp_path
):
    model, folder = models[family], tmp_path / "saved"
    edit = edit_at(model, site)
    write_model(model, edit, folder, form)
    command = [str(Path(sys.executable).with_name("transformers")), "serve"]
    if form == "carried":
        path = tmp_path / "serve_edited.py"
        page = (ROOT / "docs/models.md").read_text("utf-8")
        path.write_text(files(page)[path.name], "utf-8")
        command = [sys.executable, str(path)]
    with ELSEWHERE.serving(*command, str(folder)) as address:
        served = [ELSEWHERE.completed(address, folder, prompt) for prompt in PROMPTS]
    with applied(model, edit):
        assert served == generate(model, PROMPTS, max_new_tokens=ELSEWHERE.NEW_TOKENS)
    assert served != generate(model, PROMPTS, max_new_tokens=ELSEWHERE.NEW_TOKENS)
