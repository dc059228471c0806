"""`countergen-edit edit`: save an edited model with its card: an eraser's edit, or a run's best.

A checkpoint with edits gets one more, and a recipe makes its checkpoint again. `debias` finds the
edit by a search, and `chat` holds an edited model against its original.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from countergen_edit import api
from countergen_edit.cli import study as studies
from countergen_edit.cli.printing import console, say, show_run
from countergen_edit.cli.study import BEST, Content, Study, command_line, model_loader
from countergen_edit.core.characters import printable, require_encodable
from countergen_edit.core.errors import UserError, command, require_known
from countergen_edit.core.locating import without_places
from countergen_edit.core.stages import stage
from countergen_edit.core.writing import versions
from countergen_edit.edits import UNCHANGED, Edit, applied, checkpoints
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel, generate, load_model
from countergen_edit.models.capture import EVERYWHERE, HEAD, has_layers, width
from countergen_edit.models.tokens import mode_of
from countergen_edit.reports.findings import nothing_fits, saved_as, why_nothing
from countergen_edit.reports.render.terminal import print_run
from countergen_edit.runs.ran import hardware
from countergen_edit.runs.run import Run


class Saving:
    """The place and form of a command's checkpoint; the same one may be there."""

    def __init__(self, command: str, config: Content, words: Sequence[str]) -> None:
        require_known("form", config["form"], checkpoints.FORMS)
        self.form, self.overwrite = str(config["form"]), bool(config["overwrite"])
        self.save = Path(str(config["save"])).expanduser() if config["save"] else None
        """None: into the run folder."""
        if self.save is not None:
            line = without_places(command_line(command, words))
            is_same = checkpoints.record_of(self.save).get("command") == line
            checkpoints.check_target(self.save, self.overwrite or is_same)

    def study(self, config: Content, words: Sequence[str]) -> Study:
        """The study of a command: unless carried, of edits that weights hold.

        In the residual stream these are everywhere, unless `edit.layers` names layers; no token is
        skipped.
        """
        if self.form == "carried":
            return Study(config, words)
        edit = {**config["edit"]}
        if edit.get("site") not in ("resid_post", EVERYWHERE):
            edit["skip_attention_sinks"] = False
        elif edit.get("layers") == BEST or "layers" in config:
            edit["layers"] = EVERYWHERE
        study = Study({**config, "edit": edit}, words)
        left_out = [name for name, eraser in study.erasers.items() if not eraser.folds]
        study.erasers = {n: e for n, e in study.erasers.items() if n not in left_out}
        if left_out and not study.erasers:
            raise UserError(
                f"no edit of eraser={left_out[0]} is stock weights: name another, such as "
                "eraser=preserving, or another form, form=carried"
            )
        if left_out:
            say([f"Left out, as no stock weights (form=carried): {', '.join(left_out)}"])
        return study

    def check(self, model: LanguageModel, study: Study, layers: Sequence[int] | None) -> None:
        """Refuse, before any work, a form in which the edits of a study cannot be saved."""
        if model.is_stored_quantized:
            raise UserError(
                f"{model.name} has quantised weights alone, and a checkpoint has full ones: edit "
                "the model that it was made from, with model.quantization if it does not fit"
            )
        if model.is_quantized:
            return  # it is saved with full weights, which are read after the run
        sample = UNCHANGED
        # The form of maps of activations depends on their place.
        if not all(eraser.trains_weights for eraser in study.erasers.values()):
            site = f"{HEAD}.0" if study.place.site == HEAD else study.place.site
            d = width(model, site)
            direction = np.ones((d, 1)) / np.sqrt(d)
            erasure = AffineErasure(direction, direction.T, np.ones(d))
            places = layers or (0,) if has_layers(site) else (None,)
            sample = Edit.at(site, dict.fromkeys(places, erasure))
        checkpoints.require_form(model, sample, self.form)

    def save_best(self, run: Run) -> checkpoints.Saved:
        """Save a run's best edit, with full weights where the run had quantised ones."""
        if run.model is not None and run.model.is_quantized:
            stage("loading the full weights")
            where = {**run.config["model"], "quantization": None}
            run = replace(run, model=model_loader(where)())
        assert run.best is not None
        return run.best.save(self.save or run.path / "checkpoint", self.form, self.overwrite)


