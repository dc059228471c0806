"""`countergen-edit sweep`: settings → cells → rows → table and figures.

With `--multirun` each job records its cells beside the run folder, and the same command without it
takes them over, runs what is missing, and chooses.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from countergen_edit.cli.build import build_audit, load_model
from countergen_edit.cli.settings import AuditSettings, audit_settings, make_settings
from countergen_edit.conf_path import read_config
from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.audit import STORE, AuditPlan
from countergen_edit.experiments.cells import SweepPlan, check_sweep
from countergen_edit.experiments.manifest import digest, make_manifest
from countergen_edit.experiments.pareto import Tolerance, choose, points
from countergen_edit.experiments.run_folder import MANIFEST, RunFolder, recorded_units
from countergen_edit.experiments.sweep import sweep
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scored_texts import file_of
from countergen_edit.models import LanguageModel, Scratch
from countergen_edit.reports.figures.sweep import write_figures
from countergen_edit.reports.html import write_report
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import open_run
from countergen_edit.reports.sweep_table import print_sweep
from countergen_edit.writing import whole

ABOUT_PLACES = ("run_dir", "scratch")
"""Settings that no row depends on."""
OF_CELLS = ("edit", "metric", "groups", "seed")
"""Settings that every cell depends on, besides its own, its axis and its data."""
LAYER_WORDS = ("all", "middle")
POOL = Path("runs") / "sweep" / "parts"
"""Where jobs leave their cells, if no run_dir is given."""


def run(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Run, or finish, the sweep that a composed config describes.

    Returns:
        Of a job of `--multirun`: bias removed and cost of its best cell on validation data, which a
        sweeper may optimise.

    Raises:
        SystemExit: with code 1 after a whole sweep in which an eraser failed on some cell.
    """
    settings = audit_settings(config)
    model = load_model(settings.model)
    plan, data_hashes = build_sweep(config, settings, model)
    check_sweep(model, plan)
    kept = {key: value for key, value in config.items() if key not in ABOUT_PLACES}
    manifest = make_manifest(
        config=kept,
        model=settings.model.name,
        model_hash=model.fingerprint,
        data_hash=digest(data_hashes),
        seed=settings.seed,
        command=["countergen-edit", "sweep", *sys.argv[1:]],
    )
    same = {key: manifest[key] for key in ("model_hash", "source_hash", "versions")}
    same |= {key: config[key] for key in OF_CELLS} | {"named": plan.name_axes}
    manifest["axes"] = {axis: digest([same, data]) for axis, data in data_hashes.items()}
    label = f"{Path(settings.model.name).name}-{'-'.join(plan.audits)}"
    default = Path("runs") / "sweep" / f"{label}-{manifest['fingerprint'][:8]}"
    pool = Path(f"{settings.run_dir}.parts") if settings.run_dir else POOL
    if _is_job():
        folder = RunFolder(pool / manifest["fingerprint"][:16], kept, manifest)
        found = points(sweep(model, plan, folder, finish=False), "validation", plan.tolerance)
        best = choose(found) if found else None
        return (best.removed, best.cost) if best else (0.0, float("inf"))
    folder = RunFolder(Path(settings.run_dir or default), kept, manifest)
    rows = sweep(model, plan, folder, parts=parts_of(pool, manifest["axes"]))
    take_store(pool, manifest["axes"], folder.path, {row.edit for row in rows})
    console = Console(highlight=False)
    print_sweep(Results(rows), console)
    written = write_figures(Results(rows), folder.path / "figures")
    console.print(f"\nFigures: {', '.join(path.name for path in written)}", soft_wrap=True)
    console.print(f"Report: {write_report(open_run(folder.path))}", soft_wrap=True)
    console.print(f"Run folder: {folder.path}", soft_wrap=True)
    failed = [row for row in rows if row.metric == "error"]
    if failed:
        print(f"countergen-edit: {len(failed)} cell(s) failed, see above", file=sys.stderr)
        raise SystemExit(1)
    return None


