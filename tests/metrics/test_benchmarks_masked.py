"""Benchmarks of masked models are scored as their authors score them, before and after an edit."""

from __future__ import annotations

import difflib
import string
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import TemplateBank, bank_from_config
from countergen_edit.erasers import make_eraser
from countergen_edit.metrics.classifier_tasks import TASKS
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models.masked import MaskedModel, MaskedToken, masked_from_objects
from countergen_edit.runs.classifiers import Where, classifier_audit
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.run import open_run
from tests.made_benchmarks import crows_pairs, settings, stereoset
from tests.metrics.test_benchmarks import ByFacets, by_facets, evaluation

IDENTITY = {"fingerprint": "test", "schema": SCHEMA}
TEXTS = [
    *(row[side] for row in crows_pairs() for side in ("sent_more", "sent_less")),
    "The schoolboy and his grandfather were calm; she was a nurse, he works as a manager.",
]


def tokenizer_of(kind: str) -> Any:
    """Pieces of words as BERT has them, or as RoBERTa, where they hold the space before."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    of: Any
    trainer: Any
    if kind == "bert":
        special = pad, unk, first, last, mask = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
        of = Tokenizer(models.WordPiece(unk_token=unk))
        of.normalizer = normalizers.Lowercase()
        of.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=[*special])
    else:
        special = first, pad, last, unk, mask = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
        of = Tokenizer(models.BPE(unk_token=unk))
        of.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        letters = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
        trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=[*special], **letters)
    of.train_from_iterator(TEXTS, trainer)
    ends = [(word, of.token_to_id(word)) for word in (first, last)]
    of.post_processor = processors.TemplateProcessing(f"{first} $A {last}", None, ends)
    if kind == "roberta":
        of.post_processor = processors.RobertaProcessing(*ends[::-1], add_prefix_space=False)
    names = {"pad_token": pad, "unk_token": unk, "mask_token": mask, "model_max_length": 64}
    return PreTrainedTokenizerFast(tokenizer_object=of, cls_token=first, sep_token=last, **names)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request: pytest.FixtureRequest) -> MaskedModel:
    """Random weights, large enough that words matter."""
    import transformers

    tokenizer = tokenizer_of(request.param)
    kind = {"bert": "Bert", "roberta": "Roberta"}[request.param]
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape |= {"intermediate_size": 64, "max_position_embeddings": 66}
    shape |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    config = getattr(transformers, f"{kind}Config")(**shape)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        own = getattr(transformers, f"{kind}ForMaskedLM")(config)
        for parameter in own.parameters():
            if parameter.ndim == 2:
                torch.nn.init.normal_(parameter, std=0.3)
    return masked_from_objects(f"tiny-{request.param}", own.eval(), tokenizer)


@pytest.fixture(scope="module")
def bank() -> TemplateBank:
    """One template of `masked`, of few traits."""
    config = read_config("template", "masked")
    one = bank_from_config(config | {"families": config["families"][:1]})
    return one.thinned({"attribute": 2})


def task(made: Path, **more: Any) -> Any:
    return TASKS.make("benchmarks", settings(made) | more)


def figures(rows: list[Row], metric: str = "benchmark") -> ByFacets:
    by_edit = {row.edit: by_facets([r for r in rows if r.edit == row.edit], metric) for row in rows}
    return {(*about, edit): row for edit, own in by_edit.items() for about, row in own.items()}


def log_p_at(model: MaskedModel, ids: list[int], place: int) -> Callable[[int], float]:
    with torch.no_grad():
        logits = model.hf_model(torch.tensor([ids])).logits[0, place].double()
    return lambda token: float(logits.log_softmax(-1)[token])


def test_crows_pairs_is_the_authors_pseudo_log_likelihood(
    made: Path, model: MaskedModel, bank: TemplateBank
) -> None:
    """Their `get_span` and `mask_unigram`: opcodes over tokens as texts, ends never masked."""
    rows = figures(task(made, of="crows_pairs").rows(bank, model, 0))
    tokenizer = model.tokenizer
    preferred = defaultdict(list)
    for pair in crows_pairs():
        ids = [tokenizer.encode(pair[side]) for side in ("sent_more", "sent_less")]
        spans: list[list[int]] = [[], []]
        matcher = difflib.SequenceMatcher(None, *([str(i) for i in own] for own in ids))
        for op in matcher.get_opcodes():
            if op[0] == "equal":
                spans[0] += range(op[1], op[2])
                spans[1] += range(op[3], op[4])
        scores = []
        for own, span in zip(ids, spans, strict=True):
            total = 0.0
            for i in range(1, len(span) - 1):
                masked = [*own]
                masked[span[i]] = tokenizer.mask_token_id
                total += log_p_at(model, masked, span[i])(own[span[i]])
            scores.append(round(total, 3))
        preferred[pair["bias_type"]].append(scores[0] > scores[1])
    for bias_type, own in preferred.items():
        assert rows["crows_pairs", "score", None, bias_type, "none"].value == np.mean(own)
    assert 0 < np.mean([*preferred["gender"], *preferred["age"]]) < 1


def test_stereoset_is_the_mean_probability_of_the_tokens_that_fill_the_blank(
    made: Path, model: MaskedModel, bank: TemplateBank
) -> None:
    """Their loader puts a mask after the tokens before it, what follows the blank behind."""
    rows = figures(task(made, of="stereoset", bias_types="gender").rows(bank, model, 0))
    tokenizer = model.tokenizer
    spaced = " " if model.name == "tiny-roberta" else ""  # its tokens hold the space before
    scored = []
    for item in stereoset()["data"]["intrasentence"]:
        if item["bias_type"] != "gender":
            continue
        score = {}
        before, after = item["context"].split(f"{spaced}BLANK")
        place = next(i for i, w in enumerate(item["context"].split(" ")) if "BLANK" in w)
        for sentence in item["sentences"]:
            word = sentence["sentence"].split(" ")[place]
            word = word.translate(str.maketrans("", "", string.punctuation))
            plain = {"add_special_tokens": False}
            head = tokenizer.encode(before, **plain)
            tail = tokenizer.encode(after, **plain)
            own = tokenizer.encode(f"{spaced}{word}", **plain)
            p = []
            for k, token in enumerate(own):
                ids = [*head, *own[:k], tokenizer.mask_token_id, *tail]
                ids = [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
                p.append(np.exp(log_p_at(model, ids, 1 + len(head) + k)(token)))
            score[sentence["gold_label"]] = np.mean(p)
        scored.append((item["target"], score))
    about = ("intrasentence", "gender", "none")
    ss, lms = evaluation(scored)
    assert rows["stereoset", "ss", *about].value == pytest.approx(ss)
    assert rows["stereoset", "lms", *about].value == pytest.approx(lms)
    assert 0 < ss < 1
    assert {part for _, _, part, _, _ in rows} == {"intrasentence"}


def test_an_edit_s_changes_are_after_less_before_and_the_report_shows_them(
    made: Path, model: MaskedModel, bank: TemplateBank, tmp_path: Path
) -> None:
    where = Where("embed", None, "all")
    own = task(made, bias_types="all", limit=6)
    folder = RunFolder(tmp_path / "run", {}, IDENTITY)
    rows = classifier_audit(own, bank, model, folder, 0, {"leace": make_eraser("leace")}, where)
    values, changes = figures(rows), figures(rows, "benchmark_change")
    assert changes
    for (*about, edit), row in changes.items():
        after, before = values[*about, edit], values[*about, "none"]
        assert row.value == pytest.approx(after.value - before.value)
    tested = [row.detail for row in changes.values() if "p" in row.detail]
    expected = adjusted([detail["p"] for detail in tested])
    assert [detail["p_adjusted"] for detail in tested] == pytest.approx(expected.tolist())
    assert any(row.value for row in changes.values())
    run = open_run(tmp_path / "run")
    assert "Made crows_pairs" in run.report().read_text("utf-8")
    sources = [row.detail for row in run.results.of("benchmark_source")]
    assert all("mask" in detail["scoring"] for detail in sources)


def test_a_text_longer_than_the_context_is_refused(made: Path, model: MaskedModel) -> None:
    long = model.tokenizer.encode("word " * 80)
    with pytest.raises(UserError, match=r"a text of \d+ tokens exceeds the context of tiny-"):
        model.log_probs([MaskedToken.at(model, long, 3)])