def run_edit(config: Content, words: Sequence[str]) -> None:
    """Measure, fit and save."""
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    saving = Saving("edit", config, words)
    if config["run"] and config["recipe"]:
        raise UserError("run=RUN and recipe=FILE are two sources of an edit: give one")
    if config["run"]:
        return _save_of_run(config, saving)
    if config["recipe"]:
        return _make_again(config, words, saving)
    study = saving.study(config, words)
    if len(study.erasers) != 1:
        raise UserError(
            f"a checkpoint holds one edit, not {len(study.erasers)}: name one eraser, such as "
            "eraser=rlace; `countergen-edit audit` compares several"
        )
    model, place = study.load(), study.place
    saving.check(model, study, place.layers)
    task = study.task(model)
    for axis in {edit["axis"]: None for edit in checkpoints.folded_into(model)}:
        if axis != task.name:
            say([f"Edited before and not measured again: {axis or 'an axis without a name'}"])
    edited = api.audit(
        model,
        task,
        study.erasers,
        study.metrics,
        study.run_dir,
        site=place.site,
        layers=place.layers,
        command=command_line("edit", words),
        **study.how,
    )
    assert edited.best is not None
    show_run(edited, f"Edit: {edited.best.label}", *saved_as(saving.save_best(edited)))


def run_debias(config: Content, words: Sequence[str]) -> None:
    """Find the edit, audit it, save it; exit with code 1 if none is shown to remove bias."""
    saving = Saving("debias", config, words)
    study = saving.study(config, words)
    model = study.load()
    layers = study.searched_layers(model)
    saving.check(model, study, layers)
    task = study.task(model)
    searched = api.search(
        model,
        task,
        study.erasers,
        studies.fitting_metrics(study.metrics, task, words),
        study.run_dir,
        sites=(study.place.site,),
        layers=layers,
        combine=config["combine"],
        tested="chosen",
        command=command_line("debias", words),
        **study.how,
    )
    if searched.best is None or not searched.results.edits:
        print_run(searched, console)
        say([*nothing_fits(searched), f"Page: {searched.report()}"])
        print(f"countergen-edit: {why_nothing(searched)}", file=sys.stderr)
        raise SystemExit(1)
    show_run(searched, *saved_as(saving.save_best(searched)))


def _save_of_run(config: Content, saving: Saving) -> None:
    run = api.load_run(str(config["run"]))
    if run.results.is_unedited:
        raise UserError(f"{run.path} measured a model and made no edit: nothing to save")
    if run.best is None:
        raise UserError(f"{run.path} recommends no edit: nothing to save")
    name, adapter = run.manifest["model"], (run.config.get("model") or {}).get("adapter")
    model = source({**config["model"], "name": name, "adapter": adapter}, run.manifest)
    # Quantised weights have another hash.
    has_same_type = not run.manifest.get("is_quantized") or model.is_quantized
    if has_same_type and model.fingerprint != run.manifest["model_hash"]:
        raise UserError(f"{name} is not the model that {run.path} edited: its weights differ")
    saved = saving.save_best(replace(run, model=model))
    say([f"Edit: {run.best.label}", *saved_as(saved)])


