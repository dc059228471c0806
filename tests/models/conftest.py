"""Every tiny family loaded once."""

import pytest

from countergen_edit import models
from tests.tiny_models import FAMILIES


@pytest.fixture(scope="session", params=FAMILIES)
def lm(request, tiny_dirs):
    return models.load_model(tiny_dirs[request.param], device="cpu")


@pytest.fixture(scope="session")
def plain(lm):
    """The same model and tokenizer through `transformers` alone: the reference."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(lm.name, attn_implementation="eager").eval()
    return model, AutoTokenizer.from_pretrained(lm.name)


@pytest.fixture(scope="session")
def gpt2(tiny_dirs):
    return models.load_model(tiny_dirs["gpt2"], device="cpu")


@pytest.fixture(scope="session")
def llama(tiny_dirs):
    return models.load_model(tiny_dirs["llama"], device="cpu")
