"""`countergen-edit edit`: audit one eraser's edit, then save the edited model with its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from countergen_edit.checkpoints import (
    FORMS,
    Form,
    Parity,
    Saved,
    check_target,
    choose_form,
    fold,
    push_to_hub,
    save_checkpoint,
)
from countergen_edit.cli.build import build_audit, load_model
from countergen_edit.cli.run_place import identity, run_place
from countergen_edit.cli.settings import audit_settings
from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.audit import AuditPlan, audit, check_plan
from countergen_edit.experiments.edit import (
    edit_record,
    measured_edit,
    parity_texts,
    require_one_eraser,
    sample_edit,
)
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.models import LanguageModel
from countergen_edit.reports.html import write_report
from countergen_edit.reports.model_card import model_card
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import open_run
from countergen_edit.reports.terminal import print_audit


@dataclass(frozen=True)
class SaveSettings:
    """Where the checkpoint goes, and as what."""

    save: Path
    form: str
    overwrite: bool
    push: str | None
    private: bool


SAVING = tuple(SaveSettings.__dataclass_fields__)


def save_settings(config: Mapping[str, Any]) -> SaveSettings:
    """Check the part of a composed config that is about saving.

    Raises:
        UserError: no directory, or a switch that is neither true nor false.
    """
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    if config["form"] not in FORMS:
        raise unknown("form", config["form"], FORMS)
    for key in ("overwrite", "private"):
        if not isinstance(config[key], bool):
            raise UserError(f"{key}={config[key]!r}: write true or false")
    values = {key: config[key] for key in SAVING}
    return SaveSettings(**(values | {"save": Path(str(config["save"])).expanduser()}))


def run(config: Mapping[str, Any]) -> None:
    """Measure, fit, save, and say what came of it."""
    saving, settings = save_settings(config), audit_settings(config)
    check_target(saving.save, saving.overwrite)
    model = load_model(settings.model)
    plan, data_hash = build_audit(settings, model)
    require_one_eraser(plan)
    check_plan(model, plan)
    check_form(model, plan, saving)
    kept, manifest = identity("edit", config, settings, model, data_hash, SAVING)
    folder = RunFolder(run_place("edit", settings, plan, manifest), kept, manifest)
    results = Results(audit(model, plan, folder))
    saved = save(model, plan, results, saving, kept, manifest)
    console = Console(highlight=False)
    print_audit(results, console)
    report = write_report(open_run(folder.path))
    for line in (*about(saved), f"Report: {report}", f"Run folder: {folder.path}"):
        console.print(line, soft_wrap=True, markup=False)
    upload(saved, saving, console)


def check_form(model: LanguageModel, plan: AuditPlan, saving: SaveSettings) -> None:
    """Find out before anything is measured whether the edit can be saved as asked.

    Raises:
        UserError: it does not fold.
    """
    if choose_form(model, sample := sample_edit(model, plan), saving.form) == "folded":
        fold(model, sample)


def save(
    model: LanguageModel,
    plan: AuditPlan,
    results: Results,
    saving: SaveSettings,
    config: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> Saved:
    """Fit the edit that was audited once more and save it with its card."""
    name, edit = measured_edit(model, plan, results.rows)
    record = edit_record(name, plan, config, manifest)

    def card(form: Form, parity: Parity) -> str:
        return model_card(results, edit, record, form, parity)

    return save_checkpoint(
        model,
        edit,
        saving.save,
        form=saving.form,
        texts=parity_texts(plan),
        record=record,
        card=card,
        overwrite=saving.overwrite,
    )


def about(saved: Saved) -> tuple[str, ...]:
    """What was saved, how well it was proven, and how to load it."""
    trust = ", trust_remote_code=True" if saved.form == "carried" else ""
    return (
        f"Saved ({saved.form}): {saved.folder}",
        f"Reloaded in a fresh process, its logits differ by at most "
        f"{saved.parity.max_difference:.2g}; the edit changes them by {saved.parity.effect:.2g}.",
        f'Load it anywhere: AutoModelForCausalLM.from_pretrained("{saved.folder}"{trust})',
        f"Talk to it: countergen-edit chat {saved.folder}",
    )


def upload(saved: Saved, saving: SaveSettings, console: Console) -> None:
    """Send the checkpoint to the hub, if that was asked for."""
    if saving.push:
        address = push_to_hub(saved.folder, saving.push, private=saving.private)
        console.print(f"Uploaded: {address}", soft_wrap=True, markup=False)
