"""Random-weight models of a few thousand parameters, one per family, as saved directories.

`tiny_model_dir("llama", tmp_path)` writes one and gives its path back; `FAMILIES` names them all.
The weights are larger than an initialisation's, so that different texts get different scores.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

CORPUS = [
    "Jane is a nurse and she works at the hospital.",
    "John is an engineer, working as a manager for his company.",
    "The naïve café owner said: “good morning” to her friends.",
    "Ahmed was asked why he failed the exam; they told Emily a story.",
]
CONTEXT = 64
END = "<|endoftext|>"
BOS = "<s>"


def config_of(name: str, **settings: Any) -> Callable[[int], Any]:
    def config(v: int) -> Any:
        import transformers

        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        sizes |= {"max_position_embeddings": CONTEXT, "vocab_size": v}
        return getattr(transformers, name)(**sizes | settings)

    return config


def _t5(v: int) -> Any:
    from transformers import T5Config

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return T5Config(vocab_size=v, decoder_start_token_id=1, **sizes)


TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
CLASSES = {"t5": "AutoModelForSeq2SeqLM"} | {
    family: settings.pop("model", "AutoModelForCausalLM")
    for family, settings in TABLE["families"].items()
}
CONFIGS = {"t5": _t5} | {
    family: config_of(settings.pop("config"), **settings)
    for family, settings in TABLE["families"].items()
}
FAMILIES = ["gpt2", "llama", "gpt_neox", "opt", "qwen2", "gemma"]
ENCODER_DECODERS = ("t5", "bart")
WITH_BOS = ("llama", "wide_llama", "gemma", "gemma3_text")


def tiny_tokenizer(*, bos: bool = False) -> Any:
    """A byte-level BPE tokenizer trained on a few lines; with `bos`, it begins texts with <s>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[END, BOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, bos_token=BOS if bos else END
    )


def tiny_hf_model(family: str, tokenizer: Any, seed: int = 0) -> Any:
    """The family's model with random weights of visible size, in eval mode."""
    import torch
    import transformers

    kind = getattr(transformers, CLASSES[family])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = CONFIGS[family](len(tokenizer))
        config.bos_token_id = tokenizer.bos_token_id
        config.eos_token_id = config.pad_token_id = tokenizer.eos_token_id
        model = kind.from_config(config)
        for parameter in model.parameters():
            if parameter.ndim == 2:
                torch.nn.init.normal_(parameter, std=0.15)
    return model.eval()


def tiny_model(family: str) -> Any:
    from countergen_edit.models import from_pretrained_objects

    tokenizer = tiny_tokenizer()
    return from_pretrained_objects(family, tiny_hf_model(family, tokenizer), tokenizer)


def tiny_sentencepiece(*, ends: bool) -> Any:
    """A tokenizer as SentencePiece's: a token holds the space before its word, as `▁`.

    With `ends`, a text ends with the end token, as T5 has it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<unk>", END], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, unk_token="<unk>")


def tiny_model_dir(family: str, path: Path, tokenizer: Any = None) -> Path:
    """Save a tiny model of `family` and its tokenizer under `path`, and give `path` back."""
    tokenizer = tokenizer or tiny_tokenizer(bos=family in WITH_BOS)
    tiny_hf_model(family, tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
