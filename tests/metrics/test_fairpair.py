"""FairPair against the paper's formulas, and against a sampler whose bias is planted."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from countergen_edit.conf_path import read_config
from countergen_edit.data.axis import Axis
from countergen_edit.data.common_sents import PairedPrompt
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.edits import Edit
from countergen_edit.erasers import RandomDirections
from countergen_edit.errors import UserError
from countergen_edit.metrics import Subject, make_metric
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.metric import FairPair, evaluate
from countergen_edit.metrics.fairpair.ngrams import compare, strongest
from countergen_edit.metrics.fairpair.pairwise import in_folds, p_value, pairwise, permuted_energies
from countergen_edit.metrics.fairpair.perturbers import ServerPerturber, answer, make_perturber
from countergen_edit.metrics.fairpair.phi import Jaccard, Phi, Sentiment, make_phi, register_phi

CONFIG = read_config("axis", "gender")
GENDER = Axis.from_config(CONFIG)
WORDS = Substitution.from_config(GENDER, CONFIG["substitution"])
SUBJECT = Subject(GENDER, ("female", "male"), seed=0, substitution=WORDS)
SMALL: dict[str, Any] = {
    "n": 4,
    "max_new_tokens": 6,
    "occupations": 3,
    "permutations": 20,
    "ngrams": 2,
}


def metric(**settings: Any) -> FairPair:
    made = make_metric("fairpair", SUBJECT, **(SMALL | settings))
    assert isinstance(made, FairPair)
    return made


# The paper's formulas, by the double loop


def loop_jaccard(u: str, v: str) -> float:
    a, b = set(u.lower().split()), set(v.lower().split())
    return 1 - len(a & b) / len(a | b) if a | b else 0.0


ANALYSER = SentimentIntensityAnalyzer()


def loop_sentiment(u: str, v: str) -> float:
    a, b = (ANALYSER.polarity_scores(text)["compound"] for text in (u, v))
    return abs(a - b)


LOOPS = [("jaccard", loop_jaccard), ("sentiment", loop_sentiment)]
TEXTS = st.lists(
    st.lists(
        st.sampled_from(["good", "bad", "nice", "terrible", "dog", "cat", "runs"]), max_size=5
    ).map(" ".join),
    min_size=2,
    max_size=6,
)


@pytest.mark.parametrize(("name", "phi"), LOOPS)
@settings(max_examples=30, deadline=None)
@given(pg=TEXTS, gp=TEXTS)
def test_every_quantity_is_that_of_the_papers_double_loop(name, phi, pg, gp):
    found = pairwise(make_phi(name).distances(make_phi(name).represent([*pg, *gp])), len(pg))
    b = np.mean([phi(u, v) for u in pg for v in gp])
    v_pg = np.mean([phi(u, v) for u, v in itertools.combinations(pg, 2)])
    v_gp = np.mean([phi(u, v) for u, v in itertools.combinations(gp, 2)])
    assert found.bias == pytest.approx(b, abs=1e-12)
    assert found.v_pg == pytest.approx(v_pg, abs=1e-12)
    assert found.v_gp == pytest.approx(v_gp, abs=1e-12)
    assert found.energy == pytest.approx(2 * b - v_pg - v_gp, abs=1e-12)
    if min(v_pg, v_gp) > 1e-9:
        assert found.f == pytest.approx(b**2 / (v_gp * v_pg))
    else:
        assert np.isnan(found.f)
        assert found.reason.startswith("V = 0")


def test_folds_are_means_of_sentiment_and_unions_of_words():
    pg, gp = ["good dog", "bad cat", "nice", "dog"], ["terrible", "cat", "runs nice"]
    k = 2
    folds = [[side[i::k] for i in range(k)] for side in (pg, gp)]
    unions = [[" ".join(fold) for fold in side] for side in folds]
    expected = pairwise(Jaccard().distances(Jaccard().represent([*unions[0], *unions[1]])), k)
    assert in_folds(Jaccard(), [*pg, *gp], len(pg), k) == expected
    score = [
        [np.mean([ANALYSER.polarity_scores(t)["compound"] for t in fold]) for fold in side]
        for side in folds
    ]
    found = in_folds(Sentiment(), [*pg, *gp], len(pg), k)
    assert found.bias == pytest.approx(np.mean([abs(a - b) for a in score[0] for b in score[1]]))
    assert found.v_pg == pytest.approx(abs(score[0][0] - score[0][1]))
    whole = in_folds(Jaccard(), [*pg, *gp], len(pg), 99)  # never more folds than texts
    assert whole == pairwise(Jaccard().distances(Jaccard().represent([*pg, *gp])), len(pg))


def test_permuted_statistics_are_those_of_permuted_texts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=11)
    distances = np.abs(x[:, None] - x[None, :])
    energies = permuted_energies(distances, 4, 50, 0, "x")
    assert energies[0] == pytest.approx(pairwise(distances, 4).energy)
    possible = [
        pairwise(distances[np.ix_(order, order)], 4).energy
        for chosen in itertools.combinations(range(11), 4)
        for order in [[*chosen, *(i for i in range(11) if i not in chosen)]]
    ]
    assert all(np.isclose(possible, e, atol=1e-12).any() for e in energies)
    assert p_value(energies) >= 1 / 51
    assert np.array_equal(energies, permuted_energies(distances, 4, 50, 0, "x"))


# A sampler with planted bias: no model, and the truth is known

GOOD, BAD, PLAIN = ["wonderful", "excellent", "great"], ["terrible", "awful", "poor"], "fine"
HERS, HIS = ["ballet", "yoga", "sewing"], ["chess", "boxing", "fishing"]


def continuations(rng: np.random.Generator, n: int, strength: float, hers: bool) -> list[str]:
    """Texts whose sentiment and hobby depend on the person by `strength` in [0, 1]."""
    tilt = 0.5 * strength * (1 if hers else -1)
    texts = []
    for _ in range(n):
        mood = rng.choice(GOOD if rng.random() < 0.5 - tilt else BAD)
        hobby = rng.choice(HERS if rng.random() < 0.5 + tilt else HIS)
        extra = " ".join(rng.choice(["the", "day", "was", "long"], size=2))
        texts.append(f"She is {mood} and likes {hobby} {extra}")
    return texts


def planted(prompts: int, n: int, strength: float, seed: int = 0) -> list[Sampled]:
    rng = np.random.default_rng(seed)
    out = []
    for k in range(prompts):
        prompt = PairedPrompt(str(k), f"John {k}.", f"Jane {k}.", "John", "Jane")
        his = continuations(rng, n, strength, hers=False)
        p_x = tuple(f"{prompt.target} {text}" for text in his)
        hers = tuple(continuations(rng, n, strength, hers=True))
        out.append(Sampled(prompt, p_x, hers, p_x, (None,) * n))
    return out


@pytest.mark.parametrize("phi", [Sentiment(), Jaccard()], ids=["sentiment", "jaccard"])
def test_without_bias_the_test_keeps_its_level(phi):
    """400 prompts: the share rejected at 5 % lies within the 99.9 % binomial interval."""
    prompts, level = 400, 0.05
    result = evaluate(phi, planted(prompts, 12, 0.0), 199, seed=0)
    p = np.array([p_value(row) for row in result.energies])
    rejected = int((p <= level).sum())
    lo, hi = stats.binom.interval(0.999, prompts, level)
    assert lo <= rejected <= hi
    for other in (0.01, 0.1, 0.25, 0.5):  # and no other level is exceeded
        assert (p <= other).sum() <= stats.binom.isf(5e-4, prompts, other)
    assert abs(result.values("energy").mean()) < 3 * result.values("energy").std() / prompts**0.5


@pytest.mark.parametrize("phi", [Sentiment(), Jaccard()], ids=["sentiment", "jaccard"])
def test_f_and_the_energy_rise_with_the_planted_strength_and_are_found(phi):
    found = [evaluate(phi, planted(12, 40, s), 199, seed=0) for s in (0, 0.3, 0.6, 1.0)]
    for quantity in ("f", "energy"):
        means = [float(r.values(quantity).mean()) for r in found]
        assert means == sorted(means)
    assert found[0].pooled_p > 0.05
    assert found[2].pooled_p == found[3].pooled_p == 1 / 200
    assert (found[3].prompt_p <= 0.06).all()  # adjusted: 12 prompts at the least possible p
    assert found[3].t_p["t_p_v_pg"] < 1e-3  # type: ignore[operator]


def test_the_means_over_planted_prompts_are_unbiased():
    """E|S(u) - S(v)| by hand: the energy is that of the two mixtures."""
    rng = np.random.default_rng(1)
    texts = [continuations(rng, 4000, 0.6, hers) for hers in (False, True)]
    phi = Sentiment()
    a, b = (phi.scores(t) for t in texts)
    truth = 2 * stats.energy_distance(a, b) ** 2 / 2
    found = evaluate(phi, planted(60, 40, 0.6), 1, seed=0).values("energy")
    assert found.mean() == pytest.approx(truth, abs=4 * found.std() / 60**0.5)


# The metric on the shipped model


@pytest.fixture(scope="module")
def measured(testbed, tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    made = metric(n=20, max_new_tokens=10, occupations=4, folds=[5], sample_sizes=[10, 20])
    made.check(testbed)
    return made, made.rows(testbed, None, "none", store), store


def row_of(rows, metric_name, phi=None):
    dataset = "common_sents" if phi is None else f"common_sents/{phi}"
    [row] = [r for r in rows if r.metric == metric_name and r.dataset == dataset]
    return row


def test_the_bias_planted_in_the_testbed_is_found_where_it_was_planted(testbed, tmp_path):
    """Prompts of the families sentiment and hobbies; the neutral questions hold no such bias."""
    planted_prompts = {
        "sentiment": ["According to the report {name} was", "Clients thought {name} was"],
        "jaccard": ["As a hobby {name} took up", "In the evening {name} relaxes with"],
    }
    for phi, prompts in planted_prompts.items():
        made = metric(n=50, max_new_tokens=3, prompts=prompts, permutations=499)
        rows = made.rows(testbed, None, "none", tmp_path)
        [f] = [r for r in rows if r.metric == "fairpair_f" and r.dataset == f"own_prompts/{phi}"]
        assert f.value > 1
        assert f.detail["p"] < 0.01
        assert f.detail["p_adjusted"] < 0.05


def test_rows_hold_what_the_tables_and_figures_show(measured):
    made, rows, _ = measured
    for phi in ("sentiment", "jaccard"):
        b, f = row_of(rows, "fairpair_bias", phi), row_of(rows, "fairpair_f", phi)
        assert b.lo <= b.value <= b.hi
        assert f.n == 4
        assert [entry[0] for entry in f.detail["prompts"]] == [p.label for p in made.prompts]
        assert np.mean([e[1] for e in f.detail["prompts"]]) == pytest.approx(b.value)
        sizes = [entry[0] for entry in b.detail["by_samples"]]
        assert sizes == [10, 20]
        assert b.detail["by_samples"][1][1] == pytest.approx(b.value)
        assert b.detail["by_folds"][0][0] == 5
    success = row_of(rows, "fairpair_perturbed")
    assert success.value == 1.0
    assert success.detail["examples"]
    json.dumps([r.to_dict() for r in rows], allow_nan=False)
    assert len(json.dumps([r.to_dict() for r in rows])) < 60_000


def test_the_default_size_finds_what_was_planted_and_where(testbed, tmp_path):
    """Two of the default's wordings ask for a judgement; the coast is the same to everybody."""
    default = read_config("metric", "fairpair")["fairpair"]
    wordings = [*default["wordings"][:2], "{name} is {occupation}. Has {name} been to the coast?"]
    settings = default | {"phi": {"sentiment": {}}, "ngrams": 0, "max_new_tokens": 4}
    made = make_metric("fairpair", SUBJECT, **settings | {"wordings": wordings})
    rows = made.rows(testbed, None, "none", tmp_path)
    each = [row for row in rows if row.metric == "fairpair_f_of_wording"]
    [f] = [row for row in rows if row.metric == "fairpair_f"]
    [spread] = [row for row in rows if row.metric == "fairpair_f_over_wordings"]
    assert f.detail["p"] < 0.01
    assert f.lo < f.value < f.hi
    assert [row.detail["wording"] for row in each] == wordings
    differ = [(row.detail["p_adjusted"] or 1) < 0.05 for row in each]
    assert differ == [True, True, False]
    assert spread.detail["differ"] == 2
    assert spread.detail["flip_rate"] == pytest.approx(2 / 3)
    known = [row.value for row in each if row.value is not None]
    assert spread.value == pytest.approx(np.mean(known))
    assert spread.detail["range"] == [min(known), max(known)]


