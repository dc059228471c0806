"""A model on a server scores and writes as the same model here, and is never asked twice."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.models import (
    LanguageModel,
    Workload,
    connect,
    continuation_log_probs,
    contrastive_generate,
    generate,
)
from countergen_edit.models.served import tokens_of
from tests.models.completions_server import Completions, serving

PROMPTS = ["Jane works as", "John works as", "The boss says that Mary is", "The boss says that Tom"]
OUTPUTS = [" a nurse", " an engineer", " gentle", " is tough"]


@pytest.fixture
def server(testbed: LanguageModel) -> Iterator[Completions]:
    with serving(testbed) as running:
        yield running


def served(server: Completions, folder: Path, **settings: Any) -> Any:
    return connect(server.url, **{"cache": folder, "attempts": 4, **settings})


@pytest.mark.parametrize("bos", [False, True])
def test_likelihoods_are_those_of_the_model_here(server, testbed, tmp_path, bos):
    server.bos = bos
    prompts, outputs = [p for p in PROMPTS for _ in OUTPUTS], OUTPUTS * len(PROMPTS)
    here = continuation_log_probs(testbed, prompts, outputs)
    there = continuation_log_probs(served(server, tmp_path, parallel=3), prompts, outputs)
    assert server.most_at_once <= 3
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert len(server.requests) == len(prompts)


def test_a_token_that_straddles_the_boundary_belongs_to_the_continuation(server, testbed, tmp_path):
    pairs = [("Jane wor", "ks as a nurse"), ("Jane works as a nur", "se"), ("Jane", " works as")]
    prompts, outputs = map(list, zip(*pairs, strict=True))
    here = continuation_log_probs(testbed, prompts, outputs)
    there = continuation_log_probs(served(server, tmp_path), prompts, outputs)
    np.testing.assert_allclose(there, here, atol=1e-5)


def test_greedy_text_is_that_of_the_model_here_and_is_asked_once(server, testbed, tmp_path):
    lm = served(server, tmp_path)
    assert generate(lm, PROMPTS * 3, max_new_tokens=6) == generate(
        testbed, PROMPTS * 3, max_new_tokens=6
    )
    assert len(server.requests) == len(PROMPTS)


def test_samples_depend_on_seed_and_prompt_and_on_no_other_prompt(server, tmp_path):
    how: dict[str, Any] = {"max_new_tokens": 5, "do_sample": True, "top_p": 0.9}
    first = generate(served(server, tmp_path / "a", n=4), PROMPTS * 8, **how)
    other = generate(served(server, tmp_path / "b", n=4, parallel=1), PROMPTS[:1] * 8, **how)
    assert first[:: len(PROMPTS)] == other
    assert len(set(other)) > 2
    again = generate(served(server, tmp_path / "b", n=4), PROMPTS[:1] * 8, seed=1, **how)
    assert again != other
    assert [r["n"] for r in server.requests] == [4] * 12


@pytest.mark.slow
def test_samples_have_the_frequencies_of_the_model(server, testbed, tmp_path):
    prompt, n = PROMPTS[0], 400
    lm = served(server, tmp_path, n=50)
    texts = generate(lm, [prompt] * n, max_new_tokens=1, do_sample=True)
    for text in sorted(set(texts), key=texts.count)[-3:]:
        p = math.exp(continuation_log_probs(testbed, [prompt], [text])[0])
        assert abs(texts.count(text) / n - p) < 4 * math.sqrt(p * (1 - p) / n)


def test_a_server_that_knows_no_n_is_asked_for_one_at_a_time(server, tmp_path):
    server.without = ("n",)
    how: dict[str, Any] = {"max_new_tokens": 3, "do_sample": True}
    with pytest.raises(UserError, match=r"1 of 4 continuations.*model\.n=1"):
        generate(served(server, tmp_path), PROMPTS[:1] * 4, **how)
    assert len(generate(served(server, tmp_path, n=1), PROMPTS[:1] * 4, **how)) == 4


def test_every_fault_that_passes_is_survived_and_nothing_is_asked_twice(
    server, testbed, tmp_path, monkeypatch
):
    faults = [
        (429, {"Retry-After": "0.2"}),
        (500, {}),
        "cut",
        "malformed",
        "odd",
        (503, {"Retry-After": "0"}),
    ]
    server.faults = list(faults)
    outputs = OUTPUTS * len(PROMPTS)
    prompts = [p for p in PROMPTS for _ in OUTPUTS]
    lm = served(server, tmp_path, attempts=8)
    there = continuation_log_probs(lm, prompts, outputs)
    np.testing.assert_allclose(there, continuation_log_probs(testbed, prompts, outputs), atol=1e-5)
    assert len(server.requests) == len(prompts) + len(faults)
    assert server.answered == len(prompts)
    again = continuation_log_probs(served(server, tmp_path), prompts, outputs)
    assert (again == there).all()
    assert server.answered == len(prompts)


@pytest.mark.slow
def test_a_request_that_takes_too_long_is_sent_again(server, testbed, tmp_path):
    server.faults = ["hang"]
    lm = served(server, tmp_path, timeout=5.0)
    there = continuation_log_probs(lm, PROMPTS[:1], OUTPUTS[:1])
    np.testing.assert_allclose(
        there, continuation_log_probs(testbed, PROMPTS[:1], OUTPUTS[:1]), atol=1e-5
    )
    assert (len(server.requests), server.answered) == (2, 1)


@pytest.mark.parametrize("fault", [(400, {}), (500, {}), "cut", "malformed"])
def test_what_was_answered_before_a_failure_is_kept(server, tmp_path, fault):
    prompts = [f"{p}{o}" for p in PROMPTS for o in OUTPUTS]
    outputs = [" and"] * len(prompts)
    server.faults = [None] * 6 + [fault] * 20  # type: ignore[list-item]
    lm = served(server, tmp_path, parallel=3, attempts=2)
    with pytest.raises(UserError, match="the same command continues"):
        continuation_log_probs(lm, prompts, outputs)
    assert server.answered >= 6
    assert len(server.requests) < len(prompts)  # the rest is not sent to a server that fails
    server.faults = []
    assert np.isfinite(continuation_log_probs(served(server, tmp_path), prompts, outputs)).all()
    assert server.answered == len(prompts)


def test_a_pause_is_as_long_as_the_server_asks(server, tmp_path):
    server.faults = [(429, {"Retry-After": "1"})]
    begin = time.monotonic()
    continuation_log_probs(served(server, tmp_path, parallel=1), PROMPTS[:2], OUTPUTS[:2])
    assert 1 <= time.monotonic() - begin < 10


def test_the_estimate_is_the_number_of_requests_then_sent(server, tmp_path):
    lm = served(server, tmp_path, n=3)
    scored = Workload(scored=tuple(zip(PROMPTS, OUTPUTS, strict=True)))
    sampled = Workload((), tuple(PROMPTS[:1] * 7), max_new_tokens=2, do_sample=True, top_p=0.9)
    loads = [scored, scored, sampled]
    tokens = sum(math.ceil(len(p + o) / 4) for p, o in zip(PROMPTS, OUTPUTS, strict=True))
    tokens += 3 * math.ceil(len(PROMPTS[0]) / 4)
    expected = f"7 requests, about {tokens} tokens to read, at most 18 to write"
    assert expected in lm.estimate(loads, 0)
    continuation_log_probs(lm, PROMPTS, OUTPUTS)
    generate(lm, PROMPTS[:1] * 7, max_new_tokens=2, do_sample=True, top_p=0.9)
    assert len(server.requests) == 7
    assert "0 requests, 7 more are answered already" in lm.estimate(loads, 0)
    limited = served(server, tmp_path / "new", n=3, most_requests=6)
    with pytest.raises(UserError, match=r"7 requests.* more than model\.most_requests=6"):
        limited.estimate(loads, 0)


def test_a_key_comes_from_the_environment_and_is_said_nowhere(testbed, tmp_path, monkeypatch):
    with serving(testbed, key="sk-secret") as server:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(UserError, match=r"answers 401.*key in \$OPENAI_API_KEY"):
            served(server, tmp_path)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
        with pytest.raises(UserError, match=r"no such key: Bearer \*\*\*"):
            served(server, tmp_path)
        monkeypatch.setenv("MINE", "sk-secret")
        lm = served(server, tmp_path, key_variable="MINE")
        continuation_log_probs(lm, PROMPTS, OUTPUTS)
    assert "secret" not in repr(lm) + repr(vars(lm.server))
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"nurse" in kept
    assert b"secret" not in kept


@pytest.mark.parametrize(
    ("url", "settings", "said"),
    [
        ("http://me:sk-1@127.0.0.1/v1", {}, "environment"),
        ("http://127.0.0.1/v1?key=sk-1", {}, "environment"),
        ("127.0.0.1:8000/v1", {}, "no address"),
        ("http://127.0.0.1:9/v1", {}, r"cannot be reached \(ConnectError\)"),
        ("", {"served_name": "the-modl"}, "did you mean 'the-model'"),
        ("", {"log_probs": "ech"}, "did you mean 'echo'"),
        ("", {"n": 0}, r"model\.n=0: at least 1"),
        ("", {"parallel": 0}, r"model\.parallel=0"),
        ("", {"timeout": -1}, r"model\.timeout=-1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(server, tmp_path, url, settings, said):
    with pytest.raises(UserError, match=said) as error:
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
        lambda: contrastive_generate(lm, ["a"], ["b"], 0.0, max_new_tokens=2),
    ):
        with pytest.raises(UserError):
            reach()
    server.without = ("logprobs",)
    with pytest.raises(UserError, match="without log-probabilities"):
        continuation_log_probs(lm, ["Jane works"], [" now"])
    with pytest.raises(UserError, match="without log-probabilities"):
        tokens_of({"logprobs": {"content": [{"token": " now"}]}}, "Jane works now", "m")
    server.without = ()  # what lacked them was not kept
    assert continuation_log_probs(lm, ["Jane works"], [" as"]).shape == (1,)


def test_tokens_that_are_parts_of_a_character_are_placed_by_their_offsets():
    text = "José ran"
    choice = {
        "logprobs": {
            "tokens": ["Jos", "bytes:\\xc3", "bytes:\\xa9", " ran", " far"],
            "token_logprobs": [None, -1.0, -2.0, -3.0, -9.0],
            "text_offset": [0, 3, 3, 4, 8],
        }
    }
    tokens = tokens_of(choice, text, "m")
    assert [(t.start, t.end, t.log_p) for t in tokens] == [
        (0, 3, None),
        (3, 3, -1.0),
        (3, 4, -2.0),
        (4, 8, -3.0),
    ]
    choice["logprobs"]["text_offset"] = []
    with pytest.raises(UserError, match="do not make up the text"):
        tokens_of(choice, text, "m")


def test_a_space_that_a_tokenizer_shows_before_the_first_word_is_not_of_the_text():
    content = {"tokens": ["<s>", " Jane", " ran", "."], "token_logprobs": [None, -1.0, -2.0, -3.0]}
    tokens = tokens_of({"logprobs": content}, "Jane ran", "m")
    assert [(t.start, t.end, t.log_p) for t in tokens] == [(0, 4, -1.0), (4, 8, -2.0)]
