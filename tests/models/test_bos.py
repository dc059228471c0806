"""Whether texts begin with BOS is decided once, and everything follows, checkpoints too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import AutoTokenizer, GemmaTokenizer, GPT2TokenizerFast, PreTrainedTokenizerFast

from countergen_edit.checkpoints import load_checkpoint, save_checkpoint
from countergen_edit.edits import Edit
from countergen_edit.errors import UserError
from countergen_edit.models import capture, continuation_log_probs, encode, generate, load
from countergen_edit.models.bos import adds_bos, set_bos
from tests.checkpoints.conftest import oblique_erasure
from tests.tiny_models import BOS, END, tiny_hf_model, tiny_tokenizer

TEXT = "Jane is a naïve café owner."


def tokenizer(*steps: Any, bos: str | None = BOS) -> Any:
    """A tokenizer of bytes, with the post-processing steps given."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {token: i for i, token in enumerate([END, BOS, *letters])}
    backend = Tokenizer(BPE(words, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if steps:
        backend.post_processor = steps[0] if len(steps) == 1 else processors.Sequence([*steps])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, bos_token=bos)


def template(single: str, pair: str) -> Any:
    return processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(BOS, 1), (END, 0)]
    )


PLAIN = {
    "nothing": (),
    "bytes": (processors.ByteLevel(trim_offsets=True),),
    "end": (template(f"$A {END}", f"$A {END} $B {END}"),),
}
BEGUN = {
    "begin": (template(f"{BOS} $A", f"{BOS} $A {BOS} $B"),),
    "both": (template(f"{BOS} $A {END}", f"{BOS} $A {END} {BOS} $B {END}"),),
    "bytes, begin": (
        processors.ByteLevel(trim_offsets=True),
        template(f"{BOS} $A", f"{BOS} $A $B"),
    ),
}


@pytest.mark.parametrize("steps", [*PLAIN.values(), *BEGUN.values()], ids=[*PLAIN, *BEGUN])
def test_a_decision_changes_the_first_token_and_nothing_else(
    steps: tuple[Any, ...], tmp_path: Path
) -> None:
    own = tokenizer(*steps)
    before = own(TEXT, return_offsets_mapping=True)
    began = adds_bos(own)
    set_bos(own, "auto", "tiny")
    assert own(TEXT).input_ids == before.input_ids
    set_bos(own, not began, "tiny")
    assert adds_bos(own) is not began
    own.save_pretrained(tmp_path)
    for other in (own, AutoTokenizer.from_pretrained(tmp_path)):
        after = other(TEXT, return_offsets_mapping=True)
        longer, shorter = (before, after) if began else (after, before)
        assert longer.input_ids == [1, *shorter.input_ids]
        assert longer["offset_mapping"] == [(0, 0), *shorter["offset_mapping"]]
    set_bos(own, began, "tiny")
    assert own(TEXT).input_ids == before.input_ids


@pytest.mark.parametrize("kind", [GPT2TokenizerFast, GemmaTokenizer])
@pytest.mark.parametrize("bos", [True, False])
def test_classes_that_rebuild_their_tokenizer_keep_the_decision(
    kind: Any, bos: bool, tmp_path: Path
) -> None:
    own = kind(vocab={"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "a": 4}, merges=[])
    own.add_special_tokens({"bos_token": "<bos>"})
    set_bos(own, bos, "tiny")
    own.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert adds_bos(own) is adds_bos(again) is bos


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose tokenizer has a BOS and does not put it first, like SmolLM2's."""
    path = tmp_path_factory.mktemp("without")
    own = tiny_tokenizer(bos=True)
    set_bos(own, False, "tiny")
    tiny_hf_model("llama", own).save_pretrained(path)
    own.save_pretrained(path)
    return path


def test_scoring_capture_and_generation_follow_the_decision(directory: Path) -> None:
    with_bos, without = load(directory, bos=True), load(directory)
    assert (with_bos.adds_bos, without.adds_bos) == (True, False)
    [begun], [plain] = encode(with_bos, [TEXT]), encode(without, [TEXT])
    assert begun.ids == [with_bos.tokenizer.bos_token_id, *plain.ids]
    assert begun.offsets == [(0, 0), *plain.offsets]
    assert begun.after(4) == [k + 1 for k in plain.after(4)]
    ids = torch.tensor([begun.ids])
    log_p = without.logits(ids, torch.ones_like(ids))[0].double().log_softmax(-1)
    expected = log_p[:-1].gather(1, ids[0, 1:, None]).sum()
    assert continuation_log_probs(with_bos, [""], [TEXT])[0] == pytest.approx(float(expected))
    rows = capture(with_bos, [TEXT], starts=[0], positions="onward")
    assert len(rows.row_text) == len(plain.ids)
    assert rows.norms["resid_post"].shape == (2, len(begun.ids))
    assert generate(with_bos, [""], max_new_tokens=3)
    with pytest.raises(UserError, match="no beginning-of-text token to start from"):
        generate(without, [""], max_new_tokens=3)


@pytest.mark.slow
def test_a_checkpoint_carries_the_decision(directory: Path, tmp_path: Path) -> None:
    model = load(directory, bos=True)
    edit = Edit.at("resid_post", {0: oblique_erasure(model.d_model)})
    folder = save_checkpoint(model, edit, tmp_path / "saved").folder
    loaded = load_checkpoint(folder)
    assert loaded.adds_bos
    assert encode(loaded, [TEXT]) == encode(model, [TEXT])
    assert AutoTokenizer.from_pretrained(folder)(TEXT).input_ids == encode(model, [TEXT])[0].ids
    assert not load_checkpoint(folder, bos=False).adds_bos


def test_what_cannot_be_decided_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match=r"bos=true, but .* tiny has no beginning-of-text token"):
        set_bos(tokenizer(bos=None), True, "tiny")
    with pytest.raises(UserError, match="bos='yes': write auto, true or false"):
        set_bos(tokenizer(), "yes", "tiny")
    own = tokenizer(processors.RobertaProcessing((END, 0), (BOS, 1)))
    with pytest.raises(UserError, match=r"bos=false, but how .* \(RobertaProcessing\) cannot"):
        set_bos(own, False, "tiny")