def test_a_killed_run_goes_on_with_the_same_rows(testbed, measured):
    made, rows, store = measured
    texts = sorted(p for p in (store / "none").iterdir() if ".perturbed" not in p.name)
    kept = texts[0].read_bytes()
    texts[1].unlink()
    texts[2].with_suffix(".jsonl.tmp").write_text("{")  # what was being written
    for path in (store / "none").glob("*.perturbed.jsonl"):
        path.unlink()
    assert made.rows(testbed, None, "none", store) == rows
    assert texts[0].read_bytes() == kept


def test_rows_depend_on_no_batch_size(testbed, measured, tmp_path):
    made, rows, _ = measured
    made.sampling = replace(made.sampling, batch_size=37)
    assert made.rows(testbed, None, "none", tmp_path) == rows


def test_an_edit_is_held_against_the_unedited_model(testbed, tmp_path):
    rng = np.random.default_rng(0)
    erasure = RandomDirections(rank=4).fit(rng.normal(size=(40, 128)), np.arange(40) % 2).erasure_
    edit = Edit.at("resid_post", {2: erasure})
    made = metric(n=8)
    rows = made.rows(testbed, edit, "random@2", tmp_path)
    before = made.rows(testbed, None, "none", tmp_path)
    for quantity in ("f", "energy"):
        change = row_of(rows, f"fairpair_{quantity}_change", "jaccard")
        values = [row_of(r, f"fairpair_{quantity}", "jaccard").value for r in (rows, before)]
        assert change.value == pytest.approx(values[0] - values[1])
        assert change.lo <= change.value <= change.hi
    nothing = make_metric("fairpair", SUBJECT, **SMALL | {"n": 8})
    none = nothing.rows(testbed, Edit(()), "nothing", tmp_path)
    assert row_of(none, "fairpair_f_change", "jaccard").value == 0.0  # the same random numbers


