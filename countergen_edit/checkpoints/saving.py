"""Save an edited model as a folder that plain transformers loads.

In: a model and an edit. Out: a folder with weights, tokenizer, card, the edit, and proof that they
belong together. It appears under its name only when it is whole and the saved model, reloaded in a
fresh process, gave the edited one's logits. Refused: a target that cannot be written or holds
something else, too little space, an inexact fold, a fold of an edit that leaves attention sinks
alone (with what it would cost), words before a text and steering vectors, which stand in audits for
comparison. A folder that was there stays, whatever happens; the very checkpoint that is asked for,
as a command leaves it that was stopped after saving, is proven whole and stays as well.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from safetensors import SafetensorError

from countergen_edit.checkpoints.carrying import write_carried
from countergen_edit.checkpoints.checksums import CHECKSUMS, verify_checksums, write_checksums
from countergen_edit.checkpoints.folding import fold, folds
from countergen_edit.checkpoints.history import BEFORE, EDIT, folded_into
from countergen_edit.checkpoints.parity import Parity, check_parity, read_parity
from countergen_edit.checkpoints.sinks import require_every_position
from countergen_edit.edits import Edit, applied, save_edit
from countergen_edit.errors import UserError, unknown
from countergen_edit.locating import RECORD
from countergen_edit.models import NAMES_CODE, LanguageModel
from countergen_edit.reading import json_mapping
from countergen_edit.writing import as_json, hold, put_back, take_place

Form = Literal["folded", "carried"]
FORMS: tuple[str, ...] = ("auto", *get_args(Form))
PARITY, CARD = "parity.json", "README.md"
TOKENIZER_CONFIG = "tokenizer_config.json"
_PARTIAL = ".partial"
_MARGIN = 1.1
"""Space required beyond the weights: tokenizer, config, card."""


@dataclass(frozen=True)
class Saved:
    """A finished checkpoint."""

    folder: Path
    form: Form
    parity: Parity


def choose_form(model: LanguageModel, edit: Edit, form: str = "auto") -> Form:
    """`auto` folds where that is exact, which needs no custom code, and carries elsewhere.

    An edit that leaves attention sinks alone is carried.

    Raises:
        UserError: no such form, or the model is itself a carried checkpoint.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    if hasattr(model.bridge, "carried"):
        raise UserError(
            f"{model.name} carries an edit already: `countergen-edit edit model={model.name} "
            "axis=NAME save=DIR` adds one to it (in Python: `load_base`)"
        )
    if form == "auto":
        return "folded" if folds(model, edit) else "carried"
    return "folded" if form == "folded" else "carried"


def save_checkpoint(
    model: LanguageModel,
    edit: Edit,
    directory: Path,
    *,
    form: str = "auto",
    texts: Sequence[str] = (),
    record: Mapping[str, Any] | None = None,
    card: Callable[[Form, Parity], str] | None = None,
    overwrite: bool = False,
) -> Saved:
    """Write a checkpoint, prove it, and give it its name.

    Args:
        model: the unedited model.
        edit: what is saved with it.
        directory: the folder to make.
        form: `folded`, `carried`, or `auto`.
        texts: what the proof compares logits on; the first few.
        record: what should be known of the edit's making; goes into `countergen_edit.json`.
        card: makes the text of the model card.
        overwrite: replace a checkpoint that is already there, once the new one is whole; the same
            one, of the same making, is none to replace.

    Raises:
        UserError: the target cannot be written, is full, or holds something else; the edit belongs
            to another model; it leaves attention sinks alone and is to be folded; the fold or the
            saved model is not exact.
    """
    check_target(directory, overwrite=True)
    if not edit.is_erasure:
        raise UserError(
            "a checkpoint holds erasures, no words before a text and no steering vector: save an "
            "edit of an eraser"
        )
    with applied(model, edit):
        pass  # an edit of another width, or for a layer that is not there, is refused
    its_form = choose_form(model, edit, form)
    if its_form == "folded":
        require_every_position(model, edit, texts)
    about: dict[str, Any] = {
        "form": its_form,
        "model": model.name,
        "model_fingerprint": model.fingerprint,
        "bos": model.adds_bos,
        "template": model.conversation,
        "dtype": str(model.dtype).removeprefix("torch."),
        **(record or {}),
    }
    earlier = folded_into(model)
    if earlier:
        about["edits"] = [*earlier, *about.get("edits", ())]
    with _only_saver(directory):
        if record and _holds(directory, about):
            return Saved(directory, its_form, read_parity(directory / PARITY))
        check_target(directory, overwrite)
        return _written(model, edit, directory, its_form, about, texts, card)


