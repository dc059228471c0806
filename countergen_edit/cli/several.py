"""Several models in one study: `model=[a,b,c]`, a run each and one report over all of them.

Comes in: the words of a command. Goes out: `RUN_DIR/a`, `RUN_DIR/b`, …, each the run that the
command makes with that model alone, and beside them the page, tables and rows of all. Refused: a
model that is named twice, and whatever would stop any of the runs, before the first of them begins.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError

COMMANDS = ("audit", "cid", "classifiers")
"""Commands that take several models."""
KEY = "model="


def models_of(command: str, words: Sequence[str]) -> list[str]:
    """The models that a command names, where it names more than one; else none.

    Raises:
        UserError: the command takes one model, or one is named twice.

    >>> models_of("audit", ["eraser=none", "model=[testbed,'/models/a,b']"])
    ['testbed', '/models/a,b']
    >>> models_of("audit", ["model=testbed"])
    []
    """
    value = next((word.removeprefix(KEY) for word in words if word.startswith(f"{KEY}[")), "")
    if not value:
        return []
    import yaml

    try:
        names = [str(name) for name in yaml.safe_load(value) or ()]
    except yaml.YAMLError as error:
        raise UserError(f"{KEY}{value}: write a list, such as model=[gpt2,gpt2-xl]") from error
    if not names:
        raise UserError(f"{KEY}{value} names no model: write a list, such as model=[gpt2,gpt2-xl]")
    if command not in COMMANDS:
        raise UserError(
            f"{command} takes one model, not {KEY}{value}: {', '.join(COMMANDS)} take several"
        )
    if flag := next((word for word in words if word.startswith("-")), None):
        raise UserError(f"{KEY}{value} does not go with {flag}: leave one out")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{KEY}{value} names {name} twice: name each model once")
    return names


def words_for(words: Sequence[str], model: str) -> list[str]:
    """The words of the command that makes one model's run alone."""
    return [f"{KEY}{model}" if word.startswith(f"{KEY}[") else word for word in words]


def folder_names(models: Sequence[str]) -> list[str]:
    """Each model's folder: as much of its name as tells it from the others.

    >>> folder_names(["gpt2", "/models/tiny", "org/tiny/"])
    ['gpt2', 'models-tiny', 'org-tiny']
    """
    parts = [[part for part in model.split("/") if part] or [model] for model in models]
    names = []
    for own in parts:
        alike = [other for other in parts if other is not own]
        depth = 1
        while depth < len(own) and any(other[-depth:] == own[-depth:] for other in alike):
            depth += 1
        names.append("-".join(own[-depth:]))
    return names


def run(command: str, configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Prepare every run, then run or finish each, then show all side by side.

    Args:
        command: one of `COMMANDS`.
        configs: model → the settings of its run alone, composed.

    Raises:
        UserError: something would stop one of the runs; none is then begun.
    """
    from countergen_edit import api
    from countergen_edit.cli import compare
    from countergen_edit.cli.printing import say
    from countergen_edit.core.writing import digest

    prepare = import_module(f"countergen_edit.cli.{command}").prepare
    # A model is loaded to be checked, and again for its run: all at once they might not fit.
    ready = []
    for config in configs.values():
        ready.append(prepare(config)[0])
        gc.collect()
    names = folder_names([*configs])
    fingerprints = [prepared.manifest["fingerprint"] for prepared in ready]
    label = f"{'-'.join(names)[:80]}-{digest(fingerprints)[:8]}"
    settings = next(iter(configs.values()))
    place = Path(settings["run_dir"] or Path("runs") / command / label)
    if (place / "manifest.json").is_file():
        raise UserError(f"{place} is the folder of a single run: choose another run_dir")
    ready = [prepared.at(place / name) for prepared, name in zip(ready, names, strict=True)]
    for prepared in ready:
        prepared.check()
    runs = []
    for i, (prepared, name) in enumerate(zip(ready, names, strict=True), start=1):
        run = api.load_run(prepared.run())
        gc.collect()
        runs.append(run)
        say([f"{i} of {len(ready)}, {name}: {run.report()}"])
    comparison = api.compare(*runs, seed=settings["seed"])
    say([""])
    compare.show(comparison)
    say(["", f"Report: {comparison.report(place)}", f"Run folders: {place}"])