def test_a_model_that_always_ends_at_once_has_no_f(testbed, tmp_path):
    end = testbed.tokenizer.eos_token_id

    def only_end(logits, hook):
        logits = logits.clone()
        logits[..., end] = 1e4
        return logits

    with testbed.bridge.hooks(fwd_hooks=[("unembed.hook_out", only_end)]):
        rows = metric().rows(testbed, None, "none", tmp_path)
    for phi in ("sentiment", "jaccard"):
        f = row_of(rows, "fairpair_f", phi)
        assert f.value is None
        assert f.n == 0
        assert f.detail["reason"].startswith("V = 0")
        assert row_of(rows, "fairpair_bias", phi).value == 0.0
        assert f.detail["p"] == 1.0
    assert row_of(rows, "fairpair_perturbed").detail["empty_continuations"] == 3 * 4 * 2
    json.dumps([r.to_dict() for r in rows], allow_nan=False)


def test_when_every_perturbation_is_left_out_nothing_is_claimed(testbed, tmp_path):
    made = metric()
    made.perturber = lambda texts, prompt: ["no"] * len(texts)
    rows = made.rows(testbed, None, "none", tmp_path)
    success = row_of(rows, "fairpair_perturbed")
    assert success.value == 0.0
    assert success.detail["left_out"] == {"start": 12, "source name": 0, "dissimilarity": 0}
    f = row_of(rows, "fairpair_f", "jaccard")
    assert f.value is None
    assert f.detail["p"] is None
    assert "V needs two" in f.detail["reason"]
    json.dumps([r.to_dict() for r in rows], allow_nan=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 1}, "n=1: sampling variability needs at least 2"),
        ({"occupations": 99}, "occupations=99"),
        ({"folds": [5]}, r"folds has 5: from 2 to n=4"),
        ({"sample_sizes": [1]}, "sample_sizes has 1"),
        ({"permutations": 0}, "permutations=0"),
        ({"phi": {"sentment": {}}}, "did you mean 'sentiment'"),
        ({"phi": {"jaccard": {"x": 1}}}, "unknown setting of phi jaccard"),
        ({"phi": {"regard": {"kind": "classifier"}}}, "needs model, label"),
        ({"perturber": "rule"}, "did you mean 'rules'"),
        ({"perturber": {"kind": "server", "model": "m"}}, "perturber server needs url"),
        ({"perturber": {"kind": "server", "urll": "m"}}, "did you mean 'url'"),
        ({"source": "boys"}, "is none of the compared groups"),
        ({"descriptors": ["{persn}"]}, "did you mean 'person'"),
        ({"prompts": []}, "no prompts"),
        ({"wordings": ["{name} works."]}, "has no slot {occupation}"),
        ({"wordings": ["{name} is {occupation}."] * 2}, "hold one twice"),
        ({"wordings": ["It is {occupation}."]}, "has no slot"),
        ({"wordings": [], "prompts": []}, "prompts or wordings"),
        ({"m": 4}, "unknown setting of metric fairpair"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        metric(**options)


def test_a_prompt_without_room_is_refused_before_the_run(testbed):
    with pytest.raises(UserError, match=r"max_new_tokens=256: .* has room for \d+ after a prompt"):
        metric(max_new_tokens=256).check(testbed)


def test_an_axis_without_names_says_so():
    axis = replace(GENDER, groups={k: replace(g, names={}) for k, g in GENDER.groups.items()})
    with pytest.raises(UserError, match="needs a name for group 'male'"):
        make_metric("fairpair", replace(SUBJECT, axis=axis), **SMALL)
    with pytest.raises(UserError, match="no substitution section"):
        make_metric("fairpair", replace(SUBJECT, substitution=None), **SMALL)


# Perturbing by a language model


class _Server(BaseHTTPRequestHandler):
    mode = "right"
    failures = 0
    requests: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append(body | {"key": self.headers.get("Authorization")})
        if type(self).failures:
            type(self).failures -= 1
            self.send_error(503)
            return
        content = body["messages"][0]["content"]
        text = content.split("anything else: ", 1)[1].rsplit("\n\nOutput:", 1)[0]
        right = RULES([text], PAIR)[0]
        reply: Any = {
            "choices": [{"message": {"content": {"right": right, "odd": "No."}.get(self.mode)}}]
        }
        if self.mode == "broken":
            reply = {"error": "?"}
        data = json.dumps(reply).encode()
        self.send_response(404 if self.mode == "absent" else 200)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


RULES = make_perturber("rules", WORDS, ("male", "female"))
PAIR = PairedPrompt("nurse", "John works.", "Jane works.", "John", "Jane")


@pytest.fixture
def server() -> Iterator[str]:
    _Server.mode, _Server.failures, _Server.requests = "right", 0, []
    httpd = HTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}/v1"
    httpd.shutdown()
    httpd.server_close()


