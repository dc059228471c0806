"""Fine-tuning: a pretrained encoder with a new head becomes a classifier of labelled texts.

In: an encoder by hub id or directory, the names of the classes, labelled texts, a `Recipe`. Out: a
trained model of `transformers` and its tokenizer, in eval mode. The loop is `transformers`' own
Trainer: AdamW, with a rate that falls in a straight line to zero. Refused: a model without a
classifier of its family, or one that lacks weights besides its head's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countergen_edit.data.labelled import LabelledTexts
from countergen_edit.errors import UserError
from countergen_edit.locating import locate
from countergen_edit.models.loading import (
    device_named,
    load_tokenizer,
    read_config,
)
from countergen_edit.models.weights import first_line, without_progress_bar

LONGEST = 512
"""Tokens of a text that are read, where the model's own context is longer or not said."""


@dataclass(frozen=True)
class Recipe:
    """What a training run is told."""

    learning_rate: float
    batch_size: int
    epochs: int


def new_classifier(
    base: str | Path, labels: Sequence[str], seed: int, revision: str | None = None
) -> tuple[Any, Any]:
    """A pretrained encoder with a classifier's head, drawn by the seed, and its tokenizer.

    Raises:
        UserError: it is not there, its family has no classifier, or it lacks weights of its own.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForSequenceClassification, set_seed

    location = locate(base, revision)
    read_config(location)
    tokenizer = load_tokenizer(location)
    set_seed(seed)
    try:
        with without_progress_bar():
            model, report = AutoModelForSequenceClassification.from_pretrained(
                location.name,
                id2label=dict(enumerate(labels)),
                label2id={label: i for i, label in enumerate(labels)},
                ignore_mismatched_sizes=True,  # a head of other classes; the rest is refused below
                output_loading_info=True,
                **location.options,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"cannot fine-tune {location}: {first_line(error)}") from error
    # Of its body an encoder may lack the pooler alone, which masked models have no use for.
    absent = sorted([*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])])
    body = [k for k in absent if k.startswith(f"{model.base_model_prefix}.") and "pooler" not in k]
    if body:
        raise UserError(
            f"{location} lacks {len(body)} weights of a {type(model).__name__}, which would be "
            f"random: {', '.join(body[:3])}"
        )
    return model, tokenizer


def finetune(
    model: Any,
    tokenizer: Any,
    data: LabelledTexts,
    recipe: Recipe,
    *,
    seed: int,
    device: str = "auto",
) -> Any:
    """Train all weights of a new classifier; the same seed gives the same model on one machine.

    Args:
        model: from `new_classifier`; it is changed in place.
        tokenizer: its tokenizer.
        data: what it is trained on; a text that is too long is cut.
        recipe: how.
        seed: of dropout and of the order of texts.
        device: as for `load`.
    """
    from transformers import DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments

    longest = min(LONGEST, tokenizer.model_max_length)
    pairs = [list(data.pairs)] if data.pairs else []
    table = tokenizer(list(data.texts), *pairs, truncation=True, max_length=longest)
    examples = [
        {key: table[key][i] for key in table} | {"labels": label}
        for i, label in enumerate(data.classes)
    ]
    with tempfile.TemporaryDirectory() as unused:
        arguments = TrainingArguments(
            output_dir=unused,
            learning_rate=recipe.learning_rate,
            per_device_train_batch_size=recipe.batch_size,
            num_train_epochs=recipe.epochs,
            seed=seed,
            use_cpu=device_named(device).type == "cpu",
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=examples,
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model.requires_grad_(False).eval()
