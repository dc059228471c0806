"""`countergen-edit classifiers`: a task on a classifier or masked language model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from countergen_edit.cli.models import ModelSettings, make_settings
from countergen_edit.cli.printing import show
from countergen_edit.cli.study import command_line, integers
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.template_bank import TemplateBank, load_bank
from countergen_edit.erasers import ERASERS
from countergen_edit.metrics.classifier_tasks import TASKS, ClassifierTask
from countergen_edit.models.encoders import Tokens
from countergen_edit.reports.run import open_run
from countergen_edit.runs.classifiers import Where, check_edits, classifier_audit
from countergen_edit.runs.folder import Prepared, RunFolder
from countergen_edit.runs.manifest import make_manifest
from countergen_edit.testbed.classifiers import build, plant

TESTBED, UNBIASED = "testbed", "testbed-unbiased"
"""The constructed models, whose answers are known."""
LAST = "last"
ANSWERED = ("eraser", "run_dir")
"""Settings that the same question with an eraser does not repeat."""
SITES = ("resid_post", "embed")
TOKENS: tuple[Tokens, ...] = get_args(Tokens)


def run(config: Mapping[str, Any]) -> None:
    """Run or resume the task; print its table."""
    prepared, model = prepare(config)
    words = [w for w in prepared.manifest["command"] if w.partition("=")[0] not in ANSWERED]
    erase = f"Next, erase it: {shlex.join(words)} eraser=leace"
    show(open_run(prepared.run(model)), then=[] if config["eraser"] else [erase])


def prepare(config: Mapping[str, Any]) -> tuple[Prepared, Any]:
    """A checked run that has not begun, and its model."""
    seed = config["seed"]
    name = config["task"]["name"]
    own = {k: value for k, value in config["task"].items() if k not in ("name", "most")}
    task: ClassifierTask = TASKS.make(name, own)
    bank = load_bank(task.templates or name, config["template_file"])
    bank = bank.thinned(config["task"].get("most") or {})
    erasers = {name: ERASERS.make(name, kind) for name, kind in (config["eraser"] or {}).items()}
    where = where_edited(config["edit"])
    settings = make_settings(ModelSettings, "model", config["model"])

    def load() -> Any:
        return build_model(task, settings, bank, config["labels"])

    def work(model: Any, folder: RunFolder) -> None:
        classifier_audit(task, bank, model, folder, seed, erasers, where)

    model = load()
    check_edits(model, erasers, where)
    content = {key: value for key, value in config.items() if key != "run_dir"}
    manifest = make_manifest(
        config=content,
        model=model.name,
        model_hash=model.fingerprint,
        data_hash=bank.fingerprint,
        seed=seed,
        command=command_line("classifiers"),
    )
    label = f"{Path(model.name).name}-{Path(name).name}-{manifest['fingerprint'][:8]}"
    place = Path("runs") / "classifiers" / label
    return Prepared(Path(config["run_dir"] or place), content, manifest, load, work), model


def where_edited(section: Mapping[str, Any]) -> Where:
    """Where a classifier is edited."""
    layers = section.get("layers")
    own = None if layers == LAST else integers("edit.layers", layers)
    if own == ():
        raise UserError("edit.layers names no layer: write edit.layers=last, or a list")
    where = make_settings(Where, "edit", {**section, "layers": own})
    if where.site not in SITES:
        raise unknown("edit.site", where.site, SITES)
    if where.positions not in TOKENS:
        raise unknown("edit.positions", where.positions, TOKENS)
    return where


def build_model(
    task: ClassifierTask,
    settings: ModelSettings,
    bank: TemplateBank,
    labels: list[str] | None = None,
) -> Any:
    """The model for a task; `testbed` and `testbed-unbiased` name the constructed ones."""
    name = settings.name
    if name in (TESTBED, UNBIASED):
        return task.wrap(name, *build(plant(bank, biased=name == TESTBED)), labels)
    where = {"device": settings.device, "dtype": settings.dtype, "revision": settings.revision}
    return task.load(name, labels, **where)