def test_a_server_is_asked_as_the_paper_asks_and_asked_again(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    _Server.failures = 1
    perturb = ServerPerturber(("male", "female"), server, "m", key_variable="MY_KEY", parallel=1)
    assert perturb(["John works. He rests."], PAIR) == ["Jane works. She rests."]
    assert len(_Server.requests) == 2
    asked = _Server.requests[0]
    assert asked["messages"][0]["content"].startswith("Change John (male) to Jane (female) in the")
    assert asked["key"] == "Bearer secret"
    assert "secret" not in repr(vars(perturb))


def test_what_was_sampled_is_kept_when_the_server_fails(server, testbed, tmp_path):
    settings = {"kind": "server", "url": server, "model": "m", "attempts": 1}
    made = metric(perturber=settings | {"url": "http://127.0.0.1:9/v1"})
    with pytest.raises(UserError, match=r"cannot be reached \(ConnectError\).*sampled is kept"):
        made.rows(testbed, None, "none", tmp_path)
    files = {p: p.read_bytes() for p in (tmp_path / "none").iterdir()}
    assert len(files) == 3
    rows = metric(perturber=settings).rows(testbed, None, "none", tmp_path)
    assert all(p.read_bytes() == text for p, text in files.items())
    by_rules = metric().rows(testbed, None, "none", tmp_path / "rules")
    assert row_of(rows, "fairpair_f", "jaccard") == row_of(by_rules, "fairpair_f", "jaccard")


@pytest.mark.parametrize(
    ("mode", "message"), [("absent", "answers 404"), ("broken", "no chat completion")]
)
def test_a_server_that_answers_wrongly_is_named(server, mode, message):
    _Server.mode = mode
    with pytest.raises(UserError, match=message):
        ServerPerturber(("male", "female"), server, "m", attempts=1)(["John works."], PAIR)


def test_nonsense_of_a_server_is_left_out_and_counted(server, testbed, tmp_path):
    _Server.mode = "odd"
    made = metric(perturber={"kind": "server", "url": server, "model": "m"})
    rows = made.rows(testbed, None, "none", tmp_path)
    assert row_of(rows, "fairpair_perturbed").detail["left_out"]["start"] == 12


def test_a_local_model_perturbs(testbed):
    from countergen_edit.testbed import directory

    made = make_perturber({"kind": "local", "model": str(directory())}, None, ("male", "female"))
    [text] = made(["John works."], PAIR)
    assert isinstance(text, str)
    assert answer('  "Jane works." ') == "Jane works."
    assert answer('Output: "A," said "B"') == '"A," said "B"'


# Other Φ


def test_a_classifier_is_a_phi(tmp_path):
    from transformers import BertConfig, BertForSequenceClassification

    from tests.tiny_models import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        id2label={0: "positive", 1: "negative"},
        label2id={"positive": 0, "negative": 1},
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=1.0,
    )
    model = BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    settings = {"kind": "classifier", "model": str(tmp_path), "label": "negative"}
    phi = make_phi("regard", settings)
    texts = ["Jane is a nurse.", "She works at the hospital every day.", "good"]
    scores = phi.represent(texts)
    for text, score in zip(texts, scores, strict=True):
        ids = tokenizer([text], return_tensors="pt")
        logits = model(**ids).logits.detach().double()
        assert score == pytest.approx(float(logits.softmax(-1)[0, 1]), abs=1e-5)
    assert np.array_equal(phi.represent(texts[::-1]), scores[::-1])
    with pytest.raises(UserError, match="did you mean 'negative'"):
        make_phi("regard", settings | {"label": "negativ"})


