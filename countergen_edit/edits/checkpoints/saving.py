"""Save an edited model as a folder that plain transformers loads, and push it to the hub.

The folder appears under its name only when it is complete and the saved model, reloaded in a new
process, has given the edited one's logits. An existing folder stays until then.
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

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.locating import RECORD
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.writing import as_json, hold, put_back, take_place
from countergen_edit.edits import Edit, applied, save_edit
from countergen_edit.edits.checkpoints.carrying import write_carried
from countergen_edit.edits.checkpoints.folding import can_fold, fold, require_every_position
from countergen_edit.edits.checkpoints.loading import (
    BEFORE,
    CHECKSUMS,
    EDIT,
    folded_into,
    is_checkpoint,
    open_checkpoint,
    verify_checksums,
    write_checksums,
)
from countergen_edit.edits.checkpoints.parity import Parity, check_parity
from countergen_edit.models import NAMES_CODE, LanguageModel

Form = Literal["folded", "carried"]
FORMS: tuple[str, ...] = ("auto", *get_args(Form))
PARITY, CARD = "parity.json", "README.md"
TOKENIZER_CONFIG = "tokenizer_config.json"
_MARGIN = 1.1
"""Space required, in units of the weights."""


@dataclass(frozen=True)
class Saved:
    """A finished checkpoint."""

    folder: Path
    form: Form
    parity: Parity


def choose_form(model: LanguageModel, edit: Edit, form: str = "auto") -> Form:
    """Resolve `auto`: folded, which needs no custom code, if that is exact, and else carried.

    Raises a `UserError` for an unknown form, or a model that carries an edit already.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    if hasattr(model.bridge, "carried"):
        raise UserError(
            f"{model.name} carries an edit already: `countergen-edit edit model={model.name} "
            "axis=NAME save=DIR` adds one to it (in Python: `load_base`)"
        )
    folded = form == "folded" or (form == "auto" and can_fold(model, edit))
    return "folded" if folded else "carried"


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
    """Write a checkpoint, verify it, and give it its name.

    Parameters
    ----------
    model : LanguageModel
        Unedited.
    edit : Edit
    directory : Path
    form : str
        `folded`, `carried` or `auto`.
    texts : sequence of str
        The first few are used to compare logits.
    record : mapping, optional
        The origin of the edit, for `countergen_edit.json`.
    card : callable, optional
        Makes the model card of form and parity.
    overwrite : bool
        Replace a checkpoint of another origin; one of the same origin is kept.

    Raises
    ------
    UserError
        If the target cannot be written or holds something else, the edit does not fit the model,
        is no erasure or cannot be folded, or the saved model is not exact.
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
        if record and is_checkpoint(directory) and record_of(directory) == as_json(about):
            verify_checksums(directory)
            return Saved(directory, its_form, Parity(**json_mapping(directory / PARITY)))
        check_target(directory, overwrite)
        with _partial(model, directory) as folder:
            write_model(model, edit, folder, its_form)
            parity = check_parity(model, edit, folder, texts, own_code=its_form == "carried")
            if earlier:
                shutil.copytree(Path(model.name).expanduser() / EDIT, folder / EDIT / BEFORE)
            _write_json(folder / RECORD, about)
            _write_json(folder / PARITY, parity.to_dict())
            if card is not None:
                (folder / CARD).write_text(card(its_form, parity), "utf-8")
            for path in folder.rglob("*.safetensors"):  # saved with mode 600
                shutil.copymode(folder / RECORD, path)
            write_checksums(folder)
            take_place(folder, directory, _old(directory))
        return Saved(directory, its_form, parity)


def _old(directory: Path) -> Path:
    """Where a checkpoint lies while another takes its place."""
    return directory.with_name(f".{directory.name}.old")


@contextmanager
def _only_saver(directory: Path) -> Iterator[None]:
    """Lock the target against other processes, and repair what a killed one left."""
    file = directory.with_name(f".{directory.name}.lock")
    lock = hold(directory, file, wait=True)
    try:
        put_back(directory, _old(directory))
        yield
    finally:
        file.unlink(missing_ok=True)  # while it is held: whoever waits for it makes it anew
        lock.release()


def record_of(directory: Path) -> Mapping[str, Any]:
    """A checkpoint's record; empty if there is none."""
    try:
        return json_mapping(directory / RECORD)
    except UserError:
        return {}


def write_model(model: LanguageModel, edit: Edit, folder: Path, form: Form) -> None:
    """Write weights, config, tokenizer and the edit, without verification."""
    from transformers.utils import logging

    is_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        if form == "folded":
            fold(model, edit).save_pretrained(folder)
        else:
            write_carried(model, edit, folder)
        model.tokenizer.save_pretrained(folder)
        config = json_mapping(folder / TOKENIZER_CONFIG)
        # Code of the source must not be run.
        _write_json(
            folder / TOKENIZER_CONFIG, {k: config[k] for k in config if k not in NAMES_CODE}
        )
    finally:
        if is_enabled:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    save_edit(edit, folder / EDIT, made_for=model.fingerprint)


def check_target(directory: Path, overwrite: bool = False) -> None:
    """Raise a `UserError` if no checkpoint may be saved there."""
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
    """A temporary folder beside the target."""
    needed = _MARGIN * sum(p.nbytes for p in model.bridge.original_model.parameters())
    free = shutil.disk_usage(directory.parent).free
    if free < needed:
        raise UserError(
            f"cannot write save={directory}: {needed / 2**20:.0f} MB are needed, "
            f"{free / 2**20:.0f} MB are free"
        )
    folder = directory.with_name(f".{directory.name}.partial")
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


def push_to_hub(
    directory: str | Path, repository: str, *, private: bool = True, endpoint: str | None = None
) -> str:
    """Upload a checkpoint as one commit, and return its address.

    The token is that of `hf auth login` or HF_TOKEN.

    Parameters
    ----------
    directory : str or Path
        What `save_checkpoint` made.
    repository : str
        `user/name`; created if needed.
    private : bool
        Visibility of a new repository.
    endpoint : str, optional
        Another server than the hub.

    Raises
    ------
    UserError
        If the checkpoint is damaged, or the server refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    checkpoint = open_checkpoint(directory)
    api = HfApi(endpoint=endpoint)
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=checkpoint.folder,
            commit_message=f"Edited {Path(checkpoint.record['model']).name}",
            delete_patterns="*",  # the commit is the checkpoint, and nothing of an older one
        )
    except HFValidationError as error:
        raise UserError(f"push={repository!r} is no name of a repository: {error}") from error
    except HfHubHTTPError as error:
        raise UserError(f"the hub refused {repository}: {error}") from error
    except Exception as error:  # each transport has its own type for "no answer"
        raise UserError(
            f"the hub gave no answer ({type(error).__name__}); the checkpoint is safe in "
            f"{checkpoint.folder}"
        ) from error
    return str(commit.commit_url)
