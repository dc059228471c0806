"""Save an edited model as a folder that plain transformers loads.

The folder appears under its name only when it is complete and the saved model, reloaded in a new
process, has given the edited one's logits. An existing folder stays until then.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from safetensors import SafetensorError

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.locating import RECIPE, Location, without_places
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.writing import OLD, as_json, put_back, versions, whole_folder, write_json
from countergen_edit.edits import Edit, applied, save_edit
from countergen_edit.edits.checkpoints.forms import CODE, PATCHES, write_adapter
from countergen_edit.edits.checkpoints.loading import (
    CHECKSUMS,
    EDIT,
    differing,
    is_checkpoint,
    verify_checksums,
    write_checksums,
)
from countergen_edit.edits.checkpoints.parity import Parity, check_parity
from countergen_edit.edits.checkpoints.source import CARD, PARITY, SourceFiles, find_source
from countergen_edit.edits.record import TENSORS, packed
from countergen_edit.erasers import AffineErasure
from countergen_edit.models.language_model import NAMES_CODE, LanguageModel
from countergen_edit.models.loading import load_tokenizer, without_progress_bar

Form = Literal["folded", "adapter", "carried"]
FORMS: tuple[str, ...] = ("auto", *get_args(Form))
_NOT_SAVED = (
    *NAMES_CODE,
    *("_name_or_path", "name_or_path", "special_tokens_map_file", "tokenizer_file"),
    *("is_local", "local_files_only"),
)
"""Keys of configs that name code or places of a machine."""
_FAST = {"TokenizersBackend": "PreTrainedTokenizerFast"}
"""Classes by the names that transformers 4 has for them."""


@dataclass(frozen=True)
class Saved:
    """A finished checkpoint."""

    folder: Path
    form: Form
    parity: Parity
    differing: tuple[str, ...] = ()
    """The files that differ from those of the checkpoint that it makes again."""
    original: str = ""
    """The place of the unedited model, if the checkpoint does not name it."""


def choose_form(model: LanguageModel, form: str = "auto") -> Form:
    """The form of a checkpoint; `UserError` if unknown, or the model carries an edit."""
    require_known("form", form, FORMS)
    if hasattr(model.bridge, "carried"):
        raise UserError(
            f"{model.name} carries an edit beside its weights: edit a checkpoint of stock weights "
            "(form=folded) instead"
        )
    return cast(Form, "folded" if form == "auto" else form)


def require_form(model: LanguageModel, edit: Edit, form: str) -> None:
    """Raise a `UserError` if a form cannot hold an edit."""
    PATCHES[choose_form(model, form)](model, edit)


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
    again: Path | None = None,
) -> Saved:
    """Write a checkpoint of an unedited model, verify it, and give it its name.

    `form` is `folded` (`auto`), `adapter` or `carried`; logits are compared on the first few
    `texts`. `record` is the origin of the edit, for `recipe.json`, and `card` makes the model card.
    With `overwrite` a checkpoint of another origin is replaced; one of the same origin is kept.
    `again` is a checkpoint that is made again: where the bytes are the same, so are its card and
    its parity. `UserError` if the target cannot be written or holds something else, the edit does
    not fit the model or the form or is not an erasure, or the saved model is not exact.
    """
    check_target(directory, overwrite=True)
    erases = all(isinstance(place.erasure, AffineErasure) for place in edit.placements)
    if edit.preface or not erases:
        raise UserError(
            "a checkpoint holds erasures, no words before a text and no steering vector: save an "
            "edit of an eraser"
        )
    if model.is_quantized:
        raise UserError(
            f"{model.name} is quantised, and a checkpoint has full weights: load it without "
            "quantization (countergen-edit edit run=RUN save=DIR does)"
        )
    with applied(model, edit):
        pass  # refuses an edit of another width or for a missing layer
    its_form = choose_form(model, form)
    name = without_places(model.name)
    original = "" if its_form == "carried" or name == model.name else model.name
    recipe = {
        **without_places(as_json(record or {})),
        "form": its_form,
        "model": name,
        "model_hash": model.fingerprint,
        "bos": model.adds_bos,
        "template": model.conversation,
        "dtype": str(model.dtype).removeprefix("torch."),
        "versions": versions(),
        "edit": {"file": f"{EDIT}/{TENSORS}", "sha256": hashlib.sha256(packed(edit)).hexdigest()},
    }
    put_back(directory, directory.with_name(f"{directory.name}{OLD}"))
    if record and is_checkpoint(directory) and record_of(directory) == recipe:
        verify_checksums(directory)
        parity = Parity(**json_mapping(directory / PARITY))
        return Saved(directory, its_form, parity, original=original)
    check_target(directory, overwrite)
    with whole_folder(directory) as folder:
        try:
            source = write_model(model, edit, folder, its_form)
        except SafetensorError as error:  # wraps that of a full disk
            raise UserError(f"cannot write {directory}: {error}") from error
        write_json(folder / RECIPE, recipe)
        differs = differing(folder, again) if again else ()
        if again and not differs:
            for name in (PARITY, CARD):
                if (again / name).is_file():
                    shutil.copyfile(again / name, folder / name)
        if (folder / PARITY).is_file():
            parity = Parity(**json_mapping(folder / PARITY))
        else:
            parity = check_parity(model, edit, folder, texts, form=its_form, source=source)
        write_json(folder / PARITY, asdict(parity))
        if card is not None:
            (folder / CARD).write_text(card(its_form, parity), "utf-8")
        for path in folder.rglob("*.safetensors"):  # saved with mode 600
            shutil.copymode(folder / RECIPE, path)
        write_checksums(folder)
    return Saved(directory, its_form, parity, differs, original)


def record_of(directory: Path) -> Mapping[str, Any]:
    """A checkpoint's recipe; empty if there is none."""
    try:
        return json_mapping(directory / RECIPE)
    except UserError:
        return {}