def _written(
    model: LanguageModel,
    edit: Edit,
    directory: Path,
    form: Form,
    about: Mapping[str, Any],
    texts: Sequence[str],
    card: Callable[[Form, Parity], str] | None,
) -> Saved:
    """Write the checkpoint beside its place, prove it, and give it its name."""
    with _partial(model, directory) as folder:
        write_model(model, edit, folder, form)
        parity = check_parity(model, edit, folder, texts, own_code=form == "carried")
        if folded_into(model):
            shutil.copytree(Path(model.name).expanduser() / EDIT, folder / EDIT / BEFORE)
        _write_json(folder / RECORD, about)
        _write_json(folder / PARITY, parity.to_dict())
        if card is not None:
            (folder / CARD).write_text(card(form, parity), "utf-8")
        for path in folder.rglob("*.safetensors"):  # written for their owner's eyes only
            shutil.copymode(folder / RECORD, path)
        write_checksums(folder)
        take_place(folder, directory, _old(directory))
    return Saved(directory, form, parity)


def _old(directory: Path) -> Path:
    """Where a checkpoint lies while another takes its place."""
    return directory.with_name(f".{directory.name}.old")


@contextmanager
def _only_saver(directory: Path) -> Iterator[None]:
    """Keep other processes from saving there; what one left that was killed is made good."""
    file = directory.with_name(f".{directory.name}.lock")
    lock = hold(directory, file, wait=True)
    try:
        put_back(directory, _old(directory))
        yield
    finally:
        file.unlink(missing_ok=True)  # while it is held: whoever waits for it makes it anew
        lock.release()


def _holds(directory: Path, about: Mapping[str, Any]) -> bool:
    """Whether the very checkpoint lies there already.

    Raises:
        UserError: it does, and was changed after it was saved.
    """
    if not (directory / CHECKSUMS).is_file() or made_by(directory) != as_json(about):
        return False
    verify_checksums(directory)
    return True


def made_by(directory: Path) -> Mapping[str, Any]:
    """What a checkpoint says of its making; empty where there is none."""
    try:
        return json_mapping(directory / RECORD)
    except UserError:
        return {}


def write_model(model: LanguageModel, edit: Edit, folder: Path, form: Form) -> None:
    """Weights, config, tokenizer and the edit itself, unproven."""
    from transformers.utils import logging

    is_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        if form == "folded":
            fold(model, edit).save_pretrained(folder)
        else:
            write_carried(model, edit, folder)
        model.tokenizer.save_pretrained(folder)
        _forget_code(folder / TOKENIZER_CONFIG)
    finally:
        if is_enabled:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    save_edit(edit, folder / EDIT, made_for=model.fingerprint)


def _forget_code(config: Path) -> None:
    """Leave out what a source's config says of code of its own, which nobody is to run."""
    content = json.loads(config.read_text("utf-8"))
    _write_json(config, {key: value for key, value in content.items() if key not in NAMES_CODE})


def check_target(directory: Path, overwrite: bool = False) -> None:
    """Find out before any work whether a checkpoint may go there.

    Raises:
        UserError: it may not, and why.
    """
    if directory.exists() and not directory.is_dir():
        raise UserError(f"save={directory} is a file: name a directory")
    if directory.is_dir() and any(directory.iterdir()):
        if not (directory / CHECKSUMS).is_file():
            raise UserError(f"save={directory} holds something else: choose another directory")
        if not overwrite:
            raise UserError(
                f"save={directory} holds a checkpoint already: choose another directory, or set "
                "overwrite=true to replace it"
            )
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        probe = directory.with_name(f".{directory.name}.probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"cannot write save={directory}: {error.strerror}") from error


@contextmanager
def _partial(model: LanguageModel, directory: Path) -> Iterator[Path]:
    """A folder beside the target; gone afterwards, unless it was given the target's name."""
    needed = _MARGIN * sum(p.nbytes for p in model.bridge.original_model.parameters())
    free = shutil.disk_usage(directory.parent).free
    if free < needed:
        raise UserError(
            f"cannot write save={directory}: {needed / 2**20:.0f} MB are needed, "
            f"{free / 2**20:.0f} MB are free"
        )
    folder = directory.with_name(f".{directory.name}{_PARTIAL}")
    shutil.rmtree(folder, ignore_errors=True)  # what a killed save left
    try:
        folder.mkdir()
        yield folder
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot write save={directory}: {why}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