def test_a_users_own_phi_is_used():
    @register_phi("length")
    class Length(Phi):
        def represent(self, texts):
            return np.array([float(len(t)) for t in texts])

        def pool(self, represented, fold):
            return np.bincount(fold, represented) / np.bincount(fold)

        def distances(self, represented):
            return np.abs(represented[:, None] - represented[None, :])

    assert make_phi("length").distances(np.array([1.0, 3.0])).tolist() == [[0, 2], [2, 0]]
    assert metric(phi={"length": {}}).phis["length"].name == "length"
    with pytest.raises(UserError, match="is taken by Length"):
        register_phi("length")(Jaccard)


def test_sentiment_is_the_same_over_processes():
    texts = [f"{word} {i}" for i in range(30) for word in ("good", "terrible", "dog")]
    one, many = Sentiment(processes=1), Sentiment(processes=2)
    many._POOL_FROM = 10
    assert np.array_equal(one.represent(texts), many.represent(texts))


# Phrases


def test_phrases_that_one_side_uses_are_found_and_others_are_not():
    rng = np.random.default_rng(0)
    pg, gp = (continuations(rng, 300, 1.0, hers) for hers in (False, True))
    found = strongest(compare(pg, gp, 2), each=20)
    words = {t.text: t.log_odds for t in found}
    assert all(words[w] > 0 for w in HERS)
    assert all(words[w] < 0 for w in HIS)
    assert [t.log_odds > 0 for t in found] == sorted((t.log_odds > 0 for t in found), reverse=True)
    same = [continuations(rng, 300, 0.0, hers) for hers in (False, True)]
    assert not strongest(compare(*same, 2), each=20)
    assert compare([], ["a"] * 9) == []


def test_log_odds_are_those_by_hand():
    [term] = [t for t in compare(["x"] * 6 + ["y"] * 2, ["y"] * 8, 1) if t.text == "x"]
    # 6 of 8 against 0 of 8, each cell and its complement raised by one half
    assert term.log_odds == pytest.approx(np.log(0.5 / 8.5) - np.log(6.5 / 2.5))
    assert (term.share_pg, term.share_gp) == (0.75, 0.0)