def write_model(model: LanguageModel, edit: Edit, folder: Path, form: Form) -> SourceFiles | None:
    """Write weights, config, tokenizer and edit; return the source, if patched."""
    save_edit(edit, folder / EDIT, made_for=model.fingerprint)
    patch = PATCHES[form](model, edit)
    if form == "adapter":
        update, biases = patch
        write_adapter(model, update, folder, biases)
        return None
    source = find_source(model, patch)
    with without_progress_bar():
        if source is not None:
            source.write(folder)
        else:
            plain = patch.applied()
            # Custom classes get no conversion of keys when they are loaded.
            how = {"variant": patch.variant, "save_original_format": not patch.code}
            plain.save_pretrained(folder, state_dict={**plain.state_dict(), **patch.added}, **how)
        if source is None or _changed(model.tokenizer, source.folder):
            model.tokenizer.save_pretrained(folder)
    for path in folder.glob("*config.json"):
        old = json_mapping(path)
        new = _portable(old)
        if path.name == "config.json":
            of_4 = _rotary_of_4(new, type(patch.plain.config))
            new = {**new, **of_4, **new, **patch.config}
        if new != old:
            write_json(path, new)
    if patch.code:
        (folder / CODE).write_text(patch.code, "utf-8")
    return source


def _changed(tokenizer: Any, folder: Path) -> bool:
    """Whether a tokenizer differs from its folder's, as by BOS or a template."""
    states = []
    for saved in (tokenizer, load_tokenizer(Location(str(folder), local_files_only=True))):
        backend = json.loads(saved.backend_tokenizer.to_str())
        backend |= dict.fromkeys(("truncation", "padding"))
        states.append((backend, saved.chat_template, saved.special_tokens_map))
    return states[0] != states[1]


def _portable(content: Any) -> Any:
    """A config without code and places, and with classes of transformers 4."""
    if isinstance(content, list):
        return [_portable(entry) for entry in content]
    if isinstance(content, Mapping):
        return {key: _portable(content[key]) for key in content if key not in _NOT_SAVED}
    return _FAST.get(content, content) if isinstance(content, str) else content


def _rotary_of_4(config: Mapping[str, Any], cls: Any) -> dict[str, Any]:
    """Rotary positions as transformers 4 names them, which else takes its defaults."""
    rope = config.get("rope_parameters") or {}
    full = rope.get("full_attention", rope)
    names = {
        **dict.fromkeys(("rope_theta", "rotary_emb_base"), full.get("rope_theta")),
        **dict.fromkeys(("partial_rotary_factor", "rotary_pct"), full.get("partial_rotary_factor")),
        "rope_local_base_freq": rope.get("sliding_attention", {}).get("rope_theta"),
        "rope_scaling": None if full.get("rope_type", "default") == "default" else full,
    }
    values = {name: value for name, value in names.items() if value is not None}
    # An argument that a class does not read becomes an attribute.
    return {k: v for k, v in values.items() if k not in vars(cls(**{k: copy.deepcopy(v)}))}


def check_target(directory: Path, overwrite: bool = False) -> None:
    """Raise a `UserError` if no checkpoint may be saved there."""
    if directory.is_file() or (directory.is_dir() and any(directory.iterdir())):
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
