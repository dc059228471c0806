"""`countergen-edit finetune`: labelled texts → a classifier, by the paper's recipe.

Comes in: a composed config. Goes out: the table of recipes, and a run folder with the classifier.
Refused: an unknown task, data without its columns, a label that is no class of the task, a number
that is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import show
from countergen_edit.cli.settings import command_line, integer, integers
from countergen_edit.data.labelled import LabelledTexts, labelled_texts
from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.finetuning import finetuned, grid
from countergen_edit.experiments.manifest import make_manifest
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.models.class_labels import LABELS, plain
from countergen_edit.models.finetuning import new_classifier
from countergen_edit.models.language_model import weights_hash
from countergen_edit.reports.run import open_run
from countergen_edit.writing import digest

APART = 0.1
"""Share of the training texts that is set apart where there are no validation texts."""


def run(config: Mapping[str, Any]) -> None:
    """Fine-tune, or go on; print the recipes and where the classifier is."""
    task, base = str(config["task"]["name"]), str(config["base"])
    seed = integer("seed", config["seed"])
    if task not in LABELS:
        raise unknown("task of a classifier", task, LABELS)
    if config["train"] is None:
        raise UserError("there is nothing to train on: give train=FILE.csv, or train=ID:ROWS")
    classes = [*LABELS[task]]
    recipes = grid(
        rates(config["learning_rate"]),
        _counts("batch_size", config["batch_size"]),
        _counts("epochs", config["epochs"]),
    )
    train, validation = _data(config, task, seed)
    model, _ = new_classifier(base, classes, seed, config["revision"])
    content = {key: value for key, value in config.items() if key != "run_dir"}
    manifest = make_manifest(
        config=content,
        model=base,
        model_hash=weights_hash(model),
        data_hash=digest([train.fingerprint, validation.fingerprint]),
        seed=seed,
        command=command_line("finetune"),
    )
    label = f"{Path(base).name}-{task}-{manifest['fingerprint'][:8]}"
    path = Path(config["run_dir"] or Path("runs") / "finetune" / label)
    where = {"device": config["device"], "revision": config["revision"]}
    with RunFolder(path, content, manifest) as folder:
        place = finetuned(
            base, task, classes, train, validation, recipes, folder, seed=seed, **where
        )
    ask = f"countergen-edit classifiers task={task} model={place}"
    show(open_run(path), f"Its bias: {ask}")


def class_reader(
    task: str,
    labels: Sequence[str] | None = None,
    threshold: float | None = None,
    leave_out: Sequence[str] = (),
) -> Callable[[str], int | None]:
    """From a label as data have it, the index of the task's class.

    >>> read = class_reader("nli", labels=["contradiction", "neutral", "entailment"])
    >>> read("2"), read("Neutral")
    (0, 1)
    >>> class_reader("sentiment", threshold=0.5)("0.7")
    0

    Args:
        task: a key of `LABELS`, whose roles are the classes, in order.
        labels: what the numbers 0, 1, … mean.
        threshold: labels are numbers, the first class from here on.
        leave_out: labels of rows to be left out.
    """
    roles = LABELS[task]
    index = {name: i for i, names in enumerate(roles.values()) for name in names}
    for number, label in enumerate(labels or ()):
        if plain(label) not in index:
            raise unknown("label", label, roles)
        index[str(number)] = index[plain(label)]
    skipped = {str(label) for label in leave_out}

    def read(label: str) -> int | None:
        if label in skipped:
            return None
        if threshold is not None:
            try:
                return int(float(label) < threshold)
            except ValueError:
                raise UserError(f"label {label!r} is no number, but threshold is set") from None
        if plain(label) not in index:
            raise UserError(
                f"label {label!r} is no class of task={task}: say what the numbers mean, such as "
                f"labels=[{','.join(roles)}], or name it in leave_out"
            )
        return index[plain(label)]

    return read


def rates(value: Any) -> list[float]:
    """One learning rate or several.

    Raises:
        UserError: one is no positive number.
    """
    found = []
    for rate in value if isinstance(value, list) else [value]:
        try:  # YAML takes 2e-5 for a text, Hydra for a number
            found.append(float(rate))
        except (TypeError, ValueError):
            found.append(0.0)
        if not 0 < found[-1] < 1:
            raise UserError(f"learning_rate={rate!r}: write a number such as 2e-5")
    return list(dict.fromkeys(found))


def _counts(key: str, value: Any) -> tuple[int, ...]:
    counts = integers(key, value)
    if not counts or min(counts) < 1:
        raise UserError(f"{key}={value!r}: write a whole number from 1 on, or a list of them")
    return counts


def _data(config: Mapping[str, Any], task: str, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
    threshold = config["threshold"]
    if threshold is not None and (len(LABELS[task]) != 2 or isinstance(threshold, str | bool)):
        raise UserError(f"threshold={threshold!r}: a number, for a task of two classes")
    read = class_reader(task, config["labels"], threshold, config["leave_out"] or ())
    limit = integer("limit", config["limit"]) if config["limit"] is not None else None
    train = labelled_texts(str(config["train"]), config["columns"], read, limit)
    if config["validation"] is None:
        return train.parted(APART, seed)
    return train, labelled_texts(str(config["validation"]), config["columns"], read)
