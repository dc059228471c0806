"""Every tiny family loaded once."""

import pytest
import torch

from countergen_edit import models
from tests.tiny_models import FAMILIES, tiny_model_dir


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """A tiny model gains nothing from threads, and waits long for them on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_dirs(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    return {family: tiny_model_dir(family, root / family) for family in FAMILIES}


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
