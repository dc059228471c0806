"""A model on a server scores and writes as the same model here, and is never asked twice."""

import time

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.models import connect, continuation_log_probs, contrastive_generate, generate
from countergen_edit.models.served import token_scores
from tests.models.completions_server import serving

PROMPTS = ["Jane works as", "John works as", "The boss says that Mary is", "The boss says that Tom"]
OUTPUTS = [" a nurse", " an engineer", " gentle", " is tough"]
EVERY = [p for p in PROMPTS for _ in OUTPUTS], OUTPUTS * len(PROMPTS)


@pytest.fixture
def server(testbed):
    with serving(testbed) as running:
        yield running


def served(server, folder, **settings):
    return connect(server.url, **{"cache": folder, "attempts": 4, **settings})


@pytest.mark.parametrize("bos", [False, True])
def test_likelihoods_are_those_of_the_model_here(server, testbed, tmp_path, bos):
    server.bos = bos
    straddling = [("Jane wor", "ks as a nurse"), ("Jane works as a nur", "se")]
    prompts, outputs = zip(*zip(*EVERY, strict=True), *straddling, strict=True)
    here = continuation_log_probs(testbed, prompts, outputs)
    there = continuation_log_probs(served(server, tmp_path), prompts, outputs)
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert len(server.requests) == len(EVERY[0])  # equal texts are asked once


def test_greedy_text_is_that_of_the_model_here_and_is_asked_once(server, testbed, tmp_path):
    texts = generate(served(server, tmp_path), PROMPTS * 3, max_new_tokens=6)
    assert texts == generate(testbed, PROMPTS, max_new_tokens=6) * 3
    assert len(server.requests) == len(PROMPTS)


def test_samples_depend_on_seed_and_prompt_and_on_no_other_prompt(server, tmp_path):
    how = {"max_new_tokens": 5, "do_sample": True, "top_p": 0.9}
    first = generate(served(server, tmp_path / "a"), PROMPTS * 8, **how)
    other = generate(served(server, tmp_path / "b", parallel=1), PROMPTS[:1] * 8, **how)
    assert first[:: len(PROMPTS)] == other
    assert len(set(other)) > 2
    assert generate(served(server, tmp_path / "b"), PROMPTS[:1] * 8, seed=1, **how) != other
    assert len(server.requests) == len(first) + 2 * len(other)


def test_every_fault_that_passes_is_survived_and_nothing_is_asked_twice(
    server, testbed, tmp_path, monkeypatch
):
    monkeypatch.setattr("countergen_edit.models.served.TIMEOUT", 5.0)
    faults = [(429, {"Retry-After": "1"}), (500, {}), "cut", "malformed", "odd", "hang"]
    server.faults = list(faults)
    begin = time.monotonic()
    there = continuation_log_probs(served(server, tmp_path, attempts=8), *EVERY)
    assert time.monotonic() - begin >= 1  # as long as the server asks
    np.testing.assert_allclose(there, continuation_log_probs(testbed, *EVERY), atol=1e-5)
    assert len(server.requests) == server.answered + len(faults) == len(there) + len(faults)
    assert (continuation_log_probs(served(server, tmp_path), *EVERY) == there).all()
    assert server.answered == len(there)


@pytest.mark.parametrize("fault", [(400, {}), (500, {}), "cut"])
def test_what_was_answered_before_a_failure_is_kept(server, tmp_path, fault):
    server.faults = [None] * 6 + [fault] * 20
    with pytest.raises(UserError, match="the same command continues"):
        continuation_log_probs(served(server, tmp_path, parallel=3, attempts=2), *EVERY)
    assert server.answered >= 6
    assert len(server.requests) < len(EVERY[0])  # the rest is not sent to a server that fails
    server.faults = []
    assert np.isfinite(continuation_log_probs(served(server, tmp_path), *EVERY)).all()
    assert server.answered == len(EVERY[0])


def test_a_key_comes_from_the_environment_and_is_said_nowhere(testbed, tmp_path, monkeypatch):
    with serving(testbed, key="sk-secret") as server:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(UserError, match=r"answers 401.*key in \$OPENAI_API_KEY"):
            served(server, tmp_path)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
        with pytest.raises(UserError, match=r"no such key: Bearer \*\*\*"):
            served(server, tmp_path)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        lm = served(server, tmp_path)
        continuation_log_probs(lm, PROMPTS, OUTPUTS)
    assert "secret" not in repr(lm) + repr(vars(lm.server))
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"nurse" in kept
    assert b"secret" not in kept


@pytest.mark.parametrize(
    ("url", "settings", "says"),
    [
        ("http://me:sk-1@127.0.0.1/v1", {}, "environment"),
        ("http://127.0.0.1/v1?key=sk-1", {}, "environment"),
        ("127.0.0.1:8000/v1", {}, "is not an address"),
        ("", {"served_name": "the-modl"}, "did you mean 'the-model'"),
        ("", {"log_probs": "ech"}, "did you mean 'echo'"),
        ("", {"parallel": 0}, r"model\.parallel=0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(server, tmp_path, url, settings, says):
    with pytest.raises(UserError, match=says) as error:
        connect(url or server.url, cache=tmp_path, **settings)
    assert "sk-1" not in str(error.value)
    assert "\n" not in str(error.value)


def test_what_a_server_does_not_give_is_refused_in_one_line(server, tmp_path):
    lm = served(server, tmp_path)
    for reach in (
        lambda: lm.bridge.hooks,
        lambda: lm.tokenizer("a"),
        lambda: continuation_log_probs(lm, ["Jane"], [""]),
        lambda: continuation_log_probs(lm, [""], ["Jane"]),
        lambda: continuation_log_probs(served(server, tmp_path, log_probs="none"), ["a"], ["b"]),
        lambda: generate(lm, [""], max_new_tokens=1),
        lambda: generate(lm, ["Jane"], max_new_tokens=1, chat=True),
        lambda: contrastive_generate(lm, ["a"], ["b"], 0.0, max_new_tokens=2),
    ):
        with pytest.raises(UserError):
            reach()
    server.without = ("logprobs",)
    with pytest.raises(UserError, match="without log-probabilities"):
        continuation_log_probs(lm, ["Jane works"], [" now"])
    server.without = ()  # what lacked them was not kept
    assert continuation_log_probs(lm, ["Jane works"], [" as"]).shape == (1,)


def test_tokens_are_placed_in_their_text():
    content = {"tokens": ["<s>", " Jane", " ran", "."], "token_logprobs": [None, -1.0, -2.0, -3.0]}
    assert token_scores({"logprobs": content}, "Jane ran", "m") == [(4, -1.0), (8, -2.0)]
    with pytest.raises(UserError, match="do not make up the text"):
        token_scores({"logprobs": content}, "Jane runs", "m")