def _make_again(config: Content, words: Sequence[str], saving: Saving) -> None:
    """Make the checkpoint of a recipe again, and print what differs."""
    place = Path(str(config["recipe"])).expanduser()
    folder = place if place.is_dir() else place.parent
    old = checkpoints.open_checkpoint(folder, recipe_alone=True)
    recipe = old.record
    content = {**config["model"], "dtype": recipe["dtype"]}
    if not any(word.startswith(("model=", "model.name=")) for word in words):
        content["name"] = recipe["model"]
    model = source(content, recipe)
    if model.fingerprint != recipe["model_hash"]:
        raise UserError(
            f"{content['name']} is not the model of {place} (fingerprint {model.fingerprint[:8]}, "
            f"not {recipe['model_hash'][:8]}): say where {recipe['model']} is, model=PATH"
        )
    assert saving.save is not None
    how: dict[str, Any] = {"form": recipe["form"], "overwrite": saving.overwrite}
    how |= {"record": recipe, "again": old.folder}
    saved = checkpoints.save_checkpoint(model, old.edit, saving.save, **how)
    lines = [f"Made again, byte for byte, as {old.folder}."]
    if saved.differing:
        then = recipe.get("versions") or {}
        why = [f"{k} {then.get(k)} → {new}" for k, new in versions().items() if then.get(k) != new]
        machines = ", ".join((recipe.get("ran") or {}).get("hardware", []))
        why = why or [f"{machines or 'another machine, perhaps'} → {hardware()}"]
        lines = [f"Differ from {old.folder}: {', '.join(saved.differing)} ({'; '.join(why)})."]
    say([*lines, *saved_as(saved)])


def source(content: Content, facts: Mapping[str, Any]) -> LanguageModel:
    """The unedited model of a run or a recipe, which says where its texts begin."""
    template = facts.get("template")
    instruction = template["instruction"] if template else content["instruction"]
    where = {"bos": facts.get("bos", content["bos"]), "template": mode_of(template)}
    return model_loader({**content, **where, "instruction": instruction})()


def run_chat(config: Content, words: Sequence[str] = ()) -> None:
    """Answer each line until input ends."""
    if not config["checkpoint"]:
        raise UserError("say which checkpoint: countergen-edit chat DIR")
    checkpoint = checkpoints.open_checkpoint(str(config["checkpoint"]))
    original, edited, edit = _models_of(checkpoint, config)
    is_chat, longest = original.chat.is_on, config["max_new_tokens"]
    for line in lines("a message" if is_chat else "the beginning of a text"):
        texts = []
        for model, context in ((original, nullcontext()), (edited, edit())):
            with context:
                texts += generate(model, [line], chat=is_chat, max_new_tokens=longest)
        table = Table(box=None, expand=True, padding=(0, 2, 1, 0))
        for title in ("original", "edited"):
            table.add_column(title, ratio=1, header_style="bold", justify="left")
        # Plain text, whatever markup or control codes a model generates.
        table.add_row(*(Text(printable(text)) for text in texts))
        console.print(table)
    again = command("audit", f"model={checkpoint.folder}", "eraser=none")
    say([f"Next, in figures: {again}"])


def _models_of(
    checkpoint: checkpoints.Checkpoint, config: Content
) -> tuple[LanguageModel, LanguageModel, Any]:
    """The unedited model, the edited one, and a context that edits the latter.

    An edit that is put on the unedited weights needs one copy of them.
    """
    where = dict(config["model"])
    measured = checkpoint.record.get("template")
    if where["template"] is None:
        del where["template"]
        if measured is not None:
            where |= {"template": "chat", "instruction": measured["instruction"]}
    original = api.load_original(checkpoint, config["original"] or api.ON_RECORD, **where)
    if not checkpoint.is_folded:
        return original, original, lambda: applied(original, checkpoint.edit)
    return original, load_model(checkpoint.folder, **where), nullcontext


def lines(kind: str) -> Iterator[str]:
    """Lines that are typed or piped in, without empty ones."""
    if sys.stdin.isatty():
        console.print(f"Type {kind}; an empty line or Ctrl-D ends.")
        with suppress(EOFError):
            while line := console.input("> "):
                yield line
        return
    for number, line in enumerate(sys.stdin, 1):
        if text := line.rstrip("\r\n"):
            require_encodable(text, f"standard input, line {number}: ")
            console.print(Text(f"> {printable(text)}"))
            yield text