def _is_job() -> bool:
    """Whether this process is one job of `--multirun`."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def parts_of(pool: Path, axes: Mapping[str, str]) -> dict[str, list[Row]]:
    """Rows by unit of what jobs with the same model, data and code have recorded.

    Args:
        pool: the folder of the jobs' run folders.
        axes: for each axis, what identifies its cells' model, data and code.
    """
    units: dict[str, list[Row]] = {}
    for part, alike in _alike(pool, axes):
        for unit, rows in recorded_units(part).items():
            if unit.partition("/")[0] in alike:
                units.setdefault(unit, rows)
    return units


def take_store(pool: Path, axes: Mapping[str, str], run: Path, edits: Collection[str]) -> None:
    """Copy the scores of single texts of some edits from jobs' run folders, where the run has none.

    Raises:
        UserError: the run folder cannot be written.
    """
    names = {file_of(Path(), edit).name for edit in edits}
    for part, alike in _alike(pool, axes):
        for path in sorted((part / STORE).rglob("*.jsonl")):
            of_axis = path.parent.name if path.parent.name in axes else next(iter(axes))
            to = run / path.relative_to(part)
            if path.name not in names or of_axis not in alike or to.exists():
                continue
            with whole(to) as temporary:
                shutil.copyfile(path, temporary)


def _alike(pool: Path, axes: Mapping[str, str]) -> Iterator[tuple[Path, set[str]]]:
    """The jobs' run folders with an axis of the same model, data and code, and those axes."""
    for path in sorted(pool.glob(f"*/{MANIFEST}")):
        theirs = json.loads(path.read_text("utf-8")).get("axes", {})
        alike = {axis for axis, identity in axes.items() if theirs.get(axis) == identity}
        if alike:
            yield path.parent, alike


def build_sweep(
    config: Mapping[str, Any], settings: AuditSettings, model: LanguageModel
) -> tuple[SweepPlan, dict[str, str]]:
    """The plan of a sweep, and for each axis the hash of all the data it uses.

    Raises:
        UserError: a setting has the wrong form, or all that `build_audit` refuses.
    """
    named = config["axes"]
    if named is not None and not (isinstance(named, Mapping) and named):
        raise UserError(f"axes={named!r}: write an axis and its data, such as {{gender: contexts}}")
    studies = {str(settings.axis["name"]): settings}
    if named is not None:
        studies = {
            axis: audit_settings(
                {**config, "axis": read_config("axis", axis), "data": read_config("data", data)}
            )
            for axis, data in named.items()
        }
    audits: dict[str, AuditPlan] = {}
    hashes = {}
    for axis, of_axis in studies.items():
        audits[axis], data_hash = build_audit(replace(of_axis, edit=settings.edit), model)
        hashes[axis] = digest([of_axis.axis, asdict(of_axis.data), data_hash])
    scratch = config["scratch"]
    plan = SweepPlan(
        audits=audits,
        sites=_words("sites", config["sites"]) or (settings.edit.site,),
        layers=swept_layers(config["layers"], model),
        ranks=_numbers("ranks", config["ranks"]),
        combine=_number("combine", config["combine"]),
        tolerance=make_settings(Tolerance, "tolerance", config["tolerance"]),
        scratch=Scratch(
            budget=int(float(scratch["memory_gib"]) * 2**30),
            directory=Path(scratch["directory"]) if scratch["directory"] else None,
        ),
        name_axes=named is not None,
    )
    return plan, hashes


def swept_layers(value: Any, model: LanguageModel) -> tuple[int, ...] | None:
    """The layers that a setting names; None for all.

    Raises:
        UserError: it is neither `all` nor `middle` nor a list of numbers.
    """
    if value == "all":
        return None
    if value == "middle":
        return (model.n_layers // 2 - 1,)
    if isinstance(value, str):
        raise unknown("layers", value, LAYER_WORDS)
    layers = _numbers("layers", value)
    if not layers:
        raise UserError("layers=[] names no layer: write layers=all, or a list such as [2,3]")
    return layers


def _numbers(key: str, value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    found: Sequence[Any] = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(_number(key, number) for number in found))


def _number(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{key}: {value!r} is not a whole number")
    return value


def _words(key: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise UserError(f"{key}={value!r}: write a list of names")
    return tuple(dict.fromkeys(value))
