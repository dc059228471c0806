"""`model=[a,b,c]`: a run per model in `RUN_DIR/a`, `RUN_DIR/b`, …, and one report of all."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from countergen_edit.core.errors import UserError

TAKE_SEVERAL = ("audit", "cid", "classifiers")


def models_of(command: str, arguments: Sequence[str]) -> list[str]:
    """The models of a list; empty if there is no list.

    >>> models_of("audit", ["eraser=none", "model=[testbed,'/models/a,b']"])
    ['testbed', '/models/a,b']
    >>> models_of("audit", ["model=testbed"])
    []
    """
    listed = next((a for a in arguments if a.startswith("model=[")), None)
    if listed is None:
        return []
    try:
        names = [str(name) for name in yaml.safe_load(listed.removeprefix("model=")) or ()]
    except yaml.YAMLError as error:
        raise UserError(f"{listed}: write a list, such as model=[gpt2,gpt2-xl]") from error
    if not names:
        raise UserError(f"{listed} names no model: write a list, such as model=[gpt2,gpt2-xl]")
    if command not in TAKE_SEVERAL:
        raise UserError(
            f"{command} takes one model, not {listed}: {', '.join(TAKE_SEVERAL)} take several"
        )
    if flag := next((argument for argument in arguments if argument.startswith("-")), None):
        raise UserError(f"{listed} does not go with {flag}: leave one out")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{listed} names {name} twice: name each model once")
    return names


def arguments_for(arguments: Sequence[str], model: str) -> list[str]:
    """The arguments of the run of one model."""
    return [f"model={model}" if a.startswith("model=[") else a for a in arguments]


def folder_names(models: Sequence[str]) -> list[str]:
    """The folder of each model: the end of its name that distinguishes it.

    >>> folder_names(["gpt2", "/models/tiny", "org/tiny/"])
    ['gpt2', 'models-tiny', 'org-tiny']
    """
    parts = [[part for part in model.split("/") if part] or [model] for model in models]
    names = []
    for own in parts:
        others = [other for other in parts if other is not own]
        depth = 1
        while depth < len(own) and any(other[-depth:] == own[-depth:] for other in others):
            depth += 1
        names.append("-".join(own[-depth:]))
    return names


def run(command: str, configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Prepare every run, then run or resume each, then compare them."""
    from countergen_edit import api
    from countergen_edit.cli import compare
    from countergen_edit.cli.printing import say
    from countergen_edit.core.writing import digest

    prepare = import_module(f"countergen_edit.cli.{command}").prepare
    # A model is loaded to be checked, and again for its run: all at once might not fit.
    prepared = []
    for config in configs.values():
        prepared.append(prepare(config)[0])
        gc.collect()
    names = folder_names([*configs])
    fingerprints = [one.manifest["fingerprint"] for one in prepared]
    label = f"{'-'.join(names)[:80]}-{digest(fingerprints)[:8]}"
    settings = next(iter(configs.values()))
    place = Path(settings["run_dir"] or Path("runs") / command / label)
    if (place / "manifest.json").is_file():
        raise UserError(f"{place} is the folder of a single run: choose another run_dir")
    prepared = [one.at(place / name) for one, name in zip(prepared, names, strict=True)]
    for one in prepared:
        one.check()
    runs = []
    for i, (one, name) in enumerate(zip(prepared, names, strict=True), start=1):
        runs.append(api.load_run(one.run()))
        gc.collect()
        say([f"{i} of {len(prepared)}, {name}: {runs[-1].report()}"])
    comparison = api.compare(*runs, seed=settings["seed"])
    say([""])
    compare.show(comparison)
    say(["", f"Report: {comparison.report(place)}", f"Run folders: {place}"])
